//! Ollama's `format`: a JSON Schema, or the string `json`.
//!
//! Source: Ollama's API reference and its grammar for `json`, whose root is an object; not tested
//! against a server.

use serde_json::{Value, json};

use super::{ConstraintFields, DialectSpec, JSON_ONLY, Refusal, conversion};
use sobench_core::constraint::Constraint;

pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "ollama-format",
    is_field: |field| field == "format",
    carry: |constraint, _, _| carry(constraint),
    ..JSON_ONLY
};

fn carry(constraint: &Constraint) -> Result<ConstraintFields, Refusal> {
    let format: Value = match constraint {
        Constraint::JsonSchema(schema) => conversion::schema_object(schema)?,
        Constraint::JsonObject(_) => json!("json"),
        _ => return Err(Refusal::NoField),
    };
    Ok(ConstraintFields::new("format", format, &["/format"]))
}
