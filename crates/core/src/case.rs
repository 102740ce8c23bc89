//! One request to be. Knows no server: how a case is put on the wire is the backend's matter.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::constraint::Constraint;
use crate::sound::Clip;

/// What a tag begins with that names the dataset of a case among those of a mix.
pub const DATASET_TAG: &str = "dataset:";

/// One request to be, complete before the clock starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Unique within a run, e.g. `json-17`.
    pub id: String,
    pub prompt: Prompt,
    /// What the answer is judged by. Sent with the request only in [`Arm::Constrained`].
    pub constraint: Option<Arc<Constraint>>,
    pub arm: Arm,
    /// The most tokens that the server may answer with (`max_tokens`).
    pub output_len: u32,
    /// A reference answer, where the dataset has one.
    pub completion: Option<String>,
    pub tags: Vec<String>,
    /// A pest grammar that decides membership instead of the general recogniser, where its author
    /// wrote one.
    pub grammar_oracle: Option<Arc<str>>,
    /// The model that this request asks for, where it is another than the run's: a LoRA module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Arc<str>>,
}

/// What a request's body is made of, by address: cases of one row share their texts. Equal ones
/// have equal bodies for as long as their cases live; of unequal ones nothing follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Asked {
    prompt: usize,
    /// Of a query with documents.
    documents: usize,
    constraint: usize,
    arm: Arm,
    output_len: u32,
    model: usize,
}

impl Case {
    /// A case with nothing but what every one has. With a constraint it is sent with it, without
    /// one it is [`Arm::Free`].
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
            tags: Vec::new(),
            grammar_oracle: None,
            model: None,
        }
    }

    /// What its body is made of.
    pub fn asked(&self) -> Asked {
        let (prompt, documents) = match &self.prompt {
            Prompt::Text(text) => (text.as_ptr() as usize, 0),
            Prompt::Messages(messages) => (messages.as_ptr() as usize, 0),
            Prompt::Audio(clip) => (Arc::as_ptr(clip) as usize, 0),
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
        Asked {
            prompt,
            documents,
            constraint,
            arm: self.arm,
            output_len: self.output_len,
            model,
        }
    }
}

/// What the model is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prompt {
    /// Text, ready for a completions endpoint.
    Text(Arc<str>),
    /// Chat messages, for the server to put into its template.
    Messages(Arc<[Message]>),
    /// Sound to be transcribed.
    Audio(Arc<Clip>),
    /// Documents to be ranked by how well they fit a query.
    Ranking {
        query: Arc<str>,
        documents: Arc<[Arc<str>]>,
    },
}

impl Prompt {
    /// What it is, for messages to people.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Messages(_) => "chat messages",
            Self::Audio(_) => "sound",
            Self::Ranking { .. } => "a query with documents",
        }
    }
}

/// One chat message. `content` is a string or a list of content parts, passed on as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    pub role: String,
    pub content: Value,
}

/// Which side of the comparison a case is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arm {
    /// The constraint is sent, and the answer judged by it.
    Constrained,
    /// The same constraint is not sent; the answer is judged by it all the same, which shows what
    /// the constraint is worth.
    Control,
    /// There is no constraint, nothing to judge.
    Free,
}
