//! Tools are sent in both arms, and the tool calls of answers are judged, streamed and whole.

use serde_json::{Value, json};
use sobench_testkit::chat::{ChatAnswer, ChatCall, ChatReply, chat_server, prompt};
use sobench_testkit::constrained::posts;

use crate::support::{custom_result, verdicts};

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

/// The answer to a prompt.
fn answer(prompt: &str) -> ChatReply {
    let call = |name: &str, arguments: &str| ChatCall {
        id: "a".to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    };
    let paris = || call("get_weather", r#"{"city":"Paris"}"#);
    let calls = match prompt {
        "right" => vec![paris()],
        "arguments" => vec![call("get_weather", r#"{"city":5}"#)],
        "ids" => vec![paris(), paris()],
        "unknown" => vec![call("get_time", "{}")],
        "leak" => return ChatAnswer::from_text("<tool_call>{\"name\":").into(),
        _ => return ChatAnswer::from_text("It is warm.").into(),
    };
    let (content, finish_reason) = (String::new(), "tool_calls");
    ChatAnswer {
        content,
        calls,
        finish_reason,
        ..ChatAnswer::from_text("")
    }
    .into()
}

/// Runs the rows; returns the result and the bodies of the requests.
fn run(more: &str) -> (Value, Vec<Value>) {
    let server = chat_server(|body| answer(prompt(body)));
    let tool = json!({"type": "function", "function": {"name": "get_weather", "strict": true,
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}});
    let rows = ROWS.map(|(prompt, choice, completion, _)| {
        let mut row = json!({"prompt": prompt, "tools": [tool], "tool_choice": choice});
        if let Some(completion) = completion {
            row["completion"] = json!(completion);
        }
        row
    });
    // The scripted answers depend on the prompts of the rows, not on the tools of probes.
    let flags = ["--backend openai-chat --model tiny --skip-preflight", more];
    let (_, result) = custom_result(&server.base_url, &rows, &flags);
    (result, posts(&server))
}

#[test]
fn calls_are_judged_streamed_and_whole() {
    for more in ["--continuous-usage", "--disable-stream"] {
        let (result, _) = run(more);
        assert_eq!(
            verdicts(&result),
            ROWS.map(|(.., expected)| expected),
            "{more}"
        );
        let rates = ["forbidden_calls", "missed_calls", "right_calls"].map(|name| {
            let rate = &result["sobench"]["metrics"][name];
            ["hits", "of"].map(|count| rate[count].as_u64().unwrap())
        });
        assert_eq!(rates, [[1, 2], [2, 4], [2, 5]], "{more}");
        let groups = result["sobench"]["groups"].as_array().unwrap();
        let choices: Vec<&Value> = groups.iter().map(|group| &group["tool_choice"]).collect();
        assert_eq!(choices, ["auto", "required", "none"]);
    }
}

#[test]
fn control_has_the_tools_without_what_a_server_enforces() {
    let (_, bodies) = run("--guided-decoding-ratio 0");
    assert_eq!(bodies.len(), ROWS.len() + 1, "the rows and a trial");
    for body in bodies {
        let function = &body["tools"][0]["function"];
        assert_eq!(function["name"], "get_weather");
        assert!(function["parameters"].is_object() && function.get("strict").is_none());
        assert!(["auto", "none"].contains(&body["tool_choice"].as_str().unwrap()));
    }
}
