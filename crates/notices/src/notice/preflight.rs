//! Notices of a preflight: whether the server enforces constraints.

use serde::{Deserialize, Serialize};

use super::list;
use crate::enforcement::{Class, Kind};
use sobench_backend::ConstraintDialect;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PreflightNotice {
    #[error("whether the constraint holds is not known: {why}")]
    EnforcementUnknown { why: String },
    #[error(
        "--constraint-dialect auto: {chosen}, which preflight saw to be enforced, and not {expected}, in which {}",
        list(.not_enforced)
    )]
    DialectChanged {
        chosen: ConstraintDialect,
        expected: ConstraintDialect,
        not_enforced: Vec<KindClass>,
    },
    #[error("constraint not enforced: {0}")]
    NotEnforced(ConstraintFinding),
    #[error("preflight could not prove the constraint: {0}")]
    NotProved(ConstraintFinding),
    #[error("preflight, {requests} requests before the run: {} enforced in {dialect}", list(.constraints))]
    Enforced {
        requests: usize,
        constraints: Vec<Kind>,
        dialect: ConstraintDialect,
    },
    #[error(
        "a schema of three members and a letter beyond ASCII was not answered by it ({outcome}), so nothing is known of how JSON is spelt"
    )]
    SpellingUnknown { outcome: String },
    #[error(
        "the same request fails without a constraint, too, so that what is broken may have nothing to do with constraints: {why}"
    )]
    ControlFailed { why: String },
    #[error("the server takes no connections any more; the last that it was asked: {last_request}")]
    ServerGone { last_request: String },
    #[error(
        "{constraint} in {dialect} runs away in white space: let the server allow none between JSON tokens (vLLM: \
         --structured-outputs-config.disable_any_whitespace)"
    )]
    WhiteSpaceRunaway {
        constraint: String,
        dialect: ConstraintDialect,
    },
    #[error(
        "a vLLM server in `auto` stays with the decoding engine of its first constrained request; if it had none before, this \
         preflight's was the first: {constraint} in {dialect}"
    )]
    EngineFixedByPreflight {
        constraint: String,
        dialect: ConstraintDialect,
    },
    #[error(
        "a vLLM server in `auto` stays with the decoding engine of its first constrained request; if it had none before, that was a \
         plain JSON Schema of this probe's, which vLLM's rule sends to xgrammar"
    )]
    EngineFixedByProbe,
}

/// What a preflight found of one kind of constraint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{constraint} in {dialect}: {}: {words}{}", .class.name(), answered(.answer.as_deref()))]
pub struct ConstraintFinding {
    /// The kind of constraint, with the notation of a grammar.
    pub constraint: String,
    pub dialect: ConstraintDialect,
    pub class: Class,
    pub words: String,
    pub answer: Option<String>,
}

/// What came of one kind of constraint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{constraint} is {}", .class.name())]
pub struct KindClass {
    /// The kind of constraint, with the notation of a grammar.
    pub constraint: String,
    pub class: Class,
}

fn answered(answer: Option<&str>) -> String {
    answer
        .map(|answer| format!(" (the answer: {answer})"))
        .unwrap_or_default()
}
