//! The row of one entry under one engine: one line in the rows file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::drafts::DraftRow;
use super::times::{Durations, Slope};
use sobench_engine::EngineName;

/// How an instance is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spelling {
    /// `", "` between members and `": "` after names, as in Python's `json.dumps` and MaskBench's
    /// script.
    Maskbench,
    /// No white space, as in MaskBench's Rust harness.
    Compact,
    /// One line per member, indented by two spaces.
    Pretty,
    /// The text as it is; for instances that are text, not JSON.
    Verbatim,
}

impl Spelling {
    /// The spellings of a JSON value.
    pub const JSON: [Self; 3] = [Self::Maskbench, Self::Compact, Self::Pretty];

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
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Row {
    /// Index of the entry in the corpora, from 0. Rows are reported in this order, regardless of
    /// the order of completion.
    pub index: usize,
    /// The entry's name: a file, a file and a number, or a shipped workload.
    pub entry: String,
    pub engine: EngineName,
    /// Keyword tags, such as `$ref` or `format:date-time`.
    pub tags: Vec<String>,
    /// The constraint's kind: json, regex, choice ...
    pub kind: String,
    /// The engine chosen by `auto`, and the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<RouteRow>,
    /// Why the engine declined the constraint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub declined: Option<Declined>,
    /// Why the row was stopped before its last instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compile: Option<Compile>,
    /// Every instance that was reached, in every spelling, in order.
    pub instances: Vec<InstanceRow>,
    /// Durations by spelling; spellings without masks are absent. A stopped row has the durations
    /// of every completed walk, even if its instance was not judged.
    pub times: Vec<SpellingTimes>,
    /// Drafts along the instances, in the first JSON spelling or as text; absent without drafts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drafts: Option<DraftRow>,
}

/// The engine chosen by `auto`.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct RouteRow {
    pub engine: EngineName,
    pub why: String,
}

/// The engine declined the constraint.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Declined {
    pub class: DeclineClass,
    /// The unsupported feature, if the library names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feature: Option<String>,
    /// The library's error message.
    #[serde(rename = "words")]
    pub message: String,
    /// Time until the decline.
    pub after_ns: u64,
}

/// The kind of the engine's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeclineClass {
    Unsupported,
    Invalid,
    TooLarge,
}

/// Why a row was stopped.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Stopped {
    pub cause: StopCause,
    pub stage: Stage,
    /// The last stderr lines of the child process, or the panic message; may be empty.
    #[serde(rename = "words")]
    pub message: String,
    /// Since the start of the row.
    pub after_ns: u64,
}

/// Why a child process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopCause {
    /// A panic, a signal, a stack overflow.
    Crash,
    OutOfMemory,
    Timeout,
}

/// The stage of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(tag = "at", rename_all = "snake_case")]
pub enum Stage {
    /// The evaluator judges the instances; failures here are not the engine's.
    Oracle,
    Compile,
    FirstMask,
    /// Compile from the cache.
    Cached,
    Instance {
        index: usize,
        spelling: Spelling,
    },
    /// Drafts along an instance, after all walks.
    Drafts {
        index: usize,
        spelling: Spelling,
    },
}

/// Cost of compiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Compile {
    /// The first compile of this constraint in its process.
    pub cold_ns: u64,
    /// Creating a matcher and its first mask, after the compile. Time to first mask is the sum of
    /// both.
    pub first_mask_ns: u64,
    /// The same constraint from the compile cache.
    pub cached_ns: u64,
    /// Size of the compiled grammar, if the library reports it.
    pub grammar_bytes: Option<u64>,
    /// Growth of the process's peak resident memory, from compile to the last instance; `None` if
    /// unknown.
    pub peak_bytes: Option<u64>,
}

/// One instance in one spelling.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct InstanceRow {
    /// Index of the instance in its entry, from 0.
    pub index: usize,
    pub spelling: Spelling,
    /// The label of the corpus.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<bool>,
    /// The verdict of the evaluator; absent if it cannot judge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judged: Option<bool>,
    pub outcome: InstanceOutcome,
    /// Tokens of the whole text.
    pub tokens: u32,
    /// Masks computed in one pass.
    pub masks: u32,
    /// The end of the text before the wrong mask, at most [`BEFORE_MAX_CHARS`] characters; absent
    /// if no mask is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
}

/// Maximum length of [`InstanceRow::before`] in characters.
pub const BEFORE_MAX_CHARS: usize = 60;

/// The last characters of the first `bytes` bytes of a text, without a partial character at the
/// end.
pub(super) fn last_characters(text: &str, bytes: usize) -> String {
    let end = (0..=bytes.min(text.len()))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    let before = &text[..end.unwrap_or(0)];
    let start = before
        .char_indices()
        .rev()
        .nth(BEFORE_MAX_CHARS - 1)
        .map_or(0, |(start, _)| start);
    before[start..].to_owned()
}

/// The outcome of an instance.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum InstanceOutcome {
    /// Valid, with every token and the final end allowed and no wrong early end; or invalid and
    /// masked out.
    Pass,
    /// Valid, but a token or the end is masked out after `byte` bytes of the text. `token` is the
    /// text of the token, absent for the end.
    RejectsValid { byte: usize, token: Option<String> },
    /// Invalid, but allowed to its end; or the end is allowed after `byte` bytes, where the text is
    /// not valid.
    AcceptsInvalid { byte: usize },
    /// Neither a token nor the end is allowed after `byte` bytes.
    DeadEnd { byte: usize },
    /// The library failed after `byte` bytes, or its second walk differs from the first.
    Failed {
        byte: usize,
        #[serde(rename = "words")]
        message: String,
    },
    /// Label and evaluator disagree. `accepted` states whether the engine accepted the text.
    Disputed { accepted: bool },
    /// Neither label nor verdict. `accepted` states whether the engine accepted the text.
    NotJudged { accepted: bool },
}

impl InstanceOutcome {
    /// Bytes of the text before the error, if any.
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

/// Durations of masks and commits in one spelling.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct SpellingTimes {
    pub spelling: Spelling,
    /// The first walk over each instance on a newly compiled grammar.
    pub cold: PassTimes,
    /// The same walks again on a new matcher of the same grammar.
    pub warm: PassTimes,
}

/// Durations of one pass.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct PassTimes {
    pub mask: Durations,
    pub commit: Durations,
    /// A mask plus the commit of the token after it: the cost of one token for a server. The last
    /// mask of a walk, without a commit, is excluded.
    pub step: Durations,
    /// Mask time as a function of the token's position.
    pub slope: Slope,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_characters_before_a_wrong_mask_are_kept() {
        let long = "é".repeat(100);
        for (text, bytes, expected) in [
            ("abc", 2, "ab"),
            ("abc", 0, ""),
            ("abc", 9, "abc"),
            ("aé", 2, "a"),
            (&long, 200, &"é".repeat(BEFORE_MAX_CHARS)),
        ] {
            assert_eq!(last_characters(text, bytes), expected);
        }
    }
}
