//! The `structured_outputs` object of vLLM from 0.11 (pull request 22772). Knows no other dialect.

use serde_json::{Value, json};

use super::Carried;
use super::spelling::{schema_or_text, text};
use crate::constraint::Constraint;

/// One member of `structured_outputs`, named as [`Constraint::kind`] names it; vLLM wants exactly one.
pub(super) fn carry(constraint: &Constraint) -> Carried {
    let (value, pinned) = match constraint {
        Constraint::JsonSchema(schema) => (schema_or_text(schema), "/structured_outputs/json"),
        Constraint::JsonObject(_) => (Value::Bool(true), "/structured_outputs/json_object"),
        Constraint::Regex(regex) => (json!(regex), "/structured_outputs/regex"),
        Constraint::Choice(choices) => (json!(choices), "/structured_outputs/choice"),
        Constraint::Grammar { text: grammar, .. } => (json!(grammar), "/structured_outputs/grammar"),
        // vLLM's field is a string that holds JSON; only `response_format` takes the tag as an object.
        Constraint::StructuralTag(tag) => (text(tag), "/structured_outputs/structural_tag"),
    };
    Carried::new("structured_outputs", json!({ constraint.kind(): value }), &[pinned])
}
