//! Notices of datasets, and of their files and repositories.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Notice;
use sobench_core::constraint::GrammarDialect;
use sobench_core::input::json::DuplicateKeys;

#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DatasetNotice {
    #[error("cannot reach {hub}: using the cached copy of {repository}, commit {commit}")]
    CachedCopy {
        hub: String,
        repository: String,
        commit: String,
    },
    #[error(
        "JSON objects with duplicate members, of which the last one counts: {objects}; the first: {first}"
    )]
    RepeatedMembers { objects: usize, first: String },
    #[error("the shipped grammar is rewritten for llama.cpp and otherwise unchanged{}", noted(.notes))]
    GrammarRespelt { notes: Vec<String> },
    #[error(
        "grammars with an alternative that starts a line, which llama.cpp refuses: {grammars}; each \
         is joined to the line before"
    )]
    AlternativesJoined { grammars: usize },
    #[error("{name} is {notation} and is sent unchanged, although {expected} is expected")]
    GrammarNotConverted {
        name: String,
        notation: GrammarDialect,
        expected: GrammarDialect,
    },
    #[error("{name} is {notation} and is converted to {converted_to} for sending and judging{}", noted(.notes))]
    GrammarConverted {
        name: String,
        notation: GrammarDialect,
        converted_to: GrammarDialect,
        notes: Vec<String>,
    },
    #[error(
        "rows whose grammar is converted to {converted_to} for sending and judging: {rows}; the first: {first}"
    )]
    RowGrammarsConverted {
        converted_to: GrammarDialect,
        rows: usize,
        first: ConvertedRow,
    },
    #[error(
        "rows whose grammar cannot be converted to {expected} and is sent unchanged: {rows}; the first: {first_row}: {why}"
    )]
    RowGrammarsNotConverted {
        expected: GrammarDialect,
        rows: usize,
        first_row: String,
        why: String,
    },
    #[error("{prompts} prompts refer to an image or a video, which is not sent")]
    ImagesNotSent {
        #[serde(rename = "questions")]
        prompts: usize,
    },
    #[error(
        "the audio is generated, {clip_s} s per clip, and contains no speech: transcripts are meaningless, latencies are valid"
    )]
    GeneratedSound { clip_s: f64 },
    #[error("the category {category} has no expected answers: correctness of calls is unknown")]
    CategoryWithoutAnswers { category: String },
    #[error("{rows} rows of the category {category} offer no function, and are skipped")]
    RowsWithoutFunctions { rows: usize, category: String },
    #[error("{rows} rows are skipped: empty, or {lengths}")]
    RowsLeftOut { rows: usize, lengths: String },
    #[error(
        "references that their scorer cannot read, so that the answers are not compared: {rows}; the first: {first}"
    )]
    ReferencesUnreadable { rows: usize, first: String },
    #[error(
        "references that break the schema of their own row, so that no valid answer is right: {rows}; the first: {first}"
    )]
    ReferencesBreakSchemas { rows: usize, first: String },
    #[error("{rows} unreadable rows are skipped; the first: {first}")]
    RowsUnreadable { rows: usize, first: String },
    #[error(
        "the prompts have {} {} tokens in total than requested: some token sequences change when decoded and encoded again",
        .excess_tokens.unsigned_abs(),
        if *.excess_tokens > 0 { "more" } else { "fewer" }
    )]
    PromptLengths { excess_tokens: i64 },
    #[error("{prompts} of {wanted} prompts: each of the {prefixes} prefixes gets the same number")]
    FewerPrompts {
        prompts: usize,
        wanted: usize,
        prefixes: usize,
    },
    #[error("the tokenizer has no chat template; prompts are sent without one")]
    NoChatTemplate,
    #[error(
        "{logged} logged requests for {prompts} prompts: each prompt is drawn from all of them"
    )]
    LoggedRequestsDrawn { logged: usize, prompts: usize },
    #[error(
        "the chat template prints the current date, which is fixed to {date} to keep prompts reproducible"
    )]
    TemplateDate { date: String },
    #[error("{rows} rows for {prompts} prompts; rows are not repeated")]
    FewerRows { rows: usize, prompts: usize },
    #[error("{rows} rows are repeated to make {prompts} prompts")]
    RowsCycled { rows: usize, prompts: usize },
    #[error("{rows} rows for {prompts} prompts: {} prompts are drawn from them again", .prompts - .rows)]
    RowsDrawnAgain { rows: usize, prompts: usize },
    #[error("not sent: {what}; recorded requests with them are for --dataset requests")]
    PartsNotSent { what: String },
    #[error("not sent: {rows} of the recorded requests ({reason})")]
    RequestsSkipped { rows: usize, reason: String },
    #[error("the recorded times are not used; --replay-speed 1 sends the requests at these times")]
    TimesUnused {},
    #[error("not judged: {rows} of the requests ({reason})")]
    RequestsNotJudged { rows: usize, reason: String },
    #[error("{dataset}: {notice}")]
    PartOfMix {
        dataset: String,
        notice: Box<Notice>,
    },
}

impl DatasetNotice {
    /// A notice about objects with duplicate members, if there are any.
    pub fn repeated_members(repeated: DuplicateKeys) -> Option<Notice> {
        let (objects, first) = repeated.found()?;
        Some(Self::RepeatedMembers { objects, first }.into())
    }
}

/// The first row whose grammar was converted.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize, thiserror::Error)]
#[error("{name} is {notation}{}", noted(.notes))]
pub struct ConvertedRow {
    pub name: String,
    pub notation: GrammarDialect,
    pub notes: Vec<String>,
}

fn noted(notes: &[String]) -> String {
    if notes.is_empty() {
        String::new()
    } else {
        format!(" ({})", notes.join("; "))
    }
}
