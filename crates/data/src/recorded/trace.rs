//! A trace of lengths, as of Mooncake: `timestamp` in milliseconds, `input_length`,
//! `output_length`, and optionally `hash_ids`, a name for each block of 512 tokens of the prompt.
//! Prompts with the same first names have the same prefix.

use serde::Deserialize;

use super::request::{Content, Found, Lengths, Members, Read, Request};

#[derive(Deserialize)]
struct Row {
    timestamp: Option<f64>,
    input_length: u32,
    output_length: u32,
    #[serde(default)]
    hash_ids: Vec<u64>,
}

pub(super) fn read<'l>(text: &'l str, members: &Members<'l>) -> Read<'l> {
    let is_row = ["input_length", "output_length"]
        .iter()
        .all(|name| members.contains_key(*name));
    is_row.then(|| {
        let row: Row = serde_json::from_str(text).map_err(|error| format!("a trace: {error}"))?;
        let content = Content::Lengths(Lengths {
            input: row.input_length,
            output: row.output_length,
            blocks: row.hash_ids,
        });
        Ok(vec![Found::Request(Request {
            at: row.timestamp.map(|milliseconds| milliseconds / 1e3),
            content,
            unjudged: Some("a trace has lengths only"),
            ..Request::from_body("")
        })])
    })
}
