//! Verdicts on answers and their reasons.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::Channel;
use crate::nonce::NONCE_PREFIX;

/// The result of judging an answer by its constraint.
#[derive(Clone, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    Valid,
    Invalid { reason: Reason },
    NotScored { why: NotScored },
}

/// Why an answer is not valid.
#[derive(Clone, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Reason {
    /// Not a JSON text by RFC 8259.
    NotJson { message: String, byte: usize },
    /// A complete JSON text with other text before or after it.
    ExtraText {
        byte: usize,
        /// Logs of older versions have no kind.
        #[serde(default)]
        kind: ExtraText,
        /// Whether the JSON text without the other text is valid.
        #[serde(default)]
        valid_if_stripped: bool,
    },
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
    /// Does not follow a structural tag from this byte on. `path` is a JSON pointer to the format
    /// in the tag.
    StructuralTag {
        path: String,
        byte: usize,
        message: String,
    },
    /// Empty answer, although the constraint requires text.
    Empty,
    /// Over the maximum size of an answer.
    TooLong { bytes: usize },
    /// JSON nested over the maximum depth.
    TooDeep { nesting: usize },
    /// Over the maximum size of an answer, and mostly white space.
    RunawayWhitespace { bytes: usize },
    /// The answer is not in the channel that the constraint asks for.
    WrongChannel { channel: Channel },
    /// Contains the unique member, or the nonce, of another request of the run.
    OtherRequest { member: String },
    /// The tool calls break the rules of the API or of the request.
    ToolCall(ToolCallFault),
    /// Cut at the token limit. More text could have made it valid.
    Truncated,
}

/// What is wrong with the tool calls of an answer. `call` is the position of a call, from 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum ToolCallFault {
    /// Markup of calls in a text, where a parser should have made calls of it.
    LeakedMarkup {
        channel: Channel,
        markup: String,
        byte: usize,
    },
    /// A call although `tool_choice` is `none`.
    CallUnderNone { name: String },
    /// A call of a tool that the request does not offer.
    UnknownTool { call: usize, name: String },
    /// A call of an offered tool that `tool_choice` excludes.
    WrongTool { call: usize, name: String },
    /// A call without an id.
    MissingCallId { call: usize },
    /// Two calls with the same id.
    DuplicateCallId { call: usize, id: String },
    /// The arguments are not a JSON object, or violate the schema of their tool.
    InvalidArguments {
        call: usize,
        name: String,
        why: Box<Reason>,
    },
    /// The arguments of a function are not a text, so that no JSON parser takes them.
    ArgumentsNotText { call: usize, name: String },
    /// Several calls although `parallel_tool_calls` is false.
    TooManyCalls { calls: usize },
    /// No call although `tool_choice` requires one.
    MissingCall,
    /// `tool_calls` without a call, or another finish reason with calls.
    WrongFinishReason { finish_reason: String, calls: usize },
}

/// Text around a JSON text.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    JsonSchema,
    Serialize,
    Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum ExtraText {
    /// A Markdown code fence.
    Fence,
    /// Tags of reasoning, such as `<think>`, in the content.
    ReasoningTags,
    ProseBefore,
    ProseAfter,
    /// Another JSON object or array.
    SecondDocument,
    /// Not recorded, as in logs of older versions.
    #[default]
    Unknown,
}

/// Why an answer was not judged.
#[derive(Clone, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
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
    /// The client closed the connection by plan.
    Abandoned,
    /// This machine could not open a connection.
    NotSent,
    /// The evaluator does not support this constraint.
    Unsupported { what: String },
    /// Judging would exceed a named limit.
    Limit { what: String },
}

impl Verdict {
    /// The reason of an invalid answer.
    pub fn into_reason(self) -> Option<Reason> {
        match self {
            Self::Invalid { reason } => Some(reason),
            Self::Valid | Self::NotScored { .. } => None,
        }
    }
}

impl Reason {
    /// Names of all reasons, in the order of documentation. Faults of tool calls have names of their
    /// own.
    pub const NAMES: [&'static str; 27] = [
        "not_json",
        "extra_text",
        "schema",
        "duplicate_key",
        "lone_surrogate",
        "regex",
        "choice",
        "grammar",
        "structural_tag",
        "empty",
        "too_long",
        "too_deep",
        "runaway_whitespace",
        "wrong_channel",
        "other_request",
        "leaked_markup",
        "call_under_none",
        "unknown_tool",
        "wrong_tool",
        "missing_call_id",
        "duplicate_call_id",
        "invalid_arguments",
        "arguments_not_text",
        "too_many_calls",
        "missing_call",
        "wrong_finish_reason",
        "truncated",
    ];

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
            Self::StructuralTag { .. } => "structural_tag",
            Self::Empty => "empty",
            Self::TooLong { .. } => "too_long",
            Self::TooDeep { .. } => "too_deep",
            Self::RunawayWhitespace { .. } => "runaway_whitespace",
            Self::WrongChannel { .. } => "wrong_channel",
            Self::OtherRequest { .. } => "other_request",
            Self::ToolCall(fault) => fault.name(),
            Self::Truncated => "truncated",
        }
    }
}

impl ToolCallFault {
    /// The name used as a key in counts of reasons.
    pub fn name(&self) -> &'static str {
        match self {
            Self::LeakedMarkup { .. } => "leaked_markup",
            Self::CallUnderNone { .. } => "call_under_none",
            Self::UnknownTool { .. } => "unknown_tool",
            Self::WrongTool { .. } => "wrong_tool",
            Self::MissingCallId { .. } => "missing_call_id",
            Self::DuplicateCallId { .. } => "duplicate_call_id",
            Self::InvalidArguments { .. } => "invalid_arguments",
            Self::ArgumentsNotText { .. } => "arguments_not_text",
            Self::TooManyCalls { .. } => "too_many_calls",
            Self::MissingCall => "missing_call",
            Self::WrongFinishReason { .. } => "wrong_finish_reason",
        }
    }
}

impl ExtraText {
    /// The name used as a key in counts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fence => "fence",
            Self::ReasoningTags => "reasoning_tags",
            Self::ProseBefore => "prose_before",
            Self::ProseAfter => "prose_after",
            Self::SecondDocument => "second_document",
            Self::Unknown => "unknown",
        }
    }

    /// The phrase in messages.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Fence => "code fence around the JSON",
            Self::ReasoningTags => "reasoning tags around the JSON",
            Self::ProseBefore => "text before the JSON",
            Self::ProseAfter => "text after the JSON",
            Self::SecondDocument => "second JSON document",
            Self::Unknown => "text around the JSON",
        }
    }
}

impl NotScored {
    /// Names of all causes, in the order of documentation.
    pub const NAMES: [&'static str; 8] = [
        "no_constraint",
        "refused",
        "failed",
        "cancelled",
        "abandoned",
        "not_sent",
        "unsupported",
        "limit",
    ];

    /// The name used as a key in counts.
    pub fn name(&self) -> &'static str {
        match self {
            Self::NoConstraint => "no_constraint",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Abandoned => "abandoned",
            Self::NotSent => "not_sent",
            Self::Unsupported { .. } => "unsupported",
            Self::Limit { .. } => "limit",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Valid => f.write_str("valid"),
            Self::Invalid { reason } => reason.fmt(f),
            Self::NotScored { why } => why.fmt(f),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson { message, byte } => write!(f, "not JSON at byte {byte}: {message}"),
            Self::ExtraText {
                byte,
                kind,
                valid_if_stripped,
            } => {
                write!(f, "{} at byte {byte}", kind.phrase())?;
                f.write_str(if *valid_if_stripped {
                    ", valid without it"
                } else {
                    ""
                })
            }
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
            Self::StructuralTag {
                path,
                byte,
                message,
            } => write!(f, "breaks the tag at {path}, byte {byte}: {message}"),
            Self::Empty => f.write_str("empty answer"),
            Self::TooLong { bytes } => write!(f, "answer of {bytes} bytes is over the limit"),
            Self::TooDeep { nesting } => write!(f, "nesting of {nesting} levels is over the limit"),
            Self::RunawayWhitespace { bytes } => {
                write!(f, "mostly white space: {bytes} bytes are over the limit")
            }
            Self::WrongChannel { channel } => {
                write!(f, "the answer is in {} instead of content", channel.name())
            }
            Self::OtherRequest { member } => {
                let mark = if member.starts_with(NONCE_PREFIX) {
                    "nonce"
                } else {
                    "member"
                };
                write!(f, "another request's answer: has its {mark} {member:?}")
            }
            Self::ToolCall(fault) => fault.fmt(f),
            Self::Truncated => f.write_str("cut at the token limit"),
        }
    }
}

impl fmt::Display for ToolCallFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeakedMarkup {
                channel,
                markup,
                byte,
            } => {
                let channel = channel.name();
                write!(f, "{markup} in the {channel} at byte {byte}")
            }
            Self::CallUnderNone { name } => {
                write!(f, "a call of {name:?} although tool_choice is none")
            }
            Self::UnknownTool { call, name } => {
                write!(f, "tool_calls[{call}]: {name:?} is not an offered tool")
            }
            Self::WrongTool { call, name } => {
                write!(f, "tool_calls[{call}]: tool_choice excludes {name:?}")
            }
            Self::MissingCallId { call } => write!(f, "tool_calls[{call}]: no id"),
            Self::DuplicateCallId { call, id } => {
                write!(f, "tool_calls[{call}]: the id of another call: {id:?}")
            }
            Self::InvalidArguments { call, name, why } if **why == Reason::Empty => {
                write!(f, "tool_calls[{call}]: empty arguments of {name:?}")
            }
            Self::InvalidArguments { call, name, why } => {
                write!(f, "tool_calls[{call}]: arguments of {name:?}: {why}")
            }
            Self::ArgumentsNotText { call, name } => {
                write!(
                    f,
                    "tool_calls[{call}]: arguments of {name:?} are not a string"
                )
            }
            Self::TooManyCalls { calls } => {
                write!(f, "{calls} calls although parallel_tool_calls is false")
            }
            Self::MissingCall => f.write_str("no call although tool_choice requires one"),
            Self::WrongFinishReason {
                finish_reason,
                calls,
            } => write!(f, "finish reason {finish_reason:?} with {calls} calls"),
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
            Self::Abandoned => f.write_str("the client closed the connection by plan"),
            Self::NotSent => f.write_str("this machine could not open a connection"),
            Self::Unsupported { what } | Self::Limit { what } => f.write_str(what),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use serde::de::DeserializeOwned;

    use super::*;

    /// The names that serde lists in its error for an unknown one.
    fn known<T: DeserializeOwned + Debug>(tag: &str) -> Vec<String> {
        let error = serde_json::from_value::<T>(serde_json::json!({ tag: "?" }))
            .unwrap_err()
            .to_string();
        let names = error.split("expected one of ").nth(1).unwrap();
        names
            .split(", ")
            .map(|name| name.trim_matches('`').to_owned())
            .collect()
    }

    #[test]
    fn lists_of_names_are_complete() {
        fn sorted(names: impl IntoIterator<Item = impl Into<String>>) -> Vec<String> {
            let mut names: Vec<String> = names.into_iter().map(Into::into).collect();
            names.sort();
            names
        }
        let mut reasons = known::<Reason>("reason");
        reasons.retain(|name| name != "tool_call");
        reasons.extend(known::<ToolCallFault>("fault"));
        assert_eq!(sorted(reasons), sorted(Reason::NAMES));
        assert_eq!(sorted(known::<NotScored>("why")), sorted(NotScored::NAMES));
    }

    #[test]
    fn faults_of_tool_calls_are_read_and_written() {
        let text = r#"{"reason":"tool_call","fault":"invalid_arguments","call":1,"name":"f","why":{"reason":"not_json","message":"no","byte":3}}"#;
        let reason: Reason = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&reason).unwrap(), text);
        assert_eq!(reason.name(), "invalid_arguments");
        assert_eq!(
            reason.to_string(),
            "tool_calls[1]: arguments of \"f\": not JSON at byte 3: no"
        );
    }

    #[test]
    fn extra_text_of_older_logs_is_read() {
        let read: Reason = serde_json::from_str(r#"{"reason":"extra_text","byte":3}"#).unwrap();
        assert_eq!(read.to_string(), "text around the JSON at byte 3");
        assert_eq!(
            read,
            Reason::ExtraText {
                byte: 3,
                kind: ExtraText::Unknown,
                valid_if_stripped: false
            }
        );
    }
}
