//! The schema as the parameters of one function that has to be called, with `strict`.
//!
//! Source: OpenAI's guide "Function calling". The arguments are collected from the stream and
//! judged like any answer. What a server writes beside the call is part of the answer too, and
//! makes it invalid: a forced call leaves room for nothing else. Servers may need a tool-call
//! parser for this (vLLM refuses without one, SGLang streams the call as text). vLLM's responses
//! endpoint sends the arguments of a forced call in one piece, so that its stream tells nothing of
//! the time between tokens.

use serde_json::json;

use super::{Carried, DialectSpec, JSON_ONLY, Refusal, spelling};
use crate::ServerKind;
use sobench_core::constraint::Constraint;

pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "tool-call",
    is_field: |field| field == "tool_choice",
    carry: |constraint, server, _| carry(server, constraint),
    ..JSON_ONLY
};

fn carry(server: ServerKind, constraint: &Constraint) -> Result<Carried, Refusal> {
    let parameters = match constraint {
        Constraint::JsonSchema(schema) => spelling::schema_object(schema)?,
        Constraint::JsonObject(_) => spelling::any_object(),
        _ => return Err(Refusal::NoPlace),
    };
    let name = spelling::NAME;
    let (tool, choice) = match server {
        // The responses endpoint has no envelope around the function.
        ServerKind::OpenaiResponses => (
            json!({"type": "function", "name": name, "parameters": parameters, "strict": true}),
            json!({"type": "function", "name": name}),
        ),
        _ => (
            json!({"type": "function", "function": {"name": name, "parameters": parameters, "strict": true}}),
            json!({"type": "function", "function": {"name": name}}),
        ),
    };
    Ok(Carried {
        fields: json!({"tools": [tool], "tool_choice": choice}),
        pinned: vec!["/tools", "/tool_choice"],
    })
}
