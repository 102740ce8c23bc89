//! Anthropic's messages endpoint: `{model, messages, max_tokens, ...}`, answered by typed events.
//! vLLM, SGLang and llama.cpp have it, too.
//!
//! Source: Anthropic's reference "Create a Message" and "Streaming Messages", and its client
//! anthropic-sdk-python 2.14.0 (`types`, `lib/streaming`). Blocks of an answer start, grow and
//! stop; text is in `text_delta`, reasoning in `thinking_delta`, and the arguments of a call, as the
//! text of an object, in `input_json_delta`. `message_delta` has the reason of the end and the count
//! of output tokens, `message_start` that of the prompt. `message_stop` ends the answer.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::openai::COMPLETIONS;
use super::{ConstraintDialect, Credentials, Input, KindSpec, ServerKind};
use crate::body_layout::BodyLayout;
use crate::decode::Wire;
use crate::wire::{self, Delta, Text, WireError};
use crate::{BodySettings, ThinkingSwitch, Unsendable, body};
use sobench_core::answer::ToolCall;
use sobench_core::case::Case;
use sobench_core::observation::Usage;
use sobench_core::tools::ToolForm;

pub(super) const SPEC: KindSpec = KindSpec {
    name: "anthropic",
    embedded: true,
    path: "/v1/messages",
    path_words: &["messages"],
    input: Input::Messages,
    dialects: &[
        ConstraintDialect::OutputConfig,
        ConstraintDialect::ToolCall,
        ConstraintDialect::ToolCallNonStrict,
    ],
    auto_dialect: |_| ConstraintDialect::OutputConfig,
    credentials: Credentials {
        variable: "ANTHROPIC_API_KEY",
        headers: &[("anthropic-version", "2026-10-21")],
    },
    body: BodyLayout {
        prompt: "messages",
        has_stream_options: false,
        has_ignore_eos: false,
        sampling: &["temperature", "top_p", "top_k"],
        ..BodyLayout::COMPLETIONS
    },
    tools: Some(ToolForm::Messages),
    template_variables: Some("chat_template_kwargs"),
    thinking_switches: &[ThinkingSwitch::Thinking, ThinkingSwitch::ChatTemplateKwargs],
    encode,
    wire: Wire {
        body: read_body,
        leaves_empty_objects_out: true,
        ..Wire::sse(read_event)
    },
    ..COMPLETIONS
};

/// System messages are a member of the body. Calls and their results are blocks.
fn encode(kind: ServerKind, case: &Case, options: &BodySettings) -> Result<Bytes, Unsendable> {
    let all = match body::messages(kind, case)? {
        Value::Array(all) => all,
        one => vec![one],
    };
    let mut system = Vec::new();
    let mut messages: Vec<Value> = Vec::new();
    for message in all {
        if matches!(message["role"].as_str(), Some("system" | "developer")) {
            system.extend(blocks(&message["content"]));
            continue;
        }
        let message = converted(message)?;
        let results = message["content"]
            .as_array()
            .filter(|_| is_result(&message));
        match (messages.last_mut().filter(|last| is_result(last)), results) {
            // The results of one turn are one message.
            (Some(last), Some(more)) => {
                let known = last["content"].as_array_mut();
                known
                    .into_iter()
                    .for_each(|known| known.extend(more.iter().cloned()));
            }
            _ => messages.push(message),
        }
    }
    let mut body = json!({"model": options.model_of(case), "messages": messages, "max_tokens": case.output_len});
    if !system.is_empty() {
        body["system"] = system.into();
    }
    body::finish(kind, body, case, options)
}

fn is_result(message: &Value) -> bool {
    message["content"][0]["type"] == "tool_result"
}

/// The blocks of a content; none of an empty one.
fn blocks(content: &Value) -> Vec<Value> {
    match content {
        Value::String(text) if text.is_empty() => Vec::new(),
        Value::String(text) => vec![json!({"type": "text", "text": text})],
        Value::Array(blocks) => blocks.clone(),
        _ => Vec::new(),
    }
}

fn converted(mut message: Value) -> Result<Value, Unsendable> {
    if message["role"] == "tool" {
        let result = json!({
            "type": "tool_result",
            "tool_use_id": message["tool_call_id"],
            "content": message["content"],
        });
        return Ok(json!({"role": "user", "content": [result]}));
    }
    let calls = message
        .as_object_mut()
        .and_then(|members| members.remove("tool_calls"));
    let Some(Value::Array(calls)) = calls else {
        return Ok(message);
    };
    let mut content = blocks(&message["content"]);
    for call in calls {
        let function = &call["function"];
        let input = function["arguments"]
            .as_str()
            .map(serde_json::from_str::<Map<String, Value>>);
        let input = input.and_then(Result::ok).ok_or_else(|| {
            let what = "a message has a call whose arguments are not the text of an object";
            Unsendable::new(what, "correct the call, or use --backend openai-chat")
        })?;
        content.push(
            json!({"type": "tool_use", "id": call["id"], "name": function["name"], "input": input}),
        );
    }
    Ok(json!({"role": "assistant", "content": content}))
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Text<'a>>,
    index: Option<&'a RawValue>,
    message: Option<Message<'a>>,
    content_block: Option<Block<'a>>,
    delta: Option<EventDelta<'a>>,
    usage: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    content: Option<Vec<Block<'a>>>,
    stop_reason: Option<Text<'a>>,
    usage: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Text<'a>>,
    text: Option<Text<'a>>,
    thinking: Option<Text<'a>>,
    id: Option<Text<'a>>,
    name: Option<Text<'a>>,
    input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct EventDelta<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
    thinking: Option<Text<'a>>,
    partial_json: Option<Text<'a>>,
    stop_reason: Option<Text<'a>>,
}

fn read_event(json: &str) -> serde_json::Result<Delta> {
    let event: Event<'_> = serde_json::from_str(json)?;
    let index = wire::number(event.index).unwrap_or(0);
    let mut delta = Delta::default();
    match event.kind.as_ref().map_or("", |kind| &kind.0) {
        "message_start" => {
            // Its count of output tokens is not that of the answer.
            let usage = event.message.and_then(|message| message.usage);
            delta.usage = usage.and_then(read_usage).map(|usage| Usage {
                completion_tokens: None,
                ..usage
            });
        }
        "content_block_start" => {
            if let Some(block) = event.content_block {
                add_block(&mut delta, block, index);
            }
        }
        "content_block_delta" => {
            if let Some(more) = event.delta {
                wire::add(&mut delta.text, more.text);
                wire::add(&mut delta.reasoning, more.thinking);
                delta
                    .tool_calls
                    .extend(more.partial_json.map(|arguments| ToolCall {
                        index,
                        arguments: arguments.0.into_owned(),
                        ..ToolCall::default()
                    }));
            }
        }
        "message_delta" => {
            let reason = event.delta.and_then(|delta| delta.stop_reason);
            delta.finish_reason = reason.as_ref().map(finish_reason);
            delta.usage = event.usage.and_then(read_usage);
        }
        "message_stop" => delta.is_last = true,
        _ => {}
    }
    delta.error = event.error.map(error);
    delta.is_content |= delta.has_text() || !delta.reasoning.is_empty();
    Ok(delta)
}

fn read_body(json: &str) -> serde_json::Result<Delta> {
    let message: Message<'_> = serde_json::from_str(json)?;
    let mut delta = Delta {
        is_answer: message.content.is_some(),
        is_whole: message.content.is_some(),
        finish_reason: message.stop_reason.as_ref().map(finish_reason),
        usage: message.usage.and_then(read_usage),
        error: message.error.map(error),
        ..Delta::default()
    };
    for (index, block) in (0..).zip(message.content.into_iter().flatten()) {
        add_block(&mut delta, block, index);
    }
    delta.is_content |= delta.has_text() || !delta.reasoning.is_empty();
    Ok(delta)
}

fn is_call(block: &Block<'_>) -> bool {
    block.kind.as_ref().is_some_and(|kind| kind.0 == "tool_use")
}

/// Adds a block. The empty input at the start of a call is no text.
fn add_block(delta: &mut Delta, block: Block<'_>, index: u64) {
    if is_call(&block) {
        let text =
            |text: Option<Text<'_>>| text.map(|text| text.0.into_owned()).unwrap_or_default();
        let input = block
            .input
            .map(RawValue::get)
            .filter(|input| !is_empty_object(input));
        delta.is_content = true;
        delta.tool_calls.push(ToolCall {
            index,
            id: text(block.id),
            name: text(block.name),
            arguments: input.unwrap_or_default().to_owned(),
            ..ToolCall::default()
        });
    }
    wire::add(&mut delta.text, block.text);
    wire::add(&mut delta.reasoning, block.thinking);
}

fn is_empty_object(json: &str) -> bool {
    let inner = json
        .strip_prefix('{')
        .and_then(|inner| inner.strip_suffix('}'));
    inner.is_some_and(|inner| inner.trim().is_empty())
}

/// The reason in the words of chat completions.
fn finish_reason(reason: &Text<'_>) -> String {
    match &*reason.0 {
        "end_turn" | "stop_sequence" => "stop",
        "max_tokens" | "model_context_window_exceeded" => "length",
        "tool_use" => "tool_calls",
        "refusal" => "content_filter",
        other => other,
    }
    .to_owned()
}

/// Tokens that were read from a cache, or written to one, are not in `input_tokens`.
fn read_usage(raw: &RawValue) -> Option<Usage> {
    #[derive(Deserialize)]
    struct Cached<'a> {
        #[serde(borrow)]
        cache_read_input_tokens: Option<&'a RawValue>,
        cache_creation_input_tokens: Option<&'a RawValue>,
    }
    let mut usage = wire::parse_usage(raw)?;
    if let (Some(tokens), Some(cached)) =
        (&mut usage.prompt_tokens, wire::members::<Cached<'_>>(raw))
    {
        let [read, written] = [
            cached.cache_read_input_tokens,
            cached.cache_creation_input_tokens,
        ]
        .map(wire::number);
        *tokens += read.unwrap_or(0) + written.unwrap_or(0);
        usage.cached_tokens = read;
    }
    Some(usage)
}

/// The status of an error by its type (Anthropic's reference, "Errors").
fn error(error: &RawValue) -> WireError {
    #[derive(Deserialize)]
    struct Typed<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<Text<'a>>,
    }
    let typed: Option<Typed<'_>> = wire::members(error);
    let status = typed.and_then(|error| error.kind).and_then(|kind| {
        Some(match &*kind.0 {
            "authentication_error" => 401,
            "billing_error" => 402,
            "permission_error" => 403,
            "not_found_error" => 404,
            "request_too_large" => 413,
            "rate_limit_error" => 429,
            "api_error" => 500,
            "timeout_error" => 504,
            "overloaded_error" => 529,
            _ => return None,
        })
    });
    WireError {
        status: status.or_else(|| wire::nested_status(error)),
    }
}

#[cfg(test)]
mod tests {
    use sobench_core::case::{Message as CaseMessage, Prompt};
    use sobench_core::constraint::Constraint;
    use sobench_core::tools::ToolSet;

    use super::*;
    use crate::{Decoded, adapter};

    fn decoded(bytes: &[u8], is_stream: bool) -> Decoded {
        let mut decoder = adapter(ServerKind::Anthropic).decoder(is_stream, 1 << 20);
        decoder.push(bytes);
        decoder.finish();
        decoder.into_decoded()
    }

    fn usage(prompt: u64, completion: u64) -> Option<Usage> {
        Some(Usage {
            prompt_tokens: Some(prompt),
            completion_tokens: Some(completion),
            ..Usage::default()
        })
    }

    macro_rules! stream {
        ($name:literal) => {
            decoded(
                include_bytes!(concat!(
                    "../../../../fixtures/wire/anthropic/",
                    $name,
                    ".sse"
                )),
                true,
            )
        };
    }

    #[test]
    fn streams_of_the_official_client_are_read() {
        let basic = stream!("basic");
        assert_eq!(
            (&*basic.answer.content, basic.outcome().name()),
            ("Hello there!", "completed")
        );
        assert_eq!(
            (basic.finish_reason.as_deref(), basic.usage),
            (Some("stop"), usage(11, 6))
        );

        let tool = stream!("tool-use");
        let call = &tool.answer.tool_calls[0];
        assert_eq!(
            (&*call.id, &*call.name),
            ("toolu_01NRLabsLyVHZPKxbKvkfSMn", "get_weather")
        );
        assert_eq!(call.arguments, r#"{"location": "Paris"}"#);
        assert_eq!(
            tool.answer.content,
            "I'll check the current weather in Paris for you."
        );
        assert_eq!(
            (tool.finish_reason.as_deref(), tool.usage),
            (
                Some("tool_calls"),
                usage(377, 65).map(|usage| Usage {
                    cached_tokens: Some(0),
                    ..usage
                })
            )
        );

        let cut = stream!("incomplete-partial-json");
        assert_eq!(cut.outcome().name(), "truncated");
        assert!(
            cut.answer.tool_calls[0]
                .arguments
                .ends_with("\"Filing taxes")
        );

        let refused = stream!("refusal");
        assert_eq!(
            (refused.finish_reason.as_deref(), &*refused.answer.content),
            (Some("content_filter"), "")
        );
    }

    #[test]
    fn thinking_is_reasoning_and_cached_tokens_are_of_the_prompt() {
        let found = stream!("thinking");
        let answer = &found.answer;
        assert_eq!(answer.reasoning, "I need the greatest common divisor.");
        assert_eq!(
            (&*answer.content, found.usage),
            (
                "It is 21.",
                usage(100, 47).map(|usage| Usage {
                    cached_tokens: Some(70),
                    ..usage
                })
            )
        );
        assert_eq!(answer.answered_by.model, "claude-sonnet-4-5");
        assert!(answer.departures.is_empty(), "{:?}", answer.departures);
    }

    #[test]
    fn whole_messages_are_read() {
        let found = decoded(
            br#"{"type":"message","role":"assistant","content":[{"type":"thinking","thinking":"Hm","signature":"x"},
                {"type":"text","text":"So"},{"type":"tool_use","id":"t1","name":"f","input":{"a": 1.0}},
                {"type":"tool_use","id":"t2","name":"g","input":{}}],
                "stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":4,"output_tokens_details":{"thinking_tokens":1}}}"#,
            false,
        );
        assert_eq!(
            (&*found.answer.reasoning, &*found.answer.content),
            ("Hm", "So")
        );
        let calls: Vec<(&str, &str)> = found
            .answer
            .tool_calls
            .iter()
            .map(|call| (&*call.name, &*call.arguments))
            .collect();
        assert_eq!(calls, [("f", "{\"a\": 1.0}"), ("g", "{}")]);
        let expected = usage(3, 4).map(|usage| Usage {
            reasoning_tokens: Some(1),
            ..usage
        });
        assert_eq!(
            (found.outcome().name(), found.usage),
            ("completed", expected)
        );
        assert!(found.answer.departures.is_empty());
    }

    #[test]
    fn a_call_without_arguments_has_an_empty_object() {
        let start = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}"#;
        let end = r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":4}}"#;
        let stream = |last: &str| {
            decoded(
                format!("data: {start}\n\ndata: {end}\n\n{last}").as_bytes(),
                true,
            )
        };
        let found = stream("data: {\"type\":\"message_stop\"}\n\n");
        assert_eq!(found.answer.tool_calls[0].arguments, "{}");
        let cut = stream("");
        assert_eq!(cut.answer.tool_calls[0].arguments, "");
        let whole = start.replace(r#""input":{}"#, r#""input":{"a":1}"#);
        assert_eq!(
            read_event(&whole).unwrap().tool_calls[0].arguments,
            "{\"a\":1}"
        );
    }

    #[test]
    fn errors_have_the_status_of_their_type() {
        for (kind, status) in [
            ("overloaded_error", Some(529)),
            ("invalid_request_error", Some(400)),
            ("authentication_error", Some(401)),
            ("rate_limit_error", Some(429)),
            ("BadRequestError", Some(400)),
            ("new_error", None),
        ] {
            let event = format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"no"}}}}"#);
            assert_eq!(
                read_event(&event).unwrap().error,
                Some(WireError { status }),
                "{kind}"
            );
            assert_eq!(
                read_body(&event).unwrap().error,
                Some(WireError { status }),
                "{kind}"
            );
        }
    }

    fn body(messages: Value, constraint: Option<Constraint>) -> Result<Value, String> {
        let messages: Vec<CaseMessage> = serde_json::from_value(messages).unwrap();
        let case = Case::new(
            "t",
            Prompt::Messages(messages.into()),
            constraint.map(Into::into),
            16,
        );
        let options = BodySettings {
            model: "m".to_owned(),
            stream: false,
            sampling: crate::Sampling::default(),
            ignore_eos: false,
            dialect: ConstraintDialect::OutputConfig,
            guided_decoding_backend: None,
            thinking: None,
            max_tokens_only: false,
            extra_body: None,
        };
        let body = adapter(ServerKind::Anthropic).encode(&case, &options);
        body.map(|body| serde_json::from_slice(&body).unwrap())
            .map_err(|unsendable| unsendable.what)
    }

    #[test]
    fn conversations_are_blocks() {
        let call = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}});
        let sent = body(
            json!([
                {"role": "system", "content": "Be short"},
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": "Let me see", "tool_calls": [call("c1", "{}"), call("c2", "{\"a\": 1}")]},
                {"role": "tool", "tool_call_id": "c1", "content": "5"},
                {"role": "tool", "tool_call_id": "c2", "content": "6"},
                {"role": "user", "content": "And?"}]),
            None,
        );
        let expected = json!({
            "model": "m",
            "messages": [
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": [
                    {"type": "text", "text": "Let me see"},
                    {"type": "tool_use", "id": "c1", "name": "f", "input": {}},
                    {"type": "tool_use", "id": "c2", "name": "f", "input": {"a": 1}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": "5"},
                    {"type": "tool_result", "tool_use_id": "c2", "content": "6"}]},
                {"role": "user", "content": "And?"}],
            "max_tokens": 16,
            "system": [{"type": "text", "text": "Be short"}],
            "stream": false,
        });
        assert_eq!(sent.unwrap(), expected);
        let broken = json!([{"role": "assistant", "content": "", "tool_calls": [call("c", "[1")]}]);
        assert!(
            body(broken, None)
                .unwrap_err()
                .contains("not the text of an object")
        );
    }

    #[test]
    fn tools_have_each_choice() {
        let user = json!([{"role": "user", "content": "Hi"}]);
        let function = json!({"type": "function", "function": {"name": "f", "description": "d", "strict": true,
            "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}});
        let empty = json!({"type": "function", "function": {"name": "g"}});
        let named = json!({"type": "function", "function": {"name": "f"}});
        let allowed =
            json!({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [named]}});
        for (choice, parallel, expected) in [
            (json!("auto"), json!(null), Ok(json!({"type": "auto"}))),
            (
                json!("required"),
                json!(false),
                Ok(json!({"type": "any", "disable_parallel_tool_use": true})),
            ),
            (
                named,
                json!(true),
                Ok(json!({"type": "tool", "name": "f", "disable_parallel_tool_use": false})),
            ),
            (json!("none"), json!(false), Ok(json!({"type": "none"}))),
            (allowed, json!(null), Err("allowed_tools")),
        ] {
            let set = json!({"tools": [function, empty], "tool_choice": choice, "parallel_tool_calls": parallel});
            let set: ToolSet = serde_json::from_value(set).unwrap();
            match (
                body(user.clone(), Some(Constraint::Tools(set.into()))),
                expected,
            ) {
                (Ok(sent), Ok(expected)) => {
                    assert_eq!(sent["tool_choice"], expected);
                    assert_eq!(
                        sent["tools"],
                        json!([
                            {"name": "f", "description": "d",
                                "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}}, "strict": true},
                            {"name": "g", "input_schema": {"type": "object", "properties": {}}}])
                    );
                }
                (sent, Err(word)) => assert!(sent.unwrap_err().contains(word)),
                (sent, _) => panic!("{sent:?}"),
            }
        }
    }
}
