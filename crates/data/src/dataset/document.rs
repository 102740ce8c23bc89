//! What corpora of schemas are asked with: the corpora have schemas, and no prompts.

use serde_json::Value;

use crate::tokenizer::python_json::dumps;
use sobench_notices::notice::{DatasetNotice, Notice};

/// Up to the schema; written by us.
const PROMPT: &str = "Write one JSON document that is valid by the JSON Schema below, with plausible values, and nothing else.\n\n";

/// The prompt that shows a schema and asks for a document.
pub(super) fn prompt(schema: &Value) -> String {
    format!("{PROMPT}{}", dumps(schema))
}

/// What is said of rows that cannot be read; the others are asked.
pub(super) fn unreadable(words: &[String]) -> Option<Notice> {
    words.first().map(|first| {
        DatasetNotice::RowsUnreadable {
            rows: words.len(),
            first: first.clone(),
        }
        .into()
    })
}
