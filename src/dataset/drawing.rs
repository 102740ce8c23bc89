//! How rows are chosen, in which order, and how long those are that are made: what the datasets of the serving benchmarks can be told.
//! Knows no file's content and no format.

use serde::{Deserialize, Serialize};

/// The most tokens of one prompt that is made.
pub const MAX_PROMPT_TOKENS: u32 = 10_000_000;
/// The most tokens of all prompts together that are made.
pub const MAX_MADE_TOKENS: u64 = 1_000_000_000;

/// What decides which rows there are, beside the seed. The defaults are those of `vllm bench serve`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Drawing {
    pub order: Order,
    pub shortfall: Shortfall,
    pub output: OutputLength,
    pub lengths: Lengths,
    pub part: Part,
    /// For `bfcl`: names of categories; none are those that vLLM takes.
    pub categories: Vec<String>,
}

/// In which order the rows of a collection are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Shuffled by the seed, as CPython's `random.shuffle` does it.
    #[default]
    Shuffled,
    AsStored,
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

/// How long answers may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputLength {
    /// As the row says, and as the plan says where it does not.
    #[default]
    OfTheRow,
    /// As the row says, which has to.
    OfEveryRow,
    /// As the plan says, whatever the row says.
    OfThePlan,
}

/// Lengths of prompts that are made, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lengths {
    /// What prompts begin with in common.
    pub prefix: u32,
    /// How many different beginnings there are.
    pub prefixes: u32,
    /// The mean of what follows the beginning; for `sonnet` the whole.
    pub input: u32,
    /// Lengths of inputs are drawn from `input * (1 - range)` to `input * (1 + range)`; from 0 to below 1.
    pub input_range: f64,
    /// The same for answers.
    pub output_range: f64,
}

impl Default for Lengths {
    /// Those of `random`.
    fn default() -> Self {
        Self { prefix: 0, prefixes: 1, input: 1024, input_range: 0.0, output_range: 0.0 }
    }
}

/// Which rows and columns of a repository or folder are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Part {
    /// What the dataset is called where it is read from a local path.
    pub name: Option<String>,
    /// A configuration of the repository; `None` where it has one only.
    pub subset: Option<String>,
    /// `None` is `train`.
    pub split: Option<String>,
    /// The column whose texts are asked; `None` looks for one.
    pub text_column: Option<String>,
    /// The column whose chats are asked; `None` looks for one.
    pub messages_column: Option<String>,
}
