//! LlamaIndex: `OpenAI.stream_chat`.

use serde_json::Value;

use crate::client::{Client, Read, ReadCall, Reading};
use crate::deltas::{call_deltas, index_of, is_null, text};

pub(super) const CLIENT: Client = Client {
    name: "llama-index",
    package: "llama-index-llms-openai 0.8.3, llama-index-core 0.14.25 (PyPI)",
    source: "llama_index/llms/openai/base.py: _stream_chat; llama_index/llms/openai/utils.py: update_tool_calls",
    join: read,
};

/// The roles that a message may have.
const ROLES: [&str; 8] = [
    "system",
    "developer",
    "user",
    "assistant",
    "function",
    "tool",
    "chatbot",
    "model",
];

fn read(chunks: &[Value], _: Option<&[&str]>) -> Reading {
    let mut content = String::new();
    let mut calls: Vec<Value> = Vec::new();
    let mut has_response = false;
    for chunk in chunks {
        let choices = chunk["choices"].as_array().ok_or("no list of choices")?;
        let delta = choices.first().map(|choice| &choice["delta"]);
        if delta.is_some_and(Value::is_null) {
            continue;
        }
        has_response = true;
        let Some(delta) = delta else { continue };
        let role = &delta["role"];
        if !is_falsy(role) && !ROLES.contains(&text(role)) {
            return Err("another role".to_owned());
        }
        match &delta["content"] {
            Value::String(more) => content.push_str(more),
            more if is_falsy(more) => {}
            _ => return Err("content that is no text".to_owned()),
        }
        // Only the first delta of a call in each chunk counts.
        if let Some(more) = call_deltas(delta)?.first() {
            update(&mut calls, more)?;
            calls.last().map_or(Ok(()), check)?;
        }
    }
    if !has_response {
        return Err("no delta".to_owned());
    }
    let blocks = calls.iter().filter(|call| !call["function"].is_null());
    let block = |call: &Value| {
        let function = &call["function"];
        ReadCall {
            id: text(&call["id"]).to_owned(),
            name: text(&function["name"]).to_owned(),
            arguments: match &function["arguments"] {
                arguments if is_falsy(arguments) => Value::Object(serde_json::Map::new()),
                arguments => arguments.clone(),
            },
        }
    };
    Ok(Read {
        content,
        calls: blocks.map(block).collect(),
    })
}

/// Adds a delta to the last call if they have one index; else it begins a call.
fn update(calls: &mut Vec<Value>, more: &Value) -> Result<(), String> {
    let is_of = |call: &&mut Value| index_of(call) == index_of(more);
    let Some(call) = calls.last_mut().filter(is_of) else {
        calls.push(more.clone());
        return Ok(());
    };
    if is_null(call.get("function")) || is_null(more.get("function")) {
        return Err("a call without a function".to_owned());
    }
    for name in ["arguments", "name"] {
        add(&mut call["function"][name], &more["function"][name])?;
    }
    add(&mut call["id"], &more["id"])
}

fn add(known: &mut Value, more: &Value) -> Result<(), String> {
    if known.is_null() {
        *known = "".into();
    }
    match (known, more) {
        (Value::String(known), Value::String(more)) => known.push_str(more),
        (Value::String(_), more) if is_falsy(more) => {}
        _ => return Err("a part of a call that is no text cannot be added".to_owned()),
    }
    Ok(())
}

/// The types that a block of a call asks for; a call without a function has none.
fn check(call: &Value) -> Result<(), String> {
    let (id, function) = (&call["id"], &call["function"]);
    let (name, arguments) = (&function["name"], &function["arguments"]);
    let is_block = function.is_object()
        && (id.is_null() || id.is_string())
        && (name.is_string() || is_falsy(name))
        && (arguments.is_string() || arguments.is_object() || is_falsy(arguments));
    match is_block || (call.is_object() && function.is_null()) {
        true => Ok(()),
        false => Err("a call of the wrong types".to_owned()),
    }
}

/// What Python's `or` replaces.
fn is_falsy(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(is) => !is,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}
