//! TensorRT-LLM's `response_format`, with its own types.
//!
//! Source: `ResponseFormat` in `tensorrt_llm/serve/openai_protocol.py`, not tested against a
//! server. `{"type": "json", "schema": ...}` is in every version. The OpenAI form was added later,
//! and its first version read the envelope as the schema (issue 4855). `regex` and `ebnf` were
//! added later, too. A choice is sent as a regular expression of its alternatives.

use serde_json::json;

use super::{DialectSpec, JSON_ONLY, at, conversion, response_format};
use sobench_core::constraint::ConstraintKind::{
    Grammar, JsonObject, JsonSchema, Regex, StructuralTag,
};
use sobench_core::constraint::GrammarSpelling;

pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "trtllm-format",
    grammar_spelling: GrammarSpelling::Converted,
    is_field: |field| field == "response_format",
    fields: &[
        (JsonSchema, |schema, _| {
            let schema = conversion::schema_object(schema)?;
            at(
                "/response_format",
                json!({"type": "json", "schema": schema}),
            )
        }),
        (JsonObject, response_format::json_object),
        (Regex, |regex, _| {
            at("/response_format", json!({"type": "regex", "regex": regex}))
        }),
        (Grammar, |text, _| {
            at("/response_format", json!({"type": "ebnf", "ebnf": text}))
        }),
        (StructuralTag, response_format::structural_tag),
    ],
    ..JSON_ONLY
};
