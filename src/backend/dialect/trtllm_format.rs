//! TensorRT-LLM's `response_format` with types of its own. Knows no other dialect but `response_format`.
//!
//! Source: `ResponseFormat` in `tensorrt_llm/serve/openai_protocol.py`, read and not run. `{"type": "json", "schema": ...}` is in
//! every version; the OpenAI form came later, and the first version that took it took the envelope for the schema (issue 4855).
//! `regex` and `ebnf` came later too. A choice goes as the regular expression of its alternatives.

use serde_json::{Value, json};

use super::{Carried, Refusal, response_format, spelling};
use crate::constraint::Constraint;

pub(super) fn carry(constraint: &Constraint) -> Result<Carried, Refusal> {
    let format = match constraint {
        Constraint::JsonSchema(schema) => json!({"type": "json", "schema": spelling::schema_object(schema)?}),
        Constraint::JsonObject(_) | Constraint::StructuralTag(_) => return response_format::carry(constraint),
        Constraint::Regex(regex) => json!({"type": "regex", "regex": regex}),
        Constraint::Choice(choices) => {
            json!({"type": "regex", "regex": Value::String(spelling::choice_regex(choices)?)})
        }
        Constraint::Grammar { text, .. } => json!({"type": "ebnf", "ebnf": text}),
    };
    Ok(Carried::new("response_format", format, &["/response_format"]))
}
