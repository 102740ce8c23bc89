//! What corpora of schemas are asked with: the corpora have schemas, and no prompts.

use serde_json::Value;

use crate::tokenizer::python_json::dumps;

/// Up to the schema; written by us.
const PROMPT: &str =
    "Write one JSON document that is valid by the JSON Schema below, with plausible values, and nothing else.\n\n";

/// The prompt that shows a schema and asks for a document.
pub(super) fn prompt(schema: &Value) -> String {
    format!("{PROMPT}{}", dumps(schema))
}

/// What is said of rows that cannot be read; the others are asked.
pub(super) fn unreadable(words: &[String]) -> Option<String> {
    words.first().map(|first| format!("{} rows are left out that cannot be read; the first: {first}", words.len()))
}
