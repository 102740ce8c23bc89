//! SGLang: `sampling_params` of its native `/generate`, or `regex`, `ebnf` and `response_format` on
//! its OpenAI-compatible endpoints.
//!
//! Source: exchanges recorded from SGLang 0.5.23. `json_schema` must be a string; an object is
//! refused. SGLang has no field for a choice, which is sent as a regular expression of its
//! alternatives. `ebnf` is passed to the grammar backend unchanged: xgrammar reads EBNF, llguidance
//! also reads Lark.

use serde_json::{Value, json};

use super::{ConstraintFields, DialectSpec, JSON_ONLY, Refusal, conversion, response_format};
use crate::ServerKind;
use sobench_core::constraint::{Constraint, GrammarSpelling};

pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "sglang",
    kinds: &Constraint::TEXT_KINDS,
    grammar_spelling: GrammarSpelling::Converted,
    holder: Some("sampling_params"),
    is_field: |field| matches!(field, "json_schema" | "regex" | "ebnf" | "structural_tag"),
    carry: |constraint, server, _| carry(server, constraint),
    ..JSON_ONLY
};

fn carry(server: ServerKind, constraint: &Constraint) -> Result<ConstraintFields, Refusal> {
    let is_native = server == ServerKind::Sglang;
    let native = |name: &str, value: Value, pinned| {
        Ok(ConstraintFields::new(
            "sampling_params",
            json!({name: value}),
            &[pinned],
        ))
    };
    match constraint {
        Constraint::JsonSchema(_) | Constraint::JsonObject(_) | Constraint::StructuralTag(_)
            if !is_native =>
        {
            response_format::carry(constraint)
        }
        Constraint::JsonSchema(schema) => native(
            "json_schema",
            conversion::text(schema),
            "/sampling_params/json_schema",
        ),
        // SGLang itself converts `json_object` to this schema.
        Constraint::JsonObject(_) => native(
            "json_schema",
            conversion::text(&conversion::any_object()),
            "/sampling_params/json_schema",
        ),
        Constraint::StructuralTag(tag) => native(
            "structural_tag",
            conversion::text(tag),
            "/sampling_params/structural_tag",
        ),
        Constraint::Regex(regex) if is_native => {
            native("regex", json!(regex), "/sampling_params/regex")
        }
        Constraint::Regex(regex) => Ok(ConstraintFields::new("regex", json!(regex), &["/regex"])),
        Constraint::Choice(choices) => {
            let regex = Value::String(conversion::choice_regex(choices)?);
            if is_native {
                return native("regex", regex, "/sampling_params/regex");
            }
            Ok(ConstraintFields::new("regex", regex, &["/regex"]))
        }
        Constraint::Grammar { text, .. } if is_native => {
            native("ebnf", json!(text), "/sampling_params/ebnf")
        }
        Constraint::Grammar { text, .. } => {
            Ok(ConstraintFields::new("ebnf", json!(text), &["/ebnf"]))
        }
        Constraint::Tools(_) => Err(Refusal::NoField),
    }
}
