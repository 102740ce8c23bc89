//! rig: the response that `Model::stream` ends with, for a model of its client `OpenAI::chat`.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::client::{Client, Read, ReadCall, Reading};
use crate::deltas::text;

pub(super) const CLIENT: Client = Client {
    name: "rig",
    package: "rig-core 0.44.0 (crates.io)",
    source: "rig-core/src/providers/openai/wire/chat.rs: ChatDecoder; rig-core/src/operation/completion.rs: Out::fragment",
    join: read,
};

/// Finish reasons that end an answer; others are an error.
const FINISH_REASONS: [&str; 11] = [
    "stop",
    "end",
    "eos",
    "end_turn",
    "stop_sequence",
    "length",
    "max_tokens",
    "model_length",
    "tool_calls",
    "function_call",
    "content_filter",
];

/// The first index of calls that have none.
const FIRST_FREE: u64 = 1 << 30;

/// The state of the call of an index.
struct Open {
    index: u64,
    id: String,
    /// The type is unknown; it is dropped.
    is_opaque: bool,
    /// Of all calls on the index.
    arguments: String,
    call: Call,
}

/// A call that has not ended.
#[derive(Default)]
struct Call {
    position: usize,
    id: String,
    name: String,
    kind: String,
    arguments: Option<String>,
    /// Of a custom call.
    input: String,
}

#[derive(Default)]
struct Joined {
    open: Vec<Open>,
    /// By their positions.
    calls: Vec<Option<ReadCall>>,
    ids: HashSet<String>,
    free: u64,
}

fn read(chunks: &[Value], _: Option<&[&str]>) -> Reading {
    let mut content = String::new();
    let mut joined = Joined::default();
    let mut finish_reason = "";
    for chunk in chunks {
        let choices = chunk["choices"].as_array().map_or(&[][..], Vec::as_slice);
        let is_whole = match chunk["object"].as_str() {
            Some(object) => object == "chat.completion",
            None => choices.iter().any(|choice| choice["message"].is_object()),
        };
        let is_first = |choice: &&Value| choice["index"].as_u64().is_none_or(|index| index == 0);
        let Some(choice) = choices.iter().find(is_first) else {
            continue;
        };
        if !text(&choice["finish_reason"]).is_empty() {
            finish_reason = text(&choice["finish_reason"]);
        }
        let delta = &choice[if is_whole { "message" } else { "delta" }];
        if is_whole && !delta.is_object() {
            return Err("a whole answer without a message".to_owned());
        }
        let shown = ["content", "refusal"].map(|member| text(&delta[member]));
        content.push_str(shown.iter().find(|text| !text.is_empty()).unwrap_or(&""));
        let entries = delta["tool_calls"].as_array().into_iter().flatten();
        for (number, entry) in (0..).zip(entries) {
            let index = entry["index"].as_u64();
            joined.add(entry, if is_whole { Some(number) } else { index });
        }
        if is_whole {
            break;
        }
        if ["tool_calls", "function_call"].contains(&finish_reason) {
            joined.end_all(Call::is_whole);
        }
    }
    joined.end_all(|_| true);
    match finish_reason {
        "" => Err("no finish reason".to_owned()),
        reason if FINISH_REASONS.contains(&reason) => Ok(Read {
            content,
            calls: joined.calls.into_iter().flatten().collect(),
        }),
        _ => Err("another finish reason".to_owned()),
    }
}

impl Joined {
    fn add(&mut self, entry: &Value, index: Option<u64>) {
        let id = match &entry["id"] {
            Value::String(id) if id != "null" => id.clone(),
            Value::Number(id) => id.to_string(),
            _ => String::new(),
        };
        let function = &entry["function"];
        let name = match &function["name"] {
            Value::Null => text(&entry["custom"]["name"]),
            name => text(name),
        };
        let arguments = match &function["arguments"] {
            Value::Null => None,
            Value::String(arguments) => Some(arguments.clone()),
            other => Some(other.to_string()),
        };
        let more = arguments.as_deref().unwrap_or_default();
        let starts = !name.is_empty() || !more.is_empty();
        let index = index.unwrap_or_else(|| self.index_without(&id, starts));
        let known = self.open.iter().position(|open| open.index == index);
        let known = known.unwrap_or_else(|| {
            let call = self.start();
            self.open.push(Open {
                index,
                id: String::new(),
                is_opaque: !matches!(entry["type"].as_str(), None | Some("function" | "custom")),
                arguments: String::new(),
                call,
            });
            self.open.len() - 1
        });
        let open = &mut self.open[known];
        open.arguments.push_str(more);
        if !id.is_empty() {
            open.id.clone_from(&id);
        }
        if open.is_opaque {
            return;
        }
        let is_other = ![&id, &open.call.id].into_iter().any(String::is_empty)
            && open.call.id != id
            && (open.call.has_object() || !name.is_empty());
        if is_other {
            let next = self.start();
            let ended = std::mem::replace(&mut self.open[known].call, next);
            self.end(ended);
        }
        let call = &mut self.open[known].call;
        if !id.is_empty() {
            call.id = id;
        }
        if call.name.is_empty() {
            name.clone_into(&mut call.name);
        }
        if !text(&entry["type"]).is_empty() {
            text(&entry["type"]).clone_into(&mut call.kind);
        }
        if arguments.is_some() {
            let known = call.arguments.get_or_insert_default();
            if known.trim() == "null" && !more.trim().is_empty() {
                known.clear();
            }
            known.push_str(more);
        }
        call.input.push_str(text(&entry["custom"]["input"]));
    }

    /// The index of a delta without one.
    fn index_without(&mut self, id: &str, starts: bool) -> u64 {
        let known = match id {
            "" => self
                .open
                .last()
                .filter(|open| open.is_opaque || !starts || object(&open.arguments).is_none()),
            id => self.open.iter().find(|open| open.id == id),
        };
        known.map_or_else(
            || {
                self.free += 1;
                FIRST_FREE + self.free
            },
            |open| open.index,
        )
    }

    fn start(&mut self) -> Call {
        self.calls.push(None);
        Call {
            position: self.calls.len() - 1,
            ..Call::default()
        }
    }

    fn end_all(&mut self, is_ended: impl Fn(&Call) -> bool) {
        for open in std::mem::take(&mut self.open) {
            if open.is_opaque {
                continue;
            }
            match is_ended(&open.call) {
                true => self.end(open.call),
                false => self.open.push(open),
            }
        }
    }

    /// Ends a call. One without a name is dropped, and an id that was used before.
    fn end(&mut self, call: Call) {
        if call.name.is_empty() {
            return;
        }
        let is_new = self.ids.insert(call.id.clone());
        self.calls[call.position] = Some(ReadCall {
            arguments: call.parsed(),
            id: if is_new { call.id } else { String::new() },
            name: call.name,
        });
    }
}

impl Call {
    fn has_object(&self) -> bool {
        object(self.arguments.as_deref().unwrap_or_default()).is_some()
    }

    /// Whether it ends at the finish reason.
    fn is_whole(&self) -> bool {
        match &self.arguments {
            Some(arguments) => object(arguments).is_some(),
            None => self.kind == "custom",
        }
    }

    /// The arguments; their text if they are no object.
    fn parsed(&self) -> Value {
        let arguments = self.arguments.as_deref().unwrap_or_default();
        if arguments.is_empty() && self.kind == "custom" {
            return json!({ "input": self.input });
        }
        let parsed = match serde_json::from_str(arguments) {
            Ok(Value::Null) => Some(Value::Object(Map::new())),
            Ok(Value::String(inner)) => object(&inner).filter(|_| !inner.trim().is_empty()),
            _ => object(arguments),
        };
        parsed.unwrap_or_else(|| arguments.into())
    }
}

/// The object of a text; an empty one if the text is blank.
fn object(arguments: &str) -> Option<Value> {
    match arguments.trim() {
        "" => Some(Value::Object(Map::new())),
        text => serde_json::from_str(text).ok().filter(Value::is_object),
    }
}
