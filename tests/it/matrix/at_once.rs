//! Concurrent contenders: each server gets its requests one by one in turn, and results equal those
//! of a single run.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::Value;
use sobench_embedded::{EmbeddedOptions, EmbeddedServer};
use sobench_testkit::scripted::{Request, ScriptedServer, models, wait_until_closed, whole};

use super::{compared, row};
use crate::cli::assert_fails;
use crate::support::{cache, sobench, wait_until};

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
fn log(path: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Every request of a log by case, without times.
fn answers(log: &[Value]) -> BTreeMap<u64, (Value, Value, Value)> {
    let requests = log.iter().filter_map(|line| line.get("request"));
    let verdicts: BTreeMap<u64, &Value> = log
        .iter()
        .filter_map(|line| line.get("judged"))
        .map(|verdict| (verdict["index"].as_u64().unwrap(), verdict))
        .collect();
    let shown = |request: &Value| {
        let case = request["index"].as_u64().unwrap();
        (
            case,
            (
                request["text"].clone(),
                request["outcome"].clone(),
                verdicts[&case].clone(),
            ),
        )
    };
    requests.map(shown).collect()
}

#[test]
fn servers_get_requests_in_lockstep() {
    const SERVERS: usize = 3;
    let arrivals = Arc::new(Arrivals::default());
    let servers: Vec<ScriptedServer> = (0..SERVERS)
        .map(|server| {
            let arrivals = Arc::clone(&arrivals);
            ScriptedServer::answering(move |request| match number(request) {
                _ if request.is_model_list() => models(),
                _ if !request.line.starts_with("POST ") => {
                    whole("404 Not Found", "text/plain", "no")
                }
                None => answer("yes"),
                Some(number) if arrivals.arrive(server, number, SERVERS) => answer("no"),
                Some(_) => whole(
                    "500 Internal Server Error",
                    "text/plain",
                    "the other servers got no request",
                ),
            })
        })
        .collect();
    let targets: Vec<String> = servers
        .iter()
        .enumerate()
        .map(|(index, server)| format!("s{index}={}", server.base_url))
        .collect();
    let mut flags = vec![
        "--dataset",
        "choice",
        "--choice",
        "yes,no",
        "--num-prompts",
        "7",
        "--max-concurrency",
        "1",
    ];
    flags.extend([
        "--no-control-arm",
        "--skip-preflight",
        "--request-id-prefix",
        "r-",
    ]);
    flags.extend(
        targets
            .iter()
            .flat_map(|target| ["--target", target.as_str()]),
    );
    let (ran, found) = compared(&flags);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let all = arrivals.all.lock().unwrap().clone();
    assert_eq!(
        all.len(),
        7 * SERVERS,
        "every server gets 7 requests: {all:?}"
    );
    for (index, round) in all.chunks(SERVERS).enumerate() {
        assert!(
            round.iter().all(|(_, number)| *number == index),
            "requests are not interleaved: {all:?}"
        );
    }
    for index in 0..SERVERS {
        assert_eq!(
            row(&found, &format!("s{index}"), "choice")["correct_rate"]["hits"].as_u64(),
            Some(7)
        );
    }
    assert_eq!(found["record"]["interleaved"], true);
    let order = found["record"]["order"].as_str().unwrap();
    assert!(
        order.starts_with("interleaved, request by request (each contender has its own server)"),
        "{order}"
    );
    assert!(
        ran.stdout.contains("concurrent servers on one machine"),
        "{}",
        ran.stdout
    );
}

#[test]
fn concurrent_run_equals_a_single_run() {
    let servers = [
        EmbeddedServer::start(EmbeddedOptions::default()).unwrap(),
        EmbeddedServer::start(EmbeddedOptions::default()).unwrap(),
    ];
    let common = [
        "--dataset",
        "json",
        "--num-prompts",
        "12",
        "--request-rate",
        "100",
        "--request-id-prefix",
        "sobench-",
    ];
    let targets = [
        format!("one={}", servers[0].base_url()),
        format!("two={}", servers[1].base_url()),
    ];
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    let several = [
        "--target",
        &targets[0],
        "--target",
        &targets[1],
        "--repeat",
        "2",
        "--save-result",
        "--result-dir",
    ];
    let (ran, found) = compared(&[&common[..], &several, &[results.to_str().unwrap()]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let path = folder.path().join("alone.jsonl");
    let alone_path = path.to_str().unwrap();
    let alone = sobench(
        &[
            &common[..],
            &["--base-url", servers[0].base_url(), "--run-log", alone_path],
        ]
        .concat(),
    );
    assert_eq!(alone.code, 0, "{}", alone.stderr);
    let alone = log(alone_path);
    let runs = found["runs"].as_array().unwrap();
    let order: Vec<&str> = runs
        .iter()
        .map(|run| run["contender"].as_str().unwrap())
        .collect();
    assert_eq!(
        order,
        ["one", "two", "one", "two", "two", "one", "two", "one"],
        "the order alternates between repeats"
    );
    let treatments: Vec<&str> = runs
        .iter()
        .step_by(2)
        .map(|run| run["treatment"].as_str().unwrap())
        .collect();
    assert_eq!(
        treatments,
        ["control", "constrained", "constrained", "control"]
    );
    for run in runs {
        let [result, log] = ["result", "run_log"]
            .map(|key| Path::new(run[key].as_str().unwrap()).with_extension(""));
        assert_eq!(result, log, "result and log of a run have one name");
    }
    for pair in runs.chunks(2) {
        let logs: Vec<Vec<Value>> = pair
            .iter()
            .map(|run| log(run["run_log"].as_str().unwrap()))
            .collect();
        let started_ns = |log: &[Value]| {
            log[0]["header"]["record"]["started_unix_ns"]
                .as_u64()
                .unwrap()
        };
        assert_eq!(
            started_ns(&logs[0]),
            started_ns(&logs[1]),
            "concurrent runs start together"
        );
        let footer = |log: &[Value]| log.last().unwrap()["footer"].clone();
        assert!(
            logs.iter()
                .all(|log| footer(log)["cost"]["other_runs"] == 1 && footer(log)["requests"] == 12),
            "{:?}",
            footer(&logs[0])
        );
        let due = |log: &[Value]| -> BTreeMap<u64, u64> {
            let requests = log.iter().filter_map(|line| line.get("request"));
            requests
                .map(|request| {
                    (
                        request["index"].as_u64().unwrap(),
                        request["timing"]["due_ns"].as_u64().unwrap(),
                    )
                })
                .collect()
        };
        let (planned, first, second) = (due(&alone), due(&logs[0]), due(&logs[1]));
        let later = |due: &BTreeMap<u64, u64>, case: u64| due[&case] - planned[&case];
        for case in 0..12 {
            let apart = if planned[&case] == 0 {
                (0, 0)
            } else {
                [(0, 200_000), (200_000, 0)][usize::try_from(case % 2).unwrap()]
            };
            assert_eq!(
                (later(&first, case), later(&second, case)),
                apart,
                "the first server alternates per request: {case}"
            );
        }
        if pair[0]["treatment"] == "constrained" {
            assert_eq!(
                answers(&logs[0]),
                answers(&alone),
                "the same cases, answers and verdicts"
            );
            assert_eq!(answers(&logs[1]), answers(&alone));
        }
    }
}

#[test]
fn interleaving_is_rejected_or_shown_in_the_dry_run() {
    let interleaved = [
        "--matrix-order",
        "interleaved",
        "--num-prompts",
        "5",
        "--dry-run",
    ];
    let refused = |flags: &[&str], reason: &str| {
        assert_fails(
            &sobench(&[&interleaved[..], flags].concat()),
            2,
            &["--matrix-order interleaved", reason],
        );
    };
    refused(
        &[
            "--launch",
            "serve {port} {backend}",
            "--guided-decoding-backend",
            "xgrammar,guidance",
        ],
        "servers are started one at a time",
    );
    refused(
        &[
            "--target",
            "one=http://localhost:1",
            "--target",
            "two=http://127.0.0.1:1/v1",
        ],
        "two contenders share a server",
    );
    refused(&["--repeat", "2"], "there is one contender");
    refused(&[], "applies to comparisons only");
    let several = [
        "--target",
        "one=http://127.0.0.1:1",
        "--target",
        "two=http://127.0.0.1:2",
        "--dry-run",
        "--num-prompts",
        "5",
    ];
    let ran = sobench(&several);
    assert!(
        ran.stdout
            .contains("order: interleaved, request by request"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout.contains("   1  one, json, control (5 requests), concurrent with the following:\n   2  two, json, control")
    );
    let ran = sobench(&[&several[..], &["--matrix-order", "blocks"]].concat());
    assert!(
        ran.stdout
            .contains("order: complete runs, one after the other (requested with --matrix-order)"),
        "{}",
        ran.stdout
    );
}

#[cfg(unix)]
#[test]
fn sigint_stops_all_concurrent_runs_with_partial_logs() {
    use std::io::Read;
    use std::process::{Command, Stdio};
    // Two requests are answered, the rest hang; then the test sends SIGINT.
    let servers: Vec<ScriptedServer> = (0..2)
        .map(|_| {
            ScriptedServer::new(|request, stream| {
                use std::io::Write;
                let response = match number(request) {
                    _ if request.is_model_list() => models(),
                    _ if !request.line.starts_with("POST ") => {
                        whole("404 Not Found", "text/plain", "no")
                    }
                    Some(2..) => {
                        wait_until_closed(stream);
                        return sobench_testkit::scripted::Then::Close;
                    }
                    _ => answer("yes"),
                };
                stream.write_all(response.as_bytes()).unwrap();
                sobench_testkit::scripted::Then::Keep
            })
        })
        .collect();
    let targets: Vec<String> = servers
        .iter()
        .enumerate()
        .map(|(index, server)| format!("s{index}={}", server.base_url))
        .collect();
    let mut running = Command::new(env!("CARGO_BIN_EXE_sobench"))
        .args([
            "--target",
            &targets[0],
            "--target",
            &targets[1],
            "--no-control-arm",
            "--skip-preflight",
            "--repeat",
            "3",
        ])
        .args([
            "--dataset",
            "choice",
            "--choice",
            "yes,no",
            "--num-prompts",
            "50",
            "--max-concurrency",
            "1",
        ])
        .args([
            "--request-id-prefix",
            "r-",
            "--drain-timeout",
            "0",
            "--disable-tqdm",
        ])
        .env("XDG_CACHE_HOME", cache())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let hangs = |server: &ScriptedServer| {
        server
            .requests()
            .iter()
            .any(|request| number(request) == Some(2))
    };
    wait_until("every server has a request that hangs", || {
        assert!(
            running.try_wait().unwrap().is_none(),
            "the program ended before its requests arrived"
        );
        servers.iter().all(hangs)
    });
    let pid = rustix::process::Pid::from_raw(i32::try_from(running.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let mut stderr = String::new();
    running
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(130), "{stderr}");
    let logs: Vec<&str> = stderr
        .lines()
        .filter_map(|line| line.strip_prefix("run log: "))
        .collect();
    assert_eq!(logs.len(), 2, "no third run starts: {stderr}");
    for path in logs {
        let log = log(path);
        let footer = &log.last().unwrap()["footer"];
        assert_eq!(
            (&footer["interrupted"], footer["requests"].as_u64()),
            (&Value::Bool(true), Some(50)),
            "{footer}"
        );
        let report = sobench(&["report", path]);
        assert!(
            report.stdout.contains("PARTIAL") || report.stdout.contains("partial"),
            "{}",
            report.stdout
        );
        assert!(Path::new(path).exists());
    }
    assert_eq!(
        stderr
            .matches("stopping: requests in flight may end")
            .count(),
        1,
        "{stderr}"
    );
}
