//! Run logs that are damaged in ways of their own: `report`, `score` and `compare` say the line, or
//! read what is there.

use serde_json::Value;
use sobench_testkit::in_package;

use super::bounded;

fn lines() -> Vec<String> {
    let text = std::fs::read_to_string(in_package("fixtures/runs/v2.jsonl")).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// What the three say of a log with these lines: code, stdout and stderr of each.
#[track_caller]
fn check(lines: &[String], words: Option<&str>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    let path = path.to_str().unwrap().to_owned();
    let good = in_package("fixtures/runs/v2.jsonl")
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
        match words {
            Some(words) => {
                assert_eq!(
                    (ran.code, ran.stdout.as_str()),
                    (2, ""),
                    "{command:?}\n{}",
                    ran.stderr
                );
                assert!(
                    ran.stderr.contains(words) && ran.stderr.contains("run.jsonl"),
                    "{words:?} is not in\n{}",
                    ran.stderr
                );
                assert_eq!(
                    ran.stderr.lines().count(),
                    2,
                    "an error is a line, and a hint is another:\n{}",
                    ran.stderr
                );
            }
            None => {
                // Settings that differ are not comparable (4), which is an answer.
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

/// The log with the member at `path` of its first line of this kind, or of all, put to `value`.
fn with(kind: &str, path: &str, value: &str, all: bool) -> Vec<String> {
    let mut is_done = false;
    let spoil = |line: String| {
        let mut read: Value = serde_json::from_str(&line).unwrap();
        if read.get(kind).is_none() || (is_done && !all) {
            return line;
        }
        is_done = true;
        *read.pointer_mut(&format!("/{kind}{path}")).unwrap() =
            serde_json::from_str(value).unwrap();
        read.to_string()
    };
    lines().into_iter().map(spoil).collect()
}

#[test]
fn lines_that_do_not_belong_are_named() {
    let whole = lines();
    let put =
        |place: usize, line: &str| [&whole[..place], &[line.to_owned()], &whole[place..]].concat();
    let footer = whole.len();
    for (lines, words) in [
        (put(1, &whole[0]), ", line 2: a second header"),
        (
            [&whole[..], &whole[..]].concat(),
            ", line 21: a second header: the logs of two runs are in one file",
        ),
        (
            put(5, "{\"request\": {\"index\": "),
            ", line 6: not a line of a run log (EOF while parsing a value at column 21)",
        ),
        (
            put(5, "\u{1b}[2Jgarbage"),
            ", line 6: not a line of a run log (expected value at column 1): \\u{1b}[2Jgarbage",
        ),
        (
            put(footer, &whole[1]),
            ", line 21: something follows the footer",
        ),
        (put(4, &whole[3]), "two requests of one number: 0"),
        (
            put(3, &whole[footer - 2]),
            ", line 4: a verdict on a request that is not there",
        ),
        (
            [&whole[..1], &whole[3..]].concat(),
            ", line 2: no such prompt: 0",
        ),
        (
            [&whole[..4], &whole[5..]].concat(),
            "a verdict on a request that is not there",
        ),
    ] {
        check(&lines, Some(words));
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
fn versions_and_numbers_that_cannot_be_are_refused() {
    for (path, value, words) in [
        ("/version", "1", "this run log has version 1, and 2 is read"),
        ("/version", "3", "this run log has version 3, and 2 is read"),
        ("/version", "1e300", "its header has no version"),
        ("/version", "\"1\"", "its header has no version"),
        (
            "/record/dataset/requests",
            "1e300",
            "line 1, its header: invalid number",
        ),
        ("/record/dataset/requests", "-1", "line 1, its header: "),
        (
            "/record/settings/dataset/seed",
            "18446744073709551616",
            "line 1, its header: ",
        ),
        (
            "/record/settings/load/request_timeout_s",
            "-1",
            "line 1, its header: ",
        ),
        ("/record", "[]", "line 1, its header: "),
    ] {
        check(&with("header", path, value, false), Some(words));
    }
    check(
        &with("request", "/index", "18446744073709551615", false),
        Some(", line 4: no number of a request"),
    );
    check(
        &with("footer", "/requests", "9223372036854775808", false),
        Some("8 requests are in a run log that ended with 9223372036854775808"),
    );
}

#[test]
fn numbers_that_are_absurd_bring_nothing_down() {
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
        check(&with(kind, path, value, true), None);
    }
    check(
        &with("request", "/timing/end_ns", "3153600000000000000", false),
        None,
    );
}
