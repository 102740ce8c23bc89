//! openai-node: `chat.completions.stream().finalChatCompletion()`.

use serde_json::Value;

use crate::client::{Client, Read, ReadCall, Reading};
use crate::deltas::{call_deltas, text};

pub(super) const CLIENT: Client = Client {
    name: "openai-node",
    package: "openai 7.59.0 (npm)",
    source: "openai/lib/ChatCompletionStream: accumulateChatCompletion, finalizeChatCompletion",
    join: read,
};

/// It takes no more calls, and no more choices.
const MAX: u64 = 128;

#[derive(Default)]
struct Joined {
    id: String,
    kind: String,
    function: Part,
    custom: Part,
}

/// The function of a call, or what a custom call has in its place.
#[derive(Default)]
struct Part {
    is_known: bool,
    name: String,
    text: String,
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
        let index = part["index"].as_u64().filter(|index| *index < MAX);
        let index = index.ok_or("a choice without an index")? as usize;
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
        let index = call["index"].as_u64().filter(|index| *index < MAX);
        let index = index.ok_or("a call without an index")? as usize;
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
        joined.custom.add(&call["custom"], "input");
        joined.function.add(&call["function"], "arguments");
        match joined.kind == "function" && !joined.function.is_known {
            true => Err("a call without a function".to_owned()),
            false => Ok(()),
        }
    }
}

impl Part {
    fn add(&mut self, delta: &Value, member: &str) {
        if !delta.is_object() {
            return;
        }
        self.is_known = true;
        if !text(&delta["name"]).is_empty() {
            text(&delta["name"]).clone_into(&mut self.name);
        }
        match &delta[member] {
            Value::String(more) => self.text.push_str(more),
            Value::Object(_) => self.text.push_str("[object Object]"),
            _ => {}
        }
    }
}

fn finished(call: Option<Joined>) -> Result<ReadCall, String> {
    let call = call.ok_or("an index without a call")?;
    let part = match call.kind.as_str() {
        "custom" => call.custom,
        _ => call.function,
    };
    if call.kind.is_empty() || !part.is_known {
        return Err("a call without a type or a function".to_owned());
    }
    Ok(ReadCall {
        id: call.id,
        name: part.name,
        arguments: part.text.into(),
    })
}
