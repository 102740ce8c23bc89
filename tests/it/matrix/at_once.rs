//! Concurrent contenders: each server gets its requests one by one in turn, and results equal those
//! of a single run.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::Value;
use sobench_embedded::{EmbeddedServer, EmbeddedSettings};
use sobench_testkit::scripted::{Request, ScriptedServer, Then, models, wait_until_closed, whole};

use super::{compared, hits, row};
use crate::support::{Folder, Running, program, sobench};

/// Time that a server waits for the others. Only a failing test waits that long.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Received requests as (server, number), in order.
#[derive(Default)]
struct Arrivals {
    all: Mutex<Vec<(usize, usize)>>,
    changed: Condvar,
}

impl Arrivals {
    /// Records a request, and waits until every server has its request of this number. Returns
    /// false on timeout.
    fn arrive(&self, server: usize, number: usize, servers: usize) -> bool {
        let mut all = self.all.lock().unwrap();
        all.push((server, number));
        self.changed.notify_all();
        let is_short = |all: &mut Vec<(usize, usize)>| {
            all.iter().filter(|arrival| arrival.1 == number).count() < servers
        };
        !self
            .changed
            .wait_timeout_while(all, TIMEOUT, is_short)
            .unwrap()
            .1
            .timed_out()
    }
}

/// The number of a measured request; `None` for trial requests.
pub(super) fn number(request: &Request) -> Option<usize> {
    request
        .header("x-request-id")?
        .strip_prefix("r-")?
        .parse()
        .ok()
}

pub(super) fn answer(text: &str) -> String {
    let event =
        format!(r#"data: {{"choices":[{{"index":0,"text":"{text}","finish_reason":"stop"}}]}}"#);
    whole(
        "200 OK",
        "text/event-stream",
        &format!("{event}\n\ndata: [DONE]\n\n"),
    )
}

/// The lines of a run log.
fn log(path: &Value) -> Vec<Value> {
    let text = std::fs::read_to_string(path.as_str().unwrap()).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

fn requests(log: &[Value]) -> impl Iterator<Item = (u64, &Value)> {
    let requests = log.iter().filter_map(|line| line.get("request"));
    requests.map(|request| (request["index"].as_u64().unwrap(), request))
}

/// Every request of a log by case, without times.
fn answers(log: &[Value]) -> BTreeMap<u64, [Value; 3]> {
    let judged = log.iter().filter_map(|line| line.get("judged"));
    let verdicts: BTreeMap<u64, &Value> = judged
        .map(|verdict| (verdict["index"].as_u64().unwrap(), verdict))
        .collect();
    requests(log)
        .map(|(case, request)| {
            let verdict = verdicts[&case].clone();
            (
                case,
                [request["text"].clone(), request["outcome"].clone(), verdict],
            )
        })
        .collect()
}

fn due_ns(log: &[Value]) -> BTreeMap<u64, u64> {
    let due = |request: &Value| request["timing"]["due_ns"].as_u64().unwrap();
    requests(log)
        .map(|(case, request)| (case, due(request)))
        .collect()
}

/// The flag `--target` for each server.
fn targets<'a>(urls: impl IntoIterator<Item = &'a str>) -> String {
    let urls = urls.into_iter().enumerate();
    let targets: Vec<String> = urls
        .map(|(index, url)| format!("--target s{index}={url}"))
        .collect();
    targets.join(" ")
}

const LOAD: &str = "--dataset choice --choice yes,no --max-concurrency 1 --no-control-arm --skip-preflight \
    --request-id-prefix r-";

#[test]
fn servers_get_requests_in_lockstep() {
    const SERVERS: usize = 3;
    let arrivals = Arc::new(Arrivals::default());
    let servers: [ScriptedServer; SERVERS] = std::array::from_fn(|server| {
        let arrivals = Arc::clone(&arrivals);
        ScriptedServer::answering(move |request| match number(request) {
            _ if request.is_model_list() => models(),
            _ if !request.line.starts_with("POST ") => whole("404 Not Found", "text/plain", "no"),
            None => answer("yes"),
            Some(number) if arrivals.arrive(server, number, SERVERS) => answer("no"),
            Some(_) => whole("500 Oops", "text/plain", "the other servers got no request"),
        })
    });
    let targets = targets(servers.iter().map(|server| server.base_url.as_str()));
    let (ran, found) = compared(&[LOAD, "--num-prompts 7", &targets]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let all = arrivals.all.lock().unwrap().clone();
    assert_eq!(
        all.len(),
        7 * SERVERS,
        "every server gets 7 requests: {all:?}"
    );
    for (index, round) in all.chunks(SERVERS).enumerate() {
        let is_of_round = |(_, number): &(usize, usize)| *number == index;
        assert!(
            round.iter().all(is_of_round),
            "requests are not interleaved: {all:?}"
        );
    }
    for index in 0..SERVERS {
        assert_eq!(hits(row(&found, &format!("s{index}"), "choice")), Some(7));
    }
    assert_eq!(found["record"]["interleaved"], true);
}

#[test]
fn concurrent_run_equals_a_single_run() {
    let servers = [0, 1].map(|_| EmbeddedServer::start(EmbeddedSettings::default()).unwrap());
    let common = "--dataset json --num-prompts 12 --request-rate 100 --request-id-prefix sobench-";
    let folder = Folder::new();
    let targets = targets(servers.iter().map(EmbeddedServer::base_url));
    let several = [
        "--repeat 2 --save-result --result-dir",
        &folder.path("results"),
    ];
    let (ran, found) = compared(&[&[common, &targets], &several[..]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let path = folder.path("alone.jsonl");
    let alone = sobench(&[
        common,
        "--base-url",
        servers[0].base_url(),
        "--run-log",
        &path,
    ]);
    assert_eq!(alone.code, 0, "{}", alone.stderr);
    let alone = log(&path.into());
    let runs = found["runs"].as_array().unwrap();
    // The order alternates between repeats.
    let order: Vec<&Value> = runs.iter().map(|run| &run["contender"]).collect();
    assert_eq!(order, ["s0", "s1", "s0", "s1", "s1", "s0", "s1", "s0"]);
    let arms: Vec<&Value> = runs
        .iter()
        .step_by(2)
        .map(|run| &run["treatment"])
        .collect();
    assert_eq!(arms, ["control", "constrained", "constrained", "control"]);
    for run in runs {
        let [result, log] = ["result", "run_log"]
            .map(|key| Path::new(run[key].as_str().unwrap()).with_extension(""));
        assert_eq!(result, log, "result and log of a run have one name");
    }
    for pair in runs.chunks(2) {
        let logs = [&pair[0], &pair[1]].map(|run| log(&run["run_log"]));
        let started = logs
            .each_ref()
            .map(|log| &log[0]["header"]["record"]["started_unix_ns"]);
        assert_eq!(started[0], started[1], "concurrent runs start together");
        for log in &logs {
            let footer = &log.last().unwrap()["footer"];
            assert_eq!(
                (&footer["cost"]["other_runs"], &footer["requests"]),
                (&1.into(), &12.into())
            );
        }
        let (planned, first, second) = (due_ns(&alone), due_ns(&logs[0]), due_ns(&logs[1]));
        for (case, planned) in planned {
            let apart = match (planned, case % 2) {
                (0, _) => [0, 0],
                (_, 0) => [0, 200_000],
                _ => [200_000, 0],
            };
            let later = [first[&case] - planned, second[&case] - planned];
            assert_eq!(
                later, apart,
                "the first server alternates per request: {case}"
            );
        }
        if pair[0]["treatment"] == "constrained" {
            for log in &logs {
                assert_eq!(
                    answers(log),
                    answers(&alone),
                    "the same cases, answers and verdicts"
                );
            }
        }
    }
}

#[test]
fn interleaving_that_cannot_be_is_rejected() {
    for (flags, reason) in [
        (
            &[
                "--guided-decoding-backend xgrammar,guidance --launch",
                "serve {port} {backend}",
            ][..],
            "servers are started one at a time",
        ),
        (
            &["--target one=http://localhost:1 --target two=http://127.0.0.1:1/v1"],
            "two contenders share a server",
        ),
        (&["--repeat 2"], "there is one contender"),
        (&[], "applies to comparisons only"),
    ] {
        let interleaved = "--matrix-order interleaved --num-prompts 5 --dry-run";
        let ran = sobench(&[&[interleaved], flags].concat());
        ran.assert_fails(2, &["--matrix-order interleaved", reason]);
    }
}

#[test]
fn sigint_stops_all_concurrent_runs_with_partial_logs() {
    // Two requests are answered, the rest hang; then the test sends SIGINT.
    let servers = [0, 1].map(|_| hanging_after(2));
    let targets = targets(servers.iter().map(|server| server.base_url.as_str()));
    let flags = "--repeat 3 --num-prompts 50 --drain-timeout 0 --disable-tqdm";
    let mut running = Running::start(&mut program(&[LOAD, flags, &targets]));
    running.wait_until("every server has a request that hangs", || {
        let hangs = |server: &ScriptedServer| {
            let requests = server.requests();
            requests.iter().any(|request| number(request) == Some(2))
        };
        servers.iter().all(hangs)
    });
    running.signal(rustix::process::Signal::INT);
    let ran = running.end();
    assert_eq!(ran.code, 130, "{}", ran.stderr);
    let lines = ran.stderr.lines();
    let logs: Vec<&str> = lines
        .filter_map(|line| line.strip_prefix("run log: "))
        .collect();
    assert_eq!(logs.len(), 2, "no third run starts: {}", ran.stderr);
    for path in logs {
        let footer = &log(&path.into()).pop().unwrap()["footer"];
        assert_eq!(
            (&footer["interrupted"], &footer["requests"]),
            (&true.into(), &50.into())
        );
        let report = sobench(&["report", path, "--format json"]);
        let report: Value = serde_json::from_str(&report.stdout).unwrap();
        assert_eq!(report["sobench"]["partial"], true);
    }
    let stopping = ran.stderr.matches("stopping: requests in flight may end");
    assert_eq!(stopping.count(), 1, "{}", ran.stderr);
}

/// A server that answers this number of measured requests. Later ones hang.
pub(super) fn hanging_after(answered: usize) -> ScriptedServer {
    let measured = AtomicUsize::new(0);
    ScriptedServer::new(move |request, stream| {
        let text = match number(request) {
            _ if request.is_model_list() => models(),
            _ if !request.line.starts_with("POST ") => whole("404 Not Found", "text/plain", "no"),
            Some(_) if measured.fetch_add(1, Ordering::SeqCst) >= answered => {
                wait_until_closed(stream);
                return Then::Close;
            }
            _ => answer("yes"),
        };
        stream.write_all(text.as_bytes()).unwrap();
        Then::Keep
    })
}
