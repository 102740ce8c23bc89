//! The schema as the parameters of one forced function call, with `strict`.
//!
//! Source: OpenAI's guide "Function calling", Anthropic's guide "Tool use". The arguments are collected from the stream and
//! judged like any answer. Text besides the call is part of the answer and makes it invalid,
//! because a forced call allows no other output. Servers may need a tool-call parser for this (vLLM
//! refuses without one, SGLang streams the call as text). vLLM's responses endpoint sends the
//! arguments of a forced call in one event, so the stream has no inter-token latency.

use serde_json::{Value, json};

use super::{Carried, ConstraintFields, DialectSpec, JSON_ONLY, conversion};
use crate::ServerKind;
use crate::body::merge;
use sobench_core::constraint::ConstraintKind::{JsonObject, JsonSchema};

pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "tool-call",
    is_field: |field| field == "tool_choice",
    fields: &[(JsonSchema, strict_call), (JsonObject, strict_call)],
    ..JSON_ONLY
};

fn strict_call(parameters: Value, server: ServerKind) -> Carried {
    call(parameters, server, Some(true))
}

/// The fields of a forced call; `strict` is left out if it is `None`.
pub(super) fn call(parameters: Value, server: ServerKind, strict: Option<bool>) -> Carried {
    let parameters = conversion::schema_object(parameters)?;
    let name = conversion::NAME;
    let member = match server {
        ServerKind::Anthropic => "input_schema",
        _ => "parameters",
    };
    let mut function = json!({"name": name, member: parameters});
    if let Some(strict) = strict {
        function["strict"] = strict.into();
    }
    let (tool, choice) = match server {
        // The responses endpoint has no envelope for the function.
        ServerKind::OpenaiResponses => {
            let mut tool = json!({"type": "function"});
            merge(&mut tool, &function);
            (tool, json!({"type": "function", "name": name}))
        }
        ServerKind::Anthropic => (function, json!({"type": "tool", "name": name})),
        _ => (
            json!({"type": "function", "function": function}),
            json!({"type": "function", "function": {"name": name}}),
        ),
    };
    Ok(ConstraintFields {
        fields: json!({"tools": [tool], "tool_choice": choice}),
        pinned: vec!["/tools", "/tool_choice"],
    })
}
