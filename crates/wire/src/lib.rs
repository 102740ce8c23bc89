//! What client libraries read from a stream of chat completions: one function for each client, with
//! its version and source. `fixtures/joins/clients.json` has what the real clients read
//! (`tests/live/clients.py`).

mod clients;

use serde::Serialize;
use serde_json::Value;

pub use clients::CLIENTS;

/// A client library.
pub struct Client {
    /// Its name in tables, and in `fixtures/joins/clients.json`.
    pub name: &'static str,
    /// The package, with the version whose rules these are.
    pub package: &'static str,
    /// Where its code joins a stream.
    pub source: &'static str,
    /// Joins the chunks of a stream. The tools are the names in the request, if they are known.
    pub read: fn(&[Value], Option<&[&str]>) -> Reading,
}

/// What a client reads from a stream, or why it raises an error.
pub type Reading = Result<Read, String>;

/// A joined answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Read {
    pub content: String,
    pub calls: Vec<ReadCall>,
}

/// A tool call.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ReadCall {
    /// Empty if the stream has none.
    pub id: String,
    pub name: String,
    /// A text; an object where the client parses it, or where the stream has one.
    pub arguments: Value,
}

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
