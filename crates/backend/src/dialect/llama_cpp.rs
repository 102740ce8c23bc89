//! llama.cpp server's `json_schema` and `grammar`, on its native endpoint and its OpenAI-compatible ones.
//!
//! Source: exchanges recorded from the llama-server of 2026. `grammar` must be GBNF. There is no
//! field for regex and choice; a choice is sent as a grammar of its alternatives. On
//! `/v1/completions`, `response_format` is silently ignored, but these fields work.

use serde_json::{Value, json};

use super::{ConstraintFields, DialectSpec, JSON_ONLY, Refusal, conversion};
use crate::Unsendable;
use sobench_core::constraint::{Constraint, GrammarDialect, GrammarSpelling};

pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "llama-cpp",
    kinds: &["json", "json_object", "choice", "grammar"],
    grammar_spelling: GrammarSpelling::Portable,
    is_field: |field| matches!(field, "json_schema" | "grammar"),
    carry: |constraint, _, _| carry(constraint),
    ..JSON_ONLY
};

fn carry(constraint: &Constraint) -> Result<ConstraintFields, Refusal> {
    let grammar = |text: Value| Ok(ConstraintFields::new("grammar", text, &["/grammar"]));
    let schema = |schema: Value| {
        Ok(ConstraintFields::new(
            "json_schema",
            schema,
            &["/json_schema"],
        ))
    };
    match constraint {
        Constraint::JsonSchema(value) => schema(conversion::schema_object(value)?),
        Constraint::JsonObject(_) => schema(conversion::any_object()),
        Constraint::Choice(choices) => grammar(Value::String(conversion::choice_gbnf(choices)?)),
        Constraint::Grammar {
            dialect: GrammarDialect::Ebnf,
            text,
        } => grammar(json!(text)),
        Constraint::Grammar { dialect, .. } => {
            let what = format!("the llama-cpp dialect carries grammars in GBNF only: {dialect}");
            Err(Unsendable::new(
                what,
                "give a GBNF file (`root ::= ...`) with --grammar-path",
            )
            .into())
        }
        Constraint::Regex(_) | Constraint::StructuralTag(_) | Constraint::Tools(_) => {
            Err(Refusal::NoField)
        }
    }
}
