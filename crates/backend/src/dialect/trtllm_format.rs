//! TensorRT-LLM's `response_format`, with its own types.
//!
//! Source: `ResponseFormat` in `tensorrt_llm/serve/openai_protocol.py`, not tested against a
//! server. `{"type": "json", "schema": ...}` is in every version. The OpenAI form was added later,
//! and its first version read the envelope as the schema (issue 4855). `regex` and `ebnf` were
//! added later, too. A choice is sent as a regular expression of its alternatives.

use serde_json::{Value, json};

use super::{ConstraintFields, DialectSpec, JSON_ONLY, Refusal, conversion, response_format};
use sobench_core::constraint::{Constraint, GrammarSpelling};

pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "trtllm-format",
    kinds: &Constraint::TEXT_KINDS,
    grammar_spelling: GrammarSpelling::Converted,
    is_field: |field| field == "response_format",
    carry: |constraint, _, _| carry(constraint),
    ..JSON_ONLY
};

fn carry(constraint: &Constraint) -> Result<ConstraintFields, Refusal> {
    let format = match constraint {
        Constraint::JsonSchema(schema) => {
            json!({"type": "json", "schema": conversion::schema_object(schema)?})
        }
        Constraint::JsonObject(_) | Constraint::StructuralTag(_) => {
            return response_format::carry(constraint);
        }
        Constraint::Regex(regex) => json!({"type": "regex", "regex": regex}),
        Constraint::Choice(choices) => {
            json!({"type": "regex", "regex": Value::String(conversion::choice_regex(choices)?)})
        }
        Constraint::Grammar { text, .. } => json!({"type": "ebnf", "ebnf": text}),
        Constraint::Tools(_) => return Err(Refusal::NoField),
    };
    Ok(ConstraintFields::new(
        "response_format",
        format,
        &["/response_format"],
    ))
}
