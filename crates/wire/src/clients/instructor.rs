//! instructor: `create_partial` in its mode TOOLS, for the model of one tool.
//!
//! It gives the arguments alone, of one call. The content, and the id and the name of that call, are
//! those of the chunks here, so that it differs from other clients in arguments and errors only.

use serde_json::Value;

use super::langchain::partial;
use crate::client::{Client, Read, ReadCall, Reading};
use crate::deltas::{call_deltas, first_choices, text};

pub(super) const CLIENT: Client = Client {
    name: "instructor",
    package: "instructor 1.17.0 (PyPI)",
    source: "instructor/v2/providers/openai/handlers.py: extract_streaming_json; instructor/v2/dsl/partial.py: model_from_chunks",
    join: read,
};

fn read(chunks: &[Value], _: Option<&[&str]>) -> Reading {
    let mut found = Read::default();
    let mut call = ReadCall::default();
    let mut arguments: Option<String> = None;
    for choice in first_choices(chunks) {
        let delta = &choice["delta"];
        found.content.push_str(text(&delta["content"]));
        // Only the first delta of a call in each chunk counts, at any index.
        let Some(entry) = call_deltas(delta)?.first() else {
            continue;
        };
        let function = &entry["function"];
        for (value, place) in [
            (&entry["id"], &mut call.id),
            (&function["name"], &mut call.name),
        ] {
            if place.is_empty() {
                text(value).clone_into(place);
            }
        }
        match &function["arguments"] {
            Value::Null => {}
            Value::String(more) => arguments.get_or_insert_default().push_str(more),
            Value::Object(empty) if empty.is_empty() => {
                arguments.get_or_insert_default().push_str("{}");
            }
            _ => return Err("arguments that are no text do not parse".to_owned()),
        }
    }
    if let Some(arguments) = arguments {
        call.arguments = first_object(&arguments)?;
        found.calls.push(call);
    }
    Ok(found)
}

/// The first object of the arguments, which may lack its end. The text after it is left out.
fn first_object(arguments: &str) -> Result<Value, String> {
    let arguments: String = arguments
        .chars()
        .filter(|character| !character.is_control())
        .collect();
    let mut values = serde_json::Deserializer::from_str(&arguments).into_iter();
    let parsed = match values.next() {
        None => Some(Value::Object(serde_json::Map::new())),
        Some(Ok(value)) => Some(value),
        Some(Err(error)) if error.is_eof() => partial(&arguments),
        Some(Err(_)) => return Err("arguments that do not parse".to_owned()),
    };
    parsed
        .filter(Value::is_object)
        .ok_or_else(|| "arguments that are no object".to_owned())
}
