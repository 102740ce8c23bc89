//! OpenAI's responses endpoint: `{model, input, max_output_tokens, ...}`, answered by typed events.
//!
//! Source: OpenAI's reference "Responses: streaming events" and vLLM's `responses/protocol.py`; not
//! tested against a server. Text is in `response.output_text.delta`, reasoning in
//! `response.reasoning_text.delta` or, if only a summary is available, in
//! `response.reasoning_summary_text.delta`, arguments of a function in
//! `response.function_call_arguments.delta`, and the input of a custom tool in
//! `response.custom_tool_call_input.delta`. The last event (`response.completed`,
//! `response.incomplete`, `response.failed`) repeats the whole response with its status. The status
//! decides, not the name of the event: vLLM uses only the first one, also for incomplete responses.
//! The reason `max_output_tokens` is converted to `length`. OpenAI sends no `[DONE]`; if one is
//! received, it ends the answer.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::openai::COMPLETIONS;
use super::{ConstraintDialect, Input, KindSpec, ServerKind};
use crate::body_layout::BodyLayout;
use crate::decode::Wire;
use crate::wire::{self, Delta, SentArguments, Text, TextIs, WireError};
use crate::{BodySettings, ThinkingSwitch, Unsendable, body};
use sobench_core::answer::{CallForm, ToolCall};
use sobench_core::case::Case;
use sobench_core::tools::ToolForm;

pub(super) const SPEC: KindSpec = KindSpec {
    name: "openai-responses",
    embedded: true,
    path: "/v1/responses",
    path_words: &["responses"],
    input: Input::Messages,
    dialects: &[
        ConstraintDialect::StructuredOutputs,
        ConstraintDialect::TextFormat,
        ConstraintDialect::ToolCall,
        ConstraintDialect::ToolCallNonStrict,
    ],
    auto_dialect: |_| ConstraintDialect::TextFormat,
    // vLLM added `structured_outputs` to this endpoint later than to others; older versions ignore
    // it. 0.32 reads it.
    treated_as: |owner, version| version.filter(|version| *version >= (0, 32)).map(|_| owner),
    body: BodyLayout {
        prompt: "input",
        length: "max_output_tokens",
        has_stream_options: false,
        has_ignore_eos: false,
        // OpenAI's parameters, and `top_k` of vLLM; older versions of vLLM ignore its other
        // additions.
        sampling: &["temperature", "top_p", "top_k"],
        ..BodyLayout::COMPLETIONS
    },
    logprobs: Some(|n| json!({"include": ["message.output_text.logprobs"], "top_logprobs": n})),
    tools: Some(ToolForm::Responses),
    thinking_switches: &[ThinkingSwitch::Reasoning],
    encode,
    wire: Wire {
        body: read_body,
        ..Wire::sse(read_event)
    },
    ..COMPLETIONS
};

/// Text parts of messages have another type than in chat completions; other parts are sent
/// unchanged.
fn encode(kind: ServerKind, case: &Case, options: &BodySettings) -> Result<Bytes, Unsendable> {
    let mut input = body::messages(kind, case)?;
    if let Value::Array(messages) = &mut input {
        *messages = messages.drain(..).flat_map(items_of).collect();
    }
    for message in input.as_array_mut().into_iter().flatten() {
        let part_type = if message["role"] == "assistant" {
            "output_text"
        } else {
            "input_text"
        };
        let parts = message.get_mut("content").and_then(Value::as_array_mut);
        for part in parts
            .into_iter()
            .flatten()
            .filter(|part| part["type"] == "text")
        {
            part["type"] = Value::from(part_type);
        }
    }
    let body = json!({"model": options.model_of(case), "input": input, "max_output_tokens": case.output_len});
    body::finish(kind, body, case, options)
}

/// The items of a message: calls and their results are items of their own.
fn items_of(mut message: Value) -> Vec<Value> {
    if message["role"] == "tool" {
        return vec![json!({
            "type": "function_call_output",
            "call_id": message["tool_call_id"],
            "output": message["content"],
        })];
    }
    let calls = message
        .as_object_mut()
        .and_then(|members| members.remove("tool_calls"));
    let Some(Value::Array(calls)) = calls else {
        return vec![message];
    };
    let has_content = !matches!(&message["content"], Value::Null)
        && message["content"]
            .as_str()
            .is_none_or(|text| !text.is_empty());
    let item = |call: Value| match call.get("custom") {
        Some(custom) => json!({
            "type": "custom_tool_call",
            "call_id": call["id"],
            "name": custom["name"],
            "input": custom["input"],
        }),
        None => json!({
            "type": "function_call",
            "call_id": call["id"],
            "name": call["function"]["name"],
            "arguments": call["function"]["arguments"],
        }),
    };
    let message = has_content.then_some(message);
    message
        .into_iter()
        .chain(calls.into_iter().map(item))
        .collect()
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Text<'a>>,
    /// Text in the events that are used; an object in some others.
    delta: Option<&'a RawValue>,
    response: Option<Response<'a>>,
    code: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    item: Option<Item<'a>>,
    output_index: Option<&'a RawValue>,
    sequence_number: Option<&'a RawValue>,
    /// Of the events that repeat what the deltas have sent.
    text: Option<&'a RawValue>,
    arguments: Option<&'a RawValue>,
    input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow)]
    status: Option<Text<'a>>,
    error: Option<&'a RawValue>,
    incomplete_details: Option<Incomplete<'a>>,
    output: Option<Vec<Item<'a>>>,
    usage: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Incomplete<'a> {
    #[serde(borrow)]
    reason: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Text<'a>>,
    content: Option<Vec<Part<'a>>>,
    /// Of reasoning. A stream has it in the same channel as the reasoning itself.
    summary: Option<Vec<Part<'a>>>,
    call_id: Option<Text<'a>>,
    name: Option<Text<'a>>,
    /// Of a function.
    #[serde(default, deserialize_with = "wire::present")]
    arguments: Option<&'a RawValue>,
    /// Of a custom tool.
    #[serde(default, deserialize_with = "wire::present")]
    input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Text<'a>>,
    text: Option<Text<'a>>,
    refusal: Option<Text<'a>>,
}

impl Item<'_> {
    fn is_call(&self) -> bool {
        self.kind
            .as_ref()
            .is_some_and(|kind| matches!(&*kind.0, "function_call" | "custom_tool_call"))
            || self.arguments.is_some_and(|raw| raw.get() != "null")
    }

    fn into_call(self, index: u64, delta: &mut Delta) -> serde_json::Result<ToolCall> {
        let text =
            |text: Option<Text<'_>>| text.map(|text| text.0.into_owned()).unwrap_or_default();
        let is_custom = self.kind.is_some_and(|kind| kind.0 == "custom_tool_call");
        let call = ToolCall {
            index,
            id: text(self.call_id),
            name: text(self.name),
            form: if is_custom {
                CallForm::Custom
            } else {
                CallForm::Function
            },
            ..ToolCall::default()
        };
        let arguments = SentArguments::read(self.arguments.or(self.input))?;
        Ok(arguments.into_call(call, &mut delta.departures))
    }
}

fn read_event(json: &str) -> serde_json::Result<Delta> {
    let event: Event<'_> = serde_json::from_str(json)?;
    let mut delta = Delta {
        number: wire::number(event.sequence_number),
        ..Delta::default()
    };
    let index = wire::number(event.output_index).unwrap_or(0);
    let text = |raw: Option<&RawValue>| {
        raw.map(|raw| serde_json::from_str::<String>(raw.get()))
            .transpose()
    };
    match event.kind.as_ref().map_or("", |kind| &kind.0) {
        "response.output_text.delta" => delta.text = text(event.delta)?.unwrap_or_default(),
        "response.refusal.delta" => delta.refusal = text(event.delta)?.unwrap_or_default(),
        "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
            add_arguments(&mut delta, index, event.delta)?;
        }
        "response.output_text.done" => {
            delta.text = text(event.text)?.unwrap_or_default();
            delta.text_is = TextIs::PartRepeated;
        }
        "response.function_call_arguments.done" | "response.custom_tool_call_input.done" => {
            add_arguments(&mut delta, index, event.arguments.or(event.input))?;
            delta.text_is = TextIs::PartRepeated;
        }
        "response.reasoning_text.delta" | "response.reasoning_summary_text.delta" => {
            delta.reasoning = text(event.delta)?.unwrap_or_default();
        }
        "response.output_item.added" => {
            // The call's name is generated content, but not text.
            let call = event.item.filter(Item::is_call);
            delta.is_content = call.is_some();
            // Its arguments are sent in separate events.
            if let Some(mut item) = call {
                (item.arguments, item.input) = (None, None);
                let call = item.into_call(index, &mut delta)?;
                delta.tool_calls.push(call);
            }
        }
        "response.completed" | "response.incomplete" | "response.failed" => {
            if let Some(response) = event.response {
                add_response(&mut delta, response)?;
            }
            delta.reasoning.clear();
            delta.text_is = TextIs::Repeated;
            delta.is_last = true;
        }
        "error" => {
            delta.error = Some(WireError {
                status: wire::status_of(event.code, event.code),
            });
        }
        _ => {}
    }
    if let Some(error) = event.error {
        delta.error = Some(WireError {
            status: error_status(error),
        });
    }
    delta.is_content |=
        delta.text_is != TextIs::PartRepeated && (delta.has_text() || !delta.reasoning.is_empty());
    Ok(delta)
}

/// Adds arguments, or a part of them.
fn add_arguments(delta: &mut Delta, index: u64, sent: Option<&RawValue>) -> serde_json::Result<()> {
    let call = ToolCall {
        index,
        ..ToolCall::default()
    };
    let call = SentArguments::read(sent)?.into_call(call, &mut delta.departures);
    delta.tool_calls.push(call);
    Ok(())
}

fn read_body(json: &str) -> serde_json::Result<Delta> {
    let mut delta = Delta::default();
    add_response(&mut delta, serde_json::from_str(json)?)?;
    delta.is_content = delta.has_text() || !delta.reasoning.is_empty();
    Ok(delta)
}

fn add_response(delta: &mut Delta, response: Response<'_>) -> serde_json::Result<()> {
    delta.is_answer = response.output.is_some();
    delta.error = response.error.map(|error| WireError {
        status: error_status(error),
    });
    let status = response
        .status
        .map_or_else(String::new, |status| status.0.into_owned());
    let mut is_call = false;
    for (position, mut item) in response.output.into_iter().flatten().enumerate() {
        let is_reasoning = item.kind.as_ref().is_some_and(|kind| kind.0 == "reasoning");
        let parts = [item.summary.take(), item.content.take()];
        if item.is_call() {
            is_call = true;
            let call = item.into_call(position as u64, delta)?;
            delta.tool_calls.push(call);
        }
        for part in parts.into_iter().flatten().flatten() {
            let is_reasoning =
                is_reasoning || part.kind.is_some_and(|kind| kind.0 == "reasoning_text");
            wire::add(
                if is_reasoning {
                    &mut delta.reasoning
                } else {
                    &mut delta.text
                },
                part.text,
            );
            wire::add(&mut delta.refusal, part.refusal);
        }
    }
    delta.finish_reason = match status.as_str() {
        "completed" if is_call => Some("tool_calls".to_owned()),
        "completed" => Some("stop".to_owned()),
        "incomplete" => match response
            .incomplete_details
            .and_then(|details| details.reason)
        {
            Some(reason) if reason.0 == "max_output_tokens" => Some("length".to_owned()),
            Some(reason) => Some(reason.0.into_owned()),
            None => Some(status),
        },
        "failed" | "cancelled" => {
            delta.error.get_or_insert(WireError { status: None });
            Some(status)
        }
        _ => None,
    };
    delta.usage = response.usage.and_then(wire::parse_usage);
    Ok(())
}

/// A failed response has its cause in `code`, where chat completions have a `type`.
fn error_status(error: &RawValue) -> Option<u16> {
    #[derive(Deserialize)]
    struct Code<'a> {
        #[serde(borrow)]
        code: Option<&'a RawValue>,
    }
    let code = serde_json::from_str::<Code<'_>>(error.get())
        .ok()
        .and_then(|error| error.code);
    wire::nested_status(error).or_else(|| wire::status_of(code, code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_bodies_keep_reasoning_apart() {
        let delta = read_body(
            r#"{"status":"completed","error":null,"output":[
                {"type":"reasoning","content":[{"type":"reasoning_text","text":"Hm"}]},
                {"type":"message","content":[{"type":"output_text","text":"{}"}]}],
                "usage":{"input_tokens":3,"output_tokens":4}}"#,
        )
        .unwrap();
        assert_eq!((&*delta.reasoning, &*delta.text), ("Hm", "{}"));
        assert_eq!(delta.finish_reason.as_deref(), Some("stop"));
        assert!(delta.is_answer && delta.error.is_none());
    }

    #[test]
    fn whole_bodies_have_the_summary_of_the_reasoning() {
        let delta = read_body(
            r#"{"status":"completed","output":[
                {"type":"reasoning","summary":[{"type":"summary_text","text":"Hm"}]},
                {"type":"message","content":[{"type":"output_text","text":"a"}]}]}"#,
        )
        .unwrap();
        assert_eq!((&*delta.reasoning, &*delta.text), ("Hm", "a"));
    }

    #[test]
    fn calls_and_their_results_are_items() {
        let message = json!({"role": "assistant", "content": "Let me see", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
            {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "x"}}]});
        assert_eq!(
            items_of(message),
            [
                json!({"role": "assistant", "content": "Let me see"}),
                json!({"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}),
                json!({"type": "custom_tool_call", "call_id": "c2", "name": "g", "input": "x"}),
            ]
        );
        let silent = json!({"role": "assistant", "content": null, "tool_calls": []});
        assert!(items_of(silent).is_empty());
        let result = json!({"role": "tool", "tool_call_id": "c1", "content": "5"});
        assert_eq!(
            items_of(result),
            [json!({"type": "function_call_output", "call_id": "c1", "output": "5"})]
        );
        let plain = json!({"role": "user", "content": "Hi"});
        assert_eq!(items_of(plain.clone()), [plain]);
    }

    #[test]
    fn calls_of_custom_tools_are_read() {
        let call = |delta: &Delta| delta.tool_calls[0].clone();
        let added = read_event(
            r#"{"type":"response.output_item.added","output_index":1,"item":{"type":"custom_tool_call","call_id":"c1","name":"g","input":""}}"#,
        )
        .unwrap();
        assert_eq!((call(&added).index, &*call(&added).name), (1, "g"));
        let more = read_event(
            r#"{"type":"response.custom_tool_call_input.delta","output_index":1,"delta":"x"}"#,
        )
        .unwrap();
        assert_eq!((call(&more).index, &*call(&more).arguments), (1, "x"));
        let whole = read_body(
            r#"{"status":"completed","output":[{"type":"custom_tool_call","call_id":"c1","name":"g","input":"x"}]}"#,
        )
        .unwrap();
        assert_eq!((&*call(&whole).id, &*call(&whole).arguments), ("c1", "x"));
        assert_eq!(whole.finish_reason.as_deref(), Some("tool_calls"));
    }

    #[test]
    fn statuses_are_converted_to_finish_reasons() {
        for (members, reason) in [
            (r#""status":"completed","output":[]"#, Some("stop")),
            (
                r#""status":"completed","output":[{"type":"function_call","arguments":"{}"}]"#,
                Some("tool_calls"),
            ),
            (
                r#""status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}"#,
                Some("length"),
            ),
            (
                r#""status":"incomplete","incomplete_details":{"reason":"content_filter"}"#,
                Some("content_filter"),
            ),
            (r#""status":"in_progress""#, None),
        ] {
            let delta = read_event(&format!(
                r#"{{"type":"response.completed","response":{{{members}}}}}"#
            ))
            .unwrap();
            assert_eq!(delta.finish_reason.as_deref(), reason, "{members}");
        }
    }

    #[test]
    fn errors_in_every_format() {
        for (json, status) in [
            (
                r#"{"type":"error","code":"server_error","message":"no","param":null}"#,
                Some(500),
            ),
            (
                r#"{"type":"error","code":"rate_limit_exceeded","message":"slow"}"#,
                Some(429),
            ),
            (r#"{"type":"error","code":null,"message":"no"}"#, None),
            (
                r#"{"error":{"message":"bad","type":"BadRequestError","code":400}}"#,
                Some(400),
            ),
            (
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"no"}}"#,
                Some(400),
            ),
            (
                r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"invalid_prompt","message":"no"}}}"#,
                Some(400),
            ),
            (
                r#"{"type":"response.failed","response":{"status":"failed","error":null}}"#,
                None,
            ),
        ] {
            assert_eq!(
                read_event(json).unwrap().error,
                Some(WireError { status }),
                "{json}"
            );
        }
    }

    #[test]
    fn unused_events_are_skipped() {
        for json in [
            r#"{"type":"response.created","response":{"status":"in_progress","output":[]}}"#,
            r#"{"type":"response.content_part.done","text":"ab"}"#,
            r#"{"type":"response.future","delta":{"x":1}}"#,
            r#"{"type":"response.output_item.added","item":{"type":"message","content":[]}}"#,
        ] {
            assert_eq!(read_event(json).unwrap(), Delta::default(), "{json}");
        }
    }
}
