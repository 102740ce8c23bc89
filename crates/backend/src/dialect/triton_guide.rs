//! TensorRT-LLM with Triton: `guided_decoding_guide_type` and `guided_decoding_guide`.
//!
//! Source: `docs/guided_decoding.md` of triton-inference-server/tensorrtllm_backend, not tested
//! against a server. Guides are strings. The type `json` allows any JSON value, so "any JSON
//! object" is sent as a schema. A choice is sent as a regular expression of its alternatives.

use serde_json::{Value, json};

use super::{Carried, ConstraintFields, DialectSpec, JSON_ONLY, conversion};
use crate::ServerKind;
use sobench_core::constraint::ConstraintKind::{Grammar, JsonObject, JsonSchema, Regex};
use sobench_core::constraint::GrammarSpelling;

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
        (JsonSchema, json_schema),
        (JsonObject, json_schema),
        (Regex, |regex, _| guide("regex", regex)),
        (Grammar, |text, _| guide("ebnf_grammar", text)),
    ],
    ..JSON_ONLY
};

fn json_schema(schema: Value, _: ServerKind) -> Carried {
    guide("json_schema", conversion::text(schema))
}

fn guide(kind: &str, guide: Value) -> Carried {
    let mut fields = json!({ "guided_decoding_guide_type": kind });
    fields["guided_decoding_guide"] = guide;
    Ok(ConstraintFields {
        fields,
        pinned: vec!["/guided_decoding_guide_type", "/guided_decoding_guide"],
    })
}
