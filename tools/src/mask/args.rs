//! The flags of `sobench-tools mask`.

use std::sync::LazyLock;

use clap::Args;

use crate::mask::row::Spelling;
use sobench::commands::flags::engine::EngineArgs;
use sobench::commands::flags::paths::{InputNames, InputPath, OutputPath};
use sobench::commands::flags::rendering::SaveArgs;
use sobench::commands::flags::values::{formats, named};
use sobench_core::output_format::OutputFormat;
use sobench_engine::EngineName;

/// Default of `--engine`.
static MEASURED: LazyLock<String> = LazyLock::new(|| {
    EngineName::measured_by_default()
        .map(EngineName::name)
        .collect::<Vec<_>>()
        .join(",")
});

/// In-process measurement of decoding engines over a corpus.
#[derive(Args, Clone, Debug)]
pub struct MaskArgs {
    /// Corpora: `shipped`, `tags` (structural tags of 10, 100 and 500 tools) or `tags:N` (of N
    /// tools), a folder of MaskBench files, JSONSchemaBench Parquet files, a folder of the
    /// JSON-Schema-Test-Suite, or custom JSONL; force a layout with maskbench:PATH,
    /// jsonschemabench:PATH, jsts:PATH or custom:PATH
    #[arg(long, value_name = "[KIND:]PATH", num_args = 1.., default_value = "shipped")]
    pub corpus: Vec<InputNames>,
    /// Constrained-decoding engines, measured one after another; lm-format-enforcer and llama.cpp
    /// are server only
    #[arg(long, value_name = "A,B", value_delimiter = ',', default_value = MEASURED.as_str())]
    pub engine: Vec<String>,
    /// Vocabulary: cl100k_base, or the path of a tokenizer.json or its folder
    #[arg(long, value_name = "NAME|PATH", default_value = "cl100k_base")]
    pub tokenizer: InputNames,
    /// End-of-sequence token, if the tokenizer does not define one
    #[arg(long, value_name = "TOKEN")]
    pub eos_token: Option<String>,
    /// Spellings of JSON instances; the first is the headline spelling of the report
    #[arg(long, value_name = "A,B", value_delimiter = ',', default_value = "maskbench,compact,pretty",
          value_parser = named(&Spelling::JSON, Spelling::name))]
    pub spelling: Vec<Spelling>,
    /// Measure only the first N entries
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub limit: Option<usize>,
    /// Measure a random sample of N entries, in corpus order
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        conflicts_with = "limit"
    )]
    pub sample: Option<usize>,
    /// Seed of --sample, of the corpus tags and of the walks of --prove
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub seed: u64,
    /// Measure only entries whose name or a tag matches
    #[arg(long, value_name = "REGEX")]
    pub filter: Option<String>,
    /// Measure only shard I of N of the selected entries, I from 1: each N-th entry; `auto` reads I
    /// and N as a run does. Merge the --rows files with sobench-tools merge
    #[arg(long, value_name = "I/N|auto")]
    pub shard: Option<String>,
    /// Number of concurrent child processes [default: number of cores minus one]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: Option<u16>,
    /// Time limit of one entry under one engine, in seconds [default: 60; with --prove 10]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub timeout: Option<f64>,
    /// Address-space limit of one child process in MiB, in addition to the 512 MiB that each gets
    /// for stacks and threads; 0 for no limit
    #[arg(
        long,
        value_name = "MIB",
        default_value_t = 4096,
        allow_negative_numbers = true
    )]
    pub memory_limit_mib: u64,
    /// Batch sizes to measure: sequences masked per step; 0 for none
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "1,8,32", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u16).range(0..=4096))]
    pub batch: Vec<u16>,
    /// Mask drafts of K tokens along every instance, roll them back, and compare with a matcher that
    /// never drafted; also draft trees and forced tokens. With --prove: longest rollback of P8
    /// [default: 8]
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    pub drafts: Option<usize>,
    /// Treat `format` as an annotation when judging instances
    #[arg(long)]
    pub no_format_assertion: bool,
    /// Walk every instance once, as MaskBench's script does; no warm figures
    #[arg(long)]
    pub cold_only: bool,
    #[command(flatten, next_help_heading = "Proofs")]
    pub proof: ProofArgs,
    #[command(flatten, next_help_heading = "Decoding engines")]
    pub policy: EngineArgs,
    #[command(flatten, next_help_heading = "Output")]
    pub output: MaskOutputArgs,
}

/// Flags of the proof search.
#[derive(Args, Clone, Debug)]
pub struct ProofArgs {
    /// Search for masks that are provably too strict or too loose, instead of measuring
    #[arg(long)]
    pub prove: bool,
    /// Maximum masks of the proof search per entry and engine
    #[arg(long, value_name = "MASKS", default_value_t = 1000, requires = "prove", value_parser = clap::value_parser!(u64).range(20..=100_000_000))]
    pub budget: u64,
    /// Write a witness of every kind of error to this file (JSONL), for --replay
    #[arg(long, value_name = "PATH", requires = "prove")]
    pub witnesses: Option<OutputPath>,
    /// Write an issue text for every kind of error to this folder
    #[arg(long, value_name = "FOLDER", requires = "prove")]
    pub issues: Option<OutputPath>,
    /// Recheck the witnesses of a file with the engines of this executable
    #[arg(long, value_name = "PATH", conflicts_with_all = ["prove", "witnesses", "issues", "rows", "csv_tags", "explain", "drafts"])]
    pub replay: Option<InputPath>,
}

/// Flags of the output.
#[derive(Args, Clone, Debug)]
pub struct MaskOutputArgs {
    /// Format of the report on stdout
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = formats(&FORMATS))]
    pub format: OutputFormat,
    #[command(flatten)]
    pub save: SaveArgs,
    /// Write a CSV file with one line per keyword tag and engine
    #[arg(long, value_name = "PATH")]
    pub csv_tags: Option<OutputPath>,
    /// Write every row to this file (JSONL) as soon as it is complete
    #[arg(long, value_name = "PATH")]
    pub rows: Option<OutputPath>,
    /// Continue the interrupted run of --rows
    #[arg(long, requires = "rows")]
    pub resume: bool,
    /// List the engine that auto chooses for each entry, with the reason
    #[arg(long)]
    pub explain: bool,
    /// Disable progress on stderr
    #[arg(long)]
    pub disable_tqdm: bool,
}

/// Formats of the report.
pub(crate) const FORMATS: [OutputFormat; 4] = [
    OutputFormat::Text,
    OutputFormat::Json,
    OutputFormat::Csv,
    OutputFormat::Html,
];
