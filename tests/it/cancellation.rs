//! Runs with abandoned requests: their share, their outcome, and the recovery of the server.

use serde_json::{Value, json};
use sobench_core::speed::Speed;
use sobench_embedded::{EmbeddedServer, EmbeddedSettings, Fault};

use crate::support::{Ran, check_result, sobench, sobench_result};

/// A run against a server with this fault, whose answers take long enough to be abandoned.
fn run_against(fault: Option<&str>, arguments: &[&str]) -> (Ran, Value) {
    let faults = fault.map(|fault| Fault::parse(fault).unwrap());
    let server = EmbeddedServer::start(EmbeddedSettings {
        faults: faults.into_iter().collect(),
        max_batch: 2,
        speed: Speed {
            step_ms: Some(2.0),
            ..Speed::default()
        },
        ..EmbeddedSettings::default()
    })
    .unwrap();
    let fixed = [
        "--base-url",
        server.base_url(),
        "--dataset json --num-prompts 20 --max-concurrency 2 --seed 3 --cancel-rate 0.1",
    ];
    sobench_result(&[&fixed[..], arguments].concat())
}

fn outcomes(result: &Value) -> Vec<&str> {
    let outputs = result["sobench"]["outputs"]
        .as_array()
        .or_else(|| result["outputs"].as_array());
    outputs
        .unwrap()
        .iter()
        .map(|output| output["outcome"]["kind"].as_str().unwrap())
        .collect()
}

#[test]
fn abandoned_requests_are_counted_and_in_no_rate() {
    let (ran, result) = run_against(None, &["--save-detailed"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    check_result(&result).unwrap();
    let own = &result["sobench"];
    assert_eq!(own["outcomes"]["abandoned"], 2);
    assert_eq!(
        (
            &own["metrics"]["abandoned"],
            &own["metrics"]["failed"],
            &result["completed"]
        ),
        (&json!(2.0), &json!(0.0), &json!(18))
    );
    assert_eq!(own["metrics"]["correct_rate"]["of"], 18);
    assert_eq!(own["metrics"]["coverage"]["of"], 18);
    assert_eq!(own["metrics"]["failed_rate"]["of"], 18);
    assert_eq!(own["metrics"]["e2el_ms"]["n"], 18);
    let recovery = &own["recovery"];
    assert_eq!(recovery["answered_after"], 5, "{recovery}");
    // Which of the two, the unit tests check: here the latencies depend on the machine's load.
    let verdict = match recovery["state"].as_str() {
        Some("recovered") => "answers",
        Some("slower") => "answers more slowly",
        _ => panic!("{recovery}"),
    };
    assert_eq!(
        outcomes(&result)
            .iter()
            .filter(|kind| **kind == "abandoned")
            .count(),
        2
    );
    let sentence = format!("after 2 abandoned requests the server {verdict}; TTFT alone");
    assert_eq!(ran.page().matches(&sentence).count(), 1, "{}", ran.stdout);
    let (_, again) = run_against(None, &["--save-detailed"]);
    assert_eq!(outcomes(&result), outcomes(&again), "the seed chooses them");
}

#[test]
fn a_server_that_dies_or_leaks_slots_does_not_recover() {
    for (fault, limit) in [
        ("die-on-cancel", "--max-consecutive-errors 1"),
        // The error limit ends the run.
        (
            "leak-slot-on-cancel",
            "--request-timeout 1 --max-consecutive-errors 1",
        ),
    ] {
        let (ran, result) = run_against(Some(fault), &[limit]);
        check_result(&result).unwrap();
        let recovery = &result["sobench"]["recovery"];
        assert_eq!(recovery["state"], "no_answer", "{fault} {recovery}");
        assert!(recovery["error"].is_string());
        let error = "the server does not answer single requests after the abandoned ones";
        assert!(ran.has_error(error), "{fault}: {}", ran.stderr);
    }
}

#[test]
fn wrong_cancellations_are_refused_with_a_hint() {
    for (arguments, message) in [
        (
            "--cancel-rate 2",
            "--cancel-rate is not a share of the requests: 2",
        ),
        (
            "--cancel-rate -0.1",
            "--cancel-rate is not a share of the requests: -0.1",
        ),
        (
            "--cancel-rate NaN",
            "--cancel-rate is not a share of the requests: NaN",
        ),
        (
            "--cancel-after 1",
            "--cancel-after has no effect without --cancel-rate: 1",
        ),
        (
            "--cancel-rate 0.1 --cancel-after soon",
            "--cancel-after is neither first-token nor a time: soon",
        ),
        (
            "--cancel-rate 0.1 --cancel-after 0",
            "--cancel-after is neither first-token nor a time: 0",
        ),
        (
            "--cancel-rate 0.1 --disable-stream",
            "--cancel-after first-token has no meaning with --disable-stream",
        ),
        (
            "--cancel-rate 0.1 --cancel-after 5 --request-timeout 5",
            "--cancel-after is not below --request-timeout 5: 5",
        ),
        (
            "--backend openai-embeddings --base-url http://127.0.0.1:1 --model m --dataset random --cancel-rate 0.1",
            "--cancel-after first-token needs answers that are streamed",
        ),
    ] {
        sobench(&[arguments]).assert_fails(2, &[message, "\nhint: "]);
    }
}
