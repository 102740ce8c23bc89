//! Shards that start together, by a coordinator or at a given time.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use sobench_core::shard::Start;
use sobench_runlog::RunLog;
use sobench_testkit::scripted::{ScriptedServer, free_port};

use super::{answer, check_lines, merge, paths};
use crate::support::{Ran, check_result, sobench};

fn shard(server: &ScriptedServer, part: &str, log: &str, more: &[&str]) -> Ran {
    let load = [
        "--dataset choice --num-prompts 30 --request-rate 100 --skip-preflight",
        "--disable-tqdm",
    ];
    sobench(
        &[
            &[
                "--base-url",
                &server.base_url,
                "--shard",
                part,
                "--run-log",
                log,
            ][..],
            &load,
            more,
        ]
        .concat(),
    )
}

/// Runs all shards concurrently; `more` gives the extra arguments of each.
fn all(
    server: &ScriptedServer,
    count: usize,
    folder: &Path,
    common: &[&str],
    more: impl Fn(usize) -> Vec<&'static str> + Sync,
) -> Vec<Ran> {
    let one = |number: usize| {
        let log = paths(folder, count)[number - 1].clone();
        shard(
            server,
            &format!("{number}/{count}"),
            &log,
            &[common, &more(number)].concat(),
        )
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (1..=count)
            .map(|number| {
                scope.spawn({
                    let one = &one;
                    move || one(number)
                })
            })
            .collect();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

#[test]
fn coordinated_shards_start_together_with_measured_clock_offsets() {
    let (server, folder, address) = (
        ScriptedServer::answering(answer),
        tempfile::tempdir().unwrap(),
        free_port().to_string(),
    );
    for ran in all(
        &server,
        3,
        folder.path(),
        &["--coordinator", &address],
        |_| Vec::new(),
    ) {
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    }
    let paths = paths(folder.path(), 3);
    let logs: Vec<RunLog> = paths
        .iter()
        .map(|path| RunLog::read(path.as_ref()).unwrap())
        .collect();
    for (index, log) in logs.iter().enumerate() {
        check_lines(paths[index].as_ref());
        let about = log.record.shard.as_ref().unwrap();
        let (before, after) = (
            about.clock.unwrap(),
            log.footer.as_ref().unwrap().clock.unwrap(),
        );
        assert_eq!(about.start, Start::Coordinator);
        // All processes share one clock, but it may be slewed between their measurements.
        let slack_ns = 1_000_000;
        for clock in [before, after] {
            assert!(
                clock.offset_ns.unsigned_abs() <= clock.uncertainty_ns + slack_ns,
                "{clock:?}"
            );
        }
        assert_eq!(
            (before.exchanges > 8, before.uncertainty_ns > 0),
            (index > 0, index > 0),
            "clocks are measured against shard 1"
        );
        assert_eq!(
            log.record.start_on_shard1_clock_ns(),
            logs[0].record.start_on_shard1_clock_ns()
        );
        assert!(
            log.requests
                .iter()
                .all(|request| request.request_times().sent_ns
                    >= Some(request.request_times().due_ns))
        );
    }
    let ran = merge(&paths, &["--format json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let result: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(check_result(&result), Ok(()));
    let (notices, shards) = (
        result["sobench"]["notices"].to_string(),
        result["sobench"]["shards"].as_array().unwrap(),
    );
    assert!(
        notices.contains("clock offsets of the shards were measured against shard 1")
            && !notices.contains("at one instant"),
        "{notices}"
    );
    assert!(shards.iter().all(|shard| shard["begin_s"] == 0.0
        && shard["start"] == "coordinator"
        && shard["uncertainty_ns"].is_u64()));
    println!("{}", merge(&paths, &[]).stdout);
}

#[test]
fn different_plan_or_missing_shard_prevents_the_start() {
    let (server, folder, address) = (
        ScriptedServer::answering(answer),
        tempfile::tempdir().unwrap(),
        free_port().to_string(),
    );
    let other = all(
        &server,
        2,
        folder.path(),
        &["--coordinator", &address],
        |number| {
            if number == 2 {
                vec!["--seed 9"]
            } else {
                Vec::new()
            }
        },
    );
    for ran in &other {
        ran.assert_fails(2, &["shard 2 has another plan than shard 1", "hint: "]);
    }
    let sent = server
        .requests()
        .iter()
        .filter(|request| request.line.starts_with("POST"))
        .count();
    assert_eq!(sent, 2, "only trial requests");
    let address = free_port().to_string();
    let log = folder.path().join("alone.jsonl");
    let alone = |part: &str| {
        shard(
            &server,
            part,
            log.to_str().unwrap(),
            &["--coordinator", &address, "--coordinator-timeout 2"],
        )
    };
    alone("1/3").assert_fails(
        3,
        &["of 3 shards, within 2 s, did not join: 2, 3", "hint: "],
    );
    alone("2/3").assert_fails(3, &["shard 2/3 found no coordinator within 2 s", "hint: "]);
    assert!(!log.exists());
}

#[test]
fn start_at_is_obeyed_or_rejected() {
    let (server, folder) = (
        ScriptedServer::answering(answer),
        tempfile::tempdir().unwrap(),
    );
    let late = shard(
        &server,
        "1/2",
        folder.path().join("late.jsonl").to_str().unwrap(),
        &["--start-at 2001-01-01T00:00:00Z"],
    );
    late.assert_fails(3, &["--start-at passed before the run was ready", "hint: "]);
    // Long enough for a busy machine to get ready.
    let start_s = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
        + 10;
    for ran in all(
        &server,
        2,
        folder.path(),
        &["--start-at", &start_s.to_string()],
        |_| Vec::new(),
    ) {
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    }
    for path in paths(folder.path(), 2) {
        let log = RunLog::read(path.as_ref()).unwrap();
        assert_eq!(
            Duration::from_nanos(log.record.started_unix_ns),
            Duration::from_secs(start_s)
        );
        let about = log.record.shard.as_ref().unwrap();
        assert_eq!((about.start, about.clock), (Start::StartAt, None));
    }
    for (arguments, expected) in [
        (
            &["--start-at tomorrow"][..],
            "--start-at is not an instant: tomorrow",
        ),
        (
            &["--coordinator nowhere"],
            "--coordinator is not HOST:PORT: nowhere",
        ),
        (
            &["--coordinator a:1 --coordinator-timeout 0"],
            "--coordinator-timeout is not a time: 0",
        ),
    ] {
        shard(&server, "1/2", "none.jsonl", arguments).assert_fails(2, &[expected, "hint: "]);
    }
}
