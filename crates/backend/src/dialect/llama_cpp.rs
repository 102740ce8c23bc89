//! llama.cpp server's `json_schema` and `grammar`, on its native endpoint and its OpenAI-compatible ones.
//!
//! Source: exchanges recorded from the llama-server of 2026. `grammar` must be GBNF. There is no
//! field for regex and choice; a choice is sent as a grammar of its alternatives. On
//! `/v1/completions`, `response_format` is silently ignored, but these fields work.

use serde_json::Value;

use super::{Carried, DialectSpec, JSON_ONLY, at, conversion};
use crate::ServerKind;
use sobench_core::constraint::ConstraintKind::{Grammar, JsonObject, JsonSchema};
use sobench_core::constraint::GrammarSpelling;

pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "llama-cpp",
    grammar_spelling: GrammarSpelling::Portable,
    is_gbnf_only: true,
    is_field: |field| matches!(field, "json_schema" | "grammar"),
    fields: &[
        (JsonSchema, json_schema),
        (JsonObject, json_schema),
        (Grammar, |text, _| at("/grammar", text)),
    ],
    ..JSON_ONLY
};

fn json_schema(schema: Value, _: ServerKind) -> Carried {
    at("/json_schema", conversion::schema_object(schema)?)
}
