//! The dataset `suite` and the command `datasets`.

use serde_json::Value;
use sobench_data::dataset::DatasetName;
use sobench_testkit::repository_path;

use crate::support::{sobench, sobench_result};

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
    let row = stdout(&["datasets", "show", "suite", "semver"]);
    for text in [
        "kind:regex domain:software",
        "A library has the version 2.9.4.",
        "Constraint: regex",
        "\"3.0.0-rc.1+5114\"",
        "\"v3.0.0\"",
    ] {
        assert!(row.contains(text), "{text} is not in:\n{row}");
    }
    let page = stdout(&["datasets", "show", "tools"]);
    for text in ["120 of tools-1", " travel-bike ", " allowed_tools "] {
        assert!(page.contains(text), "{text} is not in:\n{page}");
    }
    let row = stdout(&["datasets", "show", "tools", "travel-bike"]);
    for text in [
        "group:travel calls:one",
        "Utrecht Centraal",
        "Constraint: tools",
        "\"search_flights\"",
        "{\"ground_truth\":[{\"get_route\":",
    ] {
        assert!(row.contains(text), "{text} is not in:\n{row}");
    }
    let json = stdout(&["datasets", "show", "json"]);
    assert!(json.contains("Constraint: json") && json.contains("brief user profile"));
    let random = stdout(&["datasets", "show", "random"]);
    assert!(random.contains("--random-input-len") && !random.contains("Prompt"));
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
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    let filter = ["--suite-filter difficulty:easy"];
    let show = ["datasets", "show", "suite", "--format jsonl"];
    std::fs::write(&path, stdout(&[&show[..], &filter].concat())).unwrap();
    let run = |arguments: &[&str]| {
        let common = ["--num-prompts 15 --output-len 512"];
        let (ran, result) = sobench_result(&[arguments, &common].concat());
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.stderr);
        result["sobench"]["dataset"].clone()
    };
    let ordered = ["--dataset suite --disable-shuffle"];
    let suite = run(&[&ordered[..], &filter].concat());
    let custom = run(&["--dataset custom --dataset-path", path.to_str().unwrap()]);
    assert_eq!(suite["source"], "suite-1");
    assert!(suite["sha256"].is_string(), "{suite}");
    assert_eq!(suite["sha256"], custom["sha256"]);
}

/// Engines refuse rows that they do not support. The others are judged. Rows that compile slowly
/// are left out, where the time limit of a compile would count.
#[test]
fn every_engine_runs_the_suite() {
    for (engine, filter, rows, refused) in [
        ("guidance", "", 60_u64, 5),
        ("xgrammar", "kind:regex,difficulty:easy", 5, 0),
        ("outlines", "kind:regex,difficulty:easy", 5, 0),
    ] {
        let num_prompts = rows.to_string();
        let mut arguments = vec!["--dataset suite --num-prompts", &num_prompts];
        arguments.extend(["--guided-decoding-backend", engine]);
        if !filter.is_empty() {
            arguments.extend(["--suite-filter", filter]);
        }
        let (ran, result) = sobench_result(&arguments);
        assert_eq!(ran.code, 0, "{engine}: {}", ran.stderr);
        let completed = result["completed"].as_u64().unwrap();
        assert_eq!(completed, rows - refused, "{engine}");
        assert_eq!(result["sobench"]["dataset"]["rows"], rows, "{engine}");
    }
}
