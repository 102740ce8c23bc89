//! `sobench score` as a program: files of other tools, and run logs.

use serde_json::Value;
use sobench_testkit::in_package;

use crate::support::sobench;

const SCORE_SCHEMA: &str = include_str!("../../schemas/contracts/score.schema.json");

fn check(text: &str) -> Value {
    let schema: Value = serde_json::from_str(SCORE_SCHEMA).unwrap();
    jsonschema::draft202012::meta::validate(&schema).unwrap();
    let value: Value = serde_json::from_str(text).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&value)
        .map(|it| format!("{}: {it}", it.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
    value
}

fn fixture(name: &str) -> String {
    in_package(&format!("fixtures/runs/{name}"))
        .to_str()
        .unwrap()
        .to_owned()
}

#[test]
fn the_scripts_80_percent_were_20() {
    let ran = sobench(&["score", &fixture("script.json"), "--dataset", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    insta::with_settings!({filters => vec![(r"\S*fixtures/", "fixtures/")]}, {
        insta::assert_snapshot!("score_script", ran.stdout);
    });
}

#[test]
fn every_layout_keeps_the_contract() {
    let log = fixture("v2.jsonl");
    for arguments in [
        &[log.as_str()][..],
        &[&fixture("rows.jsonl"), &log],
        &[
            &fixture("script.json"),
            "--json-schema",
            "nested",
            "--structured-output-ratio",
            "0.4",
        ],
    ] {
        let ran = sobench(&[&["score", "--format", "json"], arguments].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let value = check(&ran.stdout);
        assert!(!value["files"].as_array().unwrap().is_empty());
    }
}

#[test]
fn a_run_log_is_judged_as_it_was() {
    let value = check(&sobench(&["score", "--format", "json", &fixture("v2.jsonl")]).stdout);
    let file = &value["files"][0];
    assert_eq!(
        (file["kind"].as_str(), file["answers"].as_u64()),
        (Some("run_log"), Some(8))
    );
    assert_eq!(
        file["claims"][0]["percent"].as_f64(),
        file["correct_rate"]["percent"].as_f64()
    );
    let agreement = &file["agreement"];
    assert_eq!(
        (
            agreement["only_file"]["count"].as_u64(),
            agreement["only_ours"]["count"].as_u64()
        ),
        (Some(0), Some(0)),
        "the evaluator has not changed its mind since"
    );
}

#[test]
fn constraints_are_never_guessed() {
    let ran = sobench(&["score", &fixture("script.json")]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    assert!(
        ran.stderr.contains("does not hold the constraints") && ran.stderr.contains("--dataset"),
        "{}",
        ran.stderr
    );
}
