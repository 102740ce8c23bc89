//! The command `sobench score`: killed run logs, rows of other tools, and standard input.
//! `fixtures/frozen` has its pages.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};
use sobench_testkit::repository_path;

use crate::support::{Folder, Ran, assert_follows, program, sobench};

/// The lines that `score` printed or wrote, validated against their contract.
fn verdicts(text: &str) -> Vec<Value> {
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<Value> = lines.collect();
    for line in &lines {
        assert_follows("verdict", line);
    }
    lines
}

/// The lines of a run log without verdicts and footer, as after a kill, in the order of `order`.
fn killed_log(order: impl Fn(&mut Vec<&str>)) -> String {
    let text =
        std::fs::read_to_string(repository_path("fixtures/frozen/runs/fast-1.jsonl")).unwrap();
    let is_request = |line: &&str| line.starts_with("{\"request\"");
    let mut requests: Vec<&str> = text.lines().filter(is_request).collect();
    order(&mut requests);
    let is_end = |line: &&str| line.starts_with("{\"judged\"") || line.starts_with("{\"footer\"");
    let others = text
        .lines()
        .filter(|line| !is_request(line) && !is_end(line));
    let lines: Vec<&str> = others.chain(requests).collect();
    lines.join("\n") + "\n"
}

#[test]
fn requests_of_a_killed_run_are_scored_in_plan_order() {
    let folder = Folder::new();
    let by_end = |_: &mut Vec<&str>| {};
    let found = [
        killed_log(by_end),
        // Lines far from each other: requests are read from places all over the file.
        killed_log(|requests| requests.reverse()),
        killed_log(|requests| requests.sort_by_key(|line| line.len() % 7)),
    ]
    .map(|log| {
        let path = folder.file("run.jsonl", log);
        let lines = sobench(&["score", &path, "--format jsonl"]).stdout;
        for (index, line) in verdicts(&lines).iter().enumerate() {
            assert_eq!(line["id"], format!("json-{index}"));
        }
        assert_eq!(lines.lines().count(), 60);
        let ran = sobench(&["score", &path, "--format json"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        (ran.stdout, lines)
    });
    assert!(found[1] == found[0] && found[2] == found[0]);
    let report: Value = serde_json::from_str(&found[0].0).unwrap();
    let file = &report["files"][0];
    assert_eq!(
        (&file["claims"], &file["notices"][0]),
        (&json!([]), &json!("the run ended early"))
    );
}

/// The members of each line with these names.
fn members<const N: usize>(lines: &[Value], names: [&str; N]) -> Value {
    let of_line = |line: &Value| names.map(|name| line[name].clone()).to_vec();
    lines.iter().map(of_line).collect()
}

#[test]
fn every_answer_gets_a_verdict_line() {
    let folder = Folder::new();
    let lines = [
        r#"{"id": 7, "team": "a", "constraint": {"json": {"type": "integer"}}, "text": "1"}"#,
        r#"{"id": "x", "json": {"properties": {"n": {"type": "integer"}}}, "text": "{\"n\":\"1\"}"}"#,
        r#"{"regex": "a+", "text": "b", "valid": "from elsewhere"}"#,
        r#"{"structural_tag": {}, "text": "?"}"#,
    ];
    let (rows, verdicts_path) = (
        folder.file("rows.jsonl", lines.join("\n")),
        folder.path("v.jsonl"),
    );
    let ran = sobench(&["score", &rows, "--save", &verdicts_path]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let written = folder.read("v.jsonl");
    // Verdicts can be scored again.
    for path in [&rows, &verdicts_path] {
        let printed = sobench(&["score", path, "--format jsonl"]);
        assert_eq!((printed.code, &printed.stdout), (0, &written));
    }
    let values = verdicts(&written);
    let expected = json!([
        [7, true, null, null],
        ["x", false, "schema", "/n"],
        [null, false, "regex", null],
        [null, null, "unsupported", null],
    ]);
    assert_eq!(
        members(&values, ["id", "valid", "reason", "path"]),
        expected
    );
    assert_eq!(
        (&values[0]["team"], &values[2]["input"]["valid"]),
        (&json!("a"), &json!("from elsewhere"))
    );
}

#[test]
fn a_bad_row_is_reported_and_stdin_is_read() {
    let rows = "{\"regex\": \"a\", \"text\": null, \"message\": \"kept\"}\n{\"regex\": \"a\", \"text\": \"a\"}\n?\n";
    let mut command = program(&["score", "-", "--format jsonl"]);
    let piped = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(rows.as_bytes())
        .unwrap();
    let ran = Ran::from(child.wait_with_output().unwrap());
    ran.assert_exits(
        2,
        &[
            "error: 2 of 3 rows cannot be judged; the first is stdin, line 1",
            "\nhint: ",
        ],
    );
    let lines = verdicts(&ran.stdout);
    let expected = json!([[null, "unreadable"], [true, null], [null, "unreadable"]]);
    assert_eq!(members(&lines, ["valid", "reason"]), expected);
    assert_eq!(
        (&lines[0]["input"]["message"], &lines[2]["id"]),
        (&json!("kept"), &json!("line 3"))
    );
}
