//! Flags of `sobench preflight`.

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::commands::flags::paths::InputPath;
use crate::commands::flags::rendering::SaveArgs;
use crate::commands::flags::values::{formats, named};
use sobench_backend::{ConstraintDialect, ServerKind};
use sobench_core::constraint::ConstraintKind;
use sobench_core::output_format::OutputFormat;
use sobench_engine::{EngineName, SERVER_ONLY_ENGINES};
use sobench_report::text::Detail;

/// Flags of the servers to test.
#[derive(Args, Clone, Debug)]
pub struct TargetArgs {
    /// Base URL of the server, e.g. http://127.0.0.1:8000 [default: the embedded server]
    #[arg(long, value_name = "URL")]
    pub base_url: Vec<String>,
    /// Kind of server, which determines the default endpoint [default: vllm]
    #[arg(long, value_name = "KIND",
          value_parser = named(&ServerKind::ALL, ServerKind::name))]
    pub backend: Option<ServerKind>,
    /// Path to post to [default: by backend, e.g. /v1/completions]
    #[arg(long, value_name = "PATH", requires = "base_url")]
    pub endpoint: Option<String>,
    /// Model name on the server [default: the first one in /v1/models]
    #[arg(
        long,
        visible_alias = "served-model-name",
        value_name = "NAME",
        requires = "base_url"
    )]
    pub model: Option<String>,
    /// Extra request headers (OPENAI_API_KEY, or ANTHROPIC_API_KEY with --backend anthropic, in the environment is the key)
    #[arg(long, value_name = "KEY=VALUE", num_args = 1.., requires = "base_url")]
    pub header: Vec<String>,
    /// Do not verify the server's TLS certificate
    #[arg(long, requires = "base_url")]
    pub insecure: bool,
    /// Maximum time to wait for the server to be ready, in seconds; 0 does not wait
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 0,
        requires = "base_url"
    )]
    pub ready_check_timeout_sec: u64,
    /// Decoding engine of the embedded server [default: guidance]
    #[arg(long, visible_alias = "structured-output-backend", value_name = "ENGINE", conflicts_with = "base_url", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(EngineName::ALL.map(EngineName::name).into_iter().chain(SERVER_ONLY_ENGINES)))]
    pub guided_decoding_backend: Vec<String>,
    /// Request fields that carry the constraint; all tests every dialect
    #[arg(long, value_name = "DIALECT", default_value = "all",
          value_parser = PossibleValuesParser::new(["all", "auto"].into_iter().chain(ConstraintDialect::ALL.map(ConstraintDialect::name))))]
    pub constraint_dialect: String,
    /// First notation of grammars; the other one is tested if the server refuses it
    #[arg(long, value_name = "DIALECT", default_value = "auto", value_parser = ["auto", "lark", "ebnf"])]
    pub grammar_dialect: String,
    /// Seed of the random words, and of the first sample
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// JSON object merged into every request body
    #[arg(long, value_name = "JSON")]
    pub extra_body: Option<String>,
    /// Request whole responses instead of streams
    #[arg(long)]
    pub disable_stream: bool,
    /// Do not show progress on stderr
    #[arg(long)]
    pub disable_tqdm: bool,
}

/// Flags of `sobench preflight`.
#[derive(Args, Clone, Debug)]
pub struct PreflightArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// Test a constraint of your own: a JSON Schema, tools, a grammar or a regular expression, as
    /// `sobench explain` does
    #[arg(long, value_name = "PATH", conflicts_with_all = ["features", "kind"])]
    pub json_schema_path: Option<InputPath>,
    /// What to test
    #[arg(
        long,
        help = kinds_help(),
        value_name = "A,B",
        value_delimiter = ',',
        default_value = "json,json_object,regex,choice,grammar"
    )]
    pub kind: Vec<String>,
    /// Test which JSON Schema keywords are enforced: one small schema per keyword, with prompts
    /// that request invalid answers
    #[arg(long, conflicts_with_all = ["kind", "grammar_dialect"])]
    pub features: bool,
    /// Test only these JSON Schema keywords, or features whose name starts with one of these
    #[arg(long, value_name = "A,B", value_delimiter = ',', requires = "features")]
    pub keyword: Vec<String>,
    /// Answers per feature, sampled at temperature 1
    #[arg(long, value_name = "N", default_value_t = 16, requires = "features", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub samples: u16,
    /// Maximum concurrent requests of --features
    #[arg(long, value_name = "N", default_value_t = 8, requires = "features", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub max_concurrency: u16,
    /// Maximum output tokens [default: 64, or 192 with --features]; a request whose answer is
    /// truncated without a result is repeated with 16 times as many
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(16..=4096))]
    pub output_len: Option<u32>,
    /// Request timeout, in seconds
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 60.0,
        allow_negative_numbers = true
    )]
    pub request_timeout: f64,
    #[command(flatten)]
    pub save: SaveArgs,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = formats(&FORMATS[..2]))]
    pub format: OutputFormat,
    /// Test and show every dialect: also those that the identified server does not have, and those
    /// after one that enforces everything
    #[arg(long, conflicts_with = "features")]
    pub all_dialects: bool,
    /// Amount of detail in the text report: one screen, or every table
    #[arg(long, value_name = "DETAIL", default_value = Detail::Summary.name(),
          value_parser = named(&Detail::ALL, Detail::name), conflicts_with = "features")]
    pub detail: Detail,
}

/// Formats of the files of `--save`. The first two are those of stdout.
pub const FORMATS: [OutputFormat; 3] = [OutputFormat::Text, OutputFormat::Json, OutputFormat::Html];

fn kinds_help() -> String {
    let kinds: Vec<&str> = ConstraintKind::of_text()
        .map(ConstraintKind::name)
        .collect();
    format!(
        "What to test: {}; tool (tool calls); reasoning (the boundary between reasoning and the constrained answer); wire (requests that must fail, prompts that must count, second turns)",
        kinds.join(", ")
    )
}
