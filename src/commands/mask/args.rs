//! The flags of `sobench mask`. Clap types only.

use std::path::Path;
use std::sync::LazyLock;

use clap::Args;

use crate::commands::flags::engine::EngineArgs;
use crate::commands::flags::paths::{InputNames, InputPath, OutputPath};
use crate::commands::flags::values::{formats, named};
use sobench_core::output_format::OutputFormat;
use sobench_engine::EngineName;
use sobench_mask::row::Spelling;

/// The engines that are measured unless some are named, as they are typed.
static MEASURED: LazyLock<String> = LazyLock::new(|| {
    EngineName::measured()
        .map(EngineName::name)
        .collect::<Vec<_>>()
        .join(",")
});

/// In-process measurement of decoding engines over a corpus.
#[derive(Args, Clone, Debug)]
pub struct MaskArgs {
    /// Corpora: `shipped`, a folder of MaskBench files, JSONSchemaBench parquet, a folder of the
    /// JSON-Schema-Test-Suite, custom JSONL; a kind may be named, as in maskbench:PATH,
    /// jsonschemabench:PATH, jsts:PATH, custom:PATH
    #[arg(long, value_name = "[KIND:]PATH", num_args = 1.., default_value = "shipped")]
    pub corpus: Vec<InputNames>,
    /// Decoding engines, measured one after the other; lm-format-enforcer and llama.cpp are server
    /// only
    #[arg(long, value_name = "A,B", value_delimiter = ',', default_value = MEASURED.as_str())]
    pub engine: Vec<String>,
    /// Vocabulary: cl100k_base, o200k_base, a tokenizer.json or its folder
    #[arg(long, value_name = "NAME|PATH", default_value = "cl100k_base")]
    pub tokenizer: InputNames,
    /// The token that ends an answer, where the tokenizer does not say
    #[arg(long, value_name = "TOKEN")]
    pub eos_token: Option<String>,
    /// How JSON instances are written; outcomes are headed by the first
    #[arg(long, value_name = "A,B", value_delimiter = ',', default_value = "maskbench,compact,pretty",
          value_parser = named(&Spelling::OF_JSON, Spelling::name))]
    pub spelling: Vec<Spelling>,
    /// Only so many entries, from the beginning
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub limit: Option<usize>,
    /// Only so many entries, drawn at random; they keep their order
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        conflicts_with = "limit"
    )]
    pub sample: Option<usize>,
    /// Seed of --sample, and of the walks of --prove
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub seed: u64,
    /// Only entries whose name or tag matches
    #[arg(long, value_name = "REGEX")]
    pub filter: Option<String>,
    /// Only part I of N of the entries that the flags above leave, I from 1: each N-th of them;
    /// `auto` reads I and N as a run does. sobench merge puts the files of --rows together
    #[arg(long, value_name = "I/N|auto")]
    pub shard: Option<String>,
    /// Child processes at work at the same time [default: one for every core but one]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub jobs: Option<u16>,
    /// Seconds that one entry may take under one engine [default: 60; with --prove 10]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub timeout: Option<f64>,
    /// Address space of one child process beyond the 512 MiB that each is granted for stacks and
    /// threads, in MiB; 0 sets no limit
    #[arg(
        long,
        value_name = "MIB",
        default_value_t = 4096,
        allow_negative_numbers = true
    )]
    pub memory_limit_mib: u64,
    /// Sequences masked at once, in the measurement of batches; 0 for none
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "1,8,32", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u16).range(0..=4096))]
    pub batch: Vec<u16>,
    /// Do not assert `format` when judging instances
    #[arg(long)]
    pub no_format_assertion: bool,
    /// Walk every instance once, as MaskBench's script does, and give no warm figures
    #[arg(long)]
    pub cold_only: bool,
    #[command(flatten, next_help_heading = "Proofs")]
    pub proof: ProofArgs,
    #[command(flatten, next_help_heading = "Decoding engines")]
    pub policy: EngineArgs,
    #[command(flatten, next_help_heading = "Output")]
    pub output: MaskOutputArgs,
}

/// Proving errors in masks instead of measuring.
#[derive(Args, Clone, Debug)]
pub struct ProofArgs {
    /// Prove where the engines' masks are too strict or too loose, instead of measuring
    #[arg(long)]
    pub prove: bool,
    /// Masks that proving one entry under one engine may take
    #[arg(long, value_name = "MASKS", default_value_t = 1000, requires = "prove", value_parser = clap::value_parser!(u64).range(20..=100_000_000))]
    pub budget: u64,
    /// Also write a witness for every kind of error found (JSONL), which --replay checks again
    #[arg(long, value_name = "PATH", requires = "prove")]
    pub witnesses: Option<OutputPath>,
    /// Also write an issue text for every kind of error found, a file each
    #[arg(long, value_name = "FOLDER", requires = "prove")]
    pub issues: Option<OutputPath>,
    /// Check the witnesses of a file again, with this program's engines
    #[arg(long, value_name = "PATH", conflicts_with_all = ["prove", "witnesses", "issues", "rows", "csv", "csv_tags", "html", "explain"])]
    pub replay: Option<InputPath>,
}

/// What is printed and kept.
#[derive(Args, Clone, Debug)]
pub struct MaskOutputArgs {
    /// What stdout gets
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = formats(&FORMATS))]
    pub format: OutputFormat,
    /// Also write the report as JSON
    #[arg(long, value_name = "PATH")]
    pub json: Option<OutputPath>,
    /// Also write a line for every entry and engine
    #[arg(long, value_name = "PATH")]
    pub csv: Option<OutputPath>,
    /// Also write a line for every keyword tag and engine
    #[arg(long, value_name = "PATH")]
    pub csv_tags: Option<OutputPath>,
    /// Also write a page with the distributions
    #[arg(long, value_name = "PATH")]
    pub html: Option<OutputPath>,
    /// Keep every row in this file (JSONL) as it ends
    #[arg(long, value_name = "PATH")]
    pub rows: Option<OutputPath>,
    /// Go on where the file of --rows ends
    #[arg(long, requires = "rows")]
    pub resume: bool,
    /// Say for every entry which engine auto sends it to, and why
    #[arg(long)]
    pub explain: bool,
    /// No progress on stderr
    #[arg(long)]
    pub disable_tqdm: bool,
}

/// The formats of the report.
pub(crate) const FORMATS: [OutputFormat; 4] = [
    OutputFormat::Text,
    OutputFormat::Json,
    OutputFormat::Csv,
    OutputFormat::Html,
];

impl MaskOutputArgs {
    /// The files that reports are written to.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        [&self.json, &self.csv, &self.csv_tags, &self.html]
            .into_iter()
            .filter_map(|path| path.as_deref())
    }
}
