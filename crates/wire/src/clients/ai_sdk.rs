//! Vercel's AI SDK: `streamText` with the provider for OpenAI-compatible servers.

use std::collections::HashSet;

use serde_json::Value;

use crate::client::{Client, Read, ReadCall, Reading};
use crate::deltas::{call_deltas, is_null, text};

pub(super) const CLIENT: Client = Client {
    name: "ai-sdk",
    package: "ai 7.0.173, @ai-sdk/openai-compatible 3.0.92 (npm)",
    source: "@ai-sdk/openai-compatible: doStream; @ai-sdk/provider-utils: StreamingToolCallTracker",
    join: read,
};

#[derive(Default)]
struct Joined {
    index: Option<i64>,
    ids: Vec<String>,
    id: String,
    name: String,
    arguments: String,
}

/// A delta of a call whose name has not come.
#[derive(Default)]
struct Pending {
    id: Option<String>,
    arguments: String,
}

impl Pending {
    fn delta<'a>(&'a self, index: i64, name: Option<&'a str>) -> Delta<'a> {
        Delta {
            index: Some(index),
            id: self.id.as_deref(),
            name,
            arguments: Some(&self.arguments),
        }
    }
}

/// A delta for the tracker.
struct Delta<'a> {
    index: Option<i64>,
    id: Option<&'a str>,
    name: Option<&'a str>,
    arguments: Option<&'a str>,
}

/// Whether a delta has a name, and what its arguments are.
struct Starts {
    /// An object or a list begins.
    with_value: bool,
    empty: bool,
}

enum Place {
    New,
    Known(usize),
    /// It is dropped.
    Unclear,
}

fn read(chunks: &[Value], tools: Option<&[&str]>) -> Reading {
    let mut content = String::new();
    let mut calls: Vec<Joined> = Vec::new();
    let mut pending: Vec<(i64, Pending)> = Vec::new();
    let mut forwarded: HashSet<i64> = HashSet::new();
    // A chunk with an error, even null, is nothing else.
    let (chunks, errors): (Vec<&Value>, Vec<&Value>) = chunks
        .iter()
        .partition(|chunk| chunk.get("error").is_none());
    let mut has_ended = !errors.is_empty();
    for chunk in &chunks {
        check(chunk)?;
    }
    for choice in chunks.iter().filter_map(|chunk| chunk["choices"].get(0)) {
        has_ended |= choice["finish_reason"].is_string();
        let delta = &choice["delta"];
        content.push_str(text(&delta["content"]));
        content.push_str(text(&delta["refusal"]));
        for entry in call_deltas(delta)? {
            let function = &entry["function"];
            let (id, name, arguments) = (
                entry["id"].as_str(),
                function["name"].as_str(),
                function["arguments"].as_str(),
            );
            let index = entry["index"].as_i64();
            let Some(at) = index.filter(|index| !forwarded.contains(index)) else {
                let delta = Delta {
                    index,
                    id,
                    name,
                    arguments,
                };
                track(&mut calls, &delta)?;
                continue;
            };
            let known = pending.iter().position(|(known, _)| *known == at);
            let known = known.unwrap_or_else(|| {
                pending.push((at, Pending::default()));
                pending.len() - 1
            });
            let waiting = &mut pending[known].1;
            waiting.id = waiting.id.take().or_else(|| id.map(str::to_owned));
            waiting.arguments.push_str(arguments.unwrap_or_default());
            if name.is_some() {
                let (index, waiting) = pending.remove(known);
                track(&mut calls, &waiting.delta(index, name))?;
                forwarded.insert(index);
            }
        }
    }
    for (index, waiting) in &pending {
        track(&mut calls, &waiting.delta(*index, None))?;
    }
    if !has_ended {
        return Err("no finish reason".to_owned());
    }
    if calls.iter().all(|call| call.index.is_some()) {
        calls.sort_by_key(|call| call.index);
    }
    let call = |call: Joined| {
        let is_known = tools.is_none_or(|tools| tools.contains(&call.name.as_str()));
        let parsed = match call.arguments.trim() {
            "" if is_known => Some(Value::Object(serde_json::Map::new())),
            text => serde_json::from_str(text).ok(),
        };
        ReadCall {
            id: call.id,
            name: call.name,
            arguments: parsed.unwrap_or_else(|| call.arguments.into()),
        }
    };
    Ok(Read {
        content,
        calls: calls.into_iter().map(call).collect(),
    })
}

/// The types that its schema of a chunk asks for.
fn check(chunk: &Value) -> Result<(), String> {
    let choices = chunk["choices"].as_array().into_iter().flatten();
    for delta in choices.map(|choice| &choice["delta"]) {
        if !matches!(delta["role"].as_str(), None | Some("assistant" | "")) {
            return Err("another role".to_owned());
        }
        for call in call_deltas(delta)? {
            check_call(call)?;
        }
    }
    Ok(())
}

fn check_call(call: &Value) -> Result<(), String> {
    let is_text = |value: Option<&Value>| is_null(value) || value.is_some_and(Value::is_string);
    let function = call
        .get("function")
        .filter(|function| function.is_object())
        .ok_or("a call without a function")?;
    let is_index = is_null(call.get("index")) || call["index"].is_number();
    let texts = [
        call.get("id"),
        function.get("name"),
        function.get("arguments"),
    ];
    match is_index && texts.into_iter().all(is_text) {
        true => Ok(()),
        false => Err("a call of the wrong types".to_owned()),
    }
}

fn track(calls: &mut Vec<Joined>, delta: &Delta<'_>) -> Result<(), String> {
    let filled = |text: Option<&str>| {
        text.filter(|text| !text.trim().is_empty())
            .map(str::to_owned)
    };
    let (id, name) = (filled(delta.id), filled(delta.name));
    let arguments = delta.arguments.unwrap_or_default();
    let starts = Starts {
        with_value: name.is_some() && arguments.trim_start().starts_with(['{', '[']),
        empty: name.is_some() && arguments.trim().is_empty(),
    };
    let at = match place(calls, id.as_deref(), delta.index, name.as_deref(), &starts) {
        Place::Unclear => return Ok(()),
        Place::New if delta.name.is_some() && name.is_none() => return Ok(()),
        Place::New => {
            let name = name.ok_or("a call without a name")?;
            // An id that was used before is replaced by a new one.
            let own = id
                .clone()
                .filter(|id| calls.iter().all(|call| call.id != *id));
            calls.push(Joined {
                index: delta.index,
                ids: id.into_iter().collect(),
                id: own.unwrap_or_default(),
                name,
                arguments: arguments.to_owned(),
            });
            return Ok(());
        }
        Place::Known(at) => at,
    };
    calls[at].ids.extend(id);
    calls[at].arguments.push_str(arguments);
    Ok(())
}

/// The call that a delta belongs to.
fn place(
    calls: &[Joined],
    id: Option<&str>,
    index: Option<i64>,
    name: Option<&str>,
    starts: &Starts,
) -> Place {
    let all = |is: &dyn Fn(&Joined) -> bool| -> Vec<usize> {
        let found = calls.iter().enumerate().filter(|(_, call)| is(call));
        found.map(|(at, _)| at).collect()
    };
    let has_name = |call: &Joined| name.is_none_or(|name| call.name == name);
    let of_index = all(&|call| index.is_some() && call.index == index);
    let indexed: Vec<usize> = of_index
        .iter()
        .copied()
        .filter(|at| has_name(&calls[*at]))
        .collect();
    if let Some(id) = id {
        let with_id = all(&|call| call.ids.iter().any(|known| known == id));
        if !with_id.is_empty() {
            if index.is_some() {
                let both: Vec<usize> = indexed
                    .iter()
                    .copied()
                    .filter(|at| with_id.contains(at))
                    .collect();
                return match matching(calls, &both, starts.with_value) {
                    Place::New if name.is_some() => Place::New,
                    Place::New if !of_index.is_empty() => Place::Unclear,
                    Place::New => matching(calls, &with_id, false),
                    found => found,
                };
            }
            let named: Vec<usize> = with_id
                .iter()
                .copied()
                .filter(|at| has_name(&calls[*at]))
                .collect();
            return matching(calls, &named, starts.with_value);
        }
        return match starts.with_value {
            true => Place::New,
            false => matching(calls, &indexed, starts.empty),
        };
    }
    if !of_index.is_empty() {
        return matching(calls, &indexed, starts.with_value);
    }
    match name {
        Some(_) => Place::New,
        None => matching(calls, &all(&|_| true), false),
    }
}

fn matching(calls: &[Joined], found: &[usize], starts: bool) -> Place {
    let is_open = |at: &&usize| !is_complete(&calls[**at].arguments);
    let open: Vec<usize> = found.iter().filter(is_open).copied().collect();
    match (found, open.as_slice()) {
        ([], _) => Place::New,
        ([only], _) if !starts => Place::Known(*only),
        (_, [only]) => Place::Known(*only),
        (_, []) if starts => Place::New,
        _ => Place::Unclear,
    }
}

/// Whether arguments begin with an object or a list that has ended.
fn is_complete(arguments: &str) -> bool {
    let mut depth = 0;
    let (mut is_text, mut is_escaped) = (false, false);
    for character in arguments.trim_start().chars() {
        match (is_text, character) {
            (true, _) if is_escaped => is_escaped = false,
            (true, '\\') => is_escaped = true,
            (true, '"') => is_text = false,
            (true, _) => {}
            (false, '"') => is_text = true,
            (false, '{' | '[') => depth += 1,
            (false, '}' | ']') => depth -= 1,
            (false, _) => {}
        }
        if depth == 0 {
            return matches!(character, '}' | ']');
        }
    }
    false
}
