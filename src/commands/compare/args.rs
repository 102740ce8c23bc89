//! The flags of `sobench compare`. Clap types only.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::commands::flags::gate::UNDECIDED;
use crate::commands::flags::values::described;
use crate::compare::gate::Undecided;

/// Which runs are held against each other, and what must not have changed.
#[derive(Args, Clone, Debug)]
pub struct CompareArgs {
    /// Runs to compare, the baseline first. Each is a file (a run log, a result or a baseline of sobench, or a result of vllm bench serve or of
    /// vLLM's structured-output script), or several runs of the same thing: a folder, or files with commas between them
    #[arg(value_name = "A B", required = true, num_args = 1..)]
    pub sides: Vec<String>,
    /// Exit with 1 where a figure changed for the worse by more than this and by more than chance: 'correct_rate<-0.5pp',
    /// 'p99_ttft_ms>+10%'
    #[arg(long, value_name = "RULE", help_heading = "Gate")]
    pub fail_on: Vec<String>,
    /// Exit with 1 where a figure of a later side is out of bounds: 'correct_rate>=99.5', 'p99_ttft_ms<=200'
    #[arg(long, value_name = "RULE", help_heading = "Gate")]
    pub require: Vec<String>,
    /// Gate with the default rules where no --fail-on is given
    #[arg(long, help_heading = "Gate")]
    pub gate: bool,
    /// What a rule counts as that the samples are too few to tell of
    #[arg(long, value_name = "WHAT", default_value = "pass", value_parser = described(&UNDECIDED), help_heading = "Gate")]
    pub undecided: Undecided,
    /// Compare although this differs: model, dataset, ratio, output_len, request_rate, ...
    #[arg(long, value_name = "FIELD")]
    pub allow_different: Vec<String>,
    /// Level of the intervals, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 99.0, allow_negative_numbers = true)]
    pub confidence: f64,
    /// How often the requests are drawn again; by default as often as the intervals take
    #[arg(long, value_name = "N")]
    pub resamples: Option<usize>,
    /// Seed of the draws
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// How far, in percent, times and throughput of two runs of the same server may be apart; counts where a side has only one run
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, allow_negative_numbers = true)]
    pub run_spread: f64,
    /// Most cases that are shown of those that changed their verdict
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub changed: usize,
    /// Format of the result
    #[arg(long, value_enum, default_value_t = CompareFormat::Text)]
    pub format: CompareFormat,
    /// Write the first side to this file as a baseline: small, without texts, fit for a repository; it can be compared with later
    #[arg(long, value_name = "FILE")]
    pub write_baseline: Option<PathBuf>,
}

/// How the comparison is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompareFormat {
    Text,
    Json,
    Markdown,
}
