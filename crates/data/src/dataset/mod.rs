//! Datasets: loads cases from names, files and repositories. A dataset is one file, its `mod` line,
//! its line in the list of `datasets!`, and, if it has its own flags, a line in [`DatasetArgs`]
//! or [`RowFlags`].

mod answer_format;
mod audio;
mod bfcl;
mod burstgpt;
mod canary;
mod cases;
mod cells;
mod choice;
pub mod custom;
pub(crate) mod exact_length;
mod extract;
pub mod file;
pub mod flags;
mod grammar;
mod gsm8k;
mod hf;
mod json;
mod json_mode_eval;
mod jsonschemabench;
mod last_letters;
mod maskbench;
mod message;
mod mix;
mod mmlu;
mod name;
mod notation;
pub mod parquet;
mod plan;
mod prefix_repetition;
mod prompt_variants;
mod random;
mod references;
mod regex;
mod registry;
mod repository;
mod requests;
mod rows;
mod schema_prompt;
mod sessions;
mod sharegpt;
mod shipped;
mod shuffled_objects;
mod sob;
mod sonnet;
mod suite;
mod table;
mod tools;
mod trace_prompts;

pub use self::choice::ChoiceFlags;
pub use self::grammar::GrammarFlags;
pub use self::json::{JsonFlags, JsonSchemaPathFlags, SHIPPED_SCHEMAS, check_schema};
pub use self::regex::RegexFlags;
pub use audio::{AudioSource, MAX_AUDIO_SECONDS, MAX_CLIP_BYTES, MAX_CLIPS_BYTES};
pub use canary::{CanaryFlags, CanaryKind};
pub use cells::{ContextFlags, cells};
pub use exact_length::{MAX_GENERATED_TOKENS, MAX_PROMPT_TOKENS};
pub use extract::{Difficulty, ExtractFlags};
pub use file::{MAX_DATASET_BYTES, MAX_ROWS};
pub use flags::unused_flag_error;
pub use json::JsonSchemaSource;
pub use mix::{MixPart, MixPlan};
pub use plan::DatasetPlan;
pub use prompt_variants::{MAX_PROMPT_VARIANTS, PromptVariants};
pub use requests::{Names, body, unjudged};
pub use rows::{Order, Shortfall};
pub use sessions::{MAX_TURNS, SessionMode, SessionsFlags};
pub use shipped::shipped_rows;
pub use suite::{SUITE_NAME, SuiteFlags};
pub use tools::{TOOLS_NAME, ToolsFlags, draw_tools};
pub use trace_prompts::TracePrompts;

use clap::Args;
use clap::builder::PossibleValuesParser;

pub use self::registry::Inputs;
use self::registry::{DatasetKind, Spec, datasets};
use self::rows::{Row, Rows, RowsKind, SHIPPED};
use crate::arguments::paths::InputNames;
use crate::hub::HubSettings;
use crate::tokenizer::Tokenizer;
use sobench_core::case::Case;
use sobench_core::constraint::GrammarDialect;
use sobench_core::error::Result;
use sobench_core::shard::Shard;
use sobench_notices::notice::Notice;

datasets! {
    /// One JSON Schema for all requests.
    Json(json::JsonPlan),
    /// A different JSON Schema for each request, which defeats caches of compiled grammars.
    JsonUnique(json::JsonUniquePlan),
    /// A small subset of SQL, as a context-free grammar.
    Grammar(grammar::GrammarPlan),
    /// An e-mail address, as a regular expression.
    Regex(regex::RegexPlan),
    /// One of two words.
    Choice(choice::ChoicePlan),
    /// 60 constraints of practical domains and of every kind, each with a prompt and examples.
    Suite(suite::SuitePlan),
    /// 120 requests with 40 tools: one call, several, none, or a tool that is not offered.
    Tools(tools::ToolsPlan),
    /// Conversations of several turns with tool calls, generated or from a file.
    Sessions(sessions::SessionsPlan),
    /// A constraint with a nonce for each request, which shows masks that fail under load.
    Canary(canary::CanaryPlan),
    /// Documents made from the seed, whose facts are the right answer.
    Extract(extract::ExtractPlan),
    /// The last letters of four names, concatenated; drawn from the seed.
    LastLetters(last_letters::LastLettersPlan),
    /// Who has which object after some swaps; drawn from the seed.
    ShuffledObjects(shuffled_objects::ShuffledObjectsPlan),
    /// `openai/gsm8k`: word problems of arithmetic, with the right number.
    Gsm8k(gsm8k::Gsm8kPlan),
    /// `cais/mmlu`: questions of many subjects with four choices.
    Mmlu(mmlu::MmluPlan),
    /// `interfaze-ai/sob`: texts with a question, a schema, and the right answer.
    Sob(sob::SobPlan),
    /// `NousResearch/json-mode-eval`: chats, each with a schema and a reference answer.
    XgrammarBench(json_mode_eval::XgrammarBenchPlan),
    /// `epfl-dlab/JSONSchemaBench`: schemas collected from real projects.
    Jsonschemabench(jsonschemabench::JsonschemabenchPlan),
    /// The schemas of MaskBench, from its test files.
    Maskbench(maskbench::MaskbenchPlan),
    /// The Berkeley Function-Calling Leaderboard: prompts, functions, and the expected calls.
    Bfcl(bfcl::BfclPlan),
    /// The user's own rows.
    Custom(custom::CustomPlan),
    /// Recorded request bodies, sent as they are.
    Requests(requests::RequestsPlan),
    /// Consecutive tokens from a random position of the vocabulary.
    Random(random::RandomPlan),
    /// `random` with a prefix that all prompts share.
    RandomPrefix(random::RandomPrefixPlan),
    /// Random tokens after one of several prefixes.
    PrefixRepetition(prefix_repetition::PrefixRepetitionPlan),
    /// First turns of conversations, from a file in ShareGPT's layout.
    Sharegpt(sharegpt::SharegptPlan),
    /// Request and response lengths from a file in BurstGPT's layout.
    Burstgpt(burstgpt::BurstgptPlan),
    /// Lines of a poem.
    Sonnet(sonnet::SonnetPlan),
    /// Texts or chats of a repository on the Hub, or of local files.
    Hf(hf::HfPlan),
    /// Generated or user-supplied audio.
    Audio(audio::AudioPlan),
}

/// Heading of the flags that `--dataset-options` stands for.
pub const OPTIONS_HEADING: &str = "Options of --dataset-options";

/// Dataset flags, in the order of `--help`, with the names of `vllm bench serve` and its
/// structured-output script.
#[derive(Args, Clone, Debug, Default)]
pub struct DatasetArgs {
    // Must stay first: reading a flag removes it from the matches.
    #[command(flatten)]
    pub typed: flags::TypedFlags,
    /// Dataset [default: json; audio with --backend openai-audio]; several datasets run one after
    /// the other
    #[arg(long, visible_alias = "dataset-name", value_name = "NAME", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(DatasetName::ALL.map(DatasetName::name)))]
    pub dataset: Vec<String>,
    /// Mix several datasets in one run, as NAME:SHARE or NAME=PATH:SHARE, e.g.
    /// 'sharegpt=chats.json:0.7,json:0.3'; the result reports each dataset separately
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
    #[command(flatten, next_help_heading = OPTIONS_HEADING)]
    pub suite: suite::SuiteFlags,
    #[command(flatten, next_help_heading = OPTIONS_HEADING)]
    pub tools: tools::ToolsFlags,
    #[command(flatten, next_help_heading = OPTIONS_HEADING)]
    pub context: cells::ContextFlags,
    #[command(flatten, next_help_heading = OPTIONS_HEADING)]
    pub sessions: sessions::SessionsFlags,
    #[command(flatten, next_help_heading = OPTIONS_HEADING)]
    pub canary: canary::CanaryFlags,
    #[command(flatten, next_help_heading = OPTIONS_HEADING)]
    pub extract: extract::ExtractFlags,
    #[command(flatten, next_help_heading = OPTIONS_HEADING)]
    pub prompt_variants: prompt_variants::PromptVariantFlags,
    #[command(flatten, next_help_heading = OPTIONS_HEADING)]
    pub audio: audio::AudioFlags,
    /// Documents per rerank request, for --backend vllm-rerank [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true, help_heading = OPTIONS_HEADING)]
    pub rerank_documents: Option<usize>,
    #[command(flatten, next_help_heading = OPTIONS_HEADING)]
    pub rows: RowFlags,
}

/// Flags for the selection, order and length of rows.
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
    pub requests: requests::RequestsFlags,
    #[command(flatten)]
    pub hf: hf::HfFlags,
    #[command(flatten)]
    pub bfcl: bfcl::BfclFlags,
}

/// A loaded dataset and its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// The requests, in the order in which they are sent.
    pub cases: Vec<Case>,
    /// Distinct rows available. Fewer than the cases if rows are repeated.
    pub rows: usize,
    /// SHA-256, in hex, over prompts, constraints and output lengths, in order. The arms are not
    /// hashed, so that a control run has the same hash as the run it is compared with.
    pub sha256: String,
    /// When each request was recorded, in seconds. Empty if that is unknown of a request.
    pub recorded_s: Vec<f64>,
    /// Origin of the rows: `shipped`, a path, or a repository with its commit.
    pub source: String,
    /// The original notation of grammars, if they are sent in another one.
    pub converted_from: Option<GrammarDialect>,
    /// Notices for the user.
    pub notices: Vec<Notice>,
}

impl Dataset {
    /// Keeps one of several parts of the requests, in order.
    pub fn keep_part(&mut self, part: Shard) {
        let all = self.cases.len();
        let range = all * (part.number - 1) / part.of..all * part.number / part.of;
        self.cases = self.cases.drain(range.clone()).collect();
        if !self.recorded_s.is_empty() {
            self.recorded_s = self.recorded_s.drain(range).collect();
        }
    }

    /// The number of turns of each session; empty without sessions.
    pub fn session_turns(&self) -> Vec<u32> {
        let session = |case: &Case| case.turn.as_ref().map(|turn| turn.session);
        let sessions = self.cases.chunk_by(|one, two| session(one) == session(two));
        let with_turns = sessions.filter(|cases| session(&cases[0]).is_some());
        with_turns.map(|cases| cases.len() as u32).collect()
    }
}

/// Loads the cases of a plan.
///
/// # Errors
/// The plan contradicts itself, a file or repository cannot be read, a row is invalid, or messages
/// need a chat template and the tokenizer has none.
pub fn load(plan: &DatasetPlan, tokenizer: &Tokenizer) -> Result<Dataset> {
    let inputs = Inputs {
        tokenizer,
        hub: &HubSettings::from_env(),
        progress: &(),
    };
    load_with(plan, &inputs)
}

/// [`load`] with explicit Hub settings and progress.
///
/// # Errors
/// As for [`load`].
pub fn load_with(plan: &DatasetPlan, inputs: &Inputs<'_>) -> Result<Dataset> {
    plan::check(plan)?;
    if !plan.cells.is_empty() {
        return cells::load(plan, inputs);
    }
    if let Source::Mix(mix) = &plan.source {
        return mix::load(mix, plan, inputs);
    }
    let rows = plan.source.rows(plan, inputs)?;
    cases::build(plan, rows, inputs.tokenizer)
}

#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod tests;
