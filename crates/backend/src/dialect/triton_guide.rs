//! TensorRT-LLM's guide behind Triton: `guided_decoding_guide_type` and `guided_decoding_guide`.
//!
//! Source: `docs/guided_decoding.md` of triton-inference-server/tensorrtllm_backend, read and not
//! run. Guides are strings, and the type `json` allows any JSON value, not only an object: so "any
//! JSON object" goes as a schema. A choice goes as the regular expression of its alternatives.

use serde_json::{Value, json};

use super::{Carried, DialectSpec, JSON_ONLY, Refusal, spelling};
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

fn carry(constraint: &Constraint) -> Result<Carried, Refusal> {
    let (kind, guide) = match constraint {
        Constraint::JsonSchema(schema) => ("json_schema", spelling::text(schema)),
        Constraint::JsonObject(_) => ("json_schema", spelling::text(&spelling::any_object())),
        Constraint::Regex(regex) => ("regex", json!(regex)),
        Constraint::Choice(choices) => ("regex", Value::String(spelling::choice_regex(choices)?)),
        Constraint::Grammar { text, .. } => ("ebnf_grammar", json!(text)),
        Constraint::StructuralTag(_) => return Err(Refusal::NoPlace),
    };
    Ok(Carried {
        fields: json!({"guided_decoding_guide_type": kind, "guided_decoding_guide": guide}),
        pinned: vec!["/guided_decoding_guide_type", "/guided_decoding_guide"],
    })
}
