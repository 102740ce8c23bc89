//! A planned request: prompt, constraint, arm and output length.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::audio::Clip;
use crate::constraint::Constraint;
use crate::load::CancelAfter;
use crate::recorded::RecordedBody;
use crate::scorer::Scorer;

/// Prefix of the tag that names the dataset of a case in a mix of datasets.
pub const DATASET_TAG: &str = "dataset:";

/// A planned request, complete before the run starts.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Case {
    /// Unique within a run, e.g. `json-17`.
    pub id: String,
    pub prompt: Prompt,
    /// The constraint of the row, sent in some arms ([`Arm::sends_constraint`]). Answers are judged
    /// by it, except in [`Arm::Free`].
    pub constraint: Option<Arc<Constraint>>,
    pub arm: Arm,
    /// Maximum number of output tokens (`max_tokens`).
    pub output_len: u32,
    /// Reference answer, if the dataset has one.
    pub completion: Option<String>,
    /// How an answer is compared with the reference; `None` if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<Scorer>,
    /// The item that the case belongs to, in a run with several arms of each item (`--arms`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<u32>,
    pub tags: Vec<String>,
    /// A pest grammar that decides membership in place of the general recogniser, if the author
    /// supplied one.
    pub grammar_oracle: Option<Arc<str>>,
    /// The model of this request if it differs from the run's: a LoRA module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Arc<str>>,
    /// When the client closes the connection of this request; `None` if it waits for the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_after: Option<CancelAfter>,
    /// Its place in its session; `None` for a single request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<Arc<Turn>>,
}

/// The place of a request in its session.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Turn {
    /// The number of the session in the run, from 0.
    pub session: u32,
    /// The number of the turn in the session, from 1. Earlier turns have lower numbers.
    pub turn: u32,
    /// The number of turns of the session.
    #[serde(default)]
    pub of: u32,
    /// The turns of the session that end before this one is sent; empty for the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<u32>,
    /// The time from the end of the last of them until this one is due.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub delay_ms: u64,
    /// Tokens of the recorded answer; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_tokens: Option<u32>,
    /// Whether its prompt has the model's own answers in place of the recorded ones.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub live: bool,
}

fn is_zero(delay_ms: &u64) -> bool {
    *delay_ms == 0
}

/// Identifies the content of a request body by addresses; cases of one row share their texts. Equal
/// keys mean equal bodies while the cases are alive; unequal keys may have equal bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BodyKey {
    prompt: usize,
    /// Zero unless the prompt is a ranking.
    documents: usize,
    constraint: usize,
    arm: Arm,
    output_len: u32,
    model: usize,
}

impl Case {
    /// A case with required fields only. The arm is [`Arm::Constrained`] with a constraint, else
    /// [`Arm::Free`].
    pub fn new(
        id: impl Into<String>,
        prompt: Prompt,
        constraint: Option<Arc<Constraint>>,
        output_len: u32,
    ) -> Self {
        Self {
            id: id.into(),
            prompt,
            arm: if constraint.is_some() {
                Arm::Constrained
            } else {
                Arm::Free
            },
            constraint,
            output_len,
            completion: None,
            score: None,
            item: None,
            tags: Vec::new(),
            grammar_oracle: None,
            model: None,
            cancel_after: None,
            turn: None,
        }
    }

    /// Identifies the content of its request body.
    pub fn body_key(&self) -> BodyKey {
        let (prompt, documents) = match &self.prompt {
            Prompt::Text(text) => (text.as_ptr() as usize, 0),
            Prompt::Messages(messages) => (messages.as_ptr() as usize, 0),
            Prompt::Audio(clip) => (Arc::as_ptr(clip) as usize, 0),
            Prompt::Body(body) => (body.as_ptr() as usize, 0),
            Prompt::Ranking { query, documents } => {
                (query.as_ptr() as usize, documents.as_ptr() as usize)
            }
        };
        let constraint = self
            .constraint
            .as_ref()
            .map_or(0, |constraint| Arc::as_ptr(constraint) as usize);
        let model = self
            .model
            .as_ref()
            .map_or(0, |model| model.as_ptr() as usize);
        BodyKey {
            prompt,
            documents,
            constraint,
            arm: self.arm,
            output_len: self.output_len,
            model,
        }
    }
}

/// Input of the model.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prompt {
    /// Text for a completions endpoint.
    Text(Arc<str>),
    /// Chat messages, to which the server applies its chat template.
    Messages(Arc<[Message]>),
    /// Audio to be transcribed.
    Audio(Arc<Clip>),
    /// A whole recorded body: JSON, sent as it is ([`crate::recorded`]).
    Body(Arc<str>),
    /// Documents to be ranked by relevance to a query.
    Ranking {
        query: Arc<str>,
        documents: Arc<[Arc<str>]>,
    },
}

impl Prompt {
    /// Whether the request may be for a stream: a recorded body says whether it is.
    pub fn allows_stream(&self) -> bool {
        match self {
            Self::Body(body) => RecordedBody::parse(body).is_ok_and(|body| body.asks_for_stream()),
            _ => true,
        }
    }

    /// Name of the kind in messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Messages(_) => "chat messages",
            Self::Audio(_) => "audio",
            Self::Body(_) => "a recorded body",
            Self::Ranking { .. } => "a query with documents",
        }
    }
}

/// One chat message, sent unchanged.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Message {
    pub role: String,
    /// A string, a list of content parts, or null beside tool calls.
    #[serde(default)]
    pub content: Value,
    /// Other members, such as `tool_calls`, `tool_call_id` and `name`.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Message {
    /// A message with role and content only.
    pub fn new(role: impl Into<String>, content: impl Into<Value>) -> Self {
        Self {
            role: role.into(),
            content: content.into(),
            other: Map::new(),
        }
    }

    /// The result of the call with an id.
    pub fn tool_result(id: impl Into<Value>, content: impl Into<Value>) -> Self {
        let mut message = Self::new("tool", content);
        message.other.insert("tool_call_id".to_owned(), id.into());
        message
    }

    /// An answer of the model with these calls ([`Message::call`]). Without text and with calls, its
    /// content is null.
    pub fn calling(text: &str, calls: impl IntoIterator<Item = Value>) -> Self {
        let calls: Vec<Value> = calls.into_iter().collect();
        let has_content = !text.is_empty() || calls.is_empty();
        let content = if has_content {
            text.into()
        } else {
            Value::Null
        };
        let mut message = Self::new("assistant", content);
        if !calls.is_empty() {
            message.other.insert("tool_calls".to_owned(), calls.into());
        }
        message
    }

    /// A call of a function, as in chat completions.
    pub fn call(id: &str, name: impl Into<Value>, arguments: &str) -> Value {
        let name = name.into();
        json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
    }
}

/// Arm of the experiment that a case belongs to.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Arm {
    /// The constraint is sent, and the answer is judged by it. The prompt has the schema, if the
    /// dataset shows it: `prompt+constraint` of [`Arm::flag`].
    Constrained,
    /// The same prompt without the constraint. The answer is judged by it, which measures the effect
    /// of the constraint: `prompt` of [`Arm::flag`].
    Control,
    /// No constraint, no schema in the prompt, and no judgement by the constraint.
    Free,
    /// The constraint is sent, and the prompt does not have the schema.
    #[serde(rename = "constraint")]
    ConstraintOnly,
    /// As [`Arm::Constrained`], and the model thinks before the answer.
    #[serde(rename = "think+constraint")]
    ThinkConstraint,
    /// As [`Arm::Constrained`], and the request allows no white space between tokens of JSON.
    Compact,
    /// As [`Arm::Constrained`], and the request allows any white space between tokens of JSON.
    Flexible,
}

impl Arm {
    /// All arms, in the order of tables.
    pub const ALL: [Self; 7] = [
        Self::Constrained,
        Self::Control,
        Self::Free,
        Self::ConstraintOnly,
        Self::ThinkConstraint,
        Self::Compact,
        Self::Flexible,
    ];

    /// The name in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Constrained => "constrained",
            Self::Control => "control",
            _ => self.flag(),
        }
    }

    /// The name in `--arms`, and in the tables of a run with `--arms`.
    pub const fn flag(self) -> &'static str {
        match self {
            Self::Constrained => "prompt+constraint",
            Self::Control => "prompt",
            Self::Free => "free",
            Self::ConstraintOnly => "constraint",
            Self::ThinkConstraint => "think+constraint",
            Self::Compact => "compact",
            Self::Flexible => "flexible",
        }
    }

    /// Whether requests of the arm have the constraint.
    pub fn sends_constraint(self) -> bool {
        match self {
            Self::Constrained
            | Self::ConstraintOnly
            | Self::ThinkConstraint
            | Self::Compact
            | Self::Flexible => true,
            Self::Control | Self::Free => false,
        }
    }

    /// Whether answers are judged by the constraint of the case.
    pub fn is_judged(self) -> bool {
        self != Self::Free
    }

    /// Whether the request allows white space between tokens of JSON. `None` if it says nothing, so
    /// that the engine decides.
    pub fn allows_white_space(self) -> Option<bool> {
        match self {
            Self::Compact => Some(false),
            Self::Flexible => Some(true),
            _ => None,
        }
    }

    /// Whether the prompt has the schema, if the dataset shows it.
    pub fn shows_schema(self) -> bool {
        match self {
            Self::Constrained
            | Self::Control
            | Self::ThinkConstraint
            | Self::Compact
            | Self::Flexible => true,
            Self::Free | Self::ConstraintOnly => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_arms_are_those_of_files() {
        for arm in Arm::ALL {
            assert_eq!(serde_json::to_value(arm).unwrap(), arm.name());
        }
    }

    #[test]
    fn messages_keep_all_members_and_number_spelling() {
        let text = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","n":1.0}]}"#;
        let message: Message = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&message).unwrap(), text);
        let plain = r#"{"role":"user","content":"Hi"}"#;
        let message: Message = serde_json::from_str(plain).unwrap();
        assert_eq!(message, Message::new("user", "Hi"));
        assert_eq!(serde_json::to_string(&message).unwrap(), plain);
    }
}
