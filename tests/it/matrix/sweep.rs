//! `--sweep`: the capacity of servers, verdicts between them, and shutdown.

use serde_json::{Value, json};
use sobench_testkit::scripted::{Request, ScriptedServer, models, whole};

use super::at_once::{answer, hanging_after, number};
use super::compared;
use crate::support::{Folder, Running, program};

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
    let folder = Folder::new();
    // As few requests as given, which are too few to show a backlog.
    let flags = "--dataset choice --sweep --sweep-duration 0.0001";
    let rates = |capacity: &Value| -> Vec<f64> {
        let steps = capacity["sweeps"][0]["steps"].as_array().unwrap();
        let load = |step: &Value| step["load"]["value"].as_f64().unwrap();
        steps.iter().map(load).collect()
    };
    let given = "--num-prompts 5 --request-rate 64 --goodput e2el:600000 --run-log";
    let (ran, found) = compared(&[flags, given, &folder.path("")]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let row = &found["capacity"][0];
    for arm in ["constrained", "control"] {
        let found = &row[arm];
        let expected = [64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0];
        assert_eq!(rates(found), expected, "{arm}");
        assert_eq!(
            (&found["sustained_rps"], &found["high_rps"]),
            (&json!(8192.0), &Value::Null)
        );
        assert_eq!(found["sweeps"][0]["end"]["kind"], "run_limit");
        folder.read(&format!("choice-rate128-{arm}.jsonl"));
    }
    let order = &found["runs"].as_array().unwrap()[..4];
    let order: Vec<&Value> = order.iter().map(|run| &run["treatment"]).collect();
    assert_eq!(order, ["control", "constrained", "constrained", "control"]);
    // Two of two bad requests decide a share of 70 %. More would take long at the lowest rate.
    let missed = "--goodput e2el:0 --no-control-arm --num-prompts 2 --goodput-share 70";
    let (ran, found) = compared(&[flags, missed]);
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
    let flags = "--target closed=http://127.0.0.1:1 --model m --dataset choice --num-prompts 3";
    let sweep = "--sweep --goodput e2el:100 --request-rate 9 --no-control-arm --sweep-duration 0.1";
    let (ran, found) = compared(&[flags, sweep]);
    assert_ne!(ran.code, 0);
    let end = &found["capacity"][0]["constrained"]["sweeps"][0]["end"];
    assert_eq!(end["kind"], "failed", "{end}");
    assert!(!end["reason"].as_str().unwrap().is_empty());
}

#[test]
fn verdicts_of_a_sweep_compare_the_runs_of_its_rows() {
    // One server is always right, and the other always wrong, at every rate.
    let [good, bad] = [scripted(|_| "yes"), scripted(|_| "maybe")];
    let targets = format!(
        "--target good={} --target bad={}",
        good.base_url, bad.base_url
    );
    let flags =
        "--dataset choice --choice yes,no --num-prompts 30 --request-id-prefix r- --no-control-arm";
    // No rate is sustained, so that the page has the first rate only.
    let sweep = "--sweep --sweep-duration 0.001 --request-rate 100000 --goodput e2el:0";
    let (ran, found) = compared(&[
        &targets,
        flags,
        "--skip-preflight --allow-unenforced",
        sweep,
    ]);
    assert_eq!(found["rows"].as_array().unwrap().len(), 2, "{}", ran.stderr);
    assert_eq!(found["runs"].as_array().unwrap().len(), 16);
    let verdicts = found["verdicts"]["verdicts"].as_array().unwrap().iter();
    let correct: Vec<&Value> = verdicts
        .filter(|verdict| verdict["figure"] == "correct_rate")
        .collect();
    assert_eq!(correct.len(), 1, "{correct:?}");
    assert_eq!(correct[0]["contenders"][0], "bad");
    assert_eq!(correct[0]["difference"].as_f64(), Some(-100.0));
    assert_eq!(correct[0]["load"]["value"].as_f64(), Some(100_000.0));
}

#[test]
fn sigint_ends_a_sweep_with_the_bracket_so_far() {
    // The requests of the first run are answered. Those of the second run hang.
    let server = hanging_after(6);
    let folder = Folder::new();
    let target = format!("--target mine={}", server.base_url);
    let mut running = Running::start(&mut program(&[
        "--dataset choice --choice yes,no --num-prompts 6 --request-id-prefix r- --no-control-arm",
        "--skip-preflight --drain-timeout 0 --sweep --sweep-duration 0.001 --request-rate 1000",
        &target,
        "--goodput e2el:600000 --run-log",
        &folder.path("logs/"),
        "--save",
        &folder.path("c.json"),
    ]));
    running.wait_until("a request of the second run hangs", || {
        server.requests().iter().filter_map(number).count() > 6
    });
    running.signal(rustix::process::Signal::INT);
    let ran = running.end();
    ran.assert_exits(130, &["interrupted: the table covers the complete runs"]);
    let found = folder.json("c.json");
    let capacity = &found["capacity"][0]["constrained"];
    assert_eq!(capacity["sustained_rps"].as_f64(), Some(1000.0));
    let sweep = &capacity["sweeps"][0];
    assert_eq!(sweep["end"]["kind"], "stopped");
    assert_eq!(sweep["steps"].as_array().unwrap().len(), 1);
    assert_eq!(sweep["steps"][0]["requests"].as_u64(), Some(6));
    assert_eq!(found["record"]["partial"], true);
    // The run that was stopped has a log as well.
    assert_eq!(std::fs::read_dir(folder.path("logs")).unwrap().count(), 2);
}
