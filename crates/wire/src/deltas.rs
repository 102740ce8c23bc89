//! Parts of chunks.

use serde_json::Value;

/// The first choice of each chunk that has one.
pub(crate) fn first_choices(chunks: &[Value]) -> impl Iterator<Item = &Value> {
    chunks.iter().filter_map(|chunk| chunk["choices"].get(0))
}

/// The deltas of calls of a delta.
///
/// # Errors
/// They are no list.
pub(crate) fn call_deltas(delta: &Value) -> Result<&[Value], String> {
    match &delta["tool_calls"] {
        Value::Array(calls) => Ok(calls),
        Value::Null => Ok(&[]),
        _ => Err("calls that are no list".to_owned()),
    }
}

/// A text; empty if it is missing, null or of another type.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The index of a call; the models of openai-python also take one as a text.
pub(crate) fn index_of(call: &Value) -> Option<i64> {
    match &call["index"] {
        Value::String(text) => text.parse().ok(),
        index => index.as_i64(),
    }
}

/// Members of a delta that libraries on openai-python see as null if they are missing.
pub(crate) fn is_null(value: Option<&Value>) -> bool {
    value.is_none_or(Value::is_null)
}
