//! The prompt for datasets that consist of schemas without prompts.

use serde_json::Value;

use crate::tokenizer::python_json::dumps;
use sobench_notices::notice::{DatasetNotice, Notice};

/// The prompt up to the schema. Written for this project.
const PROMPT: &str = "Write one JSON document that is valid by the JSON Schema below, with plausible values, and nothing else.\n\n";

/// A prompt that shows the schema and requests a valid document.
pub(super) fn prompt(schema: &Value) -> String {
    format!("{PROMPT}{}", dumps(schema))
}

/// The notice about rows that cannot be read and are skipped.
pub(super) fn unreadable_notice(errors: &[String]) -> Option<Notice> {
    errors.first().map(|first| {
        DatasetNotice::RowsUnreadable {
            rows: errors.len(),
            first: first.clone(),
        }
        .into()
    })
}
