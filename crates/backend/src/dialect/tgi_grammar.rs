//! TGI's `grammar: {type, value}`: in `parameters` of its native endpoints, or as `response_format`
//! of its chat endpoint.
//!
//! Source: `GrammarType` in `router/src/lib.rs` of TGI 3, not tested against a server. There are
//! two types, `json` and `regex`; a choice is sent as a regular expression of its alternatives. TGI
//! refuses a schema without `properties` ("Grammar must have a 'properties' field") and treats
//! empty `properties` as `{}`, so "any JSON object" cannot be expressed.

use serde_json::{Value, json};

use super::{ConstraintFields, DialectSpec, JSON_ONLY, Refusal, conversion};
use crate::ServerKind;
use sobench_core::constraint::Constraint;

pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "tgi-grammar",
    kinds: &["json", "regex", "choice"],
    holder: Some("parameters"),
    is_field: |field| field == "grammar",
    carry: |constraint, server, _| carry(server, constraint),
    ..JSON_ONLY
};

fn carry(server: ServerKind, constraint: &Constraint) -> Result<ConstraintFields, Refusal> {
    let (kind, value) = match constraint {
        Constraint::JsonSchema(schema) => ("json", (**schema).clone()),
        Constraint::Regex(regex) => ("regex", json!(regex)),
        Constraint::Choice(choices) => ("regex", Value::String(conversion::choice_regex(choices)?)),
        _ => return Err(Refusal::NoField),
    };
    let grammar = json!({"type": kind, "value": value});
    Ok(match server {
        ServerKind::Tgi => ConstraintFields::new(
            "parameters",
            json!({"grammar": grammar}),
            &["/parameters/grammar"],
        ),
        _ => ConstraintFields::new("response_format", grammar, &["/response_format"]),
    })
}
