//! The plan of a dataset: the options that all datasets share, and the options of the dataset
//! itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use sobench_core::case::Arm;
use sobench_core::constraint::{GrammarDialect, GrammarSpelling};
use sobench_core::error::{Error, Result};
use sobench_core::scorer::Scorer;

/// The most requests of one run. All are kept in memory from the start.
pub const MAX_PROMPTS: usize = 10_000_000;
/// The most documents of one rerank request.
pub const MAX_DOCUMENTS: usize = 10_000;

/// Form of the prompts that the endpoint accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptForm {
    /// Text. Messages go through the tokenizer's chat template.
    Text,
    /// Chat messages, sent unchanged: the server applies the template, and a prompt must not be
    /// templated twice.
    Messages,
    /// Audio, which only the dataset `audio` has.
    Audio,
    /// A query and this many documents, made from texts.
    Ranking { documents: usize },
}

/// Use of the rows' constraints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Constraints {
    /// Answers are judged by them, and [`DatasetPlan::constrained_ratio`] of the requests send
    /// them.
    Kept,
    /// Only the prompts are sent: the endpoint returns nothing to constrain.
    #[serde(rename = "left_out")]
    Dropped,
}

/// Limit on the length of answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputLength {
    /// The row's length, else the plan's.
    #[default]
    #[serde(rename = "of_the_row")]
    RowOrDefault,
    /// The row's length. Each row must have one.
    #[serde(rename = "of_every_row")]
    RowRequired,
    /// The plan's length for all rows.
    #[serde(rename = "of_the_plan")]
    Fixed,
}

/// A cell of the map that `--tools-per-request` and `--context-tokens` span: all items are sent in each.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    JsonSchema,
    Serialize,
    Deserialize,
)]
pub struct Cell {
    /// Tools of each request; `None` for those of the dataset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<usize>,
    /// Tokens of the texts of each prompt, filler included; `None` for those of the dataset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u32>,
    /// The number of the request in its session, from 1; `None` for a single request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u32>,
}

impl Cell {
    /// Turns from this number on have one tag, which ends in `+`, because a report has at most 100 tags.
    const LAST_TAGGED_TURN: u32 = 10;

    /// Prefixes of the tags that name the cell of a request.
    const TAGS: [&str; 3] = ["tools_per_request:", "context_tokens:", "turn:"];

    /// The tags that name the cell.
    pub fn tags(self) -> impl Iterator<Item = String> {
        let turn = |turn| match turn {
            ..Self::LAST_TAGGED_TURN => turn.to_string(),
            _ => format!("{}+", Self::LAST_TAGGED_TURN),
        };
        let numbers = [
            self.tools.map(|tools| tools.to_string()),
            self.context_tokens.map(|tokens| tokens.to_string()),
            self.turn.map(turn),
        ];
        let tags = Self::TAGS.into_iter().zip(numbers);
        tags.filter_map(|(tag, number)| Some(format!("{tag}{}", number?)))
    }

    /// Whether a tag names a cell.
    pub fn is_named_by(tag: &str) -> bool {
        Self::TAGS.iter().any(|prefix| tag.starts_with(prefix))
    }

    /// The cell that tags name; without any number for requests of no map.
    pub fn of(tags: &[String]) -> Self {
        let number = |prefix: &str| {
            let mut tags = tags.iter();
            tags.find_map(|tag| tag.strip_prefix(prefix)?.trim_end_matches('+').parse().ok())
        };
        Self {
            tools: number(Self::TAGS[0]).map(|tools: u32| tools as usize),
            context_tokens: number(Self::TAGS[1]),
            turn: number(Self::TAGS[2]),
        }
    }
}

/// Determines the loaded cases. Serialised as one object: the name, the options of the dataset, and
/// the shared ones. `S` is the dataset with its own options: typed for loading, and as a record of
/// a run has it.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct DatasetPlan<S = RecordedSource> {
    #[serde(flatten)]
    pub source: S,
    /// The number of requests, or of items if there are [`DatasetPlan::arms`] or
    /// [`DatasetPlan::cells`].
    pub num_prompts: usize,
    /// Limit on the tokens of an answer, for rows without their own.
    pub output_len: u32,
    /// Whether rows' own lengths apply.
    #[serde(default)]
    pub output: OutputLength,
    pub seed: u64,
    /// Share of the requests whose constraint is sent, from 0 to 1.
    pub constrained_ratio: f64,
    /// The arms in which each item is sent (`--arms`). Empty: one request for each row, with its
    /// constraint or without it, by [`DatasetPlan::constrained_ratio`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arms: Vec<Arm>,
    /// The cells in which each item is sent. Empty: no map.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cells: Vec<Cell>,
    /// The scorer that replaces those of the rows (`--score`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<Scorer>,
    pub constraints: Constraints,
    pub prompt_form: PromptForm,
    /// The grammar notation that the server reads. Selects the shipped grammar.
    pub grammar_dialect: GrammarDialect,
    /// Conversion of user-supplied grammars in the other notation.
    pub grammar_spelling: GrammarSpelling,
}

/// A dataset with its own options, as data.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct RecordedSource {
    pub name: String,
    #[serde(flatten)]
    pub options: Map<String, Value>,
}

impl RecordedSource {
    /// The file, folder or repository given by the user.
    pub fn path(&self) -> Option<&str> {
        self.options.get("dataset_path").and_then(Value::as_str)
    }

    /// The plans of the datasets of a mix. Empty for other datasets.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Value> {
        let parts = self.options.get("mix").and_then(Value::as_array);
        parts.into_iter().flatten().map(|part| &part["plan"])
    }
}

impl<S> DatasetPlan<S> {
    /// The same plan of another dataset.
    pub fn with_source<T>(self, source: T) -> DatasetPlan<T> {
        DatasetPlan {
            source,
            num_prompts: self.num_prompts,
            output_len: self.output_len,
            output: self.output,
            seed: self.seed,
            constrained_ratio: self.constrained_ratio,
            arms: self.arms,
            cells: self.cells,
            score: self.score,
            constraints: self.constraints,
            prompt_form: self.prompt_form,
            grammar_dialect: self.grammar_dialect,
            grammar_spelling: self.grammar_spelling,
        }
    }

    /// A plan with the defaults of the command line.
    pub fn with_defaults(source: S, num_prompts: usize, output_len: u32) -> Self {
        Self {
            num_prompts,
            output_len,
            source,
            output: OutputLength::RowOrDefault,
            seed: 0,
            constrained_ratio: 1.0,
            arms: Vec::new(),
            cells: Vec::new(),
            score: None,
            constraints: Constraints::Kept,
            prompt_form: PromptForm::Text,
            grammar_dialect: GrammarDialect::Ebnf,
            grammar_spelling: GrammarSpelling::AsWritten,
        }
    }

    /// The number of requests that each row makes.
    pub fn requests_per_row(&self) -> usize {
        self.arms.len().max(1) * self.cells.len().max(1)
    }

    /// The number of rows, from the first one, that the requests can use.
    pub fn rows_needed(&self) -> usize {
        match self.prompt_form {
            PromptForm::Ranking { documents } => {
                self.num_prompts.saturating_mul(documents).saturating_add(1)
            }
            PromptForm::Text | PromptForm::Messages | PromptForm::Audio => self.num_prompts,
        }
    }

    /// The seed, for NumPy's legacy generator.
    ///
    /// # Errors
    /// The seed is above 2^32 - 1.
    pub fn numpy_seed(&self) -> Result<u32> {
        u32::try_from(self.seed).map_err(|_| {
            Error::usage(format!(
                "the random generator of this dataset has no seed above {}: {}",
                u32::MAX,
                self.seed
            ))
            .hint("use a lower --seed")
        })
    }

    /// Refuses invalid numbers.
    ///
    /// # Errors
    /// Usage errors that name the value.
    pub fn check(&self) -> Result<()> {
        if self.num_prompts == 0 || self.num_prompts > MAX_PROMPTS / self.requests_per_row() {
            return Err(Error::usage(format!(
                "the number of prompts must be from 1 to {}: {}",
                MAX_PROMPTS / self.requests_per_row(),
                self.num_prompts
            )));
        }
        if let Some(arm) = (1..self.arms.len()).find_map(|index| {
            self.arms[..index]
                .contains(&self.arms[index])
                .then(|| self.arms[index])
        }) {
            return Err(
                Error::usage(format!("--arms has an arm twice: {}", arm.flag()))
                    .hint("name each arm once; --num-prompts sets how many items are sent in each"),
            );
        }
        if self.output_len == 0 {
            return Err(Error::usage(
                "the output length must be at least one token: 0",
            ));
        }
        if !(0.0..=1.0).contains(&self.constrained_ratio) {
            return Err(Error::usage(format!(
                "the constrained ratio must be from 0 to 1: {}",
                self.constrained_ratio
            )));
        }
        if let PromptForm::Ranking { documents } = self.prompt_form
            && (documents == 0 || documents > MAX_DOCUMENTS)
        {
            return Err(Error::usage(format!(
                "the number of documents per request must be from 1 to {MAX_DOCUMENTS}: {documents}"
            )));
        }
        Ok(())
    }
}
