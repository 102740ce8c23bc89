//! Shutdown signals: each stage for each command with several stages.

use std::io::Write as _;
use std::sync::Mutex;
use std::sync::mpsc::channel;

use rustix::process::Signal;
use serde_json::Value;
use sobench_testkit::constrained::{Reply, allowed, answering, constraint_text};
use sobench_testkit::scripted::{Request, ScriptedServer, Then, models, wait_until_closed, whole};

use crate::support::{Folder, Running, program};

/// A server that answers the trial request and never answers the run.
fn hanging() -> ScriptedServer {
    let answer =
        "data: {\"choices\":[{\"text\":\"yes\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    ScriptedServer::new(move |request, stream| {
        let is_of_the_run = request.header("x-request-id").is_some_and(|id| {
            id.strip_prefix("r-")
                .is_some_and(|number| number.parse::<usize>().is_ok())
        });
        let text = match () {
            () if request.is_model_list() => models(),
            () if is_of_the_run => {
                wait_until_closed(stream);
                return Then::Close;
            }
            () if request.line.starts_with("POST") => whole("200 OK", "text/event-stream", answer),
            () => whole("404 Not Found", "text/plain", ""),
        };
        stream.write_all(text.as_bytes()).unwrap();
        Then::Keep
    })
}

/// Starts a comparison of servers that never answer, and waits for the first requests of the runs.
fn hanging_matrix(order: &str) -> (Running, [ScriptedServer; 2]) {
    let servers = [hanging(), hanging()];
    let [first, second] = servers.each_ref().map(|server| &server.base_url);
    let mut running = Running::start(&mut program(&[
        &format!("--target s0={first} --target s1={second} --matrix-order {order}"),
        "--no-control-arm --skip-preflight --dataset choice --choice yes,no --num-prompts 5",
        "--max-concurrency 1 --disable-tqdm --request-id-prefix r- --drain-timeout 3600 --no-run-log",
    ]));
    let is_first = |request: &Request| {
        request
            .header("x-request-id")
            .is_some_and(|id| id.starts_with("r-0"))
    };
    let hangs = |server: &&ScriptedServer| server.requests().iter().any(is_first);
    let expected_servers = if order == "blocks" { 1 } else { 2 };
    running.wait_until("the requests of the run arrive", || {
        servers.iter().filter(hangs).count() >= expected_servers
    });
    (running, servers)
}

#[test]
fn the_second_signal_aborts_every_run_of_a_matrix() {
    for order in ["interleaved", "blocks"] {
        let (mut running, _servers) = hanging_matrix(order);
        running.signal(Signal::INT);
        running.wait_for("stopping: requests in flight may end");
        assert!(
            running.is_running(),
            "requests in flight have an hour to end"
        );
        running.signal(Signal::INT);
        running.wait_for("stopping now");
        let ran = running.end();
        // Each stage is reported once.
        assert_eq!(
            (ran.code, ran.has_error("stopping")),
            (130, false),
            "{order}: {}",
            ran.stderr
        );
    }
}

#[test]
fn serve_ends_at_the_first_signal() {
    for signal in [Signal::INT, Signal::TERM] {
        let mut running = Running::start(&mut program(&["serve", "--port 0"]));
        running.wait_for("stop with Ctrl-C");
        running.signal(signal);
        let ran = running.end();
        assert_eq!(
            (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
            (0, "", "stopped")
        );
    }
}

#[test]
fn engines_are_measured_until_the_first_signal() {
    let folder = Folder::new();
    let rows = folder.path("rows.jsonl");
    // More masks than the test could wait for.
    let endless =
        "--prove --budget 100000000 --timeout 86400 --limit 1 --engine guidance --disable-tqdm";
    let mut running = Running::start(&mut program(&["mask", endless, "--rows", &rows]));
    // The first line is the record of the measurement.
    running.wait_for_lines(rows.as_ref(), "", 1);
    running.signal(Signal::TERM);
    running.wait_for("stopping: the completed part is reported");
    running.end().assert_exits(
        130,
        &["interrupted: the report covers the completed entries"],
    );
}

/// The second of three keywords is in flight at the signal: its answers are awaited, no more are
/// requested, and the keyword that was tested is reported.
#[test]
fn an_interrupted_feature_probe_reports_the_tested_keywords() {
    let (asked, is_asked) = channel::<()>();
    let (release, is_released) = channel::<()>();
    let is_released = Mutex::new(is_released);
    let server = answering(move |body| {
        let schema = constraint_text(body).unwrap_or_default();
        if schema.contains("uniqueItems") {
            return Reply::Status(
                "400 Bad Request",
                r#"{"error":{"message":"no uniqueItems"}}"#,
            );
        }
        if schema.contains("maxLength") {
            asked.send(()).unwrap();
            // Fails at once after the first release.
            let _ = is_released.lock().unwrap().recv();
        }
        allowed(body).map_or(Reply::Prose, Reply::Text)
    });
    let folder = Folder::new();
    let flags = [
        "preflight",
        "--features --disable-tqdm --base-url",
        &server.base_url,
        "--keyword uniqueItems,maxLength,multipleOf --save",
        &folder.path("features.json"),
    ];
    let mut running = Running::start(&mut program(&flags));
    is_asked.recv().unwrap();
    running.signal(Signal::INT);
    running.wait_for("stopping: the tested keywords are reported");
    drop(release);
    let ran = running.end();
    assert_eq!(ran.code, 130, "{}", ran.stderr);
    let written = folder.json("features.json");
    let found = written["servers"][0]["found"].as_array().unwrap();
    let verdicts: Vec<[&str; 2]> = found
        .iter()
        .map(|found| ["id", "verdict"].map(|name| found[name].as_str().unwrap()))
        .collect();
    for expected in [["uniqueItems", "rejected"], ["multipleOf", "not_asked"]] {
        assert!(verdicts.contains(&expected), "{verdicts:?}");
    }
}

/// The third step is in flight at the signal: it is aborted, and the two before it are reported.
#[test]
fn an_interrupted_test_of_limits_reports_the_steps_that_ended() {
    let (asked, is_asked) = channel::<()>();
    let (release, is_released) = channel::<()>();
    let is_released = Mutex::new(is_released);
    let server = answering(move |body| {
        let schema = constraint_text(body).unwrap_or_default();
        if schema.contains(r#""maxItems":10}"#) {
            asked.send(()).unwrap();
            // Fails at once after the first release.
            let _ = is_released.lock().unwrap().recv();
        }
        Reply::Prose
    });
    let flags = [
        "limits",
        "--disable-tqdm --base-url",
        &server.base_url,
        "--ladder max-items,max-length --step-timeout 60 --format json",
    ];
    let mut running = Running::start(&mut program(&flags));
    is_asked.recv().unwrap();
    running.signal(Signal::INT);
    running.wait_for("stopping: the steps that ended are reported");
    let ran = running.end();
    drop(release);
    assert_eq!(ran.code, 130, "{}", ran.stderr);
    let written: Value = serde_json::from_str(&ran.stdout).unwrap();
    let [interrupted, after] = [0, 1].map(|index| &written["servers"][0]["ladders"][index]);
    let sizes: Vec<u64> = interrupted["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["size"].as_u64().unwrap())
        .collect();
    assert_eq!(sizes, [1, 3]);
    for ladder in [interrupted, after] {
        assert_eq!(
            (&ladder["end"], &ladder["reason"]),
            (&"not_tested".into(), &"interrupted".into())
        );
    }
}
