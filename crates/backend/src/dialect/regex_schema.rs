//! LMDeploy's `response_format`, which has the type `regex_schema` in addition to OpenAI's.
//!
//! Source: `ResponseFormat` in `lmdeploy/serve/openai/protocol.py`, not tested against a server. A
//! choice is sent as a regular expression of its alternatives.

use serde_json::{Value, json};

use super::{ConstraintFields, DialectSpec, JSON_ONLY, Refusal, conversion, response_format};
use sobench_core::constraint::Constraint;

pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "regex-schema",
    kinds: &["json", "json_object", "regex", "choice"],
    is_field: |field| field == "response_format",
    carry: |constraint, _, _| carry(constraint),
    ..JSON_ONLY
};

fn carry(constraint: &Constraint) -> Result<ConstraintFields, Refusal> {
    let regex = match constraint {
        Constraint::JsonSchema(_) | Constraint::JsonObject(_) => {
            return response_format::carry(constraint);
        }
        Constraint::Regex(regex) => json!(regex),
        Constraint::Choice(choices) => Value::String(conversion::choice_regex(choices)?),
        Constraint::Grammar { .. } | Constraint::StructuralTag(_) | Constraint::Tools(_) => {
            return Err(Refusal::NoField);
        }
    };
    Ok(ConstraintFields::new(
        "response_format",
        json!({"type": "regex_schema", "regex_schema": regex}),
        &["/response_format"],
    ))
}
