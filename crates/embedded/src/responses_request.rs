//! Parses requests to the responses endpoint.
//!
//! Source: OpenAI's API reference, "Create a model response", and vLLM's `ResponsesRequest`
//! (`vllm/entrypoints/openai/responses/protocol.py`).

use std::sync::Arc;

use serde_json::{Map, Value};

use super::constraint_fields::{self, Rules};
use super::endpoint::Endpoint;
use super::failure::Failure;
use super::request::{
    GenerationRequest, RequestedUsage, Thinking, content_text, flag, integer, offered, present,
    refuse_unimplemented, sampling, thinks_with, tokens, wrong,
};
use super::tools;
use sobench_core::tools::ToolForm;

/// Members that need what earlier responses or other services know. Accepted only when empty.
const EMPTY: &[&str] = &[
    "previous_response_id",
    "conversation",
    "background",
    "prompt",
    "include",
    "logit_bias",
    "bad_words",
    "stop_token_ids",
];

/// Parses the members of a request.
///
/// # Errors
/// Status 400 that names the field.
pub(super) fn parse(
    fields: &Map<String, Value>,
    rules: &Rules<'_>,
) -> Result<GenerationRequest, Failure> {
    refuse_unimplemented(fields, &[], EMPTY)?;
    let tools = tools::read(fields, ToolForm::Responses)?;
    let constraint = constraint_fields::read(fields, Endpoint::Responses, rules)?;
    Ok(GenerationRequest {
        prompt: offered(tools.as_deref()) + &input(fields)?,
        constraint: constraint.map(Arc::new),
        thinking: Thinking {
            is_on: thinks(fields)?,
            is_included: true,
        },
        tools,
        max_tokens: tokens(fields, "max_output_tokens", 1)?,
        stream: flag(fields, "stream")?,
        // The last event always has the usage.
        usage: RequestedUsage {
            at_the_end: true,
            in_every_chunk: false,
        },
        sampling: sampling(fields)?,
        seed: integer(fields, "seed", i64::MIN..=i64::MAX)?,
        ignore_eos: false,
        stop: Vec::new(),
        min_tokens: 0,
    })
}

fn thinks(fields: &Map<String, Value>) -> Result<bool, Failure> {
    match present(fields, "reasoning") {
        None => Ok(true),
        Some(Value::Object(reasoning)) => thinks_with(present(reasoning, "effort"), "reasoning"),
        Some(_) => Err(wrong("reasoning", "an object")),
    }
}

/// Converts the instructions and the input to lines like those of messages.
fn input(fields: &Map<String, Value>) -> Result<String, Failure> {
    let mut text = String::new();
    if let Some(instructions) = present(fields, "instructions") {
        let instructions = instructions
            .as_str()
            .ok_or_else(|| wrong("instructions", "a string"))?;
        text = ["system: ", instructions, "\n"].concat();
    }
    match present(fields, "input") {
        Some(Value::String(input)) => text += &["user: ", input, "\n"].concat(),
        Some(Value::Array(items)) if !items.is_empty() => {
            for item in items {
                text.push_str(&item_line(item)?);
            }
        }
        _ => {
            return Err(wrong("input", "a string, or a list that is not empty"));
        }
    }
    text.push_str("assistant:");
    Ok(text)
}

fn item_line(item: &Value) -> Result<String, Failure> {
    let member = |name: &str| item.get(name).and_then(Value::as_str);
    let required = |name: &str| {
        member(name).ok_or_else(|| wrong("input", "items with the members of their type"))
    };
    match member("type").unwrap_or("message") {
        "message" => {
            let role = member("role").ok_or_else(|| wrong("input", "messages with a role"))?;
            let text = content_text(item.get("content"), "input")?;
            Ok(format!("{role}: {text}\n"))
        }
        "function_call" => Ok(format!(
            "assistant:  {} {}\n",
            required("name")?,
            required("arguments")?
        )),
        "custom_tool_call" => Ok(format!(
            "assistant:  {} {}\n",
            required("name")?,
            required("input")?
        )),
        "function_call_output" | "custom_tool_call_output" => {
            let text = content_text(item.get("output"), "input")?;
            Ok(format!("tool: {text}\n"))
        }
        "reasoning" => Ok(String::new()),
        other => Err(Failure::bad_request(format!(
            "the embedded server does not implement items of type {other}"
        ))
        .about("input")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::RULES;

    fn read(fields: &Value) -> Result<GenerationRequest, Failure> {
        parse(fields.as_object().unwrap(), &RULES)
    }

    #[test]
    fn input_becomes_lines() {
        let request = read(&json!({
            "instructions": "Be brief.",
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
                {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "5"},
                {"type": "reasoning", "summary": []},
            ],
            "text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "object"}}},
            "reasoning": {"effort": "none"}, "max_output_tokens": 7, "store": false, "verbosity": "low",
        }))
        .unwrap();
        assert_eq!(
            request.prompt,
            "system: Be brief.\nuser: Hi\nassistant:  f {}\ntool: 5\nassistant:"
        );
        assert_eq!(request.constraint.unwrap().kind(), "json");
        assert_eq!(
            (request.max_tokens, request.thinking.is_on),
            (Some(7), false)
        );
    }

    #[test]
    fn errors_name_the_refused_field() {
        for (more, param) in [
            (json!({"input": []}), "input"),
            (json!({"input": [{"type": "image"}]}), "input"),
            (json!({"input": [{"content": "x"}]}), "input"),
            (json!({"instructions": 1}), "instructions"),
            (json!({"previous_response_id": "r"}), "previous_response_id"),
            (json!({"background": true}), "background"),
            (json!({"text": {"format": {"type": "grammar"}}}), "text"),
            (json!({"reasoning": {"effort": "much"}}), "reasoning"),
            (json!({"tools": [{"type": "function"}]}), "tools"),
            (json!({"max_output_tokens": 0}), "max_output_tokens"),
        ] {
            let mut fields = json!({"input": "Hi"});
            fields
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            let failure = read(&fields).unwrap_err();
            assert_eq!((failure.status.as_u16(), failure.param), (400, Some(param)));
        }
    }
}
