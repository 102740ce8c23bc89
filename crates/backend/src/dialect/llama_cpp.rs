//! llama.cpp server's `json_schema` and `grammar`, on its own endpoint and its OpenAI-shaped ones.
//!
//! Source: exchanges recorded from the llama-server of 2026. `grammar` is GBNF and nothing else; it
//! has no regex and no choice. A choice goes as the grammar of its alternatives. On
//! `/v1/completions`, `response_format` is ignored without a word, and these fields are not.

use serde_json::{Value, json};

use super::{Carried, DialectSpec, JSON_ONLY, Refusal, spelling};
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

fn carry(constraint: &Constraint) -> Result<Carried, Refusal> {
    let grammar = |text: Value| Ok(Carried::new("grammar", text, &["/grammar"]));
    let schema = |schema: Value| Ok(Carried::new("json_schema", schema, &["/json_schema"]));
    match constraint {
        Constraint::JsonSchema(value) => schema(spelling::schema_object(value)?),
        Constraint::JsonObject(_) => schema(spelling::any_object()),
        Constraint::Choice(choices) => grammar(Value::String(spelling::choice_gbnf(choices)?)),
        Constraint::Grammar {
            dialect: GrammarDialect::Ebnf,
            text,
        } => grammar(json!(text)),
        Constraint::Grammar { dialect, .. } => {
            let what =
                format!("the llama-cpp dialect carries a grammar in GBNF only, not in {dialect}");
            Err(Unsendable::new(what, "give --grammar-path a GBNF file (`root ::= ...`)").into())
        }
        Constraint::Regex(_) | Constraint::StructuralTag(_) => Err(Refusal::NoPlace),
    }
}
