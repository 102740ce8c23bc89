//! Sessions of AIPerf (`docs/benchmark-modes/dag.md`): `session_id` and `turns`. A turn has `text`, or
//! `messages` that are added to the history, and `delay` in milliseconds. `forks` start sessions with
//! the history of the turn, `spawns` sessions without one, for which a later turn of the parent waits.

use serde_json::Value;

use super::{Draft, DraftTurn, History, Message, Spawn, wrong};
use crate::dataset::message::messages;
use sobench_core::error::Result;

pub(super) fn draft(place: &str, value: &Value) -> Result<Draft> {
    let turns = value["turns"].as_array().into_iter().flatten();
    let whole = value["context_mode"] == "message_array_with_responses";
    let mut drafts: Vec<DraftTurn> = Vec::new();
    for (number, turn) in turns.enumerate() {
        let place = format!("{place}, turn {}", number + 1);
        let mut new = if turn["messages"].is_array() {
            messages("messages", &turn["messages"]).map_err(|error| wrong(&place, error))?
        } else {
            texts(turn).map(|text| Message::new("user", text)).collect()
        };
        if new.is_empty() {
            return Err(wrong(&place, "a turn without text and messages"));
        }
        // A recorded answer at the start of the next turn is that of the turn before it.
        if let Some(before) = drafts
            .last_mut()
            .filter(|_| !whole && new[0].role == "assistant")
        {
            before.answer = Some(new.remove(0));
        }
        let children = |name: &str| turn[name].as_array().cloned().unwrap_or_default();
        let forks = children("forks").into_iter();
        let forks = forks.filter_map(|fork| text(&fork).or_else(|| text(&fork["child"])));
        let mut spawns = Vec::new();
        for spawn in children("spawns") {
            let join_at = spawn["join_at"]
                .as_u64()
                .map_or(number + 1, |turn| turn as usize);
            let named = spawn["children"]
                .as_array()
                .cloned()
                .unwrap_or_else(|| vec![spawn]);
            let ids = named.iter().filter_map(text);
            spawns.extend(ids.map(|id| Spawn { id, join_at }));
        }
        drafts.push(DraftTurn {
            new,
            tools: Some(turn["tools"].clone()).filter(Value::is_array),
            tool_choice: turn["extra"].get("tool_choice").cloned(),
            output_len: turn["max_tokens"]
                .as_u64()
                .and_then(|count| u32::try_from(count).ok()),
            delay_ms: turn["delay"].as_f64().unwrap_or_default(),
            history: if whole {
                History::None
            } else {
                History::Previous
            },
            forks: forks.collect(),
            spawns,
            place,
            ..DraftTurn::default()
        });
    }
    Ok(Draft {
        place: place.to_owned(),
        id: text(&value["session_id"]).unwrap_or_default(),
        turns: drafts,
    })
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn texts(turn: &Value) -> impl Iterator<Item = &str> {
    let several = turn["texts"].as_array().into_iter().flatten();
    turn["text"]
        .as_str()
        .into_iter()
        .chain(several.filter_map(Value::as_str))
}
