//! The schema as the parameters of one forced function call, without `strict`.
//!
//! Source: OpenAI's guide "Function calling": without `strict: true`, the arguments may break the
//! schema. Clients that do not send the member rely on what the server enforces by itself.

use super::{ConstraintFields, DialectSpec, Refusal, tool_call};
use crate::ServerKind;
use sobench_core::constraint::Constraint;

pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "tool-call-non-strict",
    carry: |constraint, server, _| carry(server, constraint),
    ..tool_call::SPEC
};

fn carry(server: ServerKind, constraint: &Constraint) -> Result<ConstraintFields, Refusal> {
    tool_call::carry(server, constraint, None)
}
