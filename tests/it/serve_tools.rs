//! Runs with tools and reasoning against the embedded server: every call of a strict tool is valid,
//! and planted faults are counted exactly.

use std::collections::HashSet;

use serde_json::Value;
use sobench_embedded::{EmbeddedServer, EmbeddedSettings, Fault};
use sobench_engine::EngineName;
use sobench_testkit::repository_path;

use crate::support::{check_result, sobench_result};

/// The shipped tools whose schemas need not be enforced.
fn not_strict() -> HashSet<String> {
    let text =
        std::fs::read_to_string(repository_path("crates/data/shipped/tools-1.json")).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    let groups = file["groups"].as_array().unwrap().iter();
    let tools = groups.flat_map(|group| group["tools"].as_array().unwrap());
    tools
        .map(|tool| &tool["function"])
        .filter(|function| function["strict"] != true)
        .map(|function| function["name"].as_str().unwrap().to_owned())
        .collect()
}

/// Number of valid answers of a run, and of all. All others have a call of a tool that is not
/// strict.
fn valid_answers(engine: EngineName, arguments: &[&str]) -> (usize, usize) {
    // Engines have grammars of their own for formats: llguidance's e-mail addresses may be longer than
    // RFC 5321 allows.
    let fixed =
        "--no-format-assertion --embedded-compile-timeout-s 600 --dataset tools --num-prompts 30";
    let engine = format!("--guided-decoding-backend {engine} --output-len 900 --save-detailed");
    let fixed = [fixed, &engine];
    let (ran, result) = sobench_result(&[&fixed[..], arguments].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    check_result(&result).unwrap();
    let not_strict = not_strict();
    let outputs = result["outputs"].as_array().unwrap();
    let mut valid = 0;
    for output in outputs {
        let verdict = &output["verdict"];
        if verdict["verdict"] == "valid" {
            valid += 1;
            continue;
        }
        let reason = &verdict["reason"];
        let is_loose = reason["fault"] == "invalid_arguments"
            && not_strict.contains(reason["name"].as_str().unwrap_or_default());
        assert!(is_loose, "{output}");
    }
    (valid, outputs.len())
}

/// outlines refuses some of the tools; the embedded server's own tests have calls with it.
#[test]
fn tools_need_no_flags_and_calls_are_valid() {
    for engine in [EngineName::Guidance, EngineName::Xgrammar] {
        let (valid, all) = valid_answers(engine, &[]);
        assert!(valid * 10 >= all * 8, "{engine}: {valid} of {all}");
    }
}

#[test]
fn calls_are_valid_in_whole_answers_and_in_responses() {
    for arguments in [
        &["--backend openai-responses"][..],
        &["--disable-stream --embedded-tool-style qwen3-coder"],
        &["--embedded-tool-style llama3 --embedded-reasoning-tokens 20"],
    ] {
        let (valid, all) = valid_answers(EngineName::Guidance, arguments);
        assert!(valid * 10 >= all * 8, "{arguments:?}: {valid} of {all}");
    }
}

#[test]
fn faults_are_planted_in_an_exact_number_of_requests() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let server = EmbeddedServer::start(EmbeddedSettings {
        faults: vec![Fault::parse("leak-markup@5of40").unwrap()],
        ..EmbeddedSettings::default()
    })
    .unwrap();
    let arguments = [
        "--backend openai-chat --base-url",
        server.base_url(),
        "--dataset tools --num-prompts 160 --skip-preflight --num-warmups 0",
        "--save-detailed",
    ];
    let (ran, result) = sobench_result(&arguments);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let leaked = result["outputs"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|output| output["verdict"]["reason"]["fault"] == "leaked_markup")
        .count();
    let stats = server.stats();
    let (_, eligible) = stats.fault_eligible.first().unwrap();
    assert!(*eligible >= 40, "{stats:?}");
    assert_eq!(stats.faults, [("leak-markup".to_owned(), 5)]);
    // The trial request of a run may have the fault.
    assert!((4..=5).contains(&leaked), "{leaked}");
}
