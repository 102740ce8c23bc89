//! Rows: what a dataset gives, before rows are repeated and dealt into arms.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use sobench_core::case::Prompt;
use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_notices::notice::Notice;
use sobench_pycompat::random::PythonRandom;

/// In which order the rows of a collection are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Shuffled by the seed, as CPython's `random.seed(seed)` and `random.shuffle` do it.
    #[default]
    Shuffled,
    AsStored,
}

impl Order {
    /// Puts rows into the order in which they are asked.
    pub(super) fn apply<T>(self, seed: u64, rows: &mut [T]) {
        if self == Self::Shuffled {
            PythonRandom::new(seed).shuffle(rows);
        }
    }
}

/// What becomes of a run that wants more rows than there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shortfall {
    /// Rows are asked again.
    #[default]
    AskAgain,
    /// There are fewer requests.
    Fewer,
}

/// One row of a dataset, before it is repeated and dealt into arms.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) prompt: Prompt,
    pub(super) constraint: Option<Arc<Constraint>>,
    /// `None` takes the plan's.
    pub(super) output_len: Option<u32>,
    pub(super) completion: Option<String>,
    pub(super) tags: Vec<String>,
    pub(super) grammar_oracle: Option<Arc<str>>,
    /// What errors call this row, such as `line 3 of rows.jsonl`.
    pub(super) name: String,
}

impl Row {
    /// A row with a text to ask and a constraint, which is all that the generated datasets have.
    pub(super) fn new(prompt: &str, constraint: Constraint) -> Self {
        Self {
            constraint: Some(Arc::new(constraint)),
            ..Self::free(Prompt::Text(prompt.into()))
        }
    }

    /// A row that is only asked.
    pub(super) fn free(prompt: Prompt) -> Self {
        Self {
            prompt,
            constraint: None,
            output_len: None,
            completion: None,
            tags: Vec::new(),
            grammar_oracle: None,
            name: "row 0".to_owned(),
        }
    }
}

/// What one source gives.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rows {
    /// Not empty.
    pub(super) rows: Vec<Row>,
    pub(super) kind: RowsKind,
    pub(super) source: String,
    pub(super) converted_from: Option<GrammarDialect>,
    pub(super) notices: Vec<Notice>,
}

impl Rows {
    /// Rows made by us from a constraint, whose repetition is what the dataset is about.
    pub(super) fn generated(rows: Vec<Row>, source: impl Into<String>) -> Self {
        Self {
            rows,
            kind: RowsKind::Generated,
            source: source.into(),
            converted_from: None,
            notices: Vec::new(),
        }
    }
}

/// Whether rows may be asked again, and whether that is worth a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowsKind {
    /// The same request again and again is what the dataset is.
    Generated,
    /// Somebody's rows; repeating them changes what is measured. They go round.
    Collected(Shortfall),
    /// The same; those that are asked again are drawn, as vLLM draws them.
    Sampled(Shortfall),
    /// As many as there are to be; none is asked again.
    Whole,
}

/// Where generated rows come from when the user gave nothing of their own.
pub(super) const SHIPPED: &str = "shipped";
