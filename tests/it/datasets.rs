//! Datasets of serving benchmarks, complete runs on the embedded engine and against a server, with
//! and without constraints.

use serde_json::Value;
use sobench_data::dataset::DatasetName;
use sobench_testkit::scripted::{ScriptedServer, models, whole};

use crate::cli::assert_fails;
use crate::support::{sobench, sobench_result};

const DATASETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/datasets");
const TOKENIZER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/tokenizer");

/// Runs on the embedded engine and returns stdout, stderr and the result.
fn run(arguments: &[&str]) -> (String, String, Value) {
    let (ran, result) = sobench_result(arguments);
    assert_eq!(ran.code, 0, "{arguments:?}\n{}\n{}", ran.stdout, ran.stderr);
    (ran.stdout, ran.stderr, result)
}

fn path(name: &str) -> String {
    format!("{DATASETS}/{name}")
}

#[test]
fn datasets_without_constraints_report_everything_except_quality() {
    let (sharegpt, burstgpt) = (path("sharegpt.json"), path("burstgpt.csv"));
    let (sonnet, texts) = (path("sonnet.txt"), path("hf/texts.jsonl"));
    for (arguments, requests, expected) in [
        (
            &[
                "random",
                "--random-input-len",
                "20",
                "--random-output-len",
                "4",
                "--num-prompts",
                "6",
            ][..],
            6,
            "ignore_eos",
        ),
        (
            &[
                "random-prefix",
                "--input-len",
                "8",
                "--output-len",
                "4",
                "--random-prefix-len",
                "9",
                "--num-prompts",
                "6",
            ],
            6,
            "ignore_eos",
        ),
        (
            &[
                "prefix_repetition",
                "--prefix-repetition-num-prefixes",
                "2",
                "--output-len",
                "4",
                "--num-prompts",
                "7",
            ],
            6,
            "6 of 7 prompts",
        ),
        (
            &[
                "sharegpt",
                "--dataset-path",
                &sharegpt,
                "--output-len",
                "4",
                "--num-prompts",
                "12",
            ],
            12,
            "drawn from them again",
        ),
        (
            &[
                "sharegpt",
                "--dataset-path",
                &sharegpt,
                "--output-len",
                "4",
                "--no-oversample",
                "--num-prompts",
                "99",
            ],
            11,
            "rows are not repeated",
        ),
        (
            &[
                "burstgpt",
                "--dataset-path",
                &burstgpt,
                "--output-len",
                "4",
                "--num-prompts",
                "5",
            ],
            5,
            "",
        ),
        (
            &[
                "sonnet",
                "--dataset-path",
                &sonnet,
                "--output-len",
                "4",
                "--num-prompts",
                "4",
            ],
            4,
            "sent without one",
        ),
        (
            &[
                "hf",
                "--dataset-path",
                &texts,
                "--hf-output-len",
                "4",
                "--num-prompts",
                "4",
            ],
            4,
            "2 rows for 4 prompts",
        ),
    ] {
        let (stdout, stderr, result) = run(&[&["--dataset"], arguments].concat());
        assert_eq!(
            result["completed"].as_u64(),
            Some(requests),
            "{arguments:?}\n{stdout}"
        );
        assert!(
            stderr.contains(expected),
            "{arguments:?}: no {expected:?} in\n{stderr}"
        );
        assert!(
            result["correct_rate(%)"].is_null() && result["sobench"]["constrained_ratio"].is_null(),
            "{arguments:?}"
        );
        assert!(!stdout.contains("correct rate"), "{arguments:?}\n{stdout}");
        assert!(
            result["mean_ttft_ms"].as_f64().is_some_and(|ms| ms > 0.0),
            "{arguments:?}"
        );
        let most = result["total_output_tokens"].as_u64().unwrap();
        assert!(most <= 4 * requests, "{arguments:?}: {most} tokens");
        assert!(
            expected != "ignore_eos" || most == 4 * requests,
            "{arguments:?}: {most} tokens, although no answer may end early"
        );
    }
}

#[test]
fn published_schema_datasets_are_judged() {
    let (bench, mask, calls) = (path("jsonschemabench"), path("maskbench"), path("bfcl"));
    for (arguments, rows) in [
        (
            &[
                "jsonschemabench",
                "--dataset-path",
                &bench,
                "--hf-output-len",
                "200",
            ][..],
            3,
        ),
        (
            &[
                "jsonschemabench",
                "--dataset-path",
                &bench,
                "--hf-subset",
                "Github_easy",
            ],
            2,
        ),
        (&["maskbench", "--dataset-path", &mask], 3),
        (
            &[
                "bfcl",
                "--dataset-path",
                &calls,
                "--bfcl-categories",
                "simple,parallel",
                "--backend",
                "openai-chat",
            ],
            4,
        ),
        (
            &[
                "bfcl",
                "--dataset-path",
                &calls,
                "--bfcl-categories",
                "simple",
                "--tokenizer",
                TOKENIZER,
            ],
            3,
        ),
    ] {
        let (stdout, _, result) = run(&[
            &[
                "--num-prompts",
                "8",
                "--guided-decoding-ratio",
                "0.5",
                "--dataset",
            ],
            arguments,
        ]
        .concat());
        assert_eq!(
            result["completed"].as_u64(),
            Some(8),
            "{arguments:?}\n{stdout}"
        );
        assert_eq!(
            result["sobench"]["dataset"]["rows"].as_u64(),
            Some(rows),
            "{arguments:?}: {}",
            result["sobench"]["dataset"]
        );
        assert_eq!(
            result["sobench"]["constrained_ratio"].as_f64(),
            Some(0.5),
            "{arguments:?}"
        );
        assert!(stdout.contains("correct rate"), "{arguments:?}\n{stdout}");
    }
}

#[test]
fn correct_and_valid_function_calls_are_counted_separately() {
    let call = r#"{\"name\": \"triangle.area\", \"arguments\": {\"base\": 10, \"height\": 5}}"#;
    let answer =
        format!(r#"{{"choices": [{{"index": 0, "text": "{call}", "finish_reason": "stop"}}]}}"#);
    let server = ScriptedServer::answering(move |request| {
        if request.is_model_list() {
            models()
        } else {
            whole("200 OK", "application/json", &answer)
        }
    });
    let calls = path("bfcl");
    let (stdout, _, result) = run(&[
        &[
            "--base-url",
            &server.base_url,
            "--disable-stream",
            "--skip-preflight",
            "--tokenizer",
            TOKENIZER,
            "--num-prompts",
            "3",
        ],
        &[
            "--dataset",
            "bfcl",
            "--dataset-path",
            &calls,
            "--bfcl-categories",
            "simple",
        ][..],
    ]
    .concat());
    let quality = &result["sobench"]["quality"];
    assert_eq!(
        (
            &quality["valid"],
            &quality["right_calls"]["hits"],
            &quality["right_calls"]["of"]
        ),
        (&1.into(), &1.into(), &2.into())
    );
    assert!(stdout.contains("right calls"), "{stdout}");
}

/// Request bodies that the server received for these arguments.
fn sent_bodies(arguments: &[&str]) -> Vec<Value> {
    let answer = r#"{"choices": [{"index": 0, "text": "ok", "finish_reason": "stop"}]}"#;
    let server = ScriptedServer::answering(move |request| {
        if request.is_model_list() {
            models()
        } else {
            whole("200 OK", "application/json", answer)
        }
    });
    let fixed = [
        "--base-url",
        &server.base_url,
        "--disable-stream",
        "--disable-tqdm",
        "--no-run-log",
        "--num-prompts",
        "3",
    ];
    let ran = sobench(&[&fixed[..], arguments].concat());
    assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
    let posts = server
        .requests()
        .into_iter()
        .filter(|request| request.line.starts_with("POST "));
    posts
        .skip(1)
        .map(|request| serde_json::from_slice(&request.body).unwrap())
        .collect()
}

#[test]
fn random_requests_ignore_eos_by_default() {
    let random = [
        "--dataset",
        "random",
        "--random-input-len",
        "12",
        "--random-range-ratio",
        "0.5",
        "--tokenizer",
        TOKENIZER,
    ];
    let bodies = sent_bodies(&random);
    assert_eq!(bodies.len(), 3, "no preflight without constraints");
    for body in &bodies {
        assert_eq!(body["ignore_eos"], true);
        assert!(body.get("structured_outputs").is_none());
        assert!(
            body["max_tokens"]
                .as_u64()
                .is_some_and(|length| (64..=192).contains(&length)),
            "{body}"
        );
    }
    let bodies = sent_bodies(&[&random[..], &["--disable-ignore-eos"]].concat());
    assert!(bodies.iter().all(|body| body.get("ignore_eos").is_none()));
}

#[test]
fn invalid_combinations_fail_before_the_first_request() {
    for (arguments, what) in [
        (
            &["--dataset", "random", "--guided-decoding-ratio", "1"][..],
            "the dataset random has no constraint",
        ),
        (
            &["--dataset", "sharegpt"],
            "the dataset sharegpt needs a file",
        ),
        (&["--dataset", "hf"], "the dataset hf needs a repository"),
        (
            &["--dataset", "random", "--cold-schema-every", "2"],
            "--cold-schema-every",
        ),
        (
            &["score", "x.json", "--dataset", "random"],
            "the dataset has no constraints: random",
        ),
    ] {
        assert_fails(&sobench(arguments), 2, &[what]);
    }
}

#[test]
fn every_dataset_is_in_help_and_docs() {
    let help = sobench(&["bench", "--help"]).stdout;
    let guide =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/datasets.md")).unwrap();
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
