//! TensorRT-LLM's `response_format` with types of its own.
//!
//! Source: `ResponseFormat` in `tensorrt_llm/serve/openai_protocol.py`, read and not run. `{"type":
//! "json", "schema": ...}` is in every version; the OpenAI form came later, and the first version
//! that took it took the envelope for the schema (issue 4855). `regex` and `ebnf` came later too. A
//! choice goes as the regular expression of its alternatives.

use serde_json::{Value, json};

use super::{Carried, DialectSpec, JSON_ONLY, Refusal, response_format, spelling};
use sobench_core::constraint::{Constraint, GrammarSpelling};

pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "trtllm-format",
    kinds: &Constraint::KINDS,
    grammar_spelling: GrammarSpelling::Converted,
    is_field: |field| field == "response_format",
    carry: |constraint, _, _| carry(constraint),
    ..JSON_ONLY
};

fn carry(constraint: &Constraint) -> Result<Carried, Refusal> {
    let format = match constraint {
        Constraint::JsonSchema(schema) => {
            json!({"type": "json", "schema": spelling::schema_object(schema)?})
        }
        Constraint::JsonObject(_) | Constraint::StructuralTag(_) => {
            return response_format::carry(constraint);
        }
        Constraint::Regex(regex) => json!({"type": "regex", "regex": regex}),
        Constraint::Choice(choices) => {
            json!({"type": "regex", "regex": Value::String(spelling::choice_regex(choices)?)})
        }
        Constraint::Grammar { text, .. } => json!({"type": "ebnf", "ebnf": text}),
    };
    Ok(Carried::new(
        "response_format",
        format,
        &["/response_format"],
    ))
}
