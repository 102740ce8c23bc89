//! Notices of a preflight.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::list;
use crate::enforcement::{Class, ProbeKind};
use sobench_backend::{ConstraintDialect, ServerKind};

#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PreflightNotice {
    #[error("cannot determine whether the constraint is enforced: {why}")]
    EnforcementUnknown { why: String },
    #[error(
        "--constraint-dialect auto: using {chosen}, which is enforced, instead of {expected}, in which {}",
        list(.not_enforced)
    )]
    DialectChanged {
        chosen: ConstraintDialect,
        expected: ConstraintDialect,
        not_enforced: Vec<KindClass>,
    },
    #[error("constraint not enforced: {0}")]
    NotEnforced(ConstraintFinding),
    #[error("preflight cannot prove that the constraint is enforced: {0}")]
    NotProved(ConstraintFinding),
    #[error("a constrained request of preflight failed: {0}")]
    Failed(ConstraintFinding),
    #[error(
        "another endpoint of the server, {path}, enforces {} in {dialect}: use --backend {backend}",
        list(.constraints)
    )]
    EnforcedElsewhere {
        constraints: Vec<ProbeKind>,
        backend: ServerKind,
        path: String,
        dialect: ConstraintDialect,
    },
    #[error("preflight with {requests} requests before the run: {} enforced{}", list(.constraints), in_dialect(*.dialect))]
    Enforced {
        requests: usize,
        constraints: Vec<ProbeKind>,
        /// `None` for tool calls.
        dialect: Option<ConstraintDialect>,
    },
    #[error(
        "the chat template drops the tools: a prompt has {tokens} tokens with and without them; the model does not see them, and \
         makes no right call"
    )]
    ToolsDropped { tokens: u64 },
    #[error("tool calls differ between streamed and whole responses: {}", list(.rows))]
    ToolCallsDiffer { rows: Vec<String> },
    #[error(
        "the model thinks without a constraint, but not with {constraint} in {dialect}: the constraint suppresses the thinking; start \
         the server with the reasoning parser of the model, or turn thinking off for every request"
    )]
    ThinkingSuppressed {
        constraint: String,
        dialect: ConstraintDialect,
    },
    #[error(
        "JSON formatting of the server is unknown: no valid answer to a schema with three members and a non-ASCII character ({outcome})"
    )]
    SpellingUnknown { outcome: String },
    #[error(
        "the same request fails without a constraint; the failure may not be related to constraints: {why}"
    )]
    ControlFailed { why: String },
    #[error("the server no longer accepts connections; last request: {last_request}")]
    ServerGone { last_request: String },
    #[error(
        "{constraint} in {dialect} produces endless white space; disable white space between JSON tokens on the server (vLLM: \
         --structured-outputs-config.disable_any_whitespace)"
    )]
    WhiteSpaceRunaway {
        constraint: String,
        dialect: ConstraintDialect,
    },
    #[error(
        "if this vLLM server runs in `auto` and had no constrained request before, it keeps the engine that it chose for the first one of \
         this preflight: {constraint} in {dialect}"
    )]
    EngineFixedByPreflight {
        constraint: String,
        dialect: ConstraintDialect,
    },
    #[error(
        "if this vLLM server runs in `auto` and had no constrained request before, it keeps the engine that it chose for the first one of \
         this probe, a plain JSON Schema"
    )]
    EngineFixedByProbe,
}

/// The finding of a preflight for one kind of constraint.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize, thiserror::Error)]
#[error("{constraint}{}: {}: {reason}{}", in_dialect(*.dialect), .class.name(), answered(.answer.as_deref()))]
pub struct ConstraintFinding {
    /// The kind of constraint, with the notation of a grammar or what is asked of a tool call.
    pub constraint: String,
    /// `None` for tool calls.
    pub dialect: Option<ConstraintDialect>,
    pub class: Class,
    #[serde(rename = "words")]
    pub reason: String,
    pub answer: Option<String>,
}

/// The class of one kind of constraint.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize, thiserror::Error)]
#[error("{constraint} is {}", .class.name())]
pub struct KindClass {
    /// The kind of constraint, with the notation of a grammar.
    pub constraint: String,
    pub class: Class,
}

fn in_dialect(dialect: Option<ConstraintDialect>) -> String {
    dialect
        .map(|dialect| format!(" in {dialect}"))
        .unwrap_or_default()
}

fn answered(answer: Option<&str>) -> String {
    answer
        .map(|answer| format!(" (answer: {answer})"))
        .unwrap_or_default()
}
