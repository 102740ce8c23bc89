//! TensorRT-LLM with Triton: `guided_decoding_guide_type` and `guided_decoding_guide`.
//!
//! Source: `docs/guided_decoding.md` of triton-inference-server/tensorrtllm_backend, not tested
//! against a server. Guides are strings. The type `json` allows any JSON value, so "any JSON
//! object" is sent as a schema. A choice is sent as a regular expression of its alternatives.

use serde_json::{Value, json};

use super::{ConstraintFields, DialectSpec, JSON_ONLY, Refusal, conversion};
use sobench_core::constraint::{Constraint, GrammarSpelling};

pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "triton-guide",
    kinds: &["json", "json_object", "regex", "choice", "grammar"],
    grammar_spelling: GrammarSpelling::Converted,
    is_field: |field| {
        matches!(
            field,
            "guided_decoding_guide_type" | "guided_decoding_guide"
        )
    },
    carry: |constraint, _, _| carry(constraint),
    ..JSON_ONLY
};

fn carry(constraint: &Constraint) -> Result<ConstraintFields, Refusal> {
    let (kind, guide) = match constraint {
        Constraint::JsonSchema(schema) => ("json_schema", conversion::text(schema)),
        Constraint::JsonObject(_) => ("json_schema", conversion::text(&conversion::any_object())),
        Constraint::Regex(regex) => ("regex", json!(regex)),
        Constraint::Choice(choices) => ("regex", Value::String(conversion::choice_regex(choices)?)),
        Constraint::Grammar { text, .. } => ("ebnf_grammar", json!(text)),
        Constraint::StructuralTag(_) | Constraint::Tools(_) => return Err(Refusal::NoField),
    };
    Ok(ConstraintFields {
        fields: json!({"guided_decoding_guide_type": kind, "guided_decoding_guide": guide}),
        pinned: vec!["/guided_decoding_guide_type", "/guided_decoding_guide"],
    })
}
