//! SGLang: `sampling_params` of its native `/generate`, or `regex`, `ebnf` and `response_format` on
//! its OpenAI-compatible endpoints.
//!
//! Source: exchanges recorded from SGLang 0.5.23. `json_schema` must be a string; an object is
//! refused. SGLang has no field for a choice, which is sent as a regular expression of its
//! alternatives. `ebnf` is passed to the grammar backend unchanged: xgrammar reads EBNF, llguidance
//! also reads Lark.

use super::{DialectSpec, JSON_ONLY, at, conversion, response_format};
use crate::ServerKind;
use sobench_core::constraint::ConstraintKind::{
    Grammar, JsonObject, JsonSchema, Regex, StructuralTag,
};
use sobench_core::constraint::GrammarSpelling;

pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "sglang",
    grammar_spelling: GrammarSpelling::Converted,
    holder: Some("sampling_params"),
    is_field: |field| matches!(field, "json_schema" | "regex" | "ebnf" | "structural_tag"),
    fields: &[
        (JsonSchema, |schema, server| match server {
            ServerKind::Sglang => at("/sampling_params/json_schema", conversion::text(schema)),
            _ => response_format::json_schema(schema, server),
        }),
        // SGLang itself converts `json_object` to the schema of any object.
        (JsonObject, |schema, server| match server {
            ServerKind::Sglang => at("/sampling_params/json_schema", conversion::text(schema)),
            _ => response_format::json_object(schema, server),
        }),
        (Regex, |regex, server| match server {
            ServerKind::Sglang => at("/sampling_params/regex", regex),
            _ => at("/regex", regex),
        }),
        (Grammar, |text, server| match server {
            ServerKind::Sglang => at("/sampling_params/ebnf", text),
            _ => at("/ebnf", text),
        }),
        (StructuralTag, |tag, server| match server {
            ServerKind::Sglang => at("/sampling_params/structural_tag", conversion::text(tag)),
            _ => response_format::structural_tag(tag, server),
        }),
    ],
    ..JSON_ONLY
};
