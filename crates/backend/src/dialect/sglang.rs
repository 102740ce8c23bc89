//! SGLang: all in `sampling_params` of its own `/generate`, or `regex` and `ebnf` beside
//! `response_format` on its OpenAI-shaped endpoints.
//!
//! Source: exchanges recorded from SGLang 0.5.23. `json_schema` is a string there, an object is
//! refused. SGLang has no choice: it goes as the regular expression of its alternatives. `ebnf` is
//! given to the grammar backend as it is: xgrammar reads EBNF, llguidance was seen to read Lark as
//! well.

use serde_json::{Value, json};

use super::{Carried, DialectSpec, JSON_ONLY, Refusal, response_format, spelling};
use crate::ServerKind;
use sobench_core::constraint::{Constraint, GrammarSpelling};

pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "sglang",
    kinds: &Constraint::KINDS,
    grammar_spelling: GrammarSpelling::Converted,
    holder: Some("sampling_params"),
    is_field: |field| matches!(field, "json_schema" | "regex" | "ebnf" | "structural_tag"),
    carry: |constraint, server, _| carry(server, constraint),
    ..JSON_ONLY
};

fn carry(server: ServerKind, constraint: &Constraint) -> Result<Carried, Refusal> {
    let is_native = server == ServerKind::Sglang;
    let native = |name: &str, value: Value, pinned| {
        Ok(Carried::new(
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
            spelling::text(schema),
            "/sampling_params/json_schema",
        ),
        // SGLang itself turns `json_object` into this schema.
        Constraint::JsonObject(_) => native(
            "json_schema",
            spelling::text(&spelling::any_object()),
            "/sampling_params/json_schema",
        ),
        Constraint::StructuralTag(tag) => native(
            "structural_tag",
            spelling::text(tag),
            "/sampling_params/structural_tag",
        ),
        Constraint::Regex(regex) if is_native => {
            native("regex", json!(regex), "/sampling_params/regex")
        }
        Constraint::Regex(regex) => Ok(Carried::new("regex", json!(regex), &["/regex"])),
        Constraint::Choice(choices) => {
            let regex = Value::String(spelling::choice_regex(choices)?);
            if is_native {
                return native("regex", regex, "/sampling_params/regex");
            }
            Ok(Carried::new("regex", regex, &["/regex"]))
        }
        Constraint::Grammar { text, .. } if is_native => {
            native("ebnf", json!(text), "/sampling_params/ebnf")
        }
        Constraint::Grammar { text, .. } => Ok(Carried::new("ebnf", json!(text), &["/ebnf"])),
    }
}
