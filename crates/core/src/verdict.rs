//! Verdicts on answers and their reasons.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The result of judging an answer by its constraint.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    Valid,
    Invalid { reason: Reason },
    NotScored { why: NotScored },
}

/// Why an answer is not valid.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Reason {
    /// Not a JSON text by RFC 8259.
    NotJson { message: String, byte: usize },
    /// A complete JSON text with other text before or after it.
    ExtraText { byte: usize },
    /// JSON that violates the schema. Paths are JSON pointers; the first violation in document
    /// order.
    Schema {
        keyword: String,
        instance_path: String,
        schema_path: String,
        message: String,
    },
    /// An object has a duplicate key, so that parsers disagree about its value.
    DuplicateKey { key: String, instance_path: String },
    /// A `\u` escape of half a surrogate pair, which some parsers reject.
    LoneSurrogate { byte: usize },
    /// Not a full match; `prefix` is true if a prefix of the answer matches.
    Regex { prefix: bool },
    /// None of the choices.
    Choice,
    /// Not in the language from this byte on (the answer's length if it is incomplete).
    Grammar { byte: usize },
    /// Empty answer, although the constraint requires text.
    Empty,
    /// Cut at the token limit, so that it could not be judged.
    Truncated,
}

/// Why an answer was not judged.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum NotScored {
    /// The case has no constraint.
    NoConstraint,
    /// The server refused the request.
    Refused,
    /// The request failed in the network, in the stream or in the server.
    Failed,
    /// The run ended before the request did.
    Cancelled,
    /// This machine could not open a connection.
    NotSent,
    /// The evaluator does not support this constraint.
    Unsupported { what: String },
    /// Judging would exceed a named limit.
    Limit { what: String },
}

impl Reason {
    /// The name used as a key in counts of reasons.
    pub fn name(&self) -> &'static str {
        match self {
            Self::NotJson { .. } => "not_json",
            Self::ExtraText { .. } => "extra_text",
            Self::Schema { .. } => "schema",
            Self::DuplicateKey { .. } => "duplicate_key",
            Self::LoneSurrogate { .. } => "lone_surrogate",
            Self::Regex { .. } => "regex",
            Self::Choice => "choice",
            Self::Grammar { .. } => "grammar",
            Self::Empty => "empty",
            Self::Truncated => "truncated",
        }
    }
}

impl NotScored {
    /// The name used as a key in counts.
    pub fn name(&self) -> &'static str {
        match self {
            Self::NoConstraint => "no_constraint",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::NotSent => "not_sent",
            Self::Unsupported { .. } => "unsupported",
            Self::Limit { .. } => "limit",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson { message, byte } => write!(f, "not JSON at byte {byte}: {message}"),
            Self::ExtraText { byte } => write!(f, "text around the JSON at byte {byte}"),
            Self::Schema {
                keyword,
                instance_path,
                message,
                ..
            } => {
                let location = if instance_path.is_empty() {
                    "the document"
                } else {
                    instance_path
                };
                write!(f, "breaks `{keyword}` at {location}: {message}")
            }
            Self::DuplicateKey { key, instance_path } => {
                let location = if instance_path.is_empty() {
                    "the document"
                } else {
                    instance_path
                };
                write!(f, "member {key:?} twice in {location}")
            }
            Self::LoneSurrogate { byte } => write!(f, "half a surrogate pair at byte {byte}"),
            Self::Regex { prefix: true } => f.write_str("only a prefix matches"),
            Self::Regex { prefix: false } => f.write_str("does not match"),
            Self::Choice => f.write_str("none of the choices"),
            Self::Grammar { byte } => write!(f, "not in the language from byte {byte}"),
            Self::Empty => f.write_str("empty answer"),
            Self::Truncated => f.write_str("cut at the token limit"),
        }
    }
}

impl fmt::Display for NotScored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoConstraint => f.write_str("the case has no constraint"),
            Self::Refused => f.write_str("the server refused the request"),
            Self::Failed => f.write_str("the request failed"),
            Self::Cancelled => f.write_str("the run ended before the request"),
            Self::NotSent => f.write_str("this machine could not open a connection"),
            Self::Unsupported { what } | Self::Limit { what } => f.write_str(what),
        }
    }
}
