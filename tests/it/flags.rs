//! Effects of other benchmarks' flags that need a server. `flags_table.rs` has the table of all
//! flags.

use serde_json::{Value, json};
use sobench_testkit::scripted::{ScriptedServer, models, whole};

use crate::support::sobench_result;

/// A server that answers completions, and has an endpoint to start profiling.
fn completions() -> ScriptedServer {
    let event = r#"data: {"choices":[{"index":0,"text":"Positive","finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}"#;
    ScriptedServer::answering(move |request| match request.line.as_str() {
        _ if request.is_model_list() => models(),
        "POST /start_profile HTTP/1.1" => whole("200 OK", "text/plain", ""),
        "POST /stop_profile HTTP/1.1" => whole("404 Not Found", "text/plain", "no such path"),
        _ => whole(
            "200 OK",
            "text/event-stream",
            &format!("{event}\n\ndata: [DONE]\n\n"),
        ),
    })
}

const CHOICES: &str =
    "--dataset choice --num-prompts 4 --skip-preflight --max-concurrency 1 --base-url";

#[test]
fn profiling_starts_and_stops_with_the_run() {
    let server = completions();
    let flags = [CHOICES, &server.base_url, "--profile --num-warmups 1"];
    let (ran, result) = sobench_result(&flags);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let requests = server.requests().into_iter().map(|request| request.line);
    let posts: Vec<String> = requests.filter(|line| line.starts_with("POST")).collect();
    // Start after trial and warm-up, stop after the run.
    assert_eq!(posts.len(), 8);
    assert_eq!(
        (posts[2].as_str(), posts[7].as_str()),
        (
            "POST /start_profile HTTP/1.1",
            "POST /stop_profile HTTP/1.1"
        )
    );
    let notice = "the server did not start its profiler (POST /stop_profile: 404 no such path); start the server with profiling enabled";
    let notices = result["sobench"]["notices"].as_array().unwrap();
    let about_profiler = |text: &&Value| text.as_str().unwrap().contains("profiler");
    let found: Vec<&Value> = notices.iter().filter(about_profiler).collect();
    assert_eq!(found, [notice]);
    assert_eq!(ran.stderr.matches(notice).count(), 1, "{}", ran.stderr);
}

#[test]
fn probe_requests_are_sent_during_the_run() {
    let server = completions();
    let (ran, result) = sobench_result(&[CHOICES, &server.base_url, "--probe-request-rate 100"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let requests = server.requests();
    let bodies = requests
        .iter()
        .filter_map(|request| serde_json::from_slice(&request.body).ok());
    let probes: Vec<Value> = bodies
        .filter(|body: &Value| body["prompt"] == "Hi")
        .collect();
    assert!(!probes.is_empty());
    for body in &probes {
        assert!(
            body["max_tokens"] == 1 && body.get("structured_outputs").is_none(),
            "{body}"
        );
    }
    let counts = ["probe_completed", "probe_failed", "completed"].map(|key| &result[key]);
    assert_eq!(counts, [&json!(probes.len()), &json!(0), &json!(4)]);
    let field = |key: &str| result[key].as_f64().unwrap();
    assert!(field("probe_median_e2el_ms") > 0.0);
    assert!(field("probe_p99_e2el_ms") <= field("probe_max_e2el_ms"));
    // The synthetic model ends at once; an answer without text is an answer.
    let (_, embedded) =
        sobench_result(&["--dataset choice --num-prompts 4 --probe-request-rate 100"]);
    assert_eq!(embedded["probe_failed"].as_u64(), Some(0));
    assert!(embedded["probe_completed"].as_u64() > Some(0));
    let mut keys = result.as_object().unwrap().keys();
    // The position in vLLM's file.
    assert!(keys.any(|key| key == "max_concurrent_requests"));
    assert_eq!(keys.next().unwrap(), "probe_completed");
}
