//! `--dataset canary`: a faithful server has no findings, and planted failures of masks are found,
//! named and no others.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use sobench_core::nonce::Nonce;
use sobench_embedded::{EmbeddedServer, EmbeddedSettings, Fault};
use sobench_testkit::constrained::constraint_text;
use sobench_testkit::scripted::{ScriptedServer, Then, models, whole};

use crate::support::{check_result, sobench, sobench_result};

/// The number of answers of each class, without the classes that no answer has.
fn counts(result: &Value) -> Vec<(String, u64)> {
    let classes = result["sobench"]["canary"]["classes"].as_array().unwrap();
    let found = classes.iter().map(|found| {
        let class = found["class"].as_str().unwrap().to_owned();
        (class, found["rate"]["hits"].as_u64().unwrap())
    });
    found.filter(|(_, hits)| *hits > 0).collect()
}

fn classes(expected: &[(&str, u64)]) -> Vec<(String, u64)> {
    let owned = |(class, hits): &(&str, u64)| ((*class).to_owned(), *hits);
    expected.iter().map(owned).collect()
}

#[test]
fn a_faithful_server_has_no_findings() {
    let (ran, result) = sobench_result(&[
        "--dataset canary --num-prompts 80 --max-concurrency 24 --canary-prompt-len 60",
        "--require swapped_rate<=0",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    check_result(&result).unwrap();
    assert_eq!(counts(&result), classes(&[("fine", 80)]));
    let canary = &result["sobench"]["canary"];
    assert_eq!(canary["findings"], json!([]));
    let kinds = canary["by_kind"].as_array().unwrap().iter();
    let kinds: Value = kinds
        .map(|group| json!([group["group"], group["answers"]]))
        .collect();
    assert_eq!(
        kinds,
        json!([["choice", 20], ["grammar", 20], ["json", 20], ["regex", 20]])
    );
}

/// The findings are the answers without a nonce, which the saved texts show.
#[test]
fn ignored_constraints_are_found_and_no_others() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let server = EmbeddedServer::start(EmbeddedSettings {
        faults: vec![Fault::parse("ignore-constraint@0.2").unwrap()],
        ..EmbeddedSettings::default()
    })
    .unwrap();
    let (ran, result) = sobench_result(&[
        "--base-url",
        server.base_url(),
        "--dataset canary --num-prompts 200 --max-concurrency 16 --request-id-prefix canary-fault-",
        "--skip-preflight --save-detailed",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    check_result(&result).unwrap();
    let texts = result["generated_texts"].as_array().unwrap();
    let planted: BTreeSet<String> = texts
        .iter()
        .enumerate()
        .filter(|(_, text)| Nonce::find_all(text.as_str().unwrap()).next().is_none())
        .map(|(index, _)| format!("canary-{index}"))
        .collect();
    let injected: u64 = server.stats().faults.iter().map(|(_, count)| count).sum();
    // The trial request may have the fault, too.
    assert!((planted.len() as u64).abs_diff(injected) <= 1, "{injected}");
    assert!((20..=60).contains(&planted.len()), "{}", planted.len());
    let off = planted.len() as u64;
    assert_eq!(
        counts(&result),
        classes(&[("fine", 200 - off), ("mask_off", off)])
    );
    let findings = result["sobench"]["canary"]["findings"].as_array().unwrap();
    let named: BTreeSet<String> = findings
        .iter()
        .map(|finding| finding["case_id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(named, planted);
    for finding in findings {
        assert_eq!(finding["class"], "mask_off");
        assert_eq!(finding["partner"], Value::Null);
        assert!(
            (1..=16).contains(&finding["in_flight"].as_u64().unwrap()),
            "{finding}"
        );
    }
    assert_eq!(result["sobench"]["metrics"]["mask_off_rate"]["hits"], off);
    assert_eq!(result["sobench"]["metrics"]["swapped_rate"]["hits"], 0);
}

/// A valid answer to a canary of the kind json or choice.
fn answer(body: &Value) -> String {
    let outputs = &body["structured_outputs"];
    if let Some(choice) = outputs["choice"][0].as_str() {
        return choice.to_owned();
    }
    let members = &outputs["json"]["properties"];
    let words = members["words"]["minItems"].as_u64().unwrap() as usize;
    let nonce = &members["start"]["const"];
    json!({"start": nonce, "words": vec!["river"; words], "end": nonce}).to_string()
}

/// Two requests that wait for each other, each with the body of the other one.
#[derive(Default)]
struct Exchange {
    bodies: Mutex<Vec<Value>>,
    arrived: Condvar,
}

impl Exchange {
    /// The other body, after both have arrived. Fails after a minute.
    fn swap(&self, body: &Value) -> Value {
        let mut bodies = self.bodies.lock().unwrap();
        let place = bodies.len();
        bodies.push(body.clone());
        self.arrived.notify_all();
        let limit = Duration::from_secs(60);
        let both = |bodies: &mut Vec<Value>| bodies.len() < 2;
        let (bodies, time) = self
            .arrived
            .wait_timeout_while(bodies, limit, both)
            .unwrap();
        assert!(!time.timed_out(), "the other request did not arrive");
        bodies[1 - place].clone()
    }
}

/// A server that answers canaries, and swaps the answers to two requests that it has at the same
/// time.
fn swapping_server() -> ScriptedServer {
    let exchange = Exchange::default();
    // The first request is a trial.
    let arrivals = Mutex::new(0);
    ScriptedServer::new(move |request, stream| {
        let page = if request.is_model_list() {
            models()
        } else if request.line.starts_with("GET ") {
            whole("404 Not Found", "text/plain", "no such page")
        } else {
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            let arrival = {
                let mut arrivals = arrivals.lock().unwrap();
                *arrivals += 1;
                *arrivals
            };
            let text = if [5, 6].contains(&arrival) {
                answer(&exchange.swap(&body))
            } else {
                answer(&body)
            };
            let choice = json!({"index": 0, "text": text, "finish_reason": "stop"});
            let event = json!({ "choices": [choice] });
            whole(
                "200 OK",
                "text/event-stream",
                &format!("data: {event}\n\ndata: [DONE]\n\n"),
            )
        };
        match stream.write_all(page.as_bytes()) {
            Ok(()) => Then::Keep,
            // The client may have disconnected.
            Err(_) => Then::Close,
        }
    })
}

#[test]
fn two_swapped_answers_name_each_other() {
    let server = swapping_server();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("run.jsonl");
    let log_path = log.to_str().unwrap();
    let (ran, result) = sobench_result(&[
        "--base-url",
        &server.base_url,
        "--model m --dataset canary --canary-kinds json,choice --num-prompts 24",
        "--max-concurrency 2 --skip-preflight --run-log",
        log_path,
        "--require swapped_rate<=0",
    ]);
    assert_eq!(ran.code, 1, "{}{}", ran.stdout, ran.stderr);
    check_result(&result).unwrap();
    assert_eq!(counts(&result), classes(&[("fine", 22), ("swapped", 2)]));
    let canary = &result["sobench"]["canary"];
    let findings = canary["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 2);
    for (finding, other) in [(0, 1), (1, 0)] {
        let (finding, other) = (&findings[finding], &findings[other]);
        let partner = &finding["partner"];
        assert_eq!(finding["class"], "swapped");
        assert_eq!(partner["case_id"], other["case_id"]);
        assert_eq!(partner["kind"], other["kind"]);
        assert_eq!(partner["class"], "swapped");
        assert!(partner["overlap_ms"].as_f64().unwrap() > 0.0, "{finding}");
    }
    // A request whose constraint the server had, in each of the two bodies.
    let nonces: BTreeSet<Nonce> = server
        .requests()
        .iter()
        .filter_map(|request| serde_json::from_slice::<Value>(&request.body).ok())
        .filter_map(|body| constraint_text(&body))
        .filter_map(|text| Nonce::find_all(&text).next())
        .map(|(_, nonce)| nonce)
        .collect();
    assert_eq!(nonces.len(), 24, "each request has a nonce of its own");
    // The report of the log is the same, and CSV has the classes by request.
    let report = sobench(&["report", log_path, "--format json"]);
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    assert_eq!(report["sobench"]["canary"], *canary);
    let csv = sobench(&["report", log_path, "--format csv"]).stdout;
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let heads = reader.headers().unwrap().clone();
    let column = heads
        .iter()
        .position(|head| head == "swapped_rate")
        .unwrap();
    let rows = reader.records().map(Result::unwrap);
    assert_eq!(rows.filter(|row| &row[column] == "true").count(), 2);
}
