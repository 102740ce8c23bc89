//! litellm: `completion(stream=True)` with `stream_chunk_builder`.

use serde_json::Value;

use crate::client::{Client, Read, ReadCall, Reading};
use crate::deltas::{call_deltas, index_of, text};

pub(super) const CLIENT: Client = Client {
    name: "litellm",
    package: "litellm 1.110.2 (PyPI)",
    source: "litellm_core_utils/streaming_chunk_builder_utils.py: get_combined_tool_content",
    join: read,
};

#[derive(Default)]
struct Joined {
    index: i64,
    id: Option<String>,
    kind: String,
    name: String,
    arguments: String,
    /// Of a custom call.
    custom_name: String,
    input: String,
}

fn read(chunks: &[Value], _: Option<&[&str]>) -> Reading {
    let mut content = String::new();
    let mut calls: Vec<Joined> = Vec::new();
    let mut has_ended = false;
    for choice in chunks.iter().filter_map(|chunk| chunk["choices"].get(0)) {
        has_ended |= !choice["finish_reason"].is_null();
        if choice["index"].as_u64().is_some_and(|index| index > 0) {
            continue;
        }
        let delta = &choice["delta"];
        content.push_str(text(&delta["content"]));
        for (number, entry) in call_deltas(delta).unwrap_or_default().iter().enumerate() {
            let (function, custom) = (&entry["function"], &entry["custom"]);
            if !function.is_object() && !custom.is_object() {
                continue;
            }
            let index = index_of(entry).unwrap_or(number as i64);
            let at = calls.iter().position(|call| call.index == index);
            let at = at.unwrap_or_else(|| {
                calls.push(Joined {
                    index,
                    ..Joined::default()
                });
                calls.len() - 1
            });
            let call = &mut calls[at];
            if !text(&entry["id"]).is_empty() {
                call.id = Some(text(&entry["id"]).to_owned());
            }
            for (value, place) in [
                (&entry["type"], &mut call.kind),
                (&function["name"], &mut call.name),
                (&custom["name"], &mut call.custom_name),
            ] {
                if !text(value).is_empty() {
                    text(value).clone_into(place);
                }
            }
            call.input.push_str(text(&custom["input"]));
            match &function["arguments"] {
                Value::String(more) => call.arguments.push_str(more),
                Value::Null => {}
                other => call.arguments.push_str(&spaced(other)),
            }
        }
    }
    if !has_ended {
        return Err("no finish reason".to_owned());
    }
    calls.sort_by_key(|call| call.index);
    let whole = |call: Joined| {
        let (name, arguments) = match call.kind.as_str() {
            "custom" => (call.custom_name, call.input),
            _ if call.arguments.is_empty() => (call.name, "{}".to_owned()),
            _ => (call.name, call.arguments),
        };
        Some(ReadCall {
            id: call.id.filter(|_| !name.is_empty())?,
            name,
            arguments: arguments.into(),
        })
    };
    Ok(Read {
        content,
        calls: calls.into_iter().filter_map(whole).collect(),
    })
}

/// JSON as Python writes it.
fn spaced(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members = members.iter();
            let members: Vec<String> = members
                .map(|(name, value)| format!("{}: {}", Value::from(name.as_str()), spaced(value)))
                .collect();
            format!("{{{}}}", members.join(", "))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(spaced).collect();
            format!("[{}]", items.join(", "))
        }
        other => other.to_string(),
    }
}
