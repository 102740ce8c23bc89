//! Datasets of serving benchmarks: complete runs on the embedded engine, with and without
//! constraints. `fixtures/frozen` has the requests of each dataset.

use serde_json::{Value, json};
use sobench_data::dataset::DatasetName;
use sobench_testkit::repository_path;

use crate::support::{sobench, sobench_result};

/// The result of a run on the embedded engine. `{}` is the folder of datasets.
fn run(flags: &str) -> Value {
    let folder = repository_path("fixtures/datasets");
    let flags = flags.replace("{}", folder.to_str().unwrap());
    let (ran, result) = sobench_result(&[flags.as_str()]);
    assert_eq!(ran.code, 0, "{flags}\n{}\n{}", ran.stdout, ran.stderr);
    result
}

#[test]
fn datasets_without_constraints_report_everything_except_quality() {
    for (flags, requests, ends_early) in [
        (
            "--dataset random --random-input-len 20 --random-output-len 4 --num-prompts 6",
            6,
            false,
        ),
        (
            "--dataset sharegpt --dataset-path {}/sharegpt.json --output-len 4 --num-prompts 12",
            12,
            true,
        ),
    ] {
        let result = run(flags);
        assert_eq!(result["completed"], requests, "{flags}");
        assert!(result["correct_rate(%)"].is_null(), "{flags}");
        assert!(result["sobench"]["constrained_ratio"].is_null(), "{flags}");
        assert!(result["mean_ttft_ms"].as_f64() > Some(0.0), "{flags}");
        let tokens = result["total_output_tokens"].as_u64().unwrap();
        assert!(tokens <= 4 * requests, "{flags}: {tokens}");
        assert!(
            ends_early || tokens == 4 * requests,
            "{tokens} tokens of answers that may not end early"
        );
    }
}

#[test]
fn published_schema_datasets_are_judged() {
    for (flags, rows) in [
        (
            "--dataset jsonschemabench --dataset-path {}/jsonschemabench --hf-output-len 100",
            3,
        ),
        (
            "--dataset bfcl --dataset-path {}/bfcl --bfcl-categories simple,parallel --backend openai-chat",
            4,
        ),
    ] {
        let result = run(&format!(
            "{flags} --num-prompts 8 --guided-decoding-ratio 0.5"
        ));
        assert_eq!(result["completed"], 8, "{flags}");
        assert_eq!(result["sobench"]["dataset"]["rows"], rows, "{flags}");
        let metrics = &result["sobench"]["metrics"];
        assert_eq!(
            ["correct_rate", "truncated_rate"].map(|rate| &metrics[rate]["of"]),
            [&json!(4), &json!(4)],
            "{flags}"
        );
    }
}

#[test]
fn every_dataset_is_in_help_and_docs() {
    let help = sobench(&["bench", "--help"]).stdout;
    let guide = std::fs::read_to_string(repository_path("docs/datasets.md")).unwrap();
    let (_, names) = help.split_once("--dataset <NAME>").unwrap();
    let (_, names) = names.split_once("[possible values: ").unwrap();
    let (names, _) = names.split_once(']').unwrap();
    let names: Vec<&str> = names.split(',').map(str::trim).collect();
    assert_eq!(names, DatasetName::ALL.map(DatasetName::name));
    for name in names {
        assert!(
            guide.contains(&format!("`{name}`")),
            "docs/datasets.md does not name {name}"
        );
    }
}
