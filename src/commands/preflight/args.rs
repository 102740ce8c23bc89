//! The flags of `sobench preflight`. Clap types only.

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::commands::flags::paths::OutputPath;
use crate::commands::flags::values::{formats, named};
use sobench_backend::{ConstraintDialect, ServerKind};
use sobench_core::output_format::OutputFormat;
use sobench_engine::{EngineName, SERVER_ONLY};

/// Which constraints a server enforces, and in which dialect.
#[derive(Args, Clone, Debug)]
pub struct PreflightArgs {
    /// Where the server is, e.g. http://127.0.0.1:8000; without it the embedded engine is asked.
    /// Several with --features
    #[arg(long, value_name = "URL")]
    pub base_url: Vec<String>,
    /// Kind of server [default: vllm]; the endpoint's path follows it
    #[arg(long, value_name = "KIND",
          value_parser = named(&ServerKind::ALL, ServerKind::name))]
    pub backend: Option<ServerKind>,
    /// Path to post to [default: by backend, e.g. /v1/completions]
    #[arg(long, value_name = "PATH", requires = "base_url")]
    pub endpoint: Option<String>,
    /// Model to ask for, as the server knows it [default: the first that /v1/models lists]
    #[arg(
        long,
        visible_alias = "served-model-name",
        value_name = "NAME",
        requires = "base_url"
    )]
    pub model: Option<String>,
    /// Extra request headers (OPENAI_API_KEY in the environment becomes the bearer token)
    #[arg(long, value_name = "KEY=VALUE", num_args = 1.., requires = "base_url")]
    pub header: Vec<String>,
    /// Do not check the server's TLS certificate
    #[arg(long, requires = "base_url")]
    pub insecure: bool,
    /// Wait up to so many seconds for the server to be ready; 0 does not wait
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 0,
        requires = "base_url"
    )]
    pub ready_check_timeout_sec: u64,
    /// Decoding engine of the embedded engine [default: guidance]; several with --features
    #[arg(long, visible_alias = "structured-output-backend", value_name = "ENGINE", conflicts_with = "base_url", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(EngineName::ALL.map(EngineName::name).into_iter().chain(SERVER_ONLY)))]
    pub guided_decoding_backend: Vec<String>,
    /// How constraints are put into requests; all tries each
    #[arg(long, value_name = "DIALECT", default_value = "all",
          value_parser = PossibleValuesParser::new(["all", "auto"].into_iter().chain(ConstraintDialect::ALL.map(ConstraintDialect::name))))]
    pub constraint_dialect: String,
    /// Notation in which grammars are asked first; the other one is tried where the server refuses
    /// it
    #[arg(long, value_name = "DIALECT", default_value = "auto", value_parser = ["auto", "lark", "ebnf"])]
    pub grammar_dialect: String,
    /// Kinds of constraints to ask about: json, json_object, regex, choice, grammar, structural_tag
    #[arg(
        long,
        value_name = "A,B",
        value_delimiter = ',',
        default_value = "json,json_object,regex,choice,grammar"
    )]
    pub kind: Vec<String>,
    /// Ask how much of JSON Schema is enforced: one small schema a keyword, answers sampled against
    /// prompts that ask for violations
    #[arg(long, conflicts_with_all = ["kind", "grammar_dialect"])]
    pub features: bool,
    /// Only these keywords of JSON Schema, or features whose name begins so
    #[arg(long, value_name = "A,B", value_delimiter = ',', requires = "features")]
    pub keyword: Vec<String>,
    /// Answers sampled for each feature, at temperature 1
    #[arg(long, value_name = "N", default_value_t = 16, requires = "features", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub samples: u16,
    /// Requests under way at a time, of the feature probe
    #[arg(long, value_name = "N", default_value_t = 8, requires = "features", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub max_concurrency: u16,
    /// Seed of the random words, and of the first sample
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Most tokens of an answer [default: 64, or 192 with --features]; a question whose answer is
    /// cut before it proves anything is asked again with 16 times as many
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(16..=4096))]
    pub output_len: Option<u32>,
    /// End a question that takes longer than so many seconds
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 60.0,
        allow_negative_numbers = true
    )]
    pub request_timeout: f64,
    /// JSON object merged into every request body
    #[arg(long, value_name = "JSON")]
    pub extra_body: Option<String>,
    /// Ask for whole answers instead of streams
    #[arg(long)]
    pub disable_stream: bool,
    /// Also write the result as JSON
    #[arg(long, value_name = "PATH")]
    pub json: Option<OutputPath>,
    /// What stdout gets
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = formats(&[OutputFormat::Text, OutputFormat::Json]))]
    pub format: OutputFormat,
    /// No progress on stderr
    #[arg(long)]
    pub disable_tqdm: bool,
}
