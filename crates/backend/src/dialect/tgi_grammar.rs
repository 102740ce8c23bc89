//! TGI's `grammar: {type, value}`: in `parameters` of its native endpoints, or as `response_format`
//! of its chat endpoint.
//!
//! Source: `GrammarType` in `router/src/lib.rs` of TGI 3, not tested against a server. There are
//! two types, `json` and `regex`; a choice is sent as a regular expression of its alternatives. TGI
//! refuses a schema without `properties` ("Grammar must have a 'properties' field") and treats
//! empty `properties` as `{}`, so "any JSON object" cannot be expressed.

use serde_json::{Value, json};

use super::{Carried, DialectSpec, JSON_ONLY, at};
use crate::ServerKind;
use sobench_core::constraint::ConstraintKind::{JsonSchema, Regex};

pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "tgi-grammar",
    holder: Some("parameters"),
    is_field: |field| field == "grammar",
    fields: &[
        (JsonSchema, |schema, server| {
            grammar(json!({"type": "json", "value": schema}), server)
        }),
        (Regex, |regex, server| {
            grammar(json!({"type": "regex", "value": regex}), server)
        }),
    ],
    ..JSON_ONLY
};

fn grammar(grammar: Value, server: ServerKind) -> Carried {
    match server {
        ServerKind::Tgi => at("/parameters/grammar", grammar),
        _ => at("/response_format", grammar),
    }
}
