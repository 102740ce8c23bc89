//! Datasets: names, files and repositories to cases. A dataset is one file, its `mod` line, its
//! line in the list of [`datasets!`], and a line in [`DatasetArgs`] or [`RowFlags`] if it has flags
//! of its own.

mod audio;
mod bfcl;
mod burstgpt;
mod cases;
mod choice;
pub mod custom;
mod document;
mod exact;
pub mod file;
pub mod flags;
mod grammar;
mod hf;
mod json;
mod json_mode_eval;
mod jsonschemabench;
mod maskbench;
mod message;
mod mix;
mod name;
mod notation;
pub mod parquet;
mod plan;
mod prefix_repetition;
mod random;
mod regex;
mod registry;
mod rows;
mod sharegpt;
mod sonnet;
mod table;

pub use self::choice::ChoiceFlags;
pub use self::grammar::GrammarFlags;
pub use self::json::{JsonFlags, SHIPPED_SCHEMAS};
pub use self::regex::RegexFlags;
pub use audio::{AudioSource, MAX_AUDIO_SECONDS, MAX_CLIP_BYTES, MAX_CLIPS_BYTES};
pub use exact::{MAX_MADE_TOKENS, MAX_PROMPT_TOKENS};
pub use file::{MAX_DATASET_BYTES, MAX_ROWS};
pub use flags::stray;
pub use json::JsonSchemaSource;
pub use mix::{MixPart, MixPlan};
pub use plan::{Constraints, DatasetPlan, MAX_DOCUMENTS, MAX_PROMPTS, OutputLength, PromptForm};
pub use rows::{Order, Shortfall};

use clap::Args;
use clap::builder::PossibleValuesParser;

use self::registry::{Inputs, Kind, Spec, datasets};
use self::rows::{Row, Rows, RowsKind, SHIPPED};
use crate::arguments::paths::InputNames;
use crate::hub::HubSettings;
use crate::tokenizer::Tokenizer;
use sobench_core::case::Case;
use sobench_core::constraint::GrammarDialect;
use sobench_core::error::Result;
use sobench_notices::notice::Notice;

datasets! {
    /// One JSON Schema for all requests.
    Json(json::JsonPlan),
    /// A JSON Schema of its own for each request, which defeats caches of compiled grammars.
    JsonUnique(json::JsonUniquePlan),
    /// A small subset of SQL, as a context-free grammar.
    Grammar(grammar::GrammarPlan),
    /// An e-mail address, as a regular expression.
    Regex(regex::RegexPlan),
    /// One of two words.
    Choice(choice::ChoicePlan),
    /// `NousResearch/json-mode-eval`: chats, each with a schema and a reference answer.
    XgrammarBench(json_mode_eval::XgrammarBenchPlan),
    /// `epfl-dlab/JSONSchemaBench`: schemas from the field.
    Jsonschemabench(jsonschemabench::JsonschemabenchPlan),
    /// The schemas of MaskBench, from its test files.
    Maskbench(maskbench::MaskbenchPlan),
    /// The Berkeley Function-Calling Leaderboard: questions, functions, and the calls that answer
    /// them.
    Bfcl(bfcl::BfclPlan),
    /// The user's own rows.
    Custom(custom::CustomPlan),
    /// Tokens in a row from a random place of the vocabulary.
    Random(random::RandomPlan),
    /// The same behind a beginning that all prompts share.
    RandomPrefix(random::RandomPrefixPlan),
    /// Random tokens behind one of several beginnings.
    PrefixRepetition(prefix_repetition::PrefixRepetitionPlan),
    /// First turns of conversations, from a file in ShareGPT's layout.
    Sharegpt(sharegpt::SharegptPlan),
    /// Lengths of requests and answers from a file in BurstGPT's layout.
    Burstgpt(burstgpt::BurstgptPlan),
    /// Lines of a poem.
    Sonnet(sonnet::SonnetPlan),
    /// Texts or chats of a repository on the Hub, or of local files.
    Hf(hf::HfPlan),
    /// Sound, generated or the user's own.
    Audio(audio::AudioPlan),
}

/// The flags that say what is asked, in the order of `--help`, named as `vllm bench serve` and its
/// structured-output script name them.
#[derive(Args, Clone, Debug, Default)]
pub struct DatasetArgs {
    // Stays first: reading a flag takes it out of what was typed.
    #[command(flatten)]
    pub typed: flags::TypedFlags,
    /// Dataset [default: json; audio with --backend openai-audio]; several are run one after the
    /// other
    #[arg(long, visible_alias = "dataset-name", value_name = "NAME", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(DatasetName::ALL.map(DatasetName::name)))]
    pub dataset: Vec<String>,
    /// Several datasets in one run, their requests among each other, as NAME:SHARE or
    /// NAME=PATH:SHARE, e.g. 'sharegpt=chats.json:0.7,json:0.3'; each has its own figures in the
    /// result
    #[arg(long, value_name = "MIX", conflicts_with = "dataset")]
    pub mix: Option<InputNames>,
    #[command(flatten)]
    pub path: flags::PathFlags,
    #[command(flatten)]
    pub json: json::JsonFlags,
    #[command(flatten)]
    pub grammar: grammar::GrammarFlags,
    #[command(flatten)]
    pub regex: regex::RegexFlags,
    #[command(flatten)]
    pub choice: choice::ChoiceFlags,
    #[command(flatten)]
    pub audio: audio::AudioFlags,
    /// Documents of each request to rank them, for --backend vllm-rerank [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub rerank_documents: Option<usize>,
    #[command(
        flatten,
        next_help_heading = "Rows of the dataset: which, in which order, how long"
    )]
    pub rows: RowFlags,
}

/// The flags of rows: which are asked, and how long those are that are made.
#[derive(Args, Clone, Debug, Default)]
pub struct RowFlags {
    #[command(flatten)]
    pub order: flags::OrderFlags,
    #[command(flatten)]
    pub shortfall: flags::ShortfallFlags,
    #[command(flatten)]
    pub input_len: flags::InputLenFlags,
    #[command(flatten)]
    pub random: random::RandomFlags,
    #[command(flatten)]
    pub prefix_repetition: prefix_repetition::PrefixRepetitionFlags,
    #[command(flatten)]
    pub sharegpt: sharegpt::SharegptFlags,
    #[command(flatten)]
    pub sonnet: sonnet::SonnetFlags,
    #[command(flatten)]
    pub custom: custom::CustomFlags,
    #[command(flatten)]
    pub hf: hf::HfFlags,
    #[command(flatten)]
    pub bfcl: bfcl::BfclFlags,
}

/// What is going to be asked, and what is known of where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// As many as the plan says, in the order in which they are sent.
    pub cases: Vec<Case>,
    /// Distinct rows available; fewer than the cases where rows are asked again.
    pub rows: usize,
    /// SHA-256, in hex, over what is asked: prompts, constraints and output lengths, in order.
    /// Which of the cases have their constraint sent is not in it, so that a control run has the
    /// hash of the run it is held against.
    pub sha256: String,
    /// Where the rows are from: `shipped`, a path, or a repository with its commit.
    pub source: String,
    /// The notation that grammars were written in, where they are sent in the other one.
    pub converted_from: Option<GrammarDialect>,
    /// What the user should know.
    pub notices: Vec<Notice>,
}

/// Loads what the plan names.
///
/// # Errors
/// If the plan contradicts itself, a file or repository cannot be read, a row is wrong, or messages
/// have to be put into a template and the tokenizer has none.
pub fn load(plan: &DatasetPlan, tokenizer: &Tokenizer) -> Result<Dataset> {
    load_with(plan, tokenizer, &HubSettings::from_env())
}

/// [`load`], with the Hub's settings given instead of taken from the environment.
///
/// # Errors
/// As for [`load`].
pub fn load_with(plan: &DatasetPlan, tokenizer: &Tokenizer, hub: &HubSettings) -> Result<Dataset> {
    plan.check()?;
    if let Source::Mix(mix) = &plan.source {
        return mix::load(mix, plan, tokenizer, hub);
    }
    let rows = plan.source.rows(plan, &Inputs { tokenizer, hub })?;
    cases::deal(plan, rows, tokenizer)
}

#[cfg(test)]
mod golden;
#[cfg(test)]
mod tests;
