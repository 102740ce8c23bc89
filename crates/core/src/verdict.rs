//! What an answer was worth. Knows the reasons, not how they are found.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What an answer was worth, judged by the case's constraint.
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
    /// One whole JSON text, with something else before or after it.
    ExtraText { byte: usize },
    /// JSON that breaks the schema; paths are JSON pointers, the first violation by document order.
    Schema {
        keyword: String,
        instance_path: String,
        schema_path: String,
        message: String,
    },
    /// An object names a member twice, so that readers disagree about its value.
    DuplicateKey { key: String, instance_path: String },
    /// A `\u` escape of half a surrogate pair: readers disagree whether that is a string.
    LoneSurrogate { byte: usize },
    /// Not a full match; `prefix` tells whether a prefix of the answer matches.
    Regex { prefix: bool },
    /// None of the choices.
    Choice,
    /// Left the language at this byte (the answer's length where it stopped too early).
    Grammar { byte: usize },
    /// No text at all, where the constraint does not allow the empty text.
    Empty,
    /// Cut at the token limit before it could be judged.
    Truncated,
}

/// Why there is no verdict.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum NotScored {
    /// The case has no constraint.
    NoConstraint,
    /// The server refused the request.
    Refused,
    /// The request failed on the way, in the stream or in the server.
    Failed,
    /// The run ended before the request did.
    Cancelled,
    /// This machine had no connection for the request.
    NotSent,
    /// Our evaluator cannot judge by this constraint.
    Unsupported { what: String },
    /// Judging would have passed a named limit.
    Limit { what: String },
}

impl Reason {
    /// The name used as a key wherever reasons are counted.
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
    /// The name used as a key wherever these are counted.
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
                let place = if instance_path.is_empty() {
                    "the document"
                } else {
                    instance_path
                };
                write!(f, "breaks `{keyword}` at {place}: {message}")
            }
            Self::DuplicateKey { key, instance_path } => {
                let place = if instance_path.is_empty() {
                    "the document"
                } else {
                    instance_path
                };
                write!(f, "member {key:?} twice in {place}")
            }
            Self::LoneSurrogate { byte } => write!(f, "half a surrogate pair at byte {byte}"),
            Self::Regex { prefix: true } => f.write_str("matches only at its beginning"),
            Self::Regex { prefix: false } => f.write_str("does not match"),
            Self::Choice => f.write_str("none of the choices"),
            Self::Grammar { byte } => write!(f, "leaves the language at byte {byte}"),
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
            Self::Cancelled => f.write_str("the run ended first"),
            Self::NotSent => f.write_str("this machine had no connection for the request"),
            Self::Unsupported { what } | Self::Limit { what } => f.write_str(what),
        }
    }
}
