//! `sobench runs`: the run logs in the user's cache.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Folder, Ran, choice_server, program, ran};

/// Runs sobench with a cache folder of its own.
fn sobench_in(cache: &Folder, arguments: &[&str]) -> Ran {
    let ran = ran(program(arguments).env("XDG_CACHE_HOME", cache.path("")));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    ran
}

fn listed(cache: &Folder) -> Vec<Value> {
    let ran = sobench_in(cache, &["runs", "list", "--format json"]);
    let value: Value = serde_json::from_str(&ran.stdout).unwrap();
    value["runs"].as_array().unwrap().clone()
}

#[test]
fn run_logs_in_the_cache_are_listed_and_removed() {
    let (cache, server) = (Folder::new(), choice_server());
    assert_eq!(listed(&cache), Vec::<Value>::new(), "no folder yet");
    for _ in 0..2 {
        let run = "--dataset choice --num-prompts 3 --skip-preflight --disable-tqdm --base-url";
        sobench_in(&cache, &[run, &server.base_url]);
    }
    let runs = listed(&cache);
    assert_eq!(runs.len(), 2);
    for run in &runs {
        assert_eq!(
            (&run["dataset"], &run["requests"]),
            (&json!("choice"), &json!(3))
        );
        assert!(run["started"].as_str().unwrap().ends_with('Z'));
        assert!(Path::new(run["path"].as_str().unwrap()).is_file());
    }
    let page = sobench_in(&cache, &["runs"]).page();
    assert_eq!(
        (
            page.matches("shown: 2 of 2 run logs").count(),
            page.matches("of 3 answers valid").count(),
            page.matches("-choice-").count(),
        ),
        (1, 2, 2),
        "{page}"
    );

    let [newest, oldest] = [0, 1].map(|index: usize| runs[index]["path"].as_str().unwrap());
    let dry = sobench_in(&cache, &["runs", "clean", "--keep 1 --dry-run"]);
    assert_eq!(dry.stdout.trim_end(), oldest);
    assert_eq!(listed(&cache).len(), 2, "a dry run removes nothing");
    let ran = sobench_in(&cache, &["runs", "clean", "--keep 1"]);
    ran.assert_exits(0, &["removed 1 run logs", "1 kept"]);
    assert!(Path::new(newest).exists() && !Path::new(oldest).exists());
    sobench_in(&cache, &["runs", "clean", "--keep 0"]);
    assert_eq!(listed(&cache), Vec::<Value>::new());
}

#[test]
fn a_run_removes_the_oldest_logs_over_the_limit() {
    let (cache, server) = (Folder::new(), choice_server());
    std::fs::create_dir_all(cache.path("sobench/runs")).unwrap();
    for number in 0..200 {
        cache.file(&format!("sobench/runs/{number:03}.jsonl"), "");
    }
    let run = "--dataset choice --num-prompts 1 --skip-preflight --disable-tqdm --base-url";
    sobench_in(&cache, &[run, &server.base_url]);
    let entries = std::fs::read_dir(cache.path("sobench/runs")).unwrap();
    let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 200);
    let is_new = |name: &std::ffi::OsString| name.len() > "000.jsonl".len();
    assert!(names.iter().any(is_new), "the new log stays: {names:?}");
}

#[test]
fn the_newest_logs_can_be_reported_and_compared_without_their_names() {
    let (cache, server) = (Folder::new(), choice_server());
    let none = ran(program(&["report", "--last"]).env("XDG_CACHE_HOME", cache.path("")));
    none.assert_exits(2, &["--last wants 1 run logs, and the cache has 0"]);
    for count in [2, 3] {
        let run = format!("--dataset choice --num-prompts {count} --disable-tqdm --skip-preflight");
        sobench_in(&cache, &[&run, "--base-url", &server.base_url]);
    }
    let report = sobench_in(&cache, &["report", "--last"]).stdout;
    assert!(report.contains("3 of 3 answers valid"), "{report}");
    let flags = "--last 2 --allow-different dataset --allow-different num_prompts";
    let compared = sobench_in(&cache, &["compare", flags]).stdout;
    assert!(
        compared.contains("valid answers: side A 2 of 2, side B 3 of 3"),
        "the older one is the baseline: {compared}"
    );
    let one = ran(program(&["compare", "--last", "1"]).env("XDG_CACHE_HOME", cache.path("")));
    one.assert_exits(2, &["nothing to compare"]);
}
