//! The `bench` command: shipped workloads, grammars of users, and servers that load, serve another
//! model or are overloaded.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use sobench_embedded::{EmbeddedServer, EmbeddedSettings, Fault};
use sobench_testkit::repository_path;
use sobench_testkit::scripted::{ScriptedServer, models, whole};

use crate::support::{sobench, sobench_result};

#[test]
fn every_shipped_workload_runs_on_the_embedded_engine() {
    let mix = "--mix json-unique:0.25,grammar:0.25,regex:0.25,choice:0.25 --num-prompts 40";
    let (ran, result) = sobench_result(&[mix]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(result["completed"], 40);
    let groups = result["sobench"]["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 4);
    for dataset in groups {
        let rate = &dataset["metrics"]["correct_rate"];
        assert_eq!(
            (&rate["of"], &rate["hits"]),
            (&json!(10), &json!(10)),
            "{dataset}"
        );
    }
}

#[test]
fn grammars_of_users_are_used_and_converted() {
    for (grammar, converted_from) in [("sql.lark", json!(null)), ("sql.ebnf", json!("ebnf"))] {
        let path = repository_path("grammars").join(grammar);
        let flags = [
            "--dataset grammar --num-prompts 4 --grammar-path",
            path.to_str().unwrap(),
        ];
        let (ran, result) = sobench_result(&flags);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert_eq!(result["correct_rate(%)"], 100.0, "{}", ran.stdout);
        let dataset = &result["sobench"]["dataset"];
        assert_eq!(dataset["grammar_converted_from"], converted_from);
    }
}

/// A server that answers `Positive`, after it refused this number of requests.
fn loading_for(loading: usize) -> ScriptedServer {
    let posts = AtomicUsize::new(0);
    ScriptedServer::answering(move |request| {
        if request.is_model_list() {
            return models();
        }
        if request.line.starts_with("GET ") {
            return whole("404 Not Found", "text/plain", "");
        }
        if posts.fetch_add(1, Ordering::Relaxed) < loading {
            let body = r#"{"error":{"message":"Loading model"}}"#;
            return whole("503 Service Unavailable", "application/json", body);
        }
        let event = r#"data: {"choices":[{"index":0,"text":"Positive","finish_reason":"stop"}]}"#;
        let events = format!("{event}\n\ndata: [DONE]\n\n");
        whole("200 OK", "text/event-stream", &events)
    })
}

#[test]
fn test_request_is_repeated_while_the_model_loads() {
    const RUN: &str = "--dataset choice --num-prompts 4 --skip-preflight --disable-tqdm";
    const WAIT: &str = "--ready-check-timeout-sec 600";
    let server = loading_for(1);
    let ran = sobench(&[RUN, WAIT, "--base-url", &server.base_url]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let requests = server.requests().into_iter();
    let posts = requests.filter(|request| request.line.starts_with("POST "));
    let is_constrained: Vec<bool> = posts
        .map(|request| String::from_utf8_lossy(&request.body).contains("structured_outputs"))
        .collect();
    // The test request, the same again, the trial request and the run.
    assert_eq!(is_constrained, [false, false, true, true, true, true, true]);
    let server = loading_for(2);
    let test = "--backend openai --kind choice --format json";
    let ran = sobench(&["preflight", test, WAIT, "--base-url", &server.base_url]);
    assert!([0, 1].contains(&ran.code), "{}", ran.stderr);
    let server = loading_for(usize::MAX);
    let ran = sobench(&[RUN, "--no-run-log --base-url", &server.base_url]);
    ran.assert_exits(
        3,
        &[
            "HTTP 503: Loading model",
            "--ready-check-timeout-sec waits for it",
        ],
    );
}

/// An embedded server, as `sobench serve` starts one.
fn embedded_server(faults: &[&str]) -> EmbeddedServer {
    let faults = faults.iter().map(|fault| Fault::parse(fault).unwrap());
    EmbeddedServer::start(EmbeddedSettings {
        faults: faults.collect(),
        ..EmbeddedSettings::default()
    })
    .unwrap()
}

#[test]
fn synthetic_model_of_a_separate_server_is_reported() {
    let server = embedded_server(&[]);
    let (ran, result) = sobench_result(&["--num-prompts 4 --base-url", server.base_url()]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let own = &result["sobench"];
    assert_eq!(
        (&own["embedded"], &own["engine"]["name"]),
        (&json!(true), &json!("guidance"))
    );
    let version = own["engine"]["version"].as_str().unwrap();
    assert!(version.starts_with("llguidance ") && own["engine"]["settings"].is_object());
}

#[test]
fn answers_of_another_model_give_a_notice() {
    let server = embedded_server(&["wrong-model"]);
    for flags in [
        "--backend vllm",
        "--backend openai-chat",
        "--disable-stream",
    ] {
        let run = "--num-prompts 2 --skip-preflight --base-url";
        let (ran, result) = sobench_result(&[flags, run, server.base_url()]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let notices = result["sobench"]["notices"].to_string();
        let other =
            "names the model sobench-synthetic-other; the requested model is sobench-synthetic";
        assert!(notices.contains(other), "{flags}: {notices}");
    }
}

#[test]
fn overload_is_not_reported_as_a_rejected_constraint() {
    let server = embedded_server(&["error-429"]);
    let ran = sobench(&["--num-prompts 2 --base-url", server.base_url()]);
    ran.assert_exits(3, &["429", "lower --request-rate or --max-concurrency"]);
    assert!(
        !ran.has_error("another --constraint-dialect"),
        "{}",
        ran.stderr
    );
    // The first request is answered. Of the others some are not, the same ones in every run.
    let server = embedded_server(&["error-429@0.5"]);
    let flags = "--num-prompts 40 --skip-preflight --request-id-prefix c- --base-url";
    let (ran, result) = sobench_result(&[flags, server.base_url()]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let metrics = &result["sobench"]["metrics"];
    let hits = |rate: &str| metrics[rate]["hits"].as_u64();
    let refused = hits("refused_rate");
    assert!(
        refused > Some(0) && hits("overloaded_rate") == refused,
        "{metrics}"
    );
}
