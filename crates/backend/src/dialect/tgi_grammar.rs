//! TGI's `grammar: {type, value}`: in `parameters` of its own endpoints, as `response_format` of
//! its chat endpoint.
//!
//! Source: `GrammarType` in `router/src/lib.rs` of TGI 3, read and not run. There are two types,
//! `json` and `regex`; a choice goes as the regular expression of its alternatives. TGI refuses a
//! schema without `properties` ("Grammar must have a 'properties' field") and makes `{}` of an
//! empty list of them: "any JSON object" has no spelling.

use serde_json::{Value, json};

use super::{Carried, DialectSpec, JSON_ONLY, Refusal, spelling};
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

fn carry(server: ServerKind, constraint: &Constraint) -> Result<Carried, Refusal> {
    let (kind, value) = match constraint {
        Constraint::JsonSchema(schema) => ("json", (**schema).clone()),
        Constraint::Regex(regex) => ("regex", json!(regex)),
        Constraint::Choice(choices) => ("regex", Value::String(spelling::choice_regex(choices)?)),
        _ => return Err(Refusal::NoPlace),
    };
    let grammar = json!({"type": kind, "value": value});
    Ok(match server {
        ServerKind::Tgi => Carried::new(
            "parameters",
            json!({"grammar": grammar}),
            &["/parameters/grammar"],
        ),
        _ => Carried::new("response_format", grammar, &["/response_format"]),
    })
}
