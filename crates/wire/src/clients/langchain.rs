//! LangChain: the sum of the chunks of `ChatOpenAI.stream`.

use serde_json::Value;

use crate::client::{Client, Read, ReadCall, Reading};
use crate::deltas::{call_deltas, first_choices, index_of, text};

pub(super) const CLIENT: Client = Client {
    name: "langchain",
    package: "langchain-openai 1.7.4, langchain-core 1.8.3 (PyPI)",
    source: "langchain_core/utils/_merge.py: merge_lists; langchain_core/utils/json.py: parse_partial_json",
    join: read,
};

#[derive(Clone)]
struct Joined {
    index: Option<i64>,
    id: Option<String>,
    name: Option<String>,
    arguments: Option<String>,
}

fn read(chunks: &[Value], _: Option<&[&str]>) -> Reading {
    let mut content = String::new();
    let mut calls: Vec<Joined> = Vec::new();
    let mut is_first = true;
    for choice in first_choices(chunks) {
        let delta = &choice["delta"];
        if delta.is_null() {
            continue;
        }
        content.push_str(text(&delta["content"]));
        let mut added = Vec::new();
        for entry in call_deltas(delta)? {
            let function = entry
                .get("function")
                .filter(|function| function.is_object());
            let function = function.ok_or("a call without a function")?;
            let arguments = match &function["arguments"] {
                Value::Null => None,
                Value::String(text) => Some(text.clone()),
                _ => return Err("arguments that are no text".to_owned()),
            };
            added.push(Joined {
                index: index_of(entry),
                id: entry["id"].as_str().map(str::to_owned),
                name: function["name"].as_str().map(str::to_owned),
                arguments,
            });
        }
        // The chunks are added to the first one, whose pieces stay as they are.
        if std::mem::take(&mut is_first) {
            calls = added;
            continue;
        }
        for more in added {
            let is_of = |known: &&mut Joined| {
                more.index.is_some()
                    && known.index == more.index
                    && fits(known.id.as_ref(), more.id.as_ref())
            };
            match calls.iter_mut().find(is_of) {
                Some(known) => known.merge(more),
                None => calls.push(more),
            }
        }
    }
    if is_first {
        return Err("no delta".to_owned());
    }
    let mut parsed = Vec::new();
    let mut invalid = Vec::new();
    for call in calls {
        let arguments = call.arguments.unwrap_or_default();
        let (id, name) = (call.id.unwrap_or_default(), call.name.unwrap_or_default());
        let value = match arguments.is_empty() {
            true => Some(Value::Object(serde_json::Map::new())),
            false => partial(&arguments).filter(Value::is_object),
        };
        match value {
            Some(arguments) => parsed.push(ReadCall {
                id,
                name,
                arguments,
            }),
            None => invalid.push(ReadCall {
                id,
                name,
                arguments: arguments.into(),
            }),
        }
    }
    parsed.extend(invalid);
    Ok(Read {
        content,
        calls: parsed,
    })
}

fn fits(one: Option<&String>, other: Option<&String>) -> bool {
    let has = |id: Option<&String>| id.is_some_and(|id| !id.is_empty());
    !has(one) || !has(other) || one == other
}

impl Joined {
    fn merge(&mut self, more: Self) {
        let add = |known: &mut Option<String>, more: Option<String>| {
            if let Some(more) = more {
                known.get_or_insert_default().push_str(&more);
            }
        };
        add(&mut self.name, more.name);
        add(&mut self.arguments, more.arguments);
        if self.id != more.id {
            add(&mut self.id, more.id);
        }
    }
}

/// JSON that may lack its end: open texts, lists and objects are closed, and what does not parse is cut.
pub(super) fn partial(source: &str) -> Option<Value> {
    if let Ok(value) = serde_json::from_str(source) {
        return Some(value);
    }
    let (mut kept, mut open) = (Vec::new(), Vec::new());
    let (mut is_text, mut is_escaped) = (false, false);
    for character in source.chars() {
        let mut piece = character.to_string();
        match (is_text, character) {
            (true, '"') if !is_escaped => is_text = false,
            (true, '\n') if !is_escaped => "\\n".clone_into(&mut piece),
            (true, '\\') => is_escaped = !is_escaped,
            (true, _) => is_escaped = false,
            (false, '"') => (is_text, is_escaped) = (true, false),
            (false, '{') => open.push('}'),
            (false, '[') => open.push(']'),
            (false, '}' | ']') if open.last() == Some(&character) => {
                open.pop();
            }
            (false, '}' | ']') => return None,
            _ => {}
        }
        kept.push(piece);
    }
    if is_text {
        if is_escaped {
            kept.pop();
        }
        kept.push("\"".to_owned());
    }
    let end: String = open.iter().rev().collect();
    while !kept.is_empty() {
        if let Ok(value) = serde_json::from_str(&(kept.concat() + &end)) {
            return Some(value);
        }
        kept.pop();
    }
    None
}
