//! The rows of a dataset, before repetition and assignment to arms.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use sobench_core::case::{Prompt, Turn};
use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_core::scorer::Scorer;
use sobench_notices::notice::Notice;
use sobench_pycompat::random::PythonRandom;

/// Order of the rows of a dataset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Shuffled by CPython's `random.seed(seed)` and `random.shuffle`.
    #[default]
    Shuffled,
    AsStored,
}

impl Order {
    /// Reorders the rows.
    pub(super) fn apply<T>(self, seed: u64, rows: &mut [T]) {
        if self == Self::Shuffled {
            PythonRandom::new(seed).shuffle(rows);
        }
    }
}

/// How to fill a run that needs more rows than the dataset has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shortfall {
    /// Repeat rows.
    #[default]
    #[serde(rename = "ask_again")]
    RepeatRows,
    /// Send fewer requests.
    #[serde(rename = "fewer")]
    FewerRequests,
}

/// A row of a dataset.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) prompt: Prompt,
    /// The prompt without schema and format instructions, for arms that do not show the schema.
    pub(super) question: Option<Prompt>,
    pub(super) constraint: Option<Arc<Constraint>>,
    /// `None` uses the plan's length.
    pub(super) output_len: Option<u32>,
    /// A reference answer.
    pub(super) completion: Option<String>,
    /// How answers are compared with the reference; `None` if they are not.
    pub(super) score: Option<Scorer>,
    pub(super) tags: Vec<String>,
    pub(super) grammar_oracle: Option<Arc<str>>,
    /// The model of the request, if it is not the run's.
    pub(super) model: Option<Arc<str>>,
    /// When it was recorded, in seconds.
    pub(super) at: Option<f64>,
    /// Its place in its session.
    pub(super) turn: Option<Arc<Turn>>,
    /// The name in errors, such as `rows.jsonl, line 3`.
    pub(super) name: String,
}

impl Row {
    /// A row with a text prompt and a constraint.
    pub(super) fn new(prompt: &str, constraint: Constraint) -> Self {
        Self {
            constraint: Some(Arc::new(constraint)),
            ..Self::unconstrained(Prompt::Text(prompt.into()))
        }
    }

    /// A row without a constraint.
    pub(super) fn unconstrained(prompt: Prompt) -> Self {
        Self {
            prompt,
            question: None,
            constraint: None,
            output_len: None,
            completion: None,
            score: None,
            tags: Vec::new(),
            grammar_oracle: None,
            model: None,
            at: None,
            turn: None,
            name: "row 0".to_owned(),
        }
    }
}

/// The rows of one source.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rows {
    /// At least one row. May end after `DatasetPlan::rows_needed`.
    pub(super) rows: Vec<Row>,
    /// The number of rows of the source.
    pub(super) available: usize,
    pub(super) kind: RowsKind,
    pub(super) source: String,
    pub(super) converted_from: Option<GrammarDialect>,
    pub(super) notices: Vec<Notice>,
}

impl Rows {
    /// All rows of a source.
    pub(super) fn new(rows: Vec<Row>, kind: RowsKind, source: impl Into<String>) -> Self {
        Self {
            available: rows.len(),
            rows,
            kind,
            source: source.into(),
            converted_from: None,
            notices: Vec::new(),
        }
    }

    /// Generated rows with a constraint. Repeating them is the purpose of the dataset.
    pub(super) fn generated(rows: Vec<Row>, source: impl Into<String>) -> Self {
        Self::new(rows, RowsKind::Generated, source)
    }
}

/// Whether rows may repeat, and whether repetition needs a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowsKind {
    /// The dataset repeats the same request on purpose.
    Generated,
    /// Collected rows. They repeat in order, with a notice, since repetition changes the
    /// measurement.
    Collected(Shortfall),
    /// Sampled rows. Repeated ones are drawn at random, as in vLLM.
    Sampled(Shortfall),
    /// As many rows as requests. None is repeated.
    Complete,
    /// The turns of sessions, as many as the run sends: the rows that are available are sessions.
    Sessions(Shortfall),
}

/// Source of generated rows without user input.
pub(super) const SHIPPED: &str = "shipped";
