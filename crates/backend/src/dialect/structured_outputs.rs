//! The `structured_outputs` object of vLLM from 0.11 (pull request 22772).

use super::conversion::{schema_or_text, text};
use super::{DialectSpec, JSON_ONLY, at};
use sobench_core::constraint::ConstraintKind::{
    Choice, Grammar, JsonObject, JsonSchema, Regex, StructuralTag,
};

/// One member of `structured_outputs`, with the name of the kind; vLLM requires exactly one.
pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "structured-outputs",
    embedded: true,
    is_field: |field| field == "structured_outputs",
    fields: &[
        (JsonSchema, |schema, _| {
            at("/structured_outputs/json", schema_or_text(schema))
        }),
        (JsonObject, |_, _| {
            at("/structured_outputs/json_object", true.into())
        }),
        (Regex, |regex, _| at("/structured_outputs/regex", regex)),
        (Choice, |choices, _| {
            at("/structured_outputs/choice", choices)
        }),
        (Grammar, |text, _| at("/structured_outputs/grammar", text)),
        // vLLM's field is a string with JSON; only `response_format` takes the tag as an object.
        (StructuralTag, |tag, _| {
            at("/structured_outputs/structural_tag", text(tag))
        }),
    ],
    ..JSON_ONLY
};
