//! How much of JSON Schema does a server enforce? One small schema a keyword or trap, several
//! sampled answers each, against prompts that spell out an answer which breaks it.
//!
//! [`data`] has the schemas, [`probe`] sends, [`judge`] says what the answers of one schema prove,
//! [`beginning`] what a cut one does. All but `probe` and `command` is pure.
//!
//! What a verdict says: "under-enforced" is proved by the answer that is shown. "Enforced" is as
//! strong as the temptation: every complete answer was valid although the prompt asked for one that
//! is not; a model that does not do as it is told, or too few samples, may leave a hole unseen. The
//! embedded server's model writes what it is asked for as far as the mask lets it.

pub mod beginning;
pub mod data;
pub mod judge;
pub mod probe;

use serde::Serialize;

use super::ServerFacts;
use sobench_backend::{ConstraintDialect, ServerKind};
use sobench_notices::notice::Notice;

pub use data::Feature;

/// What stands before and after the text that a prompt asks for.
pub const MARKS: [&str; 2] = ["<<<", ">>>"];

/// Everything that was found out, server by server.
#[derive(Clone, Debug, PartialEq)]
pub struct Survey {
    pub settings: Settings,
    pub features: Vec<Feature>,
    pub servers: Vec<Surveyed>,
}

/// How every server was asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Answers asked for, a keyword.
    pub samples: usize,
    pub seed: u64,
    /// The most tokens of an answer.
    pub output_len: u32,
    /// Requests under way at a time.
    pub max_concurrency: usize,
    /// The most that one request may take.
    pub request_timeout_s: f64,
    pub stream: bool,
}

/// One server, or one engine of the embedded server.
#[derive(Clone, Debug, PartialEq)]
pub struct Surveyed {
    /// What its column is called.
    pub label: String,
    pub backend: ServerKind,
    pub base_url: String,
    /// The path that requests were sent to.
    pub path: String,
    pub model: String,
    /// The dialect that was seen to be enforced.
    pub dialect: ConstraintDialect,
    pub facts: ServerFacts,
    /// Generating requests sent.
    pub requests: usize,
    /// One for each feature, in their order.
    pub found: Vec<Found>,
    /// What the reader has to know besides.
    pub notices: Vec<Notice>,
}

/// What came of one feature.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
    pub id: String,
    pub keyword: String,
    pub verdict: FeatureVerdict,
    /// Requests sent.
    pub asked: usize,
    /// Answers that ended by themselves and were judged.
    pub complete: usize,
    /// Those of them that the schema allows.
    pub valid: usize,
    /// Answers that break the schema, those among them that were cut and break it whatever follows.
    pub invalid: usize,
    /// Answers with a member of one name twice, which JSON Schema does not see; they count as
    /// neither.
    pub duplicate_members: usize,
    /// The first answer that breaks the schema.
    pub offending: Option<Offending>,
    /// The HTTP status, or the one that an error event stands for, of the first request that
    /// failed.
    pub status: Option<u16>,
    /// The server's own words on the first request that failed, or why it is undecided. Not made
    /// fit for a terminal.
    pub words: String,
}

/// An answer that breaks its schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Offending {
    /// Cut at [`super::MAX_KEPT_CHARS`].
    pub text: String,
    /// Where it breaks the schema, and how.
    pub reason: String,
    /// Whether it was cut at the token limit, and breaks the schema whatever would have followed.
    pub cut: bool,
    /// The sample, from 0; with the seed it says what was asked.
    pub sample: usize,
}

/// What the answers to one schema prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FeatureVerdict {
    /// Every complete answer is valid, and there is one at least.
    Enforced,
    /// An answer breaks the schema.
    UnderEnforced,
    /// The server refuses the schema.
    Rejected,
    /// Status 5xx, a broken stream, or a connection lost.
    Crashed,
    /// No answer was complete.
    Undecided,
    /// The server was gone.
    NotAsked,
}

impl FeatureVerdict {
    /// Every verdict, in the order of reports.
    pub const ALL: [Self; 6] = [
        Self::Enforced,
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
            Self::UnderEnforced => "under-enforced",
            Self::Rejected => "rejected at compile",
            Self::Crashed => "crashed",
            Self::Undecided => "undecided",
            Self::NotAsked => "not asked",
        }
    }

    /// What the name means, in half a sentence.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Enforced => {
                "every complete answer is valid, though the prompts asked for one that is not"
            }
            Self::UnderEnforced => "an answer with status 200 breaks the schema",
            Self::Rejected => "the server refuses the schema, in the words given",
            Self::Crashed => "status 5xx, a broken stream or a lost connection",
            Self::Undecided => "no answer was complete, so that nothing is proved",
            Self::NotAsked => "not sent, because the server took no connections any more",
        }
    }
}

impl Surveyed {
    /// How many features got this verdict.
    pub fn count(&self, verdict: FeatureVerdict) -> usize {
        self.found
            .iter()
            .filter(|found| found.verdict == verdict)
            .count()
    }
}
