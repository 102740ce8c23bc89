//! openai-python: the helper for streams, and the loop of OpenAI's guide to function calling.

use serde_json::{Map, Value, json};

use crate::client::{Client, Read, ReadCall, Reading};
use crate::deltas::{call_deltas, first_choices, index_of, is_null, text};

pub(super) const CLIENT: Client = Client {
    name: "openai-python",
    package: "openai 3.3.0 (PyPI)",
    source: "openai/lib/streaming/chat/_completions.py, openai/lib/streaming/_deltas.py: accumulate_delta",
    join: read,
};

pub(super) const LOOP: Client = Client {
    name: "openai-python-loop",
    package: "openai 3.3.0 (PyPI)",
    source: "OpenAI's guide to function calling: final_tool_calls[index].function.arguments += delta",
    join: read_loop,
};

fn read(chunks: &[Value], _: Option<&[&str]>) -> Reading {
    let mut message: Option<Map<String, Value>> = None;
    let is_chunk = |chunk: &&Value| chunk["object"] == "chat.completion.chunk";
    if !chunks.iter().any(|chunk| is_chunk(&chunk)) {
        return Err("no object that is a chunk".to_owned());
    }
    for choice in chunks.iter().filter(is_chunk).flat_map(choices) {
        match choice["index"].as_u64() {
            None => return Err("a choice without an index".to_owned()),
            Some(0) => {}
            Some(_) if message.is_none() => return Err("no first choice".to_owned()),
            Some(_) => continue,
        }
        let delta = choice["delta"].as_object().ok_or("no delta")?;
        match &mut message {
            None => message = Some(delta.clone()),
            Some(message) => accumulate(message, delta)?,
        }
        let joined = message
            .as_ref()
            .and_then(|message| message.get("tool_calls"));
        for call in call_deltas(&choice["delta"])? {
            let index = index_of(call).ok_or("a call without an index")?;
            let at = joined.and_then(|calls| at(calls.as_array()?, index));
            let at = at.ok_or("an index without a call")?;
            if at["type"] == "function" && is_null(call.get("function")) {
                return Err("a call without a function".to_owned());
            }
        }
    }
    let message = Value::Object(message.unwrap_or_default());
    let call = |call: &Value| {
        let part = ["function", "custom"]
            .into_iter()
            .find_map(|name| call.get(name));
        let part = part.unwrap_or(&Value::Null);
        ReadCall {
            id: text(&call["id"]).to_owned(),
            name: text(&part["name"]).to_owned(),
            arguments: part
                .get("arguments")
                .or_else(|| part.get("input"))
                .cloned()
                .unwrap_or_default(),
        }
    };
    Ok(Read {
        content: text(&message["content"]).to_owned(),
        calls: call_deltas(&message)?.iter().map(call).collect(),
    })
}

/// An entry of a list; -1 is the last one.
fn at(list: &[Value], index: i64) -> Option<&Value> {
    let length = i64::try_from(list.len()).ok()?;
    let index = if index < 0 { length + index } else { index };
    list.get(usize::try_from(index).ok()?)
}

fn choices(chunk: &Value) -> &[Value] {
    chunk["choices"].as_array().map_or(&[], Vec::as_slice)
}

/// Texts and numbers are added, objects merged, and lists merged by `index`.
fn accumulate(known: &mut Map<String, Value>, delta: &Map<String, Value>) -> Result<(), String> {
    for (key, more) in delta {
        let Some(value) = known.get_mut(key).filter(|value| !value.is_null()) else {
            known.insert(key.clone(), more.clone());
            continue;
        };
        if key == "index" || key == "type" {
            *value = more.clone();
            continue;
        }
        match (value, more) {
            (Value::String(value), Value::String(more)) => value.push_str(more),
            (Value::Object(value), Value::Object(more)) => accumulate(value, more)?,
            (Value::Array(list), Value::Array(more)) => {
                for entry in more {
                    let index = index_of(entry).ok_or("an entry of a list without an index")?;
                    let index = usize::try_from(index).unwrap_or(usize::MAX);
                    match (list.get_mut(index), entry) {
                        (Some(Value::Object(known)), Value::Object(entry)) => {
                            accumulate(known, entry)?;
                        }
                        (Some(_), _) => {
                            return Err("an entry of a list that is no object".to_owned());
                        }
                        (None, entry) => list.push(entry.clone()),
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn read_loop(chunks: &[Value], _: Option<&[&str]>) -> Reading {
    let mut found = Read::default();
    let mut calls: Vec<(Option<i64>, Value)> = Vec::new();
    for choice in first_choices(chunks) {
        let delta = choice
            .get("delta")
            .filter(|delta| delta.is_object())
            .ok_or("no delta")?;
        found.content.push_str(text(&delta["content"]));
        for entry in call_deltas(delta)? {
            let index = index_of(entry);
            let Some((_, call)) = calls.iter_mut().find(|(known, _)| *known == index) else {
                calls.push((index, entry.clone()));
                continue;
            };
            let more = entry["function"]["arguments"].as_str().map(str::to_owned);
            match (&mut call["function"]["arguments"], more) {
                (Value::String(known), Some(more)) => known.push_str(&more),
                _ => return Err("arguments that are no text cannot be added".to_owned()),
            }
        }
    }
    for (_, call) in calls {
        let function = call.get("function").filter(|function| function.is_object());
        let function = function.ok_or("a call without a function")?;
        found.calls.push(ReadCall {
            id: text(&call["id"]).to_owned(),
            name: text(&function["name"]).to_owned(),
            arguments: function.get("arguments").cloned().unwrap_or(json!(null)),
        });
    }
    Ok(found)
}
