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
