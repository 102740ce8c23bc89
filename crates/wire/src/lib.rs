//! What client libraries read from a stream of chat completions: one function for each client, with
//! its version and source. `fixtures/joins/clients.json` has what the real clients read
//! (`tests/live/clients.py`).

mod client;
mod clients;
mod deltas;

use serde_json::Value;

pub use client::{Client, Read, ReadCall, Reading};
pub use clients::CLIENTS;

/// The chunks of a recorded stream: its data lines that are JSON. `None` if it has none.
pub fn chunks(text: &str) -> Option<Vec<Value>> {
    let lines = text
        .lines()
        .filter_map(|line| line.trim_start_matches('\u{feff}').strip_prefix("data:"));
    let found: Vec<Value> = lines
        .filter_map(|data| serde_json::from_str(data.trim()).ok())
        .filter(|chunk: &Value| chunk.get("choices").is_some_and(Value::is_array))
        .collect();
    (!found.is_empty()).then_some(found)
}
