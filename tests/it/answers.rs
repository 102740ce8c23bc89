//! Faults of answers are named: size, channel, another request's answer, text around JSON, a broken
//! start of a truncated answer, impossible token counts.

use std::sync::Mutex;

use serde_json::{Value, json};
use sobench_core::verdict::{NotScored, Reason};
use sobench_testkit::repository_path;
use sobench_testkit::scripted::{Request, ScriptedServer, models, whole};

use crate::support::sobench_result;

/// One answer of a chat server.
#[derive(Clone, Default)]
struct Reply {
    content: String,
    arguments: String,
    reasoning: String,
    finish_reason: Option<&'static str>,
    completion_tokens: Option<u64>,
    /// Number of chunks of the content.
    chunks: usize,
}

impl Reply {
    fn content(text: impl Into<String>) -> Self {
        Self {
            content: text.into(),
            ..Self::default()
        }
    }

    /// The stream of events.
    fn stream(&self) -> String {
        let event = |delta: Value, finish_reason: Option<&str>| {
            let choice = json!({"index": 0, "delta": delta, "finish_reason": finish_reason});
            let event = json!({"object": "chat.completion.chunk", "choices": [choice]});
            format!("data: {event}\n\n")
        };
        let mut events = vec![event(json!({"role": "assistant"}), None)];
        if !self.reasoning.is_empty() {
            events.push(event(json!({"reasoning": self.reasoning}), None));
        }
        if !self.arguments.is_empty() {
            let call = json!({"index": 0, "id": "c", "type": "function", "function": {"name": "answer", "arguments": self.arguments}});
            events.push(event(json!({"tool_calls": [call]}), None));
        }
        let characters: Vec<char> = self.content.chars().collect();
        let size = characters.len().div_ceil(self.chunks.max(1)).max(1);
        for piece in characters.chunks(size) {
            let piece: String = piece.iter().collect();
            events.push(event(json!({ "content": piece }), None));
        }
        events.push(event(json!({}), Some(self.finish_reason.unwrap_or("stop"))));
        if let Some(count) = self.completion_tokens {
            let usage =
                json!({"prompt_tokens": 5, "completion_tokens": count, "total_tokens": count + 5});
            events.push(format!(
                "data: {}\n\n",
                json!({"object": "chat.completion.chunk", "choices": [], "usage": usage})
            ));
        }
        events.push("data: [DONE]\n\n".to_owned());
        events.concat()
    }
}

/// The result of a run of eight requests against a server that answers so.
fn run(reply: impl Fn(&Value) -> Reply + Send + Sync + 'static, more: &[&str]) -> Value {
    let server = ScriptedServer::answering(move |request: &Request| {
        if request.is_model_list() {
            return models();
        }
        match serde_json::from_slice(&request.body) {
            Ok(body) => whole("200 OK", "text/event-stream", &reply(&body).stream()),
            Err(_) => whole("404 Not Found", "text/plain", ""),
        }
    });
    let arguments = [
        "--backend",
        "openai-chat",
        "--base-url",
        &server.base_url,
        "--model",
        "tiny",
        "--num-prompts",
        "8",
        "--max-concurrency",
        "1",
        "--output-len",
        "64",
        "--skip-preflight",
        "--save-detailed",
    ];
    let (ran, result) = sobench_result(&[&arguments[..], more].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    result
}

const JSON: &[&str] = &[
    "--dataset",
    "json",
    "--constraint-dialect",
    "response-format",
];

const VALID: &str = r#"{"name": "a", "email": "b"}"#;

/// The reasons of all answers, without repetition.
fn reasons(result: &Value) -> Vec<String> {
    let mut reasons: Vec<String> = result["outputs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|output| {
            let verdict = &output["verdict"];
            verdict["reason"]["reason"]
                .as_str()
                .or(verdict["verdict"].as_str())
                .unwrap()
                .to_owned()
        })
        .collect();
    reasons.dedup();
    reasons
}

#[test]
fn oversized_answers_are_not_correct() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for (text, reason) in [
        (
            format!("{VALID}{}", " \n".repeat(1 << 20)),
            "runaway_whitespace",
        ),
        (
            format!("{{\"name\": \"{}\"}}", "x".repeat(1 << 20)),
            "too_long",
        ),
        (format!("{{\"name\": {deep}}}"), "too_deep"),
    ] {
        let result = run(move |_| Reply::content(text.clone()), JSON);
        assert_eq!(reasons(&result), [reason]);
        let metrics = &result["sobench"]["metrics"];
        assert_eq!(
            (
                metrics["correct_rate"]["hits"].as_u64(),
                metrics["correct_rate"]["of"].as_u64()
            ),
            (Some(0), Some(8)),
            "{reason}: {}",
            metrics["correct_rate"]
        );
    }
}

#[test]
fn an_answer_in_another_channel_is_invalid() {
    let call = |_: &Value| Reply {
        arguments: VALID.to_owned(),
        finish_reason: Some("tool_calls"),
        ..Reply::default()
    };
    assert_eq!(reasons(&run(call, JSON)), ["wrong_channel"]);
    let tool_call = ["--dataset", "json", "--constraint-dialect", "tool-call"];
    assert_eq!(reasons(&run(call, &tool_call)), ["valid"]);
    let thought = |_: &Value| Reply {
        reasoning: VALID.to_owned(),
        ..Reply::default()
    };
    assert_eq!(reasons(&run(thought, JSON)), ["wrong_channel"]);
    let both = |_: &Value| Reply {
        reasoning: "{}".to_owned(),
        ..Reply::content(VALID)
    };
    assert_eq!(reasons(&run(both, JSON)), ["valid"]);
}

/// The member of a schema that no other request has.
fn unique_member(body: &Value) -> String {
    let schema = &body["response_format"]["json_schema"]["schema"];
    let members = schema["properties"].as_object().unwrap();
    members
        .keys()
        .find(|name| name.starts_with("__optional_field_"))
        .unwrap()
        .clone()
}

#[test]
fn the_answer_of_another_request_is_invalid() {
    let unique = [
        "--dataset",
        "json-unique",
        "--constraint-dialect",
        "response-format",
    ];
    let with =
        |member: &str| Reply::content(json!({"name": "a", "email": "b", member: "x"}).to_string());
    let first = Mutex::new(None);
    let stale = move |body: &Value| {
        let own = unique_member(body);
        with(first.lock().unwrap().get_or_insert(own))
    };
    let result = run(stale, &unique);
    assert_eq!(reasons(&result), ["valid", "other_request"]);
    let right = run(move |body| with(&unique_member(body)), &unique);
    assert_eq!(reasons(&right), ["valid"]);
}

#[test]
fn a_truncated_answer_with_a_broken_start_is_invalid_for_its_own_reason() {
    for (text, reason) in [
        (r#"{"name": 1, "em"#, "schema"),
        (r#"{"name": "a"#, "truncated"),
        (r#"{"name": "a", "age": -"#, "truncated"),
        ("Sure, here is the JSON", "not_json"),
    ] {
        let cut = move |_: &Value| Reply {
            finish_reason: Some("length"),
            ..Reply::content(text)
        };
        assert_eq!(reasons(&run(cut, JSON)), [reason], "{text}");
    }
}

#[test]
fn text_around_json_has_a_kind_and_a_rate_of_its_own() {
    let fenced = format!("```json\n{VALID}\n```");
    let result = run(move |_| Reply::content(fenced.clone()), JSON);
    assert_eq!(reasons(&result), ["extra_text"]);
    let reason = &result["outputs"][0]["verdict"]["reason"];
    assert_eq!(
        (
            reason["kind"].as_str(),
            reason["valid_if_stripped"].as_bool()
        ),
        (Some("fence"), Some(true))
    );
    let metrics = &result["sobench"]["metrics"];
    assert_eq!(metrics["correct_rate"]["hits"].as_u64(), Some(0));
    assert_eq!(metrics["valid_if_stripped_rate"]["hits"].as_u64(), Some(8));
}

#[test]
fn only_impossible_token_counts_are_replaced() {
    let counted = |count, chunks| {
        move |_: &Value| Reply {
            completion_tokens: Some(count),
            chunks,
            ..Reply::content(VALID)
        }
    };
    // One chunk more than tokens; over the limit of 64 tokens.
    for (count, chunks, source) in [(9, 10, "server"), (128, 10, "other_tokenizer")] {
        let result = run(counted(count, chunks), JSON);
        let tokens = &result["outputs"][0]["tokens"];
        assert_eq!(tokens["output_source"], source, "{count}: {tokens}");
        assert_eq!(
            tokens["output"].as_u64() == Some(count),
            source == "server",
            "{tokens}"
        );
    }
}

#[test]
fn the_guide_names_every_reason() {
    let guide = repository_path("docs/guides/read-a-failure.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    for name in Reason::NAMES.iter().chain(&NotScored::NAMES) {
        assert!(guide.contains(&format!("| `{name}` |")), "{name}");
    }
}
