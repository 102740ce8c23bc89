//! Notices of datasets, and of the files and repositories that they are read from.

use serde::{Deserialize, Serialize};

use super::Notice;
use sobench_core::constraint::GrammarDialect;
use sobench_core::input::json::Repeated;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DatasetNotice {
    #[error("{hub} not reached: {repository} is the cached copy, commit {commit}")]
    CachedCopy {
        hub: String,
        repository: String,
        commit: String,
    },
    #[error(
        "objects that name a member twice, of which the last counts: {objects}; the first, {first}"
    )]
    RepeatedMembers { objects: usize, first: String },
    #[error("the shipped grammar is respelt for llama.cpp, and the same otherwise{}", noted(.notes))]
    GrammarRespelt { notes: Vec<String> },
    #[error("{name} is {notation} and sent as such, where {expected} was expected")]
    GrammarNotConverted {
        name: String,
        notation: GrammarDialect,
        expected: GrammarDialect,
    },
    #[error("{name} is {notation}, and was converted to {converted_to}, which is sent and judged by{}", noted(.notes))]
    GrammarConverted {
        name: String,
        notation: GrammarDialect,
        converted_to: GrammarDialect,
        notes: Vec<String>,
    },
    #[error(
        "rows whose grammar was converted to {converted_to}, which is sent and judged by: {rows}; the first, {first}"
    )]
    RowGrammarsConverted {
        converted_to: GrammarDialect,
        rows: usize,
        first: ConvertedRow,
    },
    #[error(
        "rows whose grammar cannot be converted to {expected}, and is sent as it is: {rows}; the first, {first_row}: {why}"
    )]
    RowGrammarsNotConverted {
        expected: GrammarDialect,
        rows: usize,
        first_row: String,
        why: String,
    },
    #[error("{questions} questions are about an image or a video, which is not sent")]
    ImagesNotSent { questions: usize },
    #[error(
        "the sound is generated, {clip_s} s a clip, and no word is spoken in it: what is transcribed means nothing, its times do"
    )]
    GeneratedSound { clip_s: f64 },
    #[error("the category {category} has no answers: whether a call is the right one is not told")]
    CategoryWithoutAnswers { category: String },
    #[error("{rows} rows are left out: empty, or {lengths}")]
    RowsLeftOut { rows: usize, lengths: String },
    #[error("{rows} rows are left out that cannot be read; the first: {first}")]
    RowsUnreadable { rows: usize, first: String },
    #[error(
        "the prompts have {} {} tokens in all than asked for: not every run of tokens is read as it was spelt",
        .excess_tokens.unsigned_abs(),
        if *.excess_tokens > 0 { "more" } else { "fewer" }
    )]
    PromptLengths { excess_tokens: i64 },
    #[error("{prompts} prompts of {wanted}: each of the {prefixes} beginnings gets equally many")]
    FewerPrompts {
        prompts: usize,
        wanted: usize,
        prefixes: usize,
    },
    #[error("the tokenizer has no chat template, so that the prompts are sent without one")]
    NoChatTemplate,
    #[error("{logged} logged requests for {prompts} prompts: each is drawn from all of them")]
    LoggedRequestsDrawn { logged: usize, prompts: usize },
    #[error(
        "the chat template prints the present day, which is set to {date} to keep prompts the same"
    )]
    TemplateDate { date: String },
    #[error("there are {rows} rows for {prompts} prompts, and none is asked again")]
    FewerRows { rows: usize, prompts: usize },
    #[error("{rows} rows cycled to {prompts} prompts")]
    RowsCycled { rows: usize, prompts: usize },
    #[error("{rows} rows for {prompts} prompts: the other {} are drawn from them again", .prompts - .rows)]
    RowsDrawnAgain { rows: usize, prompts: usize },
    #[error("{dataset}: {notice}")]
    PartOfMix {
        dataset: String,
        notice: Box<Notice>,
    },
}

impl DatasetNotice {
    /// What is said of objects that name a member twice, where there are any.
    pub fn repeated_members(repeated: Repeated) -> Option<Notice> {
        let (objects, first) = repeated.found()?;
        Some(Self::RepeatedMembers { objects, first }.into())
    }
}

/// The first row whose grammar was converted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
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
