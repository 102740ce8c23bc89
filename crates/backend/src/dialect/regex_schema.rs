//! LMDeploy's `response_format`, which has the type `regex_schema` beside OpenAI's.
//!
//! Source: `ResponseFormat` in `lmdeploy/serve/openai/protocol.py`, read and not run. A choice goes
//! as the regular expression of its alternatives.

use serde_json::{Value, json};

use super::{Carried, DialectSpec, JSON_ONLY, Refusal, response_format, spelling};
use sobench_core::constraint::Constraint;

pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "regex-schema",
    kinds: &["json", "json_object", "regex", "choice"],
    is_field: |field| field == "response_format",
    carry: |constraint, _, _| carry(constraint),
    ..JSON_ONLY
};

fn carry(constraint: &Constraint) -> Result<Carried, Refusal> {
    let regex = match constraint {
        Constraint::JsonSchema(_) | Constraint::JsonObject(_) => {
            return response_format::carry(constraint);
        }
        Constraint::Regex(regex) => json!(regex),
        Constraint::Choice(choices) => Value::String(spelling::choice_regex(choices)?),
        Constraint::Grammar { .. } | Constraint::StructuralTag(_) => return Err(Refusal::NoPlace),
    };
    Ok(Carried::new(
        "response_format",
        json!({"type": "regex_schema", "regex_schema": regex}),
        &["/response_format"],
    ))
}
