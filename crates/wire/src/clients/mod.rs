//! The clients.

mod ai_sdk;
mod langchain;
mod litellm;
mod openai_node;
mod openai_python;
mod pydantic_ai;
mod smolagents;

use serde_json::Value;

use crate::Client;

/// All clients, in the order of tables.
pub static CLIENTS: [Client; 8] = [
    openai_python::CLIENT,
    openai_python::LOOP,
    openai_node::CLIENT,
    litellm::CLIENT,
    langchain::CLIENT,
    smolagents::CLIENT,
    pydantic_ai::CLIENT,
    ai_sdk::CLIENT,
];

/// The first choice of each chunk that has one.
fn first_choices(chunks: &[Value]) -> impl Iterator<Item = &Value> {
    chunks.iter().filter_map(|chunk| chunk["choices"].get(0))
}

/// The deltas of calls of a delta.
fn call_deltas(delta: &Value) -> &[Value] {
    delta["tool_calls"].as_array().map_or(&[], Vec::as_slice)
}

/// A text; empty if it is missing, null or of another type.
fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The index of a call; the models of openai-python also take one as a text.
fn index_of(call: &Value) -> Option<i64> {
    match &call["index"] {
        Value::String(text) => text.parse().ok(),
        index => index.as_i64(),
    }
}

/// Members of a delta that libraries on openai-python see as null if they are missing.
fn is_null(value: Option<&Value>) -> bool {
    value.is_none_or(Value::is_null)
}
