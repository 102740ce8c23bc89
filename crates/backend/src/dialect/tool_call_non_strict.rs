//! The schema as the parameters of one forced function call, without `strict`.
//!
//! Source: OpenAI's guide "Function calling": without `strict: true`, the arguments may break the
//! schema. Clients that do not send the member rely on what the server enforces by itself.

use serde_json::Value;

use super::{Carried, DialectSpec, tool_call};
use crate::ServerKind;
use sobench_core::constraint::ConstraintKind::{JsonObject, JsonSchema};

pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "tool-call-non-strict",
    fields: &[(JsonSchema, call), (JsonObject, call)],
    ..tool_call::SPEC
};

fn call(parameters: Value, server: ServerKind) -> Carried {
    tool_call::call(parameters, server, None)
}
