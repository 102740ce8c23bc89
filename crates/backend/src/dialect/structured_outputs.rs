//! The `structured_outputs` object of vLLM from 0.11 (pull request 22772).

use serde_json::{Value, json};

use super::conversion::{schema_or_text, text};
use super::{ConstraintFields, DialectSpec, JSON_ONLY, Refusal};
use sobench_core::constraint::Constraint;

pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "structured-outputs",
    kinds: &Constraint::TEXT_KINDS,
    embedded: true,
    is_field: |field| field == "structured_outputs",
    carry: |constraint, _, _| carry(constraint),
    ..JSON_ONLY
};

/// One member of `structured_outputs`, named after [`Constraint::kind`]; vLLM requires exactly one.
fn carry(constraint: &Constraint) -> Result<ConstraintFields, Refusal> {
    let (value, pinned) = match constraint {
        Constraint::JsonSchema(schema) => (schema_or_text(schema), "/structured_outputs/json"),
        Constraint::JsonObject(_) => (Value::Bool(true), "/structured_outputs/json_object"),
        Constraint::Regex(regex) => (json!(regex), "/structured_outputs/regex"),
        Constraint::Choice(choices) => (json!(choices), "/structured_outputs/choice"),
        Constraint::Grammar { text: grammar, .. } => {
            (json!(grammar), "/structured_outputs/grammar")
        }
        // vLLM's field is a string with JSON; only `response_format` takes the tag as an object.
        Constraint::StructuralTag(tag) => (text(tag), "/structured_outputs/structural_tag"),
        Constraint::Tools(_) => return Err(Refusal::NoField),
    };
    Ok(ConstraintFields::new(
        "structured_outputs",
        json!({ constraint.kind(): value }),
        &[pinned],
    ))
}
