//! Conversations: OpenAI's `messages` with `tools`, a list of messages, or ShareGPT's
//! `conversations`, whose `function_call` is JSON with a name and arguments, and whose `observation`
//! is its result (the format of LLaMA-Factory). `tools` may be a text with JSON.

use serde_json::{Value, json};

use super::{Draft, DraftTurn, Message, wrong};
use crate::dataset::message::messages;
use sobench_core::error::Result;

pub(super) fn draft(place: &str, value: &Value) -> Result<Draft> {
    let messages = if value["conversations"].is_array() {
        share_gpt(place, value)?
    } else {
        let list = if value.is_array() {
            value
        } else {
            &value["messages"]
        };
        if !list.is_array() {
            return Err(wrong(place, "no session"));
        }
        messages("messages", list).map_err(|error| wrong(place, error))?
    };
    let tools = match &value.get("tools") {
        Some(Value::String(text)) if text.trim().is_empty() => None,
        Some(Value::String(text)) => Some(
            serde_json::from_str(text).map_err(|error| wrong(place, format!("tools: {error}")))?,
        ),
        Some(Value::Null) | None => None,
        Some(tools) => Some((*tools).clone()),
    };
    let tools = tools.map(as_functions);
    let choice = value.get("tool_choice").cloned();
    let mut draft = Draft {
        place: place.to_owned(),
        ..Draft::default()
    };
    let mut new = Vec::new();
    let mut end_turn = |new: &mut Vec<Message>, answer: Option<Message>| {
        draft.turns.push(DraftTurn {
            place: format!("{place}, turn {}", draft.turns.len() + 1),
            new: std::mem::take(new),
            tools: tools.clone(),
            tool_choice: choice.clone(),
            answer,
            ..DraftTurn::default()
        });
    };
    for message in messages {
        if message.role == "assistant" {
            end_turn(&mut new, Some(message));
        } else {
            new.push(message);
        }
    }
    if !new.is_empty() {
        end_turn(&mut new, None);
    }
    Ok(draft)
}

/// Tools that are functions without an envelope get one.
fn as_functions(tools: Value) -> Value {
    let function = |tool: Value| match tool.get("type").is_none() && tool.get("name").is_some() {
        true => json!({"type": "function", "function": tool}),
        false => tool,
    };
    match tools {
        Value::Array(tools) => tools.into_iter().map(function).collect(),
        other => other,
    }
}

fn share_gpt(place: &str, value: &Value) -> Result<Vec<Message>> {
    let mut messages = Vec::new();
    if let Some(system) = value["system"].as_str().filter(|text| !text.is_empty()) {
        messages.push(Message::new("system", system));
    }
    let mut call = 0;
    for entry in value["conversations"].as_array().into_iter().flatten() {
        let from = entry["from"]
            .as_str()
            .or(entry["role"].as_str())
            .unwrap_or_default();
        let text = entry["value"]
            .as_str()
            .or(entry["content"].as_str())
            .unwrap_or_default();
        messages.push(match from {
            "human" | "user" => Message::new("user", text),
            "system" => Message::new("system", text),
            "gpt" | "assistant" | "chatgpt" | "bing" | "bard" => Message::new("assistant", text),
            "function_call" => {
                let made: Value = serde_json::from_str(text)
                    .map_err(|error| wrong(place, format!("function_call: {error}")))?;
                call += 1;
                let arguments = match &made["arguments"] {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                let id = format!("call_{call}");
                Message::calling("", [Message::call(&id, made["name"].clone(), &arguments)])
            }
            "observation" | "tool" => Message::tool_result(format!("call_{call}"), text),
            other => return Err(wrong(place, format!("an entry from {other:?}"))),
        });
    }
    Ok(messages)
}
