//! Tests of the limits of `sobench serve`: each planted fault is named, and none on a server without
//! one. The server is a process of its own, because its CPU time counts.

use sobench_tools::limits::{End, Ladder, ServerLimits, StepOutcome, Verdict};

use super::limits_command::limits;
use crate::support::{Folder, ServeProcess};

/// Seconds that are enough for every step without a planted fault.
const LONG: &str = "60";

/// The limits of a server with these faults.
fn served(faults: &[&str], ladders: &str, step_timeout_s: &str) -> ServerLimits {
    let mut flags = Vec::new();
    for fault in faults {
        flags.extend(["--fault", fault]);
    }
    let server = ServeProcess::start(&flags);
    let folder = Folder::new();
    let file = folder.path("limits.json");
    let ran = limits(&[
        "--base-url",
        &server.base_url,
        "--ladder",
        ladders,
        "--step-timeout",
        step_timeout_s,
        "--save",
        &file,
    ]);
    let found: ServerLimits =
        serde_json::from_value(folder.json("limits.json")["servers"][0].clone()).unwrap();
    let code = i32::from(found.bad_ladders().count() > 0);
    assert_eq!(ran.code, code, "{}{}", ran.stdout, ran.stderr);
    found
}

fn largest(ladder: &Ladder) -> u64 {
    ladder.largest().map_or(0, |step| step.size)
}

#[test]
fn a_server_without_faults_gets_no_bad_verdict() {
    let ladders = "nesting-depth,oneof-width,max-items,regex-repeats,tools";
    let found = served(&[], ladders, LONG);
    assert_eq!(found.bad_ladders().count(), 0, "{found:?}");
    let [nesting, width, items, repeats, tools] = &found.ladders[..] else {
        panic!("{found:?}")
    };
    assert_eq!((largest(nesting), nesting.end), (16, End::Refused));
    assert_eq!(nesting.verdicts, [Verdict::FailsFast]);
    let refused = nesting.steps.last().unwrap();
    assert_eq!((refused.size, refused.status), (32, Some(400)));
    assert!(
        refused.message.contains("JSON nesting of 65"),
        "{refused:?}"
    );
    assert!(largest(width) >= 1000, "{width:?}");
    for ladder in [items, repeats] {
        assert_eq!((largest(ladder), ladder.end), (1_000_000, End::LargestSize));
    }
    assert_eq!(tools.end, End::NotCarried);
    assert_eq!(tools.verdicts, [Verdict::NotCarried]);
    assert!(
        tools.reason.as_ref().unwrap().contains("tools"),
        "{tools:?}"
    );
    let beside = items.steps[0].neighbours.unwrap();
    assert_eq!((beside.requests > 0, beside.failed), (true, 0));
    if cfg!(target_os = "linux") {
        assert!(items.steps[0].memory_before_bytes.unwrap() > 1 << 20);
    }
}

/// 100 ms a KiB: 1 s for an enum of 1,000 values, and 3 s for 3,000.
const SLOW: &str = "slow-compile:100";

/// Seconds that are enough for 1,000 values, and not for 3,000.
const SHORT: &str = "2";

#[test]
fn a_slow_compile_alone_is_slow() {
    let found = served(&[SLOW], "enum-size", SHORT);
    let ladder = &found.ladders[0];
    assert_eq!((largest(ladder), ladder.end), (1000, End::TimedOut));
    let cancelled = ladder.cancelled.unwrap();
    assert_eq!(cancelled.size, 3000);
    assert!(
        cancelled.recovered_ms.is_some() && !cancelled.is_working,
        "{cancelled:?}"
    );
    assert_eq!(ladder.verdicts, [Verdict::Slow]);
}

#[test]
fn a_compile_that_blocks_other_requests_is_named() {
    let faults = [SLOW, "stall-neighbours"];
    let found = served(&faults, "enum-size", SHORT);
    let ladder = &found.ladders[0];
    assert!(
        ladder.verdicts.contains(&Verdict::StallsOthers),
        "{ladder:?}"
    );
    // 300 values take hardly longer than the least stall.
    let stalling = ladder.steps.iter().find(|step| step.stalls_others);
    assert!(
        stalling.is_some_and(|step| matches!(step.size, 300 | 1000)),
        "{ladder:?}"
    );
}

#[test]
fn a_compile_that_goes_on_after_its_request_is_named() {
    let faults = [SLOW, "zombie-compile"];
    let found = served(&faults, "enum-size", SHORT);
    let ladder = &found.ladders[0];
    assert_eq!(ladder.verdicts, [Verdict::KeepsCompiling, Verdict::Slow]);
    let cancelled = ladder.cancelled.unwrap();
    assert!(
        cancelled.is_working && cancelled.recovered_ms.is_some(),
        "{cancelled:?}"
    );
}

#[test]
fn a_server_that_dies_is_named_and_tested_no_more() {
    let found = served(&["die-on-large:5000"], "enum-size,max-items", LONG);
    let [died, after] = &found.ladders[..] else {
        panic!("{found:?}")
    };
    assert_eq!((largest(died), died.end), (300, End::Died));
    assert_eq!(died.verdicts, [Verdict::Dies]);
    assert_eq!(died.steps.last().unwrap().outcome, StepOutcome::Lost);
    assert_eq!((after.end, after.steps.len()), (End::NotTested, 0));
    let reason = after.reason.as_ref().unwrap();
    assert!(
        reason.contains("accepts no connections") && reason.contains("size 1000"),
        "{reason}"
    );
}
