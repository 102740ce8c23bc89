//! What is known of one entry of a corpus under one engine: facts only, a line each in the row
//! file. Knows no corpus and no clock.

use serde::{Deserialize, Serialize};

use super::times::{Durations, Slope};
use sobench_engine::EngineName;

/// How a JSON value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spelling {
    /// `", "` between members and `": "` after names, as Python's `json.dumps` does, and with it
    /// MaskBench's script.
    Maskbench,
    /// No white space, as MaskBench's harness in Rust does.
    Compact,
    /// A line for every member, two spaces of indentation.
    Pretty,
    /// The text itself; for instances that are text and no JSON value.
    Verbatim,
}

impl Spelling {
    /// The ways to write a JSON value.
    pub const OF_JSON: [Self; 3] = [Self::Maskbench, Self::Compact, Self::Pretty];

    /// The name that flags, files and reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Maskbench => "maskbench",
            Self::Compact => "compact",
            Self::Pretty => "pretty",
            Self::Verbatim => "verbatim",
        }
    }
}

/// One entry under one engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The entry's place in the corpus, from 0; rows are reported in this order whatever order they
    /// ended in.
    pub index: usize,
    /// The entry's name: a file, a file and a number, or a shipped workload.
    pub entry: String,
    pub engine: EngineName,
    /// Keyword tags, such as `$ref` or `format:date-time`.
    pub tags: Vec<String>,
    /// The constraint's kind: json, regex, choice ...
    pub kind: String,
    /// The engine that `auto` chose, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<RouteRow>,
    /// Why the engine did not compile the constraint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub declined: Option<Declined>,
    /// What ended the work on this row before its last instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compile: Option<Compile>,
    /// Every instance in every spelling that was reached, in order.
    pub instances: Vec<InstanceRow>,
    /// Durations by spelling; spellings of which no mask was computed are absent. Of a stopped row,
    /// those of every walk that was over, also where its instance was not judged any more.
    pub times: Vec<SpellingTimes>,
}

/// Where `auto` sent the constraint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteRow {
    pub engine: EngineName,
    pub why: String,
}

/// A declared decline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declined {
    pub class: DeclineClass,
    /// What the library does not implement, if it said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feature: Option<String>,
    /// The library's own words.
    pub words: String,
    /// Until it said so.
    pub after_ns: u64,
}

/// The engine's error, by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeclineClass {
    Unsupported,
    Invalid,
    TooLarge,
}

/// What ended a row early.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    pub cause: StopCause,
    pub stage: Stage,
    /// The last words of the child process, or the panic's; may be empty.
    pub words: String,
    /// From the beginning of the row.
    pub after_ns: u64,
}

/// Why a child process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCause {
    /// A panic, a signal, a stack overflow.
    Crash,
    OutOfMemory,
    Timeout,
}

/// Where a row stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "at", rename_all = "snake_case")]
pub enum Stage {
    /// Our own evaluator judged the instances: never the engine's fault.
    Oracle,
    Compile,
    FirstMask,
    /// Compiled again, from the cache.
    Cached,
    Instance {
        index: usize,
        spelling: Spelling,
    },
}

/// What compiling cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compile {
    /// The first compile of this constraint in its process.
    pub cold_ns: u64,
    /// A matcher and its first mask on top of it; time to first mask is the sum of the two.
    pub first_mask_ns: u64,
    /// The same constraint asked of the compile cache again.
    pub cached_ns: u64,
    /// Size of the compiled grammar, where the library can say.
    pub grammar_bytes: Option<u64>,
    /// How much the process's resident memory peaked above what it was before, from compile to the
    /// last instance; `None` where the system cannot say.
    pub peak_bytes: Option<u64>,
}

/// One instance in one spelling.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceRow {
    /// The instance's place in its entry, from 0.
    pub index: usize,
    pub spelling: Spelling,
    /// What the corpus says of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<bool>,
    /// What our evaluator says of it; absent where it cannot judge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judged: Option<bool>,
    pub outcome: InstanceOutcome,
    /// Tokens of the whole text.
    pub tokens: u32,
    /// Masks computed of it, one pass counted.
    pub masks: u32,
    /// The end of the text before the wrong mask, at most [`BEFORE_MAX_CHARS`] characters; absent
    /// where nothing is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

/// Characters that are kept of the text before a wrong mask.
pub const BEFORE_MAX_CHARS: usize = 60;

/// How an engine did on an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum InstanceOutcome {
    /// Valid, every token allowed, the end allowed at the end and nowhere wrong; or invalid and
    /// masked out.
    Pass,
    /// Valid, and a token or the end was masked out after `byte` bytes of the text. `token` is the
    /// text of the token, absent for the end.
    RejectsValid { byte: usize, token: Option<String> },
    /// Invalid, and allowed to its end; or the end was allowed after `byte` bytes, which are no
    /// valid text.
    AcceptsInvalid { byte: usize },
    /// No token and no end was allowed after `byte` bytes.
    DeadEnd { byte: usize },
    /// The library gave up after `byte` bytes, in its own words; or its second walk was not as the
    /// first.
    Failed { byte: usize, words: String },
    /// The corpus and our evaluator disagree: nobody is blamed. `accepted` is what the engine did.
    Disputed { accepted: bool },
    /// Neither the corpus nor our evaluator can say. `accepted` is what the engine did.
    NotJudged { accepted: bool },
}

impl InstanceOutcome {
    /// Bytes of the text before what went wrong, if anything did.
    pub fn byte(&self) -> Option<usize> {
        match self {
            Self::RejectsValid { byte, .. }
            | Self::AcceptsInvalid { byte }
            | Self::DeadEnd { byte }
            | Self::Failed { byte, .. } => Some(*byte),
            Self::Pass | Self::Disputed { .. } | Self::NotJudged { .. } => None,
        }
    }
}

/// Durations of the masks and commits in one spelling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpellingTimes {
    pub spelling: Spelling,
    /// The first walk over each instance on a grammar just compiled.
    pub cold: PassTimes,
    /// The same walks again on a new matcher of the same grammar.
    pub warm: PassTimes,
}

/// Durations of one pass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PassTimes {
    pub mask: Durations,
    pub commit: Durations,
    /// A mask and the commit of the token after it, taken together: what one token costs a server.
    /// The last mask of a walk, which no commit follows, is not in it.
    pub step: Durations,
    /// Mask time over the token's position.
    pub slope: Slope,
}
