//! Ollama's `format`: a JSON Schema, or the string `json`.
//!
//! Source: Ollama's API reference and its grammar for `json`, whose root is an object; not tested
//! against a server.

use super::{DialectSpec, JSON_ONLY, at, conversion};
use sobench_core::constraint::ConstraintKind::{JsonObject, JsonSchema};

pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "ollama-format",
    is_field: |field| field == "format",
    fields: &[
        (JsonSchema, |schema, _| {
            at("/format", conversion::schema_object(schema)?)
        }),
        (JsonObject, |_, _| at("/format", "json".into())),
    ],
    ..JSON_ONLY
};
