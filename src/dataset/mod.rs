//! Names and files to cases. Knows nothing of servers, but for which form of prompt and grammar they take.

mod audio;
mod bfcl;
mod burstgpt;
mod cases;
mod choice;
pub(crate) mod custom;
mod document;
mod drawing;
mod exact;
pub(crate) mod file;
mod grammar;
mod hf;
mod json;
mod json_mode_eval;
mod jsonschemabench;
mod maskbench;
mod message;
mod mix;
mod notation;
pub(crate) mod parquet;
mod plan;
mod prefix_repetition;
mod random;
mod regex;
mod sharegpt;
mod sonnet;
mod table;

pub use audio::{MAX_AUDIO_SECONDS, MAX_CLIP_BYTES, MAX_CLIPS_BYTES};
pub use drawing::{Drawing, Lengths, MAX_MADE_TOKENS, MAX_PROMPT_TOKENS, Order, OutputLength, Part, Shortfall};
pub use file::{MAX_DATASET_BYTES, MAX_ROWS};
pub use mix::MixPart;
pub use plan::{
    AudioSource, Constraints, DatasetName, DatasetPlan, JsonSchemaSource, MAX_DOCUMENTS, MAX_PROMPTS, OwnInput, PromptForm,
};

use std::sync::Arc;

use crate::case::{Case, Prompt};
use crate::constraint::{Constraint, GrammarDialect};
use crate::error::Result;
use crate::hub::HubSettings;
use crate::notice::Notice;
use crate::tokenizer::Tokenizer;

/// What is going to be asked, and what is known of where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// As many as the plan says, in the order in which they are sent.
    pub cases: Vec<Case>,
    /// Distinct rows available; fewer than the cases where rows are asked again.
    pub rows: usize,
    /// SHA-256, in hex, over what is asked: prompts, constraints and output lengths, in order. Which of the cases have their
    /// constraint sent is not in it, so that a control run has the hash of the run it is held against.
    pub sha256: String,
    /// Where the rows are from: `shipped`, a path, or a repository with its commit.
    pub source: String,
    /// The notation that grammars were written in, where they are sent in the other one.
    pub converted_from: Option<GrammarDialect>,
    /// What the user should know.
    pub notices: Vec<Notice>,
}

/// One row of a dataset, before it is repeated and dealt into arms.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    prompt: Prompt,
    constraint: Option<Arc<Constraint>>,
    /// `None` takes the plan's.
    output_len: Option<u32>,
    completion: Option<String>,
    tags: Vec<String>,
    grammar_oracle: Option<Arc<str>>,
    /// What errors call this row, such as `line 3 of rows.jsonl`.
    name: String,
}

impl Row {
    /// A row with a text to ask and a constraint, which is all that the generated datasets have.
    fn new(prompt: &str, constraint: Constraint) -> Self {
        Self { constraint: Some(Arc::new(constraint)), ..Self::free(Prompt::Text(prompt.into())) }
    }

    /// A row that is only asked.
    fn free(prompt: Prompt) -> Self {
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
struct Rows {
    /// Not empty.
    rows: Vec<Row>,
    kind: RowsKind,
    source: String,
    converted_from: Option<GrammarDialect>,
    notices: Vec<Notice>,
}

impl Rows {
    /// Rows made by us from a constraint, whose repetition is what the dataset is about.
    fn generated(rows: Vec<Row>, source: impl Into<String>) -> Self {
        Self { rows, kind: RowsKind::Generated, source: source.into(), converted_from: None, notices: Vec::new() }
    }
}

/// Whether asking a row again is worth a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowsKind {
    /// The same request again and again is what the dataset is.
    Generated,
    /// Somebody's rows; repeating them changes what is measured. They go round.
    Collected,
    /// The same; those that are asked again are drawn, as vLLM draws them.
    Sampled,
    /// As many as there are to be; none is asked again.
    Whole,
}

/// Where generated rows come from when the user gave nothing of their own.
const SHIPPED: &str = "shipped";

/// Loads what the plan names.
///
/// # Errors
/// If the plan contradicts itself, a file or repository cannot be read, a row is wrong, or messages have to be put into a template
/// and the tokenizer has none.
pub fn load(plan: &DatasetPlan, tokenizer: &Tokenizer) -> Result<Dataset> {
    load_with(plan, tokenizer, &HubSettings::from_env())
}

/// [`load`], with the Hub's settings given instead of taken from the environment.
///
/// # Errors
/// As for [`load`].
pub fn load_with(plan: &DatasetPlan, tokenizer: &Tokenizer, hub: &HubSettings) -> Result<Dataset> {
    plan.check()?;
    let rows = match plan.name {
        DatasetName::Json => json::rows(plan),
        DatasetName::JsonUnique => json::unique_rows(plan),
        DatasetName::Grammar => grammar::rows(plan),
        DatasetName::Regex => Ok(regex::rows(plan)),
        DatasetName::Choice => Ok(choice::rows(plan)),
        DatasetName::XgrammarBench => json_mode_eval::rows(plan, hub),
        DatasetName::Custom => custom::rows(plan),
        DatasetName::Audio => audio::rows(plan),
        DatasetName::Random | DatasetName::RandomPrefix => random::rows(plan, tokenizer),
        DatasetName::PrefixRepetition => prefix_repetition::rows(plan, tokenizer),
        DatasetName::Sharegpt => sharegpt::rows(plan, tokenizer),
        DatasetName::Burstgpt => burstgpt::rows(plan, tokenizer),
        DatasetName::Sonnet => sonnet::rows(plan, tokenizer),
        DatasetName::Hf => hf::rows(plan, tokenizer, hub),
        DatasetName::Jsonschemabench => jsonschemabench::rows(plan, hub),
        DatasetName::Maskbench => maskbench::rows(plan),
        DatasetName::Bfcl => bfcl::rows(plan, hub),
        DatasetName::Mix => return mix::load(plan, tokenizer, hub),
    }?;
    cases::deal(plan, rows, tokenizer)
}

#[cfg(test)]
mod golden;
#[cfg(test)]
mod tests;
