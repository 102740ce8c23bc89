//! Tests how much of JSON Schema a server enforces: one small schema per keyword or edge case, with
//! several sampled answers to prompts that tempt the model to an invalid text.
//!
//! [`data`] has the schemas, [`temptation`] the prompts, [`probe`] sends the requests, [`judge`]
//! decides what the answers to one schema prove.
//!
//! "Under-enforced" is proved by the answer that is shown. "Enforced" is weaker evidence: every
//! complete answer was valid, and without the keyword the model breaks the schema so often that a
//! violation would have been seen. Otherwise the verdict is "no violation seen". The model of the
//! embedded server writes the requested text as far as the mask allows.

pub mod data;
pub mod judge;
pub mod probe;
pub mod temptation;

use schemars::JsonSchema;
use serde::Serialize;

use super::ServerFacts;
use sobench_backend::{ConstraintDialect, ServerKind};
use sobench_notices::notice::{Notice, as_sentences};

pub use data::Feature;

/// The marks around the text that a prompt requests.
pub const MARKS: [&str; 2] = ["<<<", ">>>"];

/// Results for all servers.
#[derive(Clone, Debug, PartialEq)]
pub struct Survey {
    pub settings: Settings,
    pub features: Vec<Feature>,
    pub servers: Vec<ServerSurvey>,
}

/// Settings for all servers.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Settings {
    /// Requests for each feature.
    pub samples: usize,
    pub seed: u64,
    /// Maximum tokens of an answer.
    pub output_len: u32,
    /// Concurrent requests.
    pub max_concurrency: usize,
    /// Request timeout.
    pub request_timeout_s: f64,
    pub stream: bool,
}

/// Results for one server, or one engine of the embedded server.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct ServerSurvey {
    /// The title of its column.
    pub label: String,
    pub backend: ServerKind,
    pub base_url: String,
    /// The path that requests were sent to.
    #[serde(rename = "endpoint")]
    pub path: String,
    pub model: String,
    /// The dialect in which constraints were enforced.
    #[serde(rename = "constraint_dialect")]
    pub dialect: ConstraintDialect,
    #[serde(rename = "server")]
    pub facts: ServerFacts,
    /// Generating requests sent.
    pub requests: usize,
    /// One for each feature, in order.
    pub found: Vec<FeatureResult>,
    /// Notices for the reader.
    #[serde(serialize_with = "as_sentences")]
    #[schemars(with = "Vec<String>")]
    pub notices: Vec<Notice>,
}

/// The result of one feature.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct FeatureResult {
    pub id: String,
    pub keyword: String,
    pub verdict: FeatureVerdict,
    /// Answers without the keyword, to the same prompts.
    pub controls: usize,
    /// Controls that break the keyword, so that the model is known to yield.
    pub yielded: usize,
    /// Constrained requests sent.
    pub asked: usize,
    /// Complete answers, which were judged.
    pub complete: usize,
    /// Complete answers that the schema allows.
    pub valid: usize,
    /// Answers that break the schema, including truncated ones that already break it.
    pub invalid: usize,
    /// Answers with duplicate member names, which are not visible to JSON Schema; they count as
    /// neither.
    pub duplicate_members: usize,
    /// The first answer that breaks the schema.
    pub offending: Option<InvalidAnswer>,
    /// Time to the first token of the first answer, which is sent alone, so that the compile of its schema
    /// is in it; none if no token came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_ttft_ms: Option<f64>,
    /// The HTTP status of the first failed request, or that of its error event.
    pub status: Option<u16>,
    /// The server's message for the first failed request, or why the result is undecided. Not
    /// escaped for a terminal.
    pub words: String,
}

/// An answer that breaks its schema.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct InvalidAnswer {
    /// Cut at [`super::MAX_KEPT_CHARS`].
    pub text: String,
    /// Where and how it breaks the schema.
    pub reason: String,
    /// Whether it was cut at the token limit and already breaks the schema.
    pub cut: bool,
    /// The index of the sample; with the seed it determines the request.
    pub sample: usize,
}

/// The verdict on one feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FeatureVerdict {
    /// All complete answers are valid, and enough controls break the schema.
    Enforced,
    /// All complete answers are valid, but the model might not have broken the schema anyway.
    NoViolationSeen,
    /// An answer breaks the schema.
    UnderEnforced,
    /// The server refuses the schema.
    Rejected,
    /// Status 5xx, a broken stream, or a lost connection.
    Crashed,
    /// No answer was complete.
    Undecided,
    /// The server was gone, or the user stopped the command.
    NotAsked,
}

impl FeatureVerdict {
    /// Every verdict, in the order of reports.
    pub const ALL: [Self; 7] = [
        Self::Enforced,
        Self::NoViolationSeen,
        Self::UnderEnforced,
        Self::Rejected,
        Self::Crashed,
        Self::Undecided,
        Self::NotAsked,
    ];

    /// The name used in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Enforced => "enforced",
            Self::NoViolationSeen => "no violation seen (weak temptation)",
            Self::UnderEnforced => "under-enforced",
            Self::Rejected => "rejected at compile",
            Self::Crashed => "crashed",
            Self::Undecided => "undecided",
            Self::NotAsked => "not asked",
        }
    }

    /// The meaning, for the legend of tables.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Enforced => {
                "every complete answer is valid; without the keyword, the same prompts give invalid ones"
            }
            Self::NoViolationSeen => {
                "every complete answer is valid, but the model was not seen to break the schema often enough without the keyword"
            }
            Self::UnderEnforced => "an answer with status 200 breaks the schema",
            Self::Rejected => "the server refuses the schema with the message shown",
            Self::Crashed => "status 5xx, a broken stream or a lost connection",
            Self::Undecided => "no answer was complete, so nothing is proved",
            Self::NotAsked => {
                "not sent, because the server did not accept connections any more, or the command was interrupted"
            }
        }
    }
}

impl ServerSurvey {
    /// The number of features with this verdict.
    pub fn count(&self, verdict: FeatureVerdict) -> usize {
        self.found
            .iter()
            .filter(|found| found.verdict == verdict)
            .count()
    }
}
