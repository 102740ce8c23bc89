//! Ollama's `format`: a JSON Schema, or the word `json`.
//!
//! Source: Ollama's API reference and its grammar for `json`, whose root is an object; read, not
//! run.

use serde_json::{Value, json};

use super::{Carried, DialectSpec, JSON_ONLY, Refusal, spelling};
use sobench_core::constraint::Constraint;

pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "ollama-format",
    is_field: |field| field == "format",
    carry: |constraint, _, _| carry(constraint),
    ..JSON_ONLY
};

fn carry(constraint: &Constraint) -> Result<Carried, Refusal> {
    let format: Value = match constraint {
        Constraint::JsonSchema(schema) => spelling::schema_object(schema)?,
        Constraint::JsonObject(_) => json!("json"),
        _ => return Err(Refusal::NoPlace),
    };
    Ok(Carried::new("format", format, &["/format"]))
}
