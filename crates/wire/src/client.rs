//! A client library, and what it reads.

use serde::Serialize;
use serde_json::Value;

/// A client library.
pub struct Client {
    /// Its name in tables, and in `fixtures/joins/clients.json`.
    pub name: &'static str,
    /// The package, with the version whose rules these are.
    pub package: &'static str,
    /// Where its code joins a stream.
    pub source: &'static str,
    /// Joins the chunks of a stream.
    pub(crate) join: fn(&[Value], Option<&[&str]>) -> Reading,
}

impl Client {
    /// What it reads from the chunks of a stream. The tools are the names in the request, if they are
    /// known.
    ///
    /// # Errors
    /// The client raises an error.
    pub fn read(&self, chunks: &[Value], tools: Option<&[&str]>) -> Reading {
        if chunks.iter().any(|chunk| !chunk["error"].is_null()) {
            return Err("an error event".to_owned());
        }
        (self.join)(chunks, tools)
    }
}

/// What a client reads from a stream, or why it raises an error.
pub type Reading = Result<Read, String>;

/// Whether two clients read the same. Arguments that are parsed are the same as their text.
pub fn is_same(one: &Reading, other: &Reading) -> bool {
    let parsed = |value: &Value| match value.as_str().map(serde_json::from_str::<Value>) {
        Some(Ok(parsed)) => parsed,
        _ => value.clone(),
    };
    match (one, other) {
        (Err(one), Err(other)) => one == other,
        (Ok(one), Ok(other)) => {
            let mut pairs = one.calls.iter().zip(&other.calls);
            one.content == other.content
                && one.calls.len() == other.calls.len()
                && pairs.all(|(one, other)| {
                    (&one.id, &one.name) == (&other.id, &other.name)
                        && parsed(&one.arguments) == parsed(&other.arguments)
                })
        }
        _ => false,
    }
}

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
