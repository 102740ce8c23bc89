//! Damaged run logs: `report`, `score` and `compare` name the line, or read the valid part.

use serde_json::Value;
use sobench_testkit::repository_path;

use super::bounded;

fn lines() -> Vec<String> {
    let text = std::fs::read_to_string(repository_path("fixtures/runs/v2.jsonl")).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Runs the three commands on a log with these lines. All report `message`, or all succeed if it is
/// `None`.
#[track_caller]
fn check(lines: &[String], message: Option<&str>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    let path = path.to_str().unwrap().to_owned();
    let good = repository_path("fixtures/runs/v2.jsonl")
        .to_str()
        .unwrap()
        .to_owned();
    let report = |form: &str| {
        ["report", &path, "--format", form]
            .map(str::to_owned)
            .to_vec()
    };
    let commands = [
        report("text"),
        report("html"),
        report("csv"),
        vec!["report".to_owned(), path.clone(), "--plot".to_owned()],
        vec!["score".to_owned(), path.clone()],
        vec![
            "compare".to_owned(),
            good,
            path,
            "--resamples".to_owned(),
            "1000".to_owned(),
        ],
    ];
    for command in &commands {
        let ran = bounded(command);
        assert!(
            !ran.stderr.contains("panicked"),
            "{command:?}\n{}",
            ran.stderr
        );
        match message {
            Some(message) => {
                assert_eq!(
                    (ran.code, ran.stdout.as_str()),
                    (2, ""),
                    "{command:?}\n{}",
                    ran.stderr
                );
                assert!(
                    ran.stderr.contains(message) && ran.stderr.contains("run.jsonl"),
                    "{message:?} is not in\n{}",
                    ran.stderr
                );
                assert_eq!(
                    ran.stderr.lines().count(),
                    2,
                    "not one line of error and one of hint:\n{}",
                    ran.stderr
                );
            }
            None => {
                // Different settings are not comparable (exit code 4), which is a valid result.
                let is_answered = ran.code == 0 || (command[0] == "compare" && ran.code == 4);
                assert!(
                    is_answered && !ran.stdout.is_empty(),
                    "{command:?}\n{}",
                    ran.stderr
                );
            }
        }
    }
}

/// The log with the member at `path` of its first (or every) line of this kind set to `value`.
fn with_value(kind: &str, path: &str, value: &str, all: bool) -> Vec<String> {
    let mut is_done = false;
    let change = |line: String| {
        let mut read: Value = serde_json::from_str(&line).unwrap();
        if read.get(kind).is_none() || (is_done && !all) {
            return line;
        }
        is_done = true;
        *read.pointer_mut(&format!("/{kind}{path}")).unwrap() =
            serde_json::from_str(value).unwrap();
        read.to_string()
    };
    lines().into_iter().map(change).collect()
}

#[test]
fn misplaced_lines_are_reported() {
    let whole = lines();
    let put =
        |index: usize, line: &str| [&whole[..index], &[line.to_owned()], &whole[index..]].concat();
    let footer = whole.len();
    for (lines, message) in [
        (put(1, &whole[0]), ", line 2: second header"),
        (
            [&whole[..], &whole[..]].concat(),
            ", line 21: second header: the file contains the logs of two runs",
        ),
        (
            put(5, "{\"request\": {\"index\": "),
            ", line 6: not a line of a run log (EOF while parsing a value at column 21)",
        ),
        (
            put(5, "\u{1b}[2Jgarbage"),
            ", line 6: not a line of a run log (expected value at column 1): \\u{1b}[2Jgarbage",
        ),
        (put(footer, &whole[1]), ", line 21: line after the footer"),
        (put(4, &whole[3]), "duplicate request number: 0"),
        (
            put(3, &whole[footer - 2]),
            ", line 4: verdict for an unknown request",
        ),
        (
            [&whole[..1], &whole[3..]].concat(),
            ", line 2: unknown prompt: 0",
        ),
        (
            [&whole[..4], &whole[5..]].concat(),
            "verdict for an unknown request",
        ),
    ] {
        check(&lines, Some(message));
    }
}

#[test]
fn the_order_in_which_requests_ended_does_not_matter() {
    let mut whole = lines();
    let is = |kind: &'static str| move |line: &String| line.starts_with(&format!("{{\"{kind}\""));
    let first = whole.iter().position(is("request")).unwrap();
    let count = whole.iter().filter(|line| is("request")(line)).count();
    whole[first..first + count].reverse();
    check(&whole, None);
}

#[test]
fn invalid_versions_and_numbers_are_refused() {
    for (path, value, message) in [
        (
            "/version",
            "1",
            "unsupported run log version 1 (supported: 2)",
        ),
        (
            "/version",
            "3",
            "unsupported run log version 3 (supported: 2)",
        ),
        ("/version", "1e300", "the header has no version"),
        ("/version", "\"1\"", "the header has no version"),
        (
            "/record/dataset/requests",
            "1e300",
            "line 1, header: invalid number",
        ),
        ("/record/dataset/requests", "-1", "line 1, header: "),
        (
            "/record/settings/dataset/seed",
            "18446744073709551616",
            "line 1, header: ",
        ),
        (
            "/record/settings/load/request_timeout_s",
            "-1",
            "line 1, header: ",
        ),
        ("/record", "[]", "line 1, header: "),
    ] {
        check(&with_value("header", path, value, false), Some(message));
    }
    check(
        &with_value("request", "/index", "18446744073709551615", false),
        Some(", line 4: invalid request number"),
    );
    check(
        &with_value("footer", "/requests", "9223372036854775808", false),
        Some("the run log has 8 requests, but its footer says 9223372036854775808"),
    );
}

#[test]
fn extreme_numbers_do_not_panic() {
    const MOST: &str = "18446744073709551615";
    for (kind, path, value) in [
        ("header", "/record/dataset/requests", MOST),
        ("header", "/record/dataset/requests", "1000000000000"),
        ("header", "/record/started_unix_ns", MOST),
        ("header", "/record/settings/load/pace/steady", "1e300"),
        ("header", "/record/settings/load/max_concurrency", MOST),
        (
            "header",
            "/record/settings/load/steady_state_threshold",
            "1e300",
        ),
        ("header", "/record/settings/load/drain_timeout_s", "1e18"),
        ("footer", "/duration_ns", MOST),
        ("footer", "/duration_ns", "0"),
        ("request", "/timing/due_ns", MOST),
        ("request", "/timing/sent_ns", MOST),
        ("request", "/timing/end_ns", MOST),
        ("request", "/timing/end_ns", "0"),
        (
            "request",
            "/timing/chunk_gaps_ns",
            "[-9223372036854775808, -9223372036854775808]",
        ),
        (
            "request",
            "/timing/chunk_gaps_ns",
            "[9223372036854775807, 9223372036854775807]",
        ),
        ("request", "/output_len", "0"),
    ] {
        check(&with_value(kind, path, value, true), None);
    }
    check(
        &with_value("request", "/timing/end_ns", "3153600000000000000", false),
        None,
    );
}
