//! How much of a figure the client can have added: from the run log, and in every output.

use std::path::Path;

use serde_json::{Value, json};
use sobench_testkit::scripted::{ScriptedServer, models, whole};

use crate::support::{check_result, sobench};

const REQUESTS: usize = 4;

/// The lines of the run log of some requests.
fn log_of_a_run(folder: &Path) -> Vec<Value> {
    let event = r#"data: {"choices":[{"index":0,"text":"Positive","finish_reason":"stop"}]}"#;
    let server = ScriptedServer::answering(move |request| {
        if request.is_model_list() {
            return models();
        }
        let body = format!("{event}\n\ndata: [DONE]\n\n");
        whole("200 OK", "text/event-stream", &body)
    });
    let log = folder.join("run.jsonl");
    let ran = sobench(&[
        "--base-url",
        &server.base_url,
        "--dataset",
        "choice",
        "--skip-preflight",
        "--num-prompts",
        &REQUESTS.to_string(),
        "--run-log",
        log.to_str().unwrap(),
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let text = std::fs::read_to_string(log).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The result, validated against its contract, and the summary of a log with changed timings.
fn report(folder: &Path, lines: &[Value], change: impl Fn(&mut Value)) -> (Value, String) {
    let mut lines = lines.to_vec();
    for line in &mut lines {
        if let Some(request) = line.get_mut("request") {
            change(&mut request["timing"]);
        }
    }
    let log = folder.join("changed.jsonl");
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(&log, text).unwrap();
    let log = log.to_str().unwrap();
    let shown = |more: &[&str]| {
        let ran = sobench(&[&["report", log], more].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.stdout
    };
    let result: Value = serde_json::from_str(&shown(&["--format", "json"])).unwrap();
    assert_eq!(check_result(&result), Ok(()));
    (result, shown(&[]))
}

/// Due, ready and sent at the same time, with content after 50 ms.
fn prompt(timing: &mut Value) {
    let due_ns = timing["due_ns"].clone();
    let end_ns = due_ns.as_u64().unwrap() + 50_000_000;
    for member in ["ready_ns", "sent_ns", "headers_ns"] {
        timing[member] = due_ns.clone();
    }
    timing["first_answer_ns"] = end_ns.into();
    timing["end_ns"] = end_ns.into();
    timing["chunk_gaps_ns"] = json!([50_000_000]);
    timing["send_call_ns"] = 30_000.into();
    timing["arrival_slack_ns"] = json!([]);
}

fn bound<'b>(result: &'b Value, figure: &str) -> &'b Value {
    let bounds = result["sobench"]["client"]["bounds"].as_array().unwrap();
    let found = bounds.iter().find(|bound| bound["figure"] == figure);
    found.unwrap_or_else(|| panic!("no {figure}: {bounds:?}"))
}

#[test]
fn a_run_records_what_the_client_can_have_added() {
    let folder = tempfile::tempdir().unwrap();
    let lines = log_of_a_run(folder.path());
    let timings: Vec<&Value> = lines
        .iter()
        .filter_map(|line| Some(&line.get("request")?["timing"]))
        .collect();
    assert_eq!(timings.len(), REQUESTS);
    for timing in timings {
        assert!(timing["send_call_ns"].is_u64(), "{timing}");
        if Path::new("/proc/thread-self/schedstat").exists() {
            assert!(timing["arrival_slack_ns"].is_array(), "{timing}");
        }
    }
}

#[test]
fn figures_are_distrusted_by_their_own_bound() {
    let folder = tempfile::tempdir().unwrap();
    let lines = log_of_a_run(folder.path());

    let (result, summary) = report(folder.path(), &lines, prompt);
    assert_eq!(result["sobench"]["client"]["verdict"], "not_the_bottleneck");
    let ttft = bound(&result, "p99_ttft_ms");
    assert_eq!(ttft["distrusted"], false);
    assert!(
        (ttft["added"].as_f64().unwrap() - 0.05).abs() < 1e-6,
        "{ttft}"
    );
    assert!(
        summary.contains("client: trusted; server and client share this machine"),
        "{summary}"
    );

    let (result, summary) = report(folder.path(), &lines, |timing| {
        prompt(timing);
        timing["send_call_ns"] = 9_000_000.into();
    });
    assert_eq!(result["sobench"]["client"]["verdict"], "do_not_trust");
    assert_eq!(bound(&result, "mean_ttft_ms")["distrusted"], true);
    // 9.02 ms of 50 ms, of what remains.
    assert_eq!(bound(&result, "request_throughput")["distrusted"], true);
    let warning = "client: not trusted: Request throughput: client may have cost up to 22.0 %";
    assert!(summary.contains(warning), "{summary}");

    // Packets that were read together: the first can have arrived 20 ms earlier.
    let (result, _) = report(folder.path(), &lines, |timing| {
        prompt(timing);
        timing["arrival_slack_ns"] = json!([[0, 20_000_000]]);
    });
    let added = bound(&result, "median_e2el_ms")["added"].as_f64().unwrap();
    assert!((added - 20.05).abs() < 1e-6, "{added}");
}

#[test]
fn logs_of_older_versions_have_unknown_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let lines = log_of_a_run(folder.path());
    let (result, summary) = report(folder.path(), &lines, |timing| {
        prompt(timing);
        let members = timing.as_object_mut().unwrap();
        members.remove("send_call_ns");
        members.remove("arrival_slack_ns");
    });
    assert_eq!(result["sobench"]["client"]["verdict"], "unknown");
    assert_eq!(bound(&result, "mean_ttft_ms")["added"], Value::Null);
    assert_eq!(bound(&result, "request_throughput")["distrusted"], false);
    assert!(summary.contains("client: unknown"), "{summary}");
}
