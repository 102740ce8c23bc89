//! Tool calls over HTTP: every style and engine, every choice, streamed and whole.

use std::sync::Arc;

use serde_json::{Value, json};
use sobench_core::answer::{Answer, ToolCall};
use sobench_core::constraint::Constraint;
use sobench_core::observation::Outcome;
use sobench_core::tools::ToolSet;
use sobench_core::verdict::{Reason, ToolCallFault, Verdict};
use sobench_embedded::{EmbeddedSettings, Fault, ToolStyle};
use sobench_engine::EngineName;
use sobench_judge::{Ending, Evaluator, JudgeSettings};

use super::{Client, merged, start_with, stop};

/// Keywords of bounds that the tools have.
const BOUNDS: [&str; 2] = ["minimum", "maximum"];

/// Answers for each choice and form.
const ANSWERS: i64 = 6;

fn tools(strict: bool) -> Value {
    let function = |name: &str, properties: Value, required: Value| {
        let mut function = json!({"name": name, "description": format!("The tool {name}."),
            "parameters": {"type": "object", "properties": properties, "required": required,
                "additionalProperties": false}});
        if strict {
            function["strict"] = true.into();
        }
        json!({"type": "function", "function": function})
    };
    json!([
        function(
            "get_weather",
            json!({"city": {"type": "string"}, "unit": {"type": "string", "enum": ["C", "F"]},
                "days": {"type": "integer", "minimum": 1, "maximum": 14}}),
            json!(["city", "unit"])
        ),
        function(
            "create-event",
            json!({"date": {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"},
                "guests": {"type": "array", "maxItems": 3, "items": {"type": "object",
                    "properties": {"name": {"type": "string"}, "optional": {"type": "boolean"}},
                    "required": ["name", "optional"], "additionalProperties": false}},
                "room": {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 9}, {"type": "null"}]}}),
            json!(["date", "guests", "room"])
        ),
        function("ping", json!({}), json!([])),
    ])
}

fn choices() -> [Value; 5] {
    let named = |name: &str| json!({"type": "function", "function": {"name": name}});
    [
        json!("auto"),
        json!("required"),
        named("create-event"),
        json!("none"),
        json!({"type": "allowed_tools", "allowed_tools": {"mode": "required",
            "tools": [named("ping"), named("get_weather")]}}),
    ]
}

fn request(strict: bool, choice: &Value, stream: bool, seed: i64) -> Value {
    json!({
        "messages": [{"role": "user", "content": "What is the weather in Paris? Plan a meeting."}],
        "tools": tools(strict), "tool_choice": choice, "max_completion_tokens": 900,
        "stream": stream, "seed": seed,
    })
}

/// An answer, its finish reason, and the number of deltas with arguments.
pub(super) struct Received {
    pub(super) answer: Answer,
    pub(super) finish_reason: String,
    pub(super) argument_deltas: usize,
}

fn add_call(answer: &mut Answer, call: &Value, position: usize) {
    let index = call["index"].as_u64().unwrap_or(position as u64);
    let known = answer
        .tool_calls
        .iter_mut()
        .find(|known| known.index == index);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (function, custom) = (&call["function"], &call["custom"]);
    let arguments = text(&function["arguments"]) + &text(&custom["input"]);
    match known {
        Some(known) => known.arguments.push_str(&arguments),
        None => answer.tool_calls.push(ToolCall {
            index,
            id: text(&call["id"]),
            name: text(&function["name"]) + &text(&custom["name"]),
            arguments,
            ..ToolCall::default()
        }),
    }
}

/// Sends a chat and collects its answer.
pub(super) async fn chat(client: &Client, body: &Value) -> Received {
    let events = if body["stream"] == true {
        client.stream("/v1/chat/completions", body).await
    } else {
        let answer = client.post("/v1/chat/completions", body.to_string()).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        vec![serde_json::from_str(&answer.body).unwrap()]
    };
    let mut received = Received {
        answer: Answer::default(),
        finish_reason: String::new(),
        argument_deltas: 0,
    };
    for event in &events {
        let choice = &event["choices"][0];
        let message = choice.get("delta").unwrap_or(&choice["message"]);
        let text = |name: &str| message[name].as_str().unwrap_or_default();
        assert_eq!(text("reasoning"), text("reasoning_content"));
        received.answer.reasoning.push_str(text("reasoning"));
        received.answer.content.push_str(text("content"));
        for (position, call) in message["tool_calls"]
            .as_array()
            .into_iter()
            .flatten()
            .enumerate()
        {
            let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
            received.argument_deltas += usize::from(!arguments.is_empty());
            add_call(&mut received.answer, call, position);
        }
        if let Some(reason) = choice["finish_reason"].as_str() {
            received.finish_reason = reason.to_owned();
        }
    }
    received
}

/// The verdict about an answer to this request.
pub(super) fn judge(body: &Value, received: &Received) -> Verdict {
    let tools = ToolSet::from_members(body.as_object().unwrap()).unwrap();
    let outcome = match received.finish_reason.as_str() {
        "length" => Outcome::Truncated,
        _ => Outcome::Completed,
    };
    let tools = Constraint::Tools(Arc::new(tools));
    let ending = Ending {
        outcome: &outcome,
        finish_reason: Some(&received.finish_reason),
    };
    let tools = Evaluator::new(JudgeSettings::default()).compile(&tools);
    sobench_judge::judge(&tools, &received.answer, ending)
}

/// The tools without bounds of numbers, if the engine declares to ignore them.
fn enforced_tools(engine: EngineName) -> Value {
    fn without_bounds(value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.retain(|name, _| !BOUNDS.contains(&name.as_str()));
                members.values_mut().for_each(without_bounds);
            }
            Value::Array(items) => items.iter_mut().for_each(without_bounds),
            _ => {}
        }
    }
    let mut tools = tools(true);
    if BOUNDS
        .iter()
        .any(|name| engine.departure_for_keyword(name).is_some())
    {
        without_bounds(&mut tools);
    }
    tools
}

async fn check_engine(engine: EngineName, style: ToolStyle) {
    let server = start_with(EmbeddedSettings {
        engine,
        tool_style: style,
        ..EmbeddedSettings::default()
    })
    .await;
    let client = Client::new(&server);
    let mut calls = 0;
    for choice in choices() {
        for seed in 0..ANSWERS {
            let tools = json!({"tools": enforced_tools(engine)});
            let whole = merged(&request(true, &choice, false, seed), tools.clone());
            let streamed = merged(&request(true, &choice, true, seed), tools);
            let received = chat(&client, &whole).await;
            let streamed = chat(&client, &streamed).await;
            let shown = format!(
                "{engine} {style} {choice} {seed}: {:?} {}",
                received.answer, received.finish_reason
            );
            assert_eq!(judge(&whole, &received), Verdict::Valid, "{shown}");
            let without_ids = |answer: &Answer| {
                let mut answer = answer.clone();
                answer
                    .tool_calls
                    .iter_mut()
                    .for_each(|call| call.id.clear());
                answer
            };
            assert_eq!(
                without_ids(&received.answer),
                without_ids(&streamed.answer),
                "{shown}"
            );
            assert_eq!(received.finish_reason, streamed.finish_reason, "{shown}");
            calls += received.answer.tool_calls.len();
        }
    }
    assert!(calls > 20, "{engine} {style}: {calls}");
    let stats = server.stats();
    assert_eq!(
        (stats.ended.failed, stats.faults.len()),
        (0, 0),
        "{stats:?}"
    );
    stop(server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_valid_in_every_style_with_guidance() {
    for style in ToolStyle::ALL {
        check_engine(EngineName::Guidance, style).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_valid_in_every_style_with_xgrammar() {
    for style in ToolStyle::ALL {
        check_engine(EngineName::Xgrammar, style).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_valid_in_every_style_with_outlines() {
    for style in ToolStyle::ALL {
        check_engine(EngineName::Outlines, style).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_that_are_not_strict_have_any_object() {
    for engine in [EngineName::Guidance, EngineName::Xgrammar] {
        let server = start_with(EmbeddedSettings {
            engine,
            ..EmbeddedSettings::default()
        })
        .await;
        let client = Client::new(&server);
        let (mut valid, mut invalid) = (0, 0);
        for seed in 0..24 {
            let body = request(false, &json!("auto"), false, seed);
            let received = chat(&client, &body).await;
            match judge(&body, &received) {
                Verdict::Valid => valid += 1,
                Verdict::Invalid {
                    reason: Reason::ToolCall(ToolCallFault::InvalidArguments { .. }),
                } => invalid += 1,
                other => panic!("{other:?}: {:?}", received.answer),
            }
        }
        assert!(valid > 0 && invalid > 4, "{engine}: {valid} {invalid}");
        stop(server).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn custom_tools_have_texts_of_their_format() {
    let server = start_with(EmbeddedSettings::default()).await;
    let client = Client::new(&server);
    let custom = |name: &str, syntax: &str, definition: &str| {
        json!({"type": "custom", "custom": {"name": name, "format": {"type": "grammar",
            "grammar": {"syntax": syntax, "definition": definition}}}})
    };
    for stream in [false, true] {
        for seed in 0..ANSWERS {
            let body = json!({
                "messages": [{"role": "user", "content": "Compute."}], "seed": seed, "stream": stream,
                "tools": [custom("sum", "lark", "start: /[0-9]{1,3}/ \"+\" /[0-9]{1,3}/"),
                    custom("code", "regex", "[A-Z]{4}"), tools(true)[0]],
                "tool_choice": "required",
            });
            let received = chat(&client, &body).await;
            assert_eq!(
                judge(&body, &received),
                Verdict::Valid,
                "{:?}",
                received.answer
            );
        }
    }
    stop(server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_tools_are_refused_with_the_field() {
    let server = start_with(EmbeddedSettings::default()).await;
    let client = Client::new(&server);
    let body = request(true, &json!("required"), false, 0);
    let broken = json!([{"type": "function", "function": {"name": "f", "strict": true,
        "parameters": {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}}}]);
    for (extra, field) in [
        (
            json!({"tools": [{"type": "function", "function": {}}]}),
            "tools",
        ),
        (json!({ "tools": broken }), "tools"),
        (
            json!({"tool_choice": {"type": "function", "function": {"name": "other"}}}),
            "tool_choice",
        ),
        (json!({"parallel_tool_calls": "no"}), "parallel_tool_calls"),
    ] {
        let answer = client
            .post("/v1/chat/completions", merged(&body, extra).to_string())
            .await;
        let error: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(
            (answer.status, error["error"]["param"].as_str()),
            (400, Some(field)),
            "{error}"
        );
    }
    let completion = json!({"prompt": "p", "tools": tools(true)});
    let answer = client.post("/v1/completions", completion.to_string()).await;
    assert_eq!(answer.status, 400, "{}", answer.body);
    stop(server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn earlier_calls_and_their_results_are_read() {
    let server = start_with(EmbeddedSettings::default()).await;
    let client = Client::new(&server);
    let messages = json!([
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "22 degrees"},
    ]);
    let body = request(true, &json!("none"), false, 1);
    let body = merged(&body, json!({ "messages": messages }));
    let received = chat(&client, &body).await;
    assert_eq!(judge(&body, &received), Verdict::Valid);
    stop(server).await;
}

/// The reason of the judge for each fault of calls, or `valid`.
const FAULTS: [(&str, &str); 8] = [
    ("merge-calls", "invalid_arguments"),
    ("drop-strict", "invalid_arguments"),
    ("leak-markup", "leaked_markup"),
    ("wrong-tool", "unknown_tool"),
    ("call-under-none", "call_under_none"),
    ("cut-arguments", "invalid_arguments"),
    ("duplicate-id", "duplicate_call_id"),
    ("buffer-arguments", "valid"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_fault_of_calls_is_injected_and_seen() {
    for (fault, expected) in FAULTS {
        let server = start_with(EmbeddedSettings {
            faults: vec![Fault::parse(fault).unwrap()],
            ..EmbeddedSettings::default()
        })
        .await;
        let client = Client::new(&server);
        let choice = if fault == "call-under-none" {
            json!("none")
        } else {
            json!("required")
        };
        let mut seen = 0;
        for seed in 0..16 {
            let body = request(true, &choice, true, seed);
            let received = chat(&client, &body).await;
            let verdict = serde_json::to_value(judge(&body, &received)).unwrap();
            let fault_of_answer = verdict["reason"]["fault"].as_str();
            let is_buffered = fault == "buffer-arguments"
                && received.argument_deltas == received.answer.tool_calls.len();
            match fault_of_answer.unwrap_or("valid") {
                "valid" => seen += u64::from(is_buffered),
                found => {
                    assert_eq!(found, expected, "{fault}: {verdict}");
                    seen += 1;
                }
            }
        }
        let stats = server.stats();
        let count = |counts: &[(String, u64)]| counts.iter().map(|(_, count)| count).sum::<u64>();
        assert!(seen >= 4, "{fault}: {seen}");
        assert_eq!(count(&stats.faults), seen, "{fault}: {stats:?}");
        assert_eq!(count(&stats.fault_eligible), seen, "{fault}: {stats:?}");
        stop(server).await;
    }
}
