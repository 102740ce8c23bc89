//! The `guided_*` fields of vLLM before 0.12 and of Aphrodite.

use super::conversion::schema_or_text;
use super::{DialectSpec, JSON_ONLY, at, response_format};
use sobench_core::constraint::ConstraintKind::{
    Choice, Grammar, JsonObject, JsonSchema, Regex, StructuralTag,
};

/// Fields with this prefix that are not constraints.
const OPTIONS: [&str; 2] = ["guided_decoding_backend", "guided_whitespace_pattern"];

/// vLLM's clients of that time had no `guided_*` field for "any JSON object" and structural tags.
/// Servers read both from `response_format`, so they are sent there.
pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "guided",
    embedded: true,
    engine_field: Some("/guided_decoding_backend"),
    is_field: |field| field.starts_with("guided_") && !OPTIONS.contains(&field),
    fields: &[
        (JsonSchema, |schema, _| {
            at("/guided_json", schema_or_text(schema))
        }),
        (JsonObject, response_format::json_object),
        (Regex, |regex, _| at("/guided_regex", regex)),
        (Choice, |choices, _| at("/guided_choice", choices)),
        (Grammar, |text, _| at("/guided_grammar", text)),
        (StructuralTag, response_format::structural_tag),
    ],
    ..JSON_ONLY
};
