//! LMDeploy's `response_format`, which has the type `regex_schema` beside OpenAI's. Knows no other dialect but `response_format`.
//!
//! Source: `ResponseFormat` in `lmdeploy/serve/openai/protocol.py`, read and not run. A choice goes as the regular expression of
//! its alternatives.

use serde_json::{Value, json};

use super::{Carried, Refusal, response_format, spelling};
use crate::constraint::Constraint;

pub(super) fn carry(constraint: &Constraint) -> Result<Carried, Refusal> {
    let regex = match constraint {
        Constraint::JsonSchema(_) | Constraint::JsonObject(_) => return response_format::carry(constraint),
        Constraint::Regex(regex) => json!(regex),
        Constraint::Choice(choices) => Value::String(spelling::choice_regex(choices)?),
        Constraint::Grammar { .. } | Constraint::StructuralTag(_) => return Err(Refusal::NoPlace),
    };
    Ok(Carried::new("response_format", json!({"type": "regex_schema", "regex_schema": regex}), &["/response_format"]))
}
