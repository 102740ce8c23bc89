//! The run, the report of its log and `score` give the same verdict on an answer, however it ended.

use serde_json::{Value, json};
use sobench_testkit::chat::{ChatAnswer, ChatCall, ChatReply, chat_server, prompt};

use crate::support::{Folder, custom_result, sobench, verdicts};

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

/// The answer to the row that the prompt names.
fn answer((_, content, calls, finish_reason, _): &Row) -> ChatReply {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let calls = calls.as_array().unwrap().iter().map(|call| ChatCall {
        id: text(&call["id"]),
        name: text(&call["function"]["name"]),
        arguments: text(&call["function"]["arguments"]),
    });
    let answer = ChatAnswer::from_text(*content);
    ChatAnswer {
        calls: calls.collect(),
        finish_reason,
        ..answer
    }
    .into()
}

/// The names of the verdicts that `score` writes.
fn scored(path: &str) -> Vec<String> {
    let ran = sobench(&["score", path, "--format jsonl"]);
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
    let of_prompt = rows.clone();
    let server =
        chat_server(move |body| answer(&of_prompt[prompt(body).parse::<usize>().unwrap()]));
    let folder = Folder::new();
    let log = folder.path("log.jsonl");
    let prompts = rows.iter().enumerate();
    let prompts: Vec<Value> = prompts
        .map(|(index, row)| with(row.0.clone(), json!({"prompt": index.to_string()})))
        .collect();
    let flags = "--backend openai-chat --model tiny --disable-stream --constraint-dialect structured-outputs";
    let flags = [flags, "--skip-preflight --run-log", &log];
    let (_, result) = custom_result(&server.base_url, &prompts, &flags);
    let expected: Vec<&str> = rows.iter().map(|row| row.4).collect();
    assert_eq!(verdicts(&result), expected, "the run");
    assert_eq!(scored(&log), expected, "score of the run log");
    let report = sobench(&["report", &log, "--format json"]);
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    for member in ["quality", "metrics"] {
        assert_eq!(report["sobench"][member], result["sobench"][member]);
    }
    let stored: Vec<Value> = rows
        .iter()
        .map(|(request, content, calls, reason, _)| {
            let answer = json!({"text": content, "tool_calls": calls, "finish_reason": reason});
            with(request.clone(), answer)
        })
        .collect();
    assert_eq!(
        scored(&folder.lines("stored.jsonl", &stored)),
        expected,
        "score of rows"
    );
}
