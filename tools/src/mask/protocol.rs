//! The protocol between parent and child process: JSON Lines.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::corpus::Entry;
use super::drafts::DraftRow;
use super::plan::Effort;
use super::prove::Proved;
use super::prove::shrink::FindingCase;
use super::prove::witness::WitnessStatus;
use super::record::BatchRow;
use super::row::{Compile, Declined, InstanceRow, RouteRow, Spelling, Stage};
use sobench_engine::{EngineName, EnginePolicy};

pub(super) use sobench_process::child::MAX_LINE_BYTES;

/// Message for a child that sends an invalid or unexpected event.
pub(super) const BROKEN: &str = "the child process broke the protocol";

/// The first line sent to a child.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Setup {
    pub(super) engine: EngineName,
    pub(super) policy: EnginePolicy,
    pub(super) tokenizer: String,
    pub(super) eos_token: Option<String>,
    /// Address-space limit of the child.
    pub(super) memory_limit_bytes: Option<u64>,
    pub(super) assert_formats: bool,
    pub(super) warm: bool,
    pub(super) spellings: Vec<Spelling>,
    /// Tokens of the drafts along every instance.
    #[serde(default)]
    pub(super) drafts: Option<usize>,
    /// Engines in the proof search, all in this one process; `engine` is the first of them. Empty
    /// for a measurement.
    #[serde(default)]
    pub(super) prove: Vec<EngineName>,
}

/// Any later line sent to a child.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Job {
    Entry(Box<Entry>),
    Batch(BatchJob),
    Prove(Box<ProveJob>),
    /// Shrinks a finding.
    Shrink(Box<FindingJob>),
    /// Rechecks a finding.
    Check(Box<FindingJob>),
}

/// Proof search on one entry.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ProveJob {
    pub(super) effort: Effort,
    /// Engines to skip, because an earlier child process ended during their work.
    #[serde(rename = "without")]
    pub(super) excluded: Vec<EngineName>,
    pub(super) entry: Entry,
}

/// A finding of an engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct FindingJob {
    pub(super) engine: EngineName,
    pub(super) case: FindingCase,
}

/// The line of a proof job for an [`Entry`] given as JSON.
pub(super) fn prove_line(entry: &str, effort: Effort, excluded: &[EngineName]) -> String {
    let (effort, excluded) = (json!(effort), json!(excluded));
    format!("{{\"prove\":{{\"effort\":{effort},\"without\":{excluded},\"entry\":{entry}}}}}")
}

/// The line of a measurement job for an [`Entry`] given as JSON.
pub(super) fn entry_line(entry: &str) -> String {
    format!("{{\"entry\":{entry}}}")
}

/// Checks that a child can parse an entry, which is nested deeper in its line than in its file.
pub(super) fn check_entry(entry: &str) -> std::result::Result<(), String> {
    let line = entry_line(entry);
    // The line feed counts.
    if line.len() as u64 >= MAX_LINE_BYTES {
        return Err(format!(
            "entry is larger than {MAX_LINE_BYTES} bytes: {}",
            line.len()
        ));
    }
    serde_json::from_str::<Job>(&line)
        .map(drop)
        .map_err(|error| format!("entry is nested too deeply: {error}"))
}

/// One batch of sequences.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct BatchJob {
    pub(super) sequences: usize,
    /// Repeated until the batch is full.
    pub(super) sources: Vec<BatchSource>,
}

/// An entry and the instance that is walked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct BatchSource {
    pub(super) entry: Entry,
    pub(super) instance: usize,
    pub(super) spelling: Spelling,
}

/// A line received from a child.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Event {
    Ready(Ready),
    /// The engine cannot be opened: error and hint.
    CannotOpen {
        what: String,
        hint: Option<String>,
    },
    /// The next stage, sent before it starts, so that the parent knows where a child died.
    Stage(Stage),
    Route(RouteRow),
    Declined(Declined),
    Compiled(Compile),
    /// A completed walk, sent immediately, so that its durations survive a later crash.
    Pass(Pass),
    /// The result of an instance, after all its durations.
    Walked(InstanceRow),
    /// The results of the drafts along an instance.
    Drafts(Box<DraftRow>),
    /// The library panicked or reported a panic. The child exits after this event.
    Crashed {
        #[serde(rename = "words")]
        message: String,
    },
    /// The job could not be parsed: a bug in sobench, not in the engine.
    Unreadable {
        #[serde(rename = "words")]
        message: String,
    },
    /// The job is complete.
    Done(Done),
    Batch(BatchRow),
    /// The engine that the proof search runs now; `None` for the oracles.
    #[serde(rename = "at")]
    ActiveEngine(Option<EngineName>),
    /// Intermediate result of the proof search for an engine.
    #[serde(rename = "so_far")]
    ProvedSoFar {
        engine: EngineName,
        proved: Proved,
    },
    /// The shrunk finding; `None` if it does not reproduce.
    Shrunk(Option<FindingCase>),
    Checked(WitnessStatus),
}

/// The engine is open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ready {
    pub(super) version: String,
    pub(super) settings: Vec<(String, String)>,
    pub(super) vocabulary: String,
    pub(super) vocabulary_ids: usize,
    pub(super) open_ns: u64,
}

/// One walk over an instance with all durations in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pass {
    pub(super) spelling: Spelling,
    #[serde(rename = "heat")]
    pub(super) kind: PassKind,
    pub(super) samples: Samples,
}

/// Cold or warm walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PassKind {
    /// The first walk.
    Cold,
    /// The second walk, immediately after the first.
    Warm,
}

/// Durations in ns, by token position.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Samples {
    pub(super) mask: Vec<u64>,
    pub(super) commit: Vec<u64>,
}

/// The end of a completed job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Done {
    /// As [`Compile::peak_bytes`], over the whole job.
    pub(super) peak_bytes: Option<u64>,
    /// Peak resident memory of the process during the job.
    pub(super) peak_rss_bytes: Option<u64>,
}
