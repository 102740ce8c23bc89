//! `--backend anthropic` against the embedded server: the same answers as chat completions.

use serde_json::Value;
use sobench_embedded::{EmbeddedServer, EmbeddedSettings, Fault};

use crate::support::{check_result, sobench, sobench_result};

const CASES: &str = "--num-prompts 24 --output-len 900 --save-detailed --skip-preflight";

/// The texts, calls and verdicts of a run.
fn outputs(arguments: &[&str]) -> (String, Vec<Value>) {
    let (ran, result) = sobench_result(&[&[CASES], arguments].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    check_result(&result).unwrap();
    assert_eq!(
        result["sobench"]["departures"]["by_name"],
        Value::Null,
        "{}",
        ran.stdout
    );
    (ran.stdout, result["outputs"].as_array().unwrap().clone())
}

#[test]
fn answers_to_schemas_are_those_of_chat_completions() {
    let of = |more: &str| outputs(&["--dataset json --stream-parity", more]);
    let (page, messages) = of("--backend anthropic");
    let (_, chat) = of("--backend openai-chat --constraint-dialect response-format");
    assert!(page.contains("24 equal, 0 different"), "{page}");
    for (one, other) in messages.iter().zip(&chat) {
        assert_eq!(one["generated"], other["generated"]);
        assert_eq!(one["verdict"], other["verdict"]);
        assert_eq!(one["tokens"], other["tokens"]);
    }
}

#[test]
fn calls_are_those_of_chat_completions_but_for_allowed_tools() {
    let of = |backend: &str| outputs(&["--dataset tools --backend", backend]);
    let (page, messages) = of("anthropic");
    let (_, chat) = of("openai-chat");
    let is_unsupported = |output: &&Value| output["outcome"]["kind"] == "unsupported";
    let unsupported = messages.iter().filter(is_unsupported).count();
    assert!((1..=6).contains(&unsupported), "{unsupported}");
    let same = messages
        .iter()
        .zip(&chat)
        .filter(|(one, other)| one["generated"] == other["generated"]);
    // A call in an earlier turn is an object here, so that its prompt is another one.
    assert!(same.count() + unsupported >= 22);
    assert!(!page.contains("the run was stopped"), "{page}");
}

#[test]
fn faults_are_found() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let server = EmbeddedServer::start(EmbeddedSettings {
        faults: vec![Fault::parse("ignore-constraint@5of10").unwrap()],
        ..EmbeddedSettings::default()
    })
    .unwrap();
    let arguments = [
        "--backend anthropic --dataset json --allow-unenforced --base-url",
        server.base_url(),
    ];
    let (ran, _) = sobench_result(&[&[CASES], &arguments[..]].concat());
    ran.assert_headline(0, "enforced? NO: 1");
}

#[test]
fn preflight_tests_what_the_endpoint_has() {
    let ran = sobench(&[
        "preflight",
        "--backend anthropic --kind json,tool,reasoning",
    ]);
    let mut rows = ran.stdout.lines();
    let row = rows
        .find(|line| line.starts_with(" allowed_tools"))
        .unwrap();
    assert_eq!(row.matches("not supported").count(), 2, "{row}");
    assert!(
        ran.stdout.contains("json       | enforced"),
        "{}",
        ran.stdout
    );
}
