//! Shards that begin at one instant, by a coordinator or by the clock.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use sobench_core::shard::Start;
use sobench_results::runlog::{Keep, RunLog};
use sobench_testkit::scripted::{Scripted, free_port};

use super::{answer, check_lines, merge, paths};
use crate::cli::assert_fails;
use crate::support::{Ran, check_result, sobench};

fn shard(server: &Scripted, part: &str, log: &str, more: &[&str]) -> Ran {
    let load = [
        "--dataset",
        "choice",
        "--num-prompts",
        "30",
        "--request-rate",
        "100",
        "--skip-preflight",
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

/// All shards at once; `more` is what one has beside the others.
fn all(
    server: &Scripted,
    of: usize,
    folder: &Path,
    common: &[&str],
    more: impl Fn(usize) -> Vec<&'static str> + Sync,
) -> Vec<Ran> {
    let one = |number: usize| {
        let log = paths(folder, of)[number - 1].clone();
        shard(
            server,
            &format!("{number}/{of}"),
            &log,
            &[common, &more(number)].concat(),
        )
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (1..=of)
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
fn shards_that_find_each_other_begin_at_one_instant_of_clocks_that_were_measured() {
    let (server, folder, place) = (
        Scripted::answering(answer),
        tempfile::tempdir().unwrap(),
        free_port().to_string(),
    );
    for ran in all(
        &server,
        3,
        folder.path(),
        &["--coordinator", &place],
        |_| Vec::new(),
    ) {
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    }
    let paths = paths(folder.path(), 3);
    let logs: Vec<RunLog> = paths
        .iter()
        .map(|path| RunLog::read(path.as_ref(), Keep::WithoutTexts).unwrap())
        .collect();
    for (place, log) in logs.iter().enumerate() {
        check_lines(paths[place].as_ref());
        let about = log.record.shard.as_ref().unwrap();
        let (before, after) = (
            about.clock.unwrap(),
            log.footer.as_ref().unwrap().clock.unwrap(),
        );
        assert_eq!(about.start, Start::Coordinator);
        // One machine has one clock, but every process asked it for the time at another instant: by
        // its steering since then they may differ.
        let slack_ns = 1_000_000;
        for clock in [before, after] {
            assert!(
                clock.offset_ns.unsigned_abs() <= clock.uncertainty_ns + slack_ns,
                "{clock:?}"
            );
        }
        assert_eq!(
            (before.exchanges > 8, before.uncertainty_ns > 0),
            (place > 0, place > 0),
            "shard 1 is the measure of the others"
        );
        assert_eq!(log.record.begun_ns(), logs[0].record.begun_ns());
        assert!(
            log.requests
                .iter()
                .all(|request| request.moments().sent_ns >= Some(request.moments().due_ns))
        );
    }
    let ran = merge(&paths, &["--format", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let result: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(check_result(&result), Ok(()));
    let (said, shards) = (
        result["sobench"]["notices"].to_string(),
        result["sobench"]["shards"].as_array().unwrap(),
    );
    assert!(
        said.contains("the clocks of the shards were measured against shard 1's")
            && !said.contains("at one instant"),
        "{said}"
    );
    assert!(shards.iter().all(|shard| shard["begin_s"] == 0.0
        && shard["start"] == "coordinator"
        && shard["uncertainty_ns"].is_u64()));
    println!("{}", merge(&paths, &[]).stdout);
}

#[test]
fn another_plan_or_a_missing_shard_keeps_all_from_beginning() {
    let (server, folder, place) = (
        Scripted::answering(answer),
        tempfile::tempdir().unwrap(),
        free_port().to_string(),
    );
    let other = all(
        &server,
        2,
        folder.path(),
        &["--coordinator", &place],
        |number| {
            if number == 2 {
                vec!["--seed", "9"]
            } else {
                Vec::new()
            }
        },
    );
    for ran in &other {
        assert_fails(ran, 2, &["shard 2 has another plan than shard 1", "hint: "]);
    }
    let sent = server
        .requests()
        .iter()
        .filter(|request| request.line.starts_with("POST"))
        .count();
    assert_eq!(sent, 2, "nothing but the trial requests");
    let place = free_port().to_string();
    let log = folder.path().join("alone.jsonl");
    let alone = |part: &str| {
        shard(
            &server,
            part,
            log.to_str().unwrap(),
            &["--coordinator", &place, "--coordinator-timeout", "2"],
        )
    };
    assert_fails(
        &alone("1/3"),
        3,
        &["of 3 shards, within 2 s, did not join: 2, 3", "hint: "],
    );
    assert_fails(
        &alone("2/3"),
        3,
        &["shard 2/3 found no coordinator within 2 s", "hint: "],
    );
    assert!(!log.exists());
}

#[test]
fn a_begin_by_the_clock_is_kept_or_refused() {
    let (server, folder) = (Scripted::answering(answer), tempfile::tempdir().unwrap());
    let late = shard(
        &server,
        "1/2",
        folder.path().join("late.jsonl").to_str().unwrap(),
        &["--start-at", "2001-01-01T00:00:00Z"],
    );
    assert_fails(
        &late,
        3,
        &[
            "the begin of --start-at passed before the run was ready",
            "hint: ",
        ],
    );
    // As far away as a busy machine takes to get ready, and farther.
    let start_s = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
        + 30;
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
        let log = RunLog::read(path.as_ref(), Keep::WithoutTexts).unwrap();
        assert_eq!(
            Duration::from_nanos(log.record.started_unix_ns),
            Duration::from_secs(start_s)
        );
        let about = log.record.shard.as_ref().unwrap();
        assert_eq!((about.start, about.clock), (Start::StartAt, None));
    }
    for (arguments, words) in [
        (
            &["--start-at", "tomorrow"][..],
            "--start-at is no instant: tomorrow",
        ),
        (
            &["--coordinator", "nowhere"],
            "--coordinator is not HOST:PORT: nowhere",
        ),
        (
            &["--coordinator", "a:1", "--coordinator-timeout", "0"],
            "--coordinator-timeout is not a time: 0",
        ),
    ] {
        assert_fails(
            &shard(&server, "1/2", "none.jsonl", arguments),
            2,
            &[words, "hint: "],
        );
    }
}
