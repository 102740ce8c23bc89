//! The comparison as JSON (`schemas/contracts/matrix.schema.json`). Knows no file.

use super::Comparison;

/// One object, over several lines.
pub(super) fn render(comparison: &Comparison) -> String {
    let text = serde_json::to_string_pretty(comparison).expect("names are strings, and figures numbers or null");
    format!("{text}\n")
}
