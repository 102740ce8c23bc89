//! The dataset `suite` and the command `datasets`.

use serde_json::Value;
use sobench_data::dataset::DatasetName;
use sobench_testkit::repository_path;

use crate::support::{Folder, choice_server, sobench, sobench_result};

fn stdout(arguments: &[&str]) -> String {
    let ran = sobench(arguments);
    assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.stderr);
    ran.stdout
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn the_list_has_every_dataset() {
    let table = stdout(&["datasets", "list"]);
    let lines = json_lines(&stdout(&["datasets", "list", "--format jsonl"]));
    let names: Vec<&str> = lines
        .iter()
        .map(|line| line["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, DatasetName::ALL.map(DatasetName::name));
    for line in &lines {
        let description = line["description"].as_str().unwrap();
        assert!(!description.is_empty(), "{line}");
        let name = line["name"].as_str().unwrap();
        assert!(table.contains(&format!(" {name} ")), "{name}:\n{table}");
    }
    let suite = &lines[names.iter().position(|name| *name == "suite").unwrap()];
    assert_eq!(suite["constraints"], "one per row");
    assert_eq!(suite["output_len"], 512);
    let flags = suite["flags"].as_array().unwrap();
    assert!(flags.contains(&"--suite-filter".into()), "{suite}");
}

#[test]
fn shown_rows_are_those_of_the_file() {
    let file = std::fs::read_to_string(repository_path("schemas/workloads/suite-1.jsonl")).unwrap();
    assert_eq!(stdout(&["datasets", "show", "--format jsonl"]), file);
    let page = stdout(&["datasets", "show", "suite"]);
    for row in json_lines(&file) {
        let name = row["name"].as_str().unwrap();
        assert!(page.contains(&format!("\n {name} ")), "{name}:\n{page}");
    }
    // A row of each, by lines of its page.
    for (dataset, name, tags, constraint) in [
        (
            "suite",
            "semver",
            "kind:regex domain:software",
            "Constraint: regex",
        ),
        (
            "tools",
            "travel-bike",
            "group:travel calls:one",
            "Constraint: tools",
        ),
    ] {
        let row = stdout(&["datasets", "show", dataset, name]);
        for text in [name, tags, constraint] {
            assert!(row.contains(text), "{text} is not in:\n{row}");
        }
    }
    let lines = json_lines(&stdout(&["datasets", "show", "tools", "--format jsonl"]));
    assert_eq!(lines.len(), 120);
    for (dataset, shown) in [
        ("json", "Constraint: json"),
        ("random", "--random-input-len"),
    ] {
        let page = stdout(&["datasets", "show", dataset]);
        assert!(page.contains(shown), "{shown} is not in:\n{page}");
    }
}

#[test]
fn unknown_tags_and_rows_are_refused() {
    for (arguments, what) in [
        (
            &["--dataset suite --suite-filter hard"][..],
            "no row of suite-1 has the tag: hard",
        ),
        (
            &["datasets", "show", "suite", "invoices"],
            "no row of suite-1 has the tag: name:invoices",
        ),
        (
            &["datasets", "show", "tools", "invoice"],
            "no row of tools-1 has the tag: name:invoice",
        ),
        (
            &["datasets", "show", "json", "invoice"],
            "a row is for the datasets suite and tools, not json",
        ),
        (
            &["datasets", "show", "json", "--suite-filter kind:json"],
            "for the dataset suite, not json",
        ),
        (
            &["datasets", "show", "random", "--format jsonl"],
            "no rows of random",
        ),
        (
            &["--dataset json --suite-filter kind:json"],
            "--suite-filter has no effect with --dataset json",
        ),
    ] {
        sobench(arguments).assert_fails(2, &[what, "hint: "]);
    }
}

/// Exported rows of the suite make the same requests through `custom`.
#[test]
fn exported_rows_make_the_same_requests() {
    let folder = Folder::new();
    let filter = "--suite-filter difficulty:easy";
    let rows = stdout(&["datasets", "show", "suite", "--format jsonl", filter]);
    let path = folder.file("rows.jsonl", rows);
    let server = choice_server();
    let run = |arguments: &[&str]| {
        let common = [
            "--num-prompts 15 --output-len 512 --skip-preflight --base-url",
            &server.base_url,
        ];
        let (ran, result) = sobench_result(&[arguments, &common].concat());
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.stderr);
        result["sobench"]["dataset"]["sha256"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let suite = run(&["--dataset suite --disable-shuffle", filter]);
    assert_eq!(suite, run(&["--dataset custom --dataset-path", &path]));
}

/// Engines refuse rows that they do not support. The others are judged. Rows that compile slowly
/// are left out, where the time limit of a compile would count.
#[test]
fn every_engine_runs_the_suite() {
    const EASY: &str = "--suite-filter kind:regex,difficulty:easy --num-prompts 5";
    for (engine, flags, rows, completed) in [
        ("guidance", "--num-prompts 60", 60, 55),
        ("xgrammar", EASY, 5, 5),
        ("outlines", EASY, 5, 5),
    ] {
        let engine_flags = format!("--dataset suite --guided-decoding-backend {engine}");
        let (ran, result) = sobench_result(&[&engine_flags, flags]);
        assert_eq!(
            (ran.code, &result["completed"]),
            (0, &completed.into()),
            "{}",
            ran.stderr
        );
        assert_eq!(result["sobench"]["dataset"]["rows"], rows, "{engine}");
    }
}
