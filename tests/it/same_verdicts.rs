//! The run, the report of its log and `score` give the same verdict on an answer, however it ended.

use std::path::Path;

use serde_json::{Value, json};
use sobench_testkit::scripted::{Request, ScriptedServer, models, whole};

use crate::support::{sobench, sobench_result};

/// An answer: the constraint and the request's other members, the content, the calls, the finish
/// reason, and the name of its verdict.
type Row = (Value, &'static str, Value, &'static str, &'static str);

fn rows() -> Vec<Row> {
    let city = json!({"json": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 5}},
        "required": ["city"], "additionalProperties": false}});
    let tool = json!({"type": "function", "function": {"name": "get_weather", "strict": true,
        "parameters": city["json"]}});
    let tools = |choice: &str| json!({"tools": [tool], "tool_choice": choice});
    let call = |index: usize, arguments: &str| {
        json!({"index": index, "id": format!("call_{index}"), "type": "function",
            "function": {"name": "get_weather", "arguments": arguments}})
    };
    let calls = |count: usize, last: &str| -> Value {
        let arguments = |index| {
            if index + 1 == count {
                last
            } else {
                r#"{"city": "Oslo"}"#
            }
        };
        (0..count)
            .map(|index| call(index, arguments(index)))
            .collect()
    };
    let oslo = r#"{"city": "Oslo"}"#;
    let grammar = json!({"grammar": "start: \"SELECT \" (\"a\" | \"b\")",
        "grammar_oracle": "start = { \"SELECT \" ~ (\"a\" | \"b\") }"});
    let unknown = json!({"json": {"$ref": "https://example.com/schema.json"}});
    let none = || json!([]);
    vec![
        (city.clone(), oslo, none(), "stop", "valid"),
        (city.clone(), oslo, none(), "stop_163586", "valid"),
        (
            city.clone(),
            "{\"city\": \"Os",
            none(),
            "length",
            "truncated",
        ),
        (city.clone(), "{\"city\": \"Os", none(), "stop", "not_json"),
        (
            city.clone(),
            "{\"city\": \"Trondheim",
            none(),
            "length",
            "schema",
        ),
        (city.clone(), "{\"town", none(), "length", "schema"),
        (city.clone(), oslo, none(), "length", "truncated"),
        (city, oslo, none(), "abort", "failed"),
        (unknown.clone(), "{", none(), "length", "unsupported"),
        (unknown, "{}", none(), "stop", "unsupported"),
        (
            grammar.clone(),
            "```sql\nSELECT a",
            none(),
            "length",
            "grammar",
        ),
        (grammar.clone(), "SELECT ", none(), "length", "truncated"),
        (grammar, "SELECT a", none(), "stop", "valid"),
        (
            json!({"regex": "[a-c]+x"}),
            "abc",
            none(),
            "length",
            "truncated",
        ),
        (
            json!({"regex": "[a-c]+x"}),
            "abd",
            none(),
            "length",
            "regex",
        ),
        (
            json!({"choice": ["yes", "no"]}),
            "ye",
            none(),
            "length",
            "truncated",
        ),
        (
            json!({"choice": ["yes", "no"]}),
            "Ye",
            none(),
            "length",
            "choice",
        ),
        (tools("required"), "", calls(9, oslo), "length", "truncated"),
        (
            tools("required"),
            "",
            calls(2, "{\"ci"),
            "length",
            "truncated",
        ),
        (
            tools("required"),
            "",
            calls(2, "{\"ci"),
            "tool_calls",
            "invalid_arguments",
        ),
        (
            tools("required"),
            "",
            calls(1, "{\"town\": "),
            "length",
            "invalid_arguments",
        ),
        (
            tools("auto"),
            "",
            calls(1, oslo),
            "stop",
            "wrong_finish_reason",
        ),
        (tools("auto"), "", calls(1, oslo), "tool_calls", "valid"),
        (
            tools("auto"),
            "<tool_call>\n{\"name\": \"get_w",
            none(),
            "length",
            "truncated",
        ),
        (
            tools("auto"),
            "<tool_call>\n{\"name\": \"get_w",
            none(),
            "stop",
            "leaked_markup",
        ),
        (tools("required"), "", none(), "length", "truncated"),
        (tools("required"), "It is", none(), "stop", "missing_call"),
    ]
}

/// The response to the row that the prompt names.
fn response(rows: &[Row], request: &Request) -> String {
    if request.is_model_list() {
        return models();
    }
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let prompt = body["messages"][0]["content"].as_str().unwrap_or_default();
    let Some((_, content, calls, reason, _)) =
        prompt.parse().ok().and_then(|row: usize| rows.get(row))
    else {
        return whole("404 Not Found", "text/plain", "");
    };
    let message = json!({"role": "assistant", "content": content, "tool_calls": calls});
    let choice = json!({"index": 0, "message": message, "finish_reason": reason});
    let answer = json!({ "choices": [choice] }).to_string();
    whole("200 OK", "application/json", &answer)
}

fn write_lines(path: &Path, lines: impl Iterator<Item = Value>) {
    let lines: Vec<String> = lines.map(|line| line.to_string()).collect();
    std::fs::write(path, lines.join("\n")).unwrap();
}

/// The names of the verdicts that `score` writes.
fn scored(path: &Path) -> Vec<String> {
    let ran = sobench(&["score", path.to_str().unwrap(), "--format", "jsonl"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let name = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["reason"].as_str().unwrap_or("valid").to_owned()
    };
    ran.stdout.lines().map(name).collect()
}

fn with(mut row: Value, more: Value) -> Value {
    if let Value::Object(more) = more {
        row.as_object_mut().unwrap().extend(more);
    }
    row
}

#[test]
fn run_report_and_score_agree_on_every_ending() {
    let rows = rows();
    let folder = tempfile::tempdir().unwrap();
    let (data, log) = (
        folder.path().join("rows.jsonl"),
        folder.path().join("log.jsonl"),
    );
    let prompts = rows.iter().enumerate();
    write_lines(
        &data,
        prompts.map(|(index, row)| with(row.0.clone(), json!({"prompt": index.to_string()}))),
    );
    let server = {
        let rows = rows.clone();
        ScriptedServer::answering(move |request: &Request| response(&rows, request))
    };
    let count = rows.len().to_string();
    let (ran, result) = sobench_result(&[
        "--backend",
        "openai-chat",
        "--base-url",
        &server.base_url,
        "--model",
        "tiny",
        "--dataset",
        "custom",
        "--dataset-path",
        data.to_str().unwrap(),
        "--num-prompts",
        &count,
        "--max-concurrency",
        "1",
        "--num-warmups",
        "0",
        "--disable-stream",
        "--constraint-dialect",
        "structured-outputs",
        "--skip-preflight",
        "--save-detailed",
        "--run-log",
        log.to_str().unwrap(),
    ]);
    let name = |output: &Value| {
        let verdict = &output["verdict"];
        let reason = &verdict["reason"];
        let names = [
            &reason["fault"],
            &reason["reason"],
            &verdict["reason"],
            &verdict["why"]["why"],
            &verdict["why"],
        ];
        let name = names.into_iter().find_map(Value::as_str);
        name.unwrap_or("valid").to_owned()
    };
    let outputs = |result: &Value| -> Vec<String> {
        let outputs = result["outputs"].as_array();
        outputs
            .unwrap_or_else(|| panic!("{}", ran.stderr))
            .iter()
            .map(name)
            .collect()
    };
    let expected: Vec<&str> = rows.iter().map(|row| row.4).collect();
    assert_eq!(outputs(&result), expected, "the run: {}", ran.stderr);
    assert_eq!(scored(&log), expected, "score of the run log");
    let report = sobench(&["report", log.to_str().unwrap(), "--format", "json"]);
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    assert_eq!(
        report["sobench"]["quality"], result["sobench"]["quality"],
        "the report"
    );

    let stored = folder.path().join("stored.jsonl");
    write_lines(
        &stored,
        rows.iter().map(|(request, content, calls, reason, _)| {
            let answer = json!({"text": content, "tool_calls": calls, "finish_reason": reason});
            with(request.clone(), answer)
        }),
    );
    assert_eq!(scored(&stored), expected, "score of rows");
}
