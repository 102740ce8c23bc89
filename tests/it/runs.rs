//! `sobench runs`: the run logs in the user's cache.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Runs sobench with a cache folder of its own; returns the exit code, stdout and stderr.
fn sobench_in(cache: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_sobench"))
        .args(arguments)
        .env("XDG_CACHE_HOME", cache)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

fn listed(cache: &Path) -> Vec<Value> {
    let (code, stdout, stderr) = sobench_in(cache, &["runs", "list", "--format json"]);
    assert_eq!(code, Some(0), "{stderr}");
    let value: Value = serde_json::from_str(&stdout).unwrap();
    value["runs"].as_array().unwrap().clone()
}

#[test]
fn run_logs_in_the_cache_are_listed_and_removed() {
    let cache = tempfile::tempdir().unwrap();
    let cache = cache.path();
    assert_eq!(listed(cache), Vec::<Value>::new(), "no folder yet");
    for _ in 0..2 {
        let run = ["--dataset choice --num-prompts 3 --disable-tqdm"];
        let (code, _, stderr) = sobench_in(cache, &run);
        assert_eq!(code, Some(0), "{stderr}");
    }
    let runs = listed(cache);
    assert_eq!(runs.len(), 2);
    for run in &runs {
        assert_eq!(
            (run["dataset"].as_str(), run["requests"].as_u64()),
            (Some("choice"), Some(3))
        );
        assert!(run["started"].as_str().unwrap().ends_with('Z'));
        assert!(Path::new(run["path"].as_str().unwrap()).is_file());
    }
    let (code, page, _) = sobench_in(cache, &["runs", "list"]);
    assert!(
        code == Some(0) && page.contains("2 run logs") && page.contains("choice"),
        "{page}"
    );

    let newest = runs[0]["path"].as_str().unwrap();
    let oldest = runs[1]["path"].as_str().unwrap();
    let (code, stdout, stderr) = sobench_in(cache, &["runs", "clean", "--keep 1 --dry-run"]);
    assert_eq!((code, stdout.trim_end()), (Some(0), oldest), "{stderr}");
    assert_eq!(listed(cache).len(), 2, "a dry run removes nothing");
    let (code, _, stderr) = sobench_in(cache, &["runs", "clean", "--keep 1"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(
        stderr.contains("removed 1 run logs") && stderr.contains("1 kept"),
        "{stderr}"
    );
    assert!(Path::new(newest).exists() && !Path::new(oldest).exists());
    let (code, _, stderr) = sobench_in(cache, &["runs", "clean", "--keep 0"]);
    assert!(code == Some(0) && listed(cache).is_empty(), "{stderr}");
}

#[test]
fn a_run_removes_the_oldest_logs_over_the_limit() {
    let cache = tempfile::tempdir().unwrap();
    let folder = cache.path().join("sobench/runs");
    std::fs::create_dir_all(&folder).unwrap();
    for number in 0..200 {
        std::fs::write(folder.join(format!("{number:03}.jsonl")), "").unwrap();
    }
    let run = ["--dataset choice --num-prompts 1 --disable-tqdm"];
    let (code, _, stderr) = sobench_in(cache.path(), &run);
    assert_eq!(code, Some(0), "{stderr}");
    let names: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), 200);
    assert!(
        names.iter().any(|name| name.len() > "000.jsonl".len()),
        "the new log stays: {names:?}"
    );
}
