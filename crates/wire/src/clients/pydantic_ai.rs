//! pydantic-ai: the parts of a streamed response of `OpenAIChatModel`.

use serde_json::Value;

use crate::client::{Client, Read, ReadCall, Reading};
use crate::deltas::{call_deltas, first_choices, index_of, text};

pub(super) const CLIENT: Client = Client {
    name: "pydantic-ai",
    package: "pydantic-ai-slim 2.38.0 (PyPI)",
    source: "pydantic_ai/_parts_manager.py: handle_tool_call_delta; pydantic_ai/messages.py: ToolCallPartDelta.apply",
    join: read,
};

/// A call; without a name it is not complete.
struct Part {
    index: Option<i64>,
    name: Option<String>,
    call: ReadCall,
}

fn read(chunks: &[Value], _: Option<&[&str]>) -> Reading {
    let mut content = String::new();
    let mut parts: Vec<Part> = Vec::new();
    // Whether the last part is a call.
    let mut is_open = false;
    for choice in first_choices(chunks) {
        let delta = &choice["delta"];
        let more = text(&delta["content"]);
        content.push_str(more);
        is_open &= more.is_empty();
        for entry in call_deltas(delta)? {
            if entry.is_null() {
                return Err("a call that is null".to_owned());
            }
            let (index, function) = (index_of(entry), &entry["function"]);
            let name = function["name"].as_str();
            let at = match index {
                None if name.is_none() && is_open => parts.len().checked_sub(1),
                None => None,
                index => parts.iter().position(|part| part.index == index),
            };
            let at = at.unwrap_or_else(|| {
                parts.push(Part {
                    index,
                    name: None,
                    call: ReadCall::default(),
                });
                parts.len() - 1
            });
            is_open = true;
            let part = &mut parts[at];
            if let Some(name) = name {
                part.name.get_or_insert_default().push_str(name);
            }
            if !text(&entry["id"]).is_empty() {
                text(&entry["id"]).clone_into(&mut part.call.id);
            }
            match (&mut part.call.arguments, &function["arguments"]) {
                (_, Value::Null) => {}
                (Value::String(known), Value::String(more)) => known.push_str(more),
                (Value::Object(known), Value::Object(more)) => known.extend(more.clone()),
                (known @ Value::Null, more) => *known = more.clone(),
                _ => return Err("arguments of two types cannot be joined".to_owned()),
            }
        }
    }
    let named = |part: Part| {
        Some(ReadCall {
            name: part.name?,
            ..part.call
        })
    };
    Ok(Read {
        content,
        calls: parts.into_iter().filter_map(named).collect(),
    })
}
