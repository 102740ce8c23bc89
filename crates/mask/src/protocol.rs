//! What parent and child say to each other: a JSON value a line. Knows neither end.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::corpus::Entry;
use super::plan::Effort;
use super::prove::Proved;
use super::prove::shrink::Case;
use super::prove::witness::Standing;
use super::record::BatchRow;
use super::row::{Compile, Declined, InstanceRow, RouteRow, Spelling, Stage};
use sobench_engine::{EngineName, EnginePolicy};

/// Bytes of one line; what sends a longer one is broken. The durations of a text of a mebibyte take
/// some megabytes.
pub(super) const MAX_LINE_BYTES: u64 = 64 << 20;

/// The words for a child that sends no event, or one that has no place there.
pub(super) const BROKEN: &str = "the child process broke the protocol";

/// The first line to a child.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Setup {
    pub(super) engine: EngineName,
    pub(super) policy: EnginePolicy,
    pub(super) tokenizer: String,
    pub(super) eos_token: Option<String>,
    /// Address space of the child.
    pub(super) memory_limit_bytes: Option<u64>,
    pub(super) assert_formats: bool,
    pub(super) warm: bool,
    pub(super) spellings: Vec<Spelling>,
    /// The engines whose errors are proved, in this one process; `engine` is the first of them.
    /// Empty for a measurement.
    #[serde(default)]
    pub(super) prove: Vec<EngineName>,
}

/// A later line to a child.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Job {
    Entry(Box<Entry>),
    Batch(BatchJob),
    Prove(Box<ProveJob>),
    /// A finding that is made small.
    Shrink(Box<FindingJob>),
    /// A finding that is checked again.
    Check(Box<FindingJob>),
}

/// An entry whose errors are proved.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ProveJob {
    pub(super) effort: Effort,
    /// Engines that are left out: the process ended over them before.
    pub(super) without: Vec<EngineName>,
    pub(super) entry: Entry,
}

/// A finding of an engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct FindingJob {
    pub(super) engine: EngineName,
    pub(super) case: Case,
}

/// The line that has an [`Entry`], itself JSON, proved.
pub(super) fn prove_line(entry: &str, effort: Effort, without: &[EngineName]) -> String {
    let (effort, without) = (json!(effort), json!(without));
    format!("{{\"prove\":{{\"effort\":{effort},\"without\":{without},\"entry\":{entry}}}}}")
}

/// The line that sends an [`Entry`], itself JSON, to a child.
pub(super) fn entry_line(entry: &str) -> String {
    format!("{{\"entry\":{entry}}}")
}

/// Why a child could not read an entry, which lies deeper in its line than in the file it is from.
pub(super) fn check_entry(entry: &str) -> std::result::Result<(), String> {
    let line = entry_line(entry);
    // The line's end is a byte of it.
    if line.len() as u64 >= MAX_LINE_BYTES {
        return Err(format!(
            "is too large to be measured, over {MAX_LINE_BYTES} bytes: {}",
            line.len()
        ));
    }
    serde_json::from_str::<Job>(&line)
        .map(drop)
        .map_err(|error| format!("is too deep to be measured: {error}"))
}

/// Sequences to be masked at once.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct BatchJob {
    pub(super) sequences: usize,
    /// Each goes to as many sequences as are needed to fill the batch.
    pub(super) sources: Vec<BatchSource>,
}

/// An entry and the one of its instances that is walked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct BatchSource {
    pub(super) entry: Entry,
    pub(super) instance: usize,
    pub(super) spelling: Spelling,
}

/// A line from a child.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Event {
    Ready(Ready),
    /// The engine cannot be opened: the error's two lines.
    CannotOpen {
        what: String,
        hint: Option<String>,
    },
    /// What comes next; sent before it is begun, so that the parent knows where a child died.
    Stage(Stage),
    Route(RouteRow),
    Declined(Declined),
    Compiled(Compile),
    /// A walk that is over; sent at once, so that its durations outlive whatever ends the row.
    Pass(Pass),
    /// What the walks over an instance show, after all durations of it.
    Walked(InstanceRow),
    /// The library panicked, or says that it did; nothing more comes of this job, and the child
    /// ends.
    Crashed {
        words: String,
    },
    /// The job could not be read: a fault of sobench, and no engine's.
    Unreadable {
        words: String,
    },
    /// The job is done.
    Done(Done),
    Batch(BatchRow),
    /// This engine is at work now on a proof; none where it is our own oracles.
    At(Option<EngineName>),
    /// What was proved of an engine so far.
    SoFar {
        engine: EngineName,
        proved: Proved,
    },
    /// A finding made small; none where it does not stand.
    Shrunk(Option<Case>),
    Checked(Standing),
}

/// A child that has its engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ready {
    pub(super) version: String,
    pub(super) settings: Vec<(String, String)>,
    pub(super) vocabulary: String,
    pub(super) vocabulary_ids: usize,
    pub(super) open_ns: u64,
}

/// One walk over an instance, and every duration of it in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pass {
    pub(super) spelling: Spelling,
    pub(super) heat: Heat,
    pub(super) samples: Samples,
}

/// Which of the walks over an instance a walk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Heat {
    /// The first one.
    Cold,
    /// The one right after it.
    Warm,
}

/// Durations in ns, by position.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Samples {
    pub(super) mask: Vec<u64>,
    pub(super) commit: Vec<u64>,
}

/// The end of a job that was done to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Done {
    /// As in [`Compile::peak_bytes`], of the whole job.
    pub(super) peak_bytes: Option<u64>,
    /// The most resident memory of the process during the job, all in all.
    pub(super) peak_rss_bytes: Option<u64>,
}
