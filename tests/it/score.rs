//! The command `sobench score`: files of other tools, and run logs.

use serde_json::{Value, json};
use sobench_testkit::repository_path;

use crate::support::{assert_follows, sobench};

fn check(text: &str) -> Value {
    check_against("score", text)
}

fn check_against(contract: &str, text: &str) -> Value {
    let value: Value = serde_json::from_str(text).unwrap();
    assert_follows(contract, &value);
    value
}

fn fixture(name: &str) -> String {
    repository_path(&format!("fixtures/runs/{name}"))
        .to_str()
        .unwrap()
        .to_owned()
}

#[test]
fn structured_output_script_answers_are_judged_by_the_full_schema() {
    let ran = sobench(&["score", &fixture("script.json"), "--dataset", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    insta::with_settings!({filters => vec![(r"\S*fixtures/", "fixtures/")]}, {
        insta::assert_snapshot!("score_script", ran.stdout);
    });
}

#[test]
fn every_layout_keeps_the_contract() {
    let log = fixture("v2.jsonl");
    for arguments in [
        &[log.as_str()][..],
        &[&fixture("rows.jsonl"), &log],
        &[
            &fixture("script.json"),
            "--json-schema",
            "nested",
            "--structured-output-ratio",
            "0.4",
        ],
    ] {
        let ran = sobench(&[&["score", "--format", "json"], arguments].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let value = check(&ran.stdout);
        assert!(!value["files"].as_array().unwrap().is_empty());
    }
}

#[test]
fn run_log_gets_the_same_verdicts() {
    let value = check(&sobench(&["score", "--format", "json", &fixture("v2.jsonl")]).stdout);
    let file = &value["files"][0];
    assert_eq!(
        (file["kind"].as_str(), file["answers"].as_u64()),
        (Some("run_log"), Some(8))
    );
    assert_eq!(
        file["claims"][0]["percent"].as_f64(),
        file["correct_rate"]["percent"].as_f64()
    );
    let agreement = &file["agreement"];
    assert_eq!(
        (
            agreement["only_file"]["count"].as_u64(),
            agreement["only_ours"]["count"].as_u64()
        ),
        (Some(0), Some(0)),
        "the verdicts agree with those in the log"
    );
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
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl").display().to_string();
    let mut found = Vec::new();
    let by_end = |_: &mut Vec<&str>| {};
    for log in [
        killed_log(by_end),
        // Lines far from each other: requests are read from places all over the file.
        killed_log(|requests| requests.reverse()),
        killed_log(|requests| requests.sort_by_key(|line| line.len() % 7)),
    ] {
        std::fs::write(&path, log).unwrap();
        let ran = sobench(&["score", &path, "--format", "json"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let lines = sobench(&["score", &path, "--format", "jsonl"]);
        let ids: Vec<Value> = lines
            .stdout
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].clone())
            .collect();
        let planned: Vec<Value> = (0..60)
            .map(|index| format!("json-{index}").into())
            .collect();
        assert_eq!(ids, planned);
        found.push((check(&ran.stdout), lines.stdout));
    }
    assert!(found[1] == found[0] && found[2] == found[0]);
    let file = &found[0].0["files"][0];
    assert_eq!(
        (&file["claims"], &file["notices"][0]),
        (&json!([]), &json!("the run ended early")),
        "{file}"
    );
}

#[test]
fn a_damaged_line_in_a_run_log_is_named_by_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl").display().to_string();
    let log = killed_log(|requests| requests[30] = "{\"request\": {\"index\": 30");
    std::fs::write(&path, log).unwrap();
    for arguments in [
        &["score", &path][..],
        &["report", &path],
        &["compare", &path, &path],
    ] {
        let ran = sobench(arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{arguments:?}");
        // After the header, a prompt and a constraint.
        assert!(
            ran.stderr
                .contains("run.jsonl, line 34: not a line of a run log (EOF")
                && ran.stderr.contains("\nhint: "),
            "{arguments:?}: {}",
            ran.stderr
        );
    }
}

#[test]
fn a_file_without_constraints_needs_a_dataset() {
    let ran = sobench(&["score", &fixture("script.json")]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    assert!(
        ran.stderr.contains("no constraints in this file") && ran.stderr.contains("--dataset"),
        "{}",
        ran.stderr
    );
}

#[test]
fn every_answer_gets_a_verdict_line() {
    let folder = tempfile::tempdir().unwrap();
    let (rows, verdicts) = (
        folder.path().join("rows.jsonl"),
        folder.path().join("v.jsonl"),
    );
    let lines = [
        r#"{"id": 7, "team": "a", "constraint": {"json": {"type": "integer"}}, "text": "1"}"#,
        r#"{"id": "x", "json": {"properties": {"n": {"type": "integer"}}}, "text": "{\"n\":\"1\"}"}"#,
        r#"{"regex": "a+", "text": "b", "valid": "from elsewhere"}"#,
        r#"{"structural_tag": {}, "text": "?"}"#,
    ];
    std::fs::write(&rows, lines.join("\n")).unwrap();
    let rows = rows.to_str().unwrap();
    let ran = sobench(&["score", rows, "--output", verdicts.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("correct rate"), "{}", ran.stdout);
    let written = std::fs::read_to_string(&verdicts).unwrap();
    let printed = sobench(&["score", rows, "--format", "jsonl"]);
    assert_eq!((printed.code, &printed.stdout), (0, &written));
    let values: Vec<Value> = written
        .lines()
        .map(|line| check_against("verdict", line))
        .collect();
    let member = |name: &str| {
        values
            .iter()
            .map(|value| value[name].clone())
            .collect::<Value>()
    };
    assert_eq!(
        member("valid"),
        serde_json::json!([true, false, false, null])
    );
    assert_eq!(
        member("reason"),
        serde_json::json!([null, "schema", "regex", "unsupported"])
    );
    assert_eq!(member("path"), serde_json::json!([null, "/n", null, null]));
    assert_eq!(member("id"), serde_json::json!([7, "x", null, null]));
    assert_eq!(values[0]["team"], "a");
    assert_eq!(values[2]["input"]["valid"], "from elsewhere");
    assert!(
        values[1]["message"].as_str().unwrap().contains("/n"),
        "{written}"
    );
    let again = sobench(&["score", verdicts.to_str().unwrap(), "--format", "jsonl"]);
    assert_eq!(
        (again.code, &again.stdout),
        (0, &written),
        "verdicts can be scored again"
    );
}

#[test]
fn answers_of_other_layouts_get_their_id_and_file() {
    let (log, script) = (fixture("v2.jsonl"), fixture("script.json"));
    let ran = sobench(&[
        "score",
        &log,
        &script,
        "--dataset",
        "json",
        "--format",
        "jsonl",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let values: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| check_against("verdict", line))
        .collect();
    assert!(
        values
            .iter()
            .all(|value| value["id"].is_string() && value["text"].is_string())
    );
    let of_log = values
        .iter()
        .filter(|value| value["file"].as_str() == Some(&log))
        .count();
    assert_eq!(of_log, 8, "{}", ran.stdout);
    assert!(values.len() > of_log);
}

#[test]
fn a_bad_row_is_reported_and_stdin_is_read() {
    let rows = "{\"regex\": \"a\", \"text\": null, \"message\": \"kept\"}\n{\"regex\": \"a\", \"text\": \"a\"}\n?\n";
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_sobench"))
        .args(["score", "-", "--format", "jsonl"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), rows.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("error: 2 of 3 rows cannot be judged; the first is stdin, line 1")
            && stderr.contains("hint: "),
        "{stderr}"
    );
    let lines: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| check_against("verdict", line))
        .collect();
    let found: Vec<(&Value, &Value)> = lines
        .iter()
        .map(|line| (&line["valid"], &line["reason"]))
        .collect();
    assert_eq!(
        serde_json::to_value(&found).unwrap(),
        serde_json::json!([[null, "unreadable"], [true, null], [null, "unreadable"]])
    );
    assert_eq!(lines[0]["input"]["message"], "kept");
    assert_eq!(lines[2]["id"], "line 3");
}
