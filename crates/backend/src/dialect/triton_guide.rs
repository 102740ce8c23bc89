//! TensorRT-LLM with Triton: `guided_decoding_guide_type` and `guided_decoding_guide`.
//!
//! Source: `docs/guided_decoding.md` of triton-inference-server/tensorrtllm_backend, not tested
//! against a server. Guides are strings. The type `json` allows any JSON value, so "any JSON
//! object" is sent as a schema. A choice is sent as a regular expression of its alternatives.

use serde_json::{Value, json};

use super::{Carried, ConstraintFields, DialectSpec, JSON_ONLY, conversion};
use crate::ServerKind;
use sobench_core::constraint::{ConstraintKind, GrammarSpelling};

pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "triton-guide",
    grammar_spelling: GrammarSpelling::Converted,
    is_field: |field| {
        matches!(
            field,
            "guided_decoding_guide_type" | "guided_decoding_guide"
        )
    },
    fields: &[
        (ConstraintKind::JsonSchema, json_schema),
        (ConstraintKind::JsonObject, json_schema),
        (ConstraintKind::Regex, |regex, _| guide("regex", regex)),
        (ConstraintKind::Grammar, |text, _| {
            guide("ebnf_grammar", text)
        }),
    ],
    ..JSON_ONLY
};

fn json_schema(schema: Value, _: ServerKind) -> Carried {
    guide("json_schema", conversion::text(schema))
}

fn guide(kind: &str, guide: Value) -> Carried {
    Ok(ConstraintFields {
        fields: json!({"guided_decoding_guide_type": kind, "guided_decoding_guide": guide}),
        pinned: vec!["/guided_decoding_guide_type", "/guided_decoding_guide"],
    })
}
