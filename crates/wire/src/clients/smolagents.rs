//! smolagents: `OpenAIModel.generate_stream` with `agglomerate_stream_deltas`.

use serde_json::Value;

use crate::client::{Client, Read, ReadCall, Reading};
use crate::deltas::{call_deltas, first_choices, index_of, text};

pub(super) const CLIENT: Client = Client {
    name: "smolagents",
    package: "smolagents 1.26.0 (PyPI)",
    source: "smolagents/models.py: OpenAIModel.generate_stream, agglomerate_stream_deltas",
    join: read,
};

fn read(chunks: &[Value], _: Option<&[&str]>) -> Reading {
    let mut found = Read::default();
    let mut calls: Vec<(i64, ReadCall, String)> = Vec::new();
    for choice in first_choices(chunks) {
        let Some(delta) = choice.get("delta").filter(|delta| delta.is_object()) else {
            if choice["finish_reason"].is_null() {
                return Err("no delta".to_owned());
            }
            continue;
        };
        found.content.push_str(text(&delta["content"]));
        for entry in call_deltas(delta)? {
            let index = index_of(entry).ok_or("a call without an index")?;
            let at = calls.iter().position(|(known, ..)| *known == index);
            let at = at.unwrap_or_else(|| {
                calls.push((index, ReadCall::default(), String::new()));
                calls.len() - 1
            });
            let (_, call, arguments) = &mut calls[at];
            for (value, place) in [
                (&entry["id"], &mut call.id),
                (&entry["function"]["name"], &mut call.name),
            ] {
                if !text(value).is_empty() {
                    text(value).clone_into(place);
                }
            }
            match &entry["function"]["arguments"] {
                Value::String(more) => arguments.push_str(more),
                Value::Null => {}
                Value::Object(empty) if empty.is_empty() => {}
                _ => return Err("arguments that are no text cannot be added".to_owned()),
            }
        }
    }
    found.calls = calls
        .into_iter()
        .map(|(_, call, arguments)| ReadCall {
            arguments: arguments.into(),
            ..call
        })
        .collect();
    Ok(found)
}
