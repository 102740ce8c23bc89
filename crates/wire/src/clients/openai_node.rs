//! openai-node: `chat.completions.stream().finalChatCompletion()`.

use serde_json::Value;

use crate::client::{Client, Read, ReadCall, Reading};
use crate::deltas::{call_deltas, is_null, text};

pub(super) const CLIENT: Client = Client {
    name: "openai-node",
    package: "openai 6.49.0 (npm)",
    source: "openai/lib/ChatCompletionStream: accumulateChatCompletion, finalizeChatCompletion",
    join: read,
};

#[derive(Default)]
struct Joined {
    id: String,
    kind: String,
    name: Option<String>,
    arguments: String,
    /// A custom call, which the helper does not take.
    has_function: bool,
}

#[derive(Default)]
struct Choice {
    role: String,
    content: String,
    is_whole: bool,
    finish_reason: Option<String>,
    calls: Vec<Option<Joined>>,
}

fn read(chunks: &[Value], _: Option<&[&str]>) -> Reading {
    let mut choices: Vec<Option<Choice>> = Vec::new();
    for part in chunks
        .iter()
        .filter_map(|chunk| chunk["choices"].as_array())
        .flatten()
    {
        let index = part["index"].as_u64().ok_or("a choice without an index")?;
        let index = usize::try_from(index).unwrap_or_default();
        if choices.len() <= index {
            choices.resize_with(index + 1, || None);
        }
        let choice = choices[index].get_or_insert_with(Choice::default);
        if let Some(reason) = part["finish_reason"].as_str() {
            choice.finish_reason = Some(reason.to_owned());
        }
        if let Some(message) = part.get("message") {
            choice.is_whole = true;
            text(&message["content"]).clone_into(&mut choice.content);
            text(&message["role"]).clone_into(&mut choice.role);
        }
        let delta = &part["delta"];
        if delta.is_null() {
            continue;
        }
        choice.content.push_str(text(&delta["content"]));
        if !text(&delta["role"]).is_empty() {
            text(&delta["role"]).clone_into(&mut choice.role);
        }
        for call in call_deltas(delta)? {
            choice.add(call)?;
        }
    }
    let mut found = Read::default();
    for (number, choice) in choices.into_iter().enumerate() {
        let choice = choice.ok_or("a choice is missing")?;
        if choice.finish_reason.is_none() {
            return Err("no finish reason".to_owned());
        }
        if choice.role != "assistant" {
            return Err("no role, or another one".to_owned());
        }
        let calls: Result<Vec<ReadCall>, String> = choice.calls.into_iter().map(finished).collect();
        let calls = calls?;
        if number == 0 {
            found = Read {
                content: choice.content,
                calls,
            };
        }
    }
    Ok(found)
}

impl Choice {
    fn add(&mut self, call: &Value) -> Result<(), String> {
        if call.is_null() {
            return Err("a call that is null".to_owned());
        }
        // A delta without an index is kept under another key, which nothing reads.
        let Some(index) = call_index(call) else {
            return Ok(());
        };
        if self.calls.len() <= index {
            self.calls.resize_with(index + 1, || None);
        }
        let joined = self.calls[index].get_or_insert_with(Joined::default);
        if !text(&call["id"]).is_empty() {
            text(&call["id"]).clone_into(&mut joined.id);
        }
        if !text(&call["type"]).is_empty() {
            text(&call["type"]).clone_into(&mut joined.kind);
        }
        let function = &call["function"];
        if !function.is_object() {
            return match joined.kind.as_str() {
                "function" if !joined.has_function => Err("a call without a function".to_owned()),
                _ => Ok(()),
            };
        }
        if !joined.has_function {
            joined.has_function = true;
            joined.name = Some(text(&function["name"]).to_owned());
        }
        if !text(&function["name"]).is_empty() {
            joined.name = Some(text(&function["name"]).to_owned());
        }
        match &function["arguments"] {
            Value::String(more) => joined.arguments.push_str(more),
            Value::Object(_) => joined.arguments.push_str("[object Object]"),
            _ => {}
        }
        match joined.kind.as_str() {
            "" | "function" => Ok(()),
            _ => Err("a call of another type".to_owned()),
        }
    }
}

/// JavaScript takes an index as a text, too.
fn call_index(call: &Value) -> Option<usize> {
    let index = crate::deltas::index_of(call)?;
    usize::try_from(index)
        .ok()
        .filter(|_| !is_null(call.get("index")))
}

fn finished(call: Option<Joined>) -> Result<ReadCall, String> {
    let call = call.ok_or("an index without a call")?;
    if call.kind.is_empty() || !call.has_function {
        return Err("a call without a type or a function".to_owned());
    }
    Ok(ReadCall {
        id: call.id,
        name: call.name.unwrap_or_default(),
        arguments: call.arguments.into(),
    })
}
