//! `--sweep`: the capacity of servers, verdicts between them, and shutdown.

use serde_json::Value;
use sobench_testkit::scripted::{Request, ScriptedServer, models, whole};

use super::at_once::{answer, number};
use super::compared;

/// A server that answers each measured request with the text of its number, and others with "yes".
fn scripted(text: fn(usize) -> &'static str) -> ScriptedServer {
    ScriptedServer::answering(move |request: &Request| match number(request) {
        _ if request.is_model_list() => models(),
        _ if !request.line.starts_with("POST ") => whole("404 Not Found", "text/plain", "no"),
        None => answer("yes"),
        Some(number) => answer(text(number)),
    })
}

#[test]
fn sweep_brackets_the_capacity_of_each_arm() {
    let logs = tempfile::tempdir().unwrap();
    let folder = format!("{}/", logs.path().display());
    let flags = [
        "--dataset",
        "choice",
        "--sweep",
        // As few requests as given, which are too few to show a backlog.
        "--sweep-duration",
        "0.0001",
    ];
    let rates = |capacity: &Value| -> Vec<f64> {
        let steps = capacity["sweeps"][0]["steps"].as_array().unwrap();
        let load = |step: &Value| step["load"]["value"].as_f64().unwrap();
        steps.iter().map(load).collect()
    };
    let given = [
        "--num-prompts",
        "5",
        "--request-rate",
        "64",
        "--goodput",
        "e2el:600000",
        "--run-log",
        &folder,
    ];
    let (ran, found) = compared(&[&flags[..], &given].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let row = &found["capacity"][0];
    for arm in ["constrained", "control"] {
        let found = &row[arm];
        let expected = [64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0];
        assert_eq!(rates(found), expected, "{arm}");
        assert_eq!(
            (found["sustained_rps"].as_f64(), found["high_rps"].as_f64()),
            (Some(8192.0), None)
        );
        assert_eq!(found["sweeps"][0]["end"]["kind"], "run_limit");
        assert!(
            logs.path()
                .join(format!("choice-rate128-{arm}.jsonl"))
                .is_file()
        );
    }
    let order: Vec<&str> = found["runs"].as_array().unwrap()[..4]
        .iter()
        .map(|run| run["treatment"].as_str().unwrap())
        .collect();
    assert_eq!(order, ["control", "constrained", "constrained", "control"]);
    assert!(
        ran.stdout.contains("Capacity at the objectives"),
        "{}",
        ran.stdout
    );
    // Two of two bad requests decide a share of 70 %. More would take long at the lowest rate.
    let missed = [
        "--goodput",
        "e2el:0",
        "--no-control-arm",
        "--num-prompts",
        "2",
        "--goodput-share",
        "70",
    ];
    let (ran, found) = compared(&[&flags[..], &missed].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let row = &found["capacity"][0];
    let rates = rates(&row["constrained"]);
    assert_eq!(
        (rates.len(), rates[0]),
        (8, 8.0),
        "the first run measures where to start"
    );
    assert!(
        rates[1..].windows(2).all(|pair| pair[1] < pair[0]),
        "{rates:?}"
    );
    assert_eq!(
        row["constrained"]["high_rps"].as_f64(),
        rates.last().copied()
    );
    assert!(row["control"].is_null() && row["constrained"]["sustained_rps"].is_null());
}

#[test]
fn a_failed_run_ends_its_search_and_not_the_comparison() {
    let target = "closed=http://127.0.0.1:1";
    let flags = [
        "--target",
        target,
        "--model",
        "m",
        "--dataset",
        "choice",
        "--num-prompts",
        "3",
    ];
    let sweep = [
        "--sweep",
        "--goodput",
        "e2el:100",
        "--request-rate",
        "9",
        "--no-control-arm",
    ];
    let (ran, found) = compared(&[&flags[..], &sweep, &["--sweep-duration", "0.1"]].concat());
    assert_ne!(ran.code, 0);
    let end = &found["capacity"][0]["constrained"]["sweeps"][0]["end"];
    assert_eq!(end["kind"], "failed", "{end}");
    assert!(!end["reason"].as_str().unwrap().is_empty());
}

#[test]
fn verdicts_of_a_sweep_compare_the_runs_of_its_rows() {
    // One server is always right, and the other always wrong, at every rate.
    let servers = [scripted(|_| "yes"), scripted(|_| "maybe")];
    let targets = [
        format!("good={}", servers[0].base_url),
        format!("bad={}", servers[1].base_url),
    ];
    let flags = [
        "--target",
        &targets[0],
        "--target",
        &targets[1],
        "--dataset",
        "choice",
        "--choice",
        "yes,no",
        "--num-prompts",
        "30",
        "--request-id-prefix",
        "r-",
        "--no-control-arm",
        "--skip-preflight",
        "--allow-unenforced",
    ];
    // No rate is sustained, so that the page has the first rate only.
    let sweep = [
        "--sweep",
        "--sweep-duration",
        "0.001",
        "--request-rate",
        "100000",
        "--goodput",
        "e2el:0",
    ];
    let (ran, found) = compared(&[&flags[..], &sweep].concat());
    let rows = found["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "{}", ran.stderr);
    assert_eq!(found["runs"].as_array().unwrap().len(), 16);
    let verdicts = found["verdicts"]["verdicts"].as_array().unwrap();
    let correct: Vec<&Value> = verdicts
        .iter()
        .filter(|verdict| verdict["figure"] == "correct_rate")
        .collect();
    assert_eq!(correct.len(), 1, "{verdicts:?}");
    assert_eq!(correct[0]["contenders"][0], "bad");
    assert_eq!(correct[0]["difference"].as_f64(), Some(-100.0));
    assert_eq!(correct[0]["load"]["value"].as_f64(), Some(100_000.0));
}

#[cfg(unix)]
#[test]
fn sigint_ends_a_sweep_with_the_bracket_so_far() {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use crate::support::{cache, wait_until};
    use rustix::process::{Pid, Signal, kill_process};
    use sobench_testkit::scripted::{Then, wait_until_closed};

    const REQUESTS: usize = 6;
    // The requests of the first run are answered. Those of the second run hang.
    let measured = AtomicUsize::new(0);
    let server = ScriptedServer::new(move |request, stream| {
        let text = match number(request) {
            _ if request.is_model_list() => models(),
            _ if !request.line.starts_with("POST ") => whole("404 Not Found", "text/plain", "no"),
            Some(_) if measured.fetch_add(1, Ordering::SeqCst) >= REQUESTS => {
                wait_until_closed(stream);
                return Then::Close;
            }
            _ => answer("yes"),
        };
        stream.write_all(text.as_bytes()).unwrap();
        Then::Keep
    });
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let target = format!("mine={}", server.base_url);
    let mut running = Command::new(env!("CARGO_BIN_EXE_sobench"))
        .args(["--target", &target, "--no-control-arm", "--skip-preflight"])
        .args(["--dataset", "choice", "--choice", "yes,no"])
        .args(["--num-prompts", &REQUESTS.to_string()])
        .args(["--request-id-prefix", "r-", "--drain-timeout", "0"])
        .args(["--sweep", "--sweep-duration", "0.001"])
        .args(["--request-rate", "1000", "--goodput", "e2el:600000"])
        .args(["--run-log", &path("logs/")])
        .args(["--save-comparison", &path("c.json")])
        .env("XDG_CACHE_HOME", cache())
        .env("NO_PROXY", "127.0.0.1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("a request of the second run hangs", || {
        assert!(
            running.try_wait().unwrap().is_none(),
            "the program ended before the signal"
        );
        let requests = server.requests();
        requests.iter().filter_map(number).count() > REQUESTS
    });
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    let read = |pipe: &mut dyn Read| {
        let mut text = String::new();
        pipe.read_to_string(&mut text).unwrap();
        text
    };
    let stdout = read(&mut running.stdout.take().unwrap());
    let stderr = read(&mut running.stderr.take().unwrap());
    assert_eq!(running.wait().unwrap().code(), Some(130), "{stderr}");
    assert!(
        stderr.contains("interrupted: the table covers the complete runs"),
        "{stderr}"
    );
    assert!(stdout.contains("Capacity at the objectives"), "{stdout}");
    let text = std::fs::read_to_string(path("c.json")).unwrap();
    let found: Value = serde_json::from_str(&text).unwrap();
    let capacity = &found["capacity"][0]["constrained"];
    assert_eq!(capacity["sustained_rps"].as_f64(), Some(1000.0));
    let sweep = &capacity["sweeps"][0];
    assert_eq!(sweep["end"]["kind"], "stopped");
    assert_eq!(sweep["steps"].as_array().unwrap().len(), 1);
    assert_eq!(sweep["steps"][0]["requests"].as_u64(), Some(6));
    assert_eq!(found["record"]["partial"], true);
    // The run that was stopped has a log as well.
    assert_eq!(std::fs::read_dir(path("logs")).unwrap().count(), 2);
}
