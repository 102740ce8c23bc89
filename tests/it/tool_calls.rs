//! Tools are sent in both arms, and the tool calls of answers are judged, streamed and whole.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sobench_testkit::scripted::{Request, ScriptedServer, models, whole};

use crate::support::{check_result, sobench_result};

/// The prompt of a row, its `tool_choice`, its expected calls, and the reason or `valid`.
const ROWS: [(&str, &str, Option<&str>, &str); 9] = [
    ("right", "auto", Some(RIGHT), "valid"),
    ("text", "auto", Some(NO_CALL), "valid"),
    ("right", "none", Some(NO_CALL), "call_under_none"),
    ("text", "required", None, "missing_call"),
    ("text", "auto", Some(RIGHT), "valid"),
    ("arguments", "auto", Some(RIGHT), "invalid_arguments"),
    ("leak", "auto", None, "leaked_markup"),
    ("ids", "auto", None, "duplicate_call_id"),
    ("unknown", "auto", None, "unknown_tool"),
];

const RIGHT: &str = r#"{"ground_truth":[{"get_weather":{"city":["Paris"]}}]}"#;
const NO_CALL: &str = r#"{"ground_truth":[]}"#;

/// The content and the calls (id, name, arguments) for a prompt.
fn answer(prompt: &str) -> (&'static str, Vec<[&'static str; 3]>) {
    let paris = r#"{"city":"Paris"}"#;
    match prompt {
        "right" => ("", vec![["a", "get_weather", paris]]),
        "arguments" => ("", vec![["a", "get_weather", r#"{"city":5}"#]]),
        "leak" => ("<tool_call>{\"name\":", vec![]),
        "ids" => (
            "",
            vec![["a", "get_weather", paris], ["a", "get_weather", paris]],
        ),
        "unknown" => ("", vec![["a", "get_time", "{}"]]),
        _ => ("It is warm.", vec![]),
    }
}

/// An answer as one body, or as events with arguments in two pieces.
fn response(body: &Value) -> String {
    let (content, calls) = answer(body["messages"][0]["content"].as_str().unwrap_or_default());
    let finish_reason = if calls.is_empty() {
        "stop"
    } else {
        "tool_calls"
    };
    let call = |index: usize, id: &str, name: &str, arguments: &str| {
        json!({"index": index, "id": id, "type": "function",
            "function": {"name": name, "arguments": arguments}})
    };
    if body["stream"] != true {
        let calls: Vec<Value> = calls
            .iter()
            .enumerate()
            .map(|(index, [id, name, arguments])| call(index, id, name, arguments))
            .collect();
        let message = json!({"role": "assistant", "content": content, "tool_calls": calls});
        let choice = json!({"index": 0, "message": message, "finish_reason": finish_reason});
        return whole(
            "200 OK",
            "application/json",
            &json!({ "choices": [choice] }).to_string(),
        );
    }
    let mut deltas = vec![json!({"role": "assistant", "content": content})];
    for (index, [id, name, arguments]) in calls.iter().enumerate() {
        let (start, end) = arguments.split_at(1);
        deltas.push(json!({"tool_calls": [call(index, id, name, start)]}));
        deltas.push(json!({"tool_calls": [{"index": index, "function": {"arguments": end}}]}));
    }
    let event = |delta: &Value, finish_reason: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish_reason});
        format!("data: {}\n\n", json!({ "choices": [choice] }))
    };
    let mut events: String = deltas
        .iter()
        .map(|delta| event(delta, Value::Null))
        .collect();
    events += &event(&json!({}), finish_reason.into());
    whole(
        "200 OK",
        "text/event-stream",
        &(events + "data: [DONE]\n\n"),
    )
}

/// The rows as a file of `custom`.
fn rows() -> String {
    let tool = json!({"type": "function", "function": {"name": "get_weather", "strict": true,
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}});
    ROWS.iter()
        .map(|(prompt, choice, completion, _)| {
            let mut row = json!({"prompt": prompt, "tools": [tool], "tool_choice": choice});
            if let Some(completion) = completion {
                row["completion"] = json!(completion);
            }
            format!("{row}\n")
        })
        .collect()
}

/// Runs the rows; returns the result and the bodies of the requests.
fn run(more: &[&str]) -> (Value, Vec<Value>) {
    let server = ScriptedServer::answering(|request: &Request| {
        if request.is_model_list() {
            return models();
        }
        match serde_json::from_slice(&request.body) {
            Ok(body) => response(&body),
            Err(_) => whole("404 Not Found", "text/plain", ""),
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    std::fs::write(&path, rows()).unwrap();
    let count = ROWS.len().to_string();
    let arguments = [
        "--backend",
        "openai-chat",
        "--base-url",
        &server.base_url,
        "--model",
        "tiny",
        "--dataset",
        "custom",
        "--dataset-path",
        path.to_str().unwrap(),
        "--num-prompts",
        &count,
        "--max-concurrency",
        "1",
        "--num-warmups",
        "0",
        // The scripted answers depend on the prompts of the rows, not on the tools of probes.
        "--skip-preflight",
        "--save-detailed",
    ];
    let (ran, result) = sobench_result(&[&arguments[..], more].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    check_result(&result).unwrap();
    let bodies = server
        .requests()
        .iter()
        .filter_map(|request| serde_json::from_slice(&request.body).ok())
        .collect();
    (result, bodies)
}

#[test]
fn calls_are_judged_streamed_and_whole() {
    for more in [&[][..], &["--disable-stream"]] {
        let (result, _) = run(more);
        let verdicts: Vec<&str> = result["outputs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|output| {
                let verdict = &output["verdict"];
                let fault = verdict["reason"]["fault"].as_str();
                fault.unwrap_or_else(|| verdict["verdict"].as_str().unwrap())
            })
            .collect();
        let expected: Vec<&str> = ROWS.iter().map(|(.., expected)| *expected).collect();
        assert_eq!(verdicts, expected, "{more:?}");
        let rates: BTreeMap<&str, [Value; 2]> = ["right_calls", "missed_calls", "forbidden_calls"]
            .into_iter()
            .map(|name| {
                let rate = &result["sobench"]["metrics"][name];
                (name, [rate["hits"].clone(), rate["of"].clone()])
            })
            .collect();
        let expected = [
            ("forbidden_calls", [1, 2]),
            ("missed_calls", [2, 4]),
            ("right_calls", [2, 5]),
        ];
        let expected = expected.map(|(name, counts)| (name, counts.map(Value::from)));
        assert_eq!(rates, BTreeMap::from(expected), "{more:?}");
        let choices: Vec<&Value> = result["sobench"]["quality"]["tool_calls"]
            .as_array()
            .unwrap()
            .iter()
            .map(|choice| &choice["tool_choice"])
            .collect();
        assert_eq!(choices, ["auto", "required", "none"]);
    }
}

#[test]
fn control_has_the_tools_without_what_a_server_enforces() {
    let (_, bodies) = run(&["--guided-decoding-ratio", "0"]);
    let control: Vec<&Value> = bodies
        .iter()
        .filter(|body| body.get("tools").is_some())
        .collect();
    assert!(control.len() >= ROWS.len());
    for body in control {
        let function = &body["tools"][0]["function"];
        assert_eq!(function["name"], "get_weather");
        assert!(function["parameters"].is_object() && function.get("strict").is_none());
        assert!(["auto", "none"].contains(&body["tool_choice"].as_str().unwrap()));
    }
}

/// The stream of one call, with the arguments in pieces of 64 KiB.
fn long_call(arguments: &str) -> String {
    let event = |delta: &Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": null});
        format!("data: {}\n\n", json!({ "choices": [choice] }))
    };
    let start = json!({"tool_calls": [{"index": 0, "id": "a", "type": "function",
        "function": {"name": "tool_9999", "arguments": ""}}]});
    let mut events = event(&start);
    for piece in arguments.as_bytes().chunks(64 << 10) {
        let piece = std::str::from_utf8(piece).unwrap();
        let delta = json!({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]});
        events += &event(&delta);
    }
    let end = json!({"index": 0, "delta": {}, "finish_reason": "tool_calls"});
    events += &format!("data: {}\n\ndata: [DONE]\n\n", json!({ "choices": [end] }));
    whole("200 OK", "text/event-stream", &events)
}

#[test]
fn requests_of_10000_tools_and_arguments_of_5_mb_are_judged() {
    let server = ScriptedServer::answering(|request: &Request| {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        match body["messages"][0]["content"].as_str() {
            _ if request.is_model_list() => models(),
            Some("short") => long_call(r#"{"city":"Paris"}"#),
            Some("long") => long_call(&format!(r#"{{"city":"{}"}}"#, "x".repeat(5 << 20))),
            _ => whole("404 Not Found", "text/plain", ""),
        }
    });
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let tools: Vec<Value> = (0..10_000)
        .map(|index| json!({"type": "function", "function": {"name": format!("tool_{index}"), "parameters": parameters}}))
        .collect();
    let row = |prompt: &str| format!("{}\n", json!({"prompt": prompt, "tools": tools}));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    std::fs::write(&path, row("short") + &row("long") + &row("short")).unwrap();
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
        path.to_str().unwrap(),
        "--num-prompts",
        "3",
        "--skip-preflight",
        "--num-warmups",
        "0",
        "--save-detailed",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let verdicts: Vec<String> = result["outputs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|output| {
            let verdict = &output["verdict"];
            let why = verdict["reason"]["why"]["reason"].as_str();
            why.unwrap_or_else(|| verdict["verdict"].as_str().unwrap())
                .to_owned()
        })
        .collect();
    assert_eq!(
        verdicts,
        ["valid", "too_long", "valid"],
        "{}",
        result["outputs"][1]["verdict"]
    );
}
