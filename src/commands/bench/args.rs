//! The flags of a benchmark run, named as `vllm bench serve` and its structured-output script name them. Clap types only.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

use crate::backend::{ConstraintDialect, ServerKind};
use crate::constraint::GrammarDialect;
use crate::engine::{EngineName, SERVER_ONLY};
use crate::metrics::{LatencyMetric, QueueMetric};
use crate::report::junit::JunitPer;
use crate::report::saved::ResultFormat;

use crate::commands::bench::compat_flags::ForeignArgs;
use crate::commands::bench::matrix_args::ArmsArgs;
use crate::commands::bench::shard_args::ShardArgs;
use crate::commands::flags::dataset::DatasetArgs;
use crate::commands::flags::engine::{EmbeddedArgs, EngineArgs};

/// Everything that a benchmark run can be told.
#[derive(Args, Clone, Debug)]
pub struct BenchArgs {
    #[command(flatten, next_help_heading = "Server")]
    pub server: ServerArgs,
    #[command(flatten, next_help_heading = "Dataset")]
    pub dataset: DatasetArgs,
    #[command(flatten, next_help_heading = "Constraint")]
    pub constraint: ConstraintArgs,
    #[command(flatten, next_help_heading = "Traffic")]
    pub traffic: TrafficArgs,
    #[command(
        flatten,
        next_help_heading = "Sampling (sent only when given, but for the repetition penalty of 1 that backend vllm always sends)"
    )]
    pub sampling: SamplingArgs,
    #[command(flatten, next_help_heading = "Output")]
    pub output: OutputArgs,
    #[command(flatten, next_help_heading = "Comparison")]
    pub arms: ArmsArgs,
    #[command(flatten, next_help_heading = "One load from several clients")]
    pub shards: ShardArgs,
    #[command(flatten, next_help_heading = "Embedded engine (used when no server is named)")]
    pub embedded: EmbeddedArgs,
    #[command(flatten, next_help_heading = "Decoding engines of the embedded engine")]
    pub engine: EngineArgs,
    #[command(flatten, next_help_heading = "Flags of other benchmarks")]
    pub foreign: ForeignArgs,
}

/// Which server, and how it is spoken to.
#[derive(Args, Clone, Debug)]
pub struct ServerArgs {
    /// Kind of server [default: vllm]; the endpoint's path follows it
    #[arg(long, visible_alias = "endpoint-type", value_name = "KIND",
          value_parser = PossibleValuesParser::new(ServerKind::ALL.map(ServerKind::name))
              .map(|name| name.parse::<ServerKind>().expect("the parser let only listed names through")))]
    pub backend: Option<ServerKind>,
    /// Where the server is, e.g. http://127.0.0.1:8000; replaces --host and --port
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// Host of the server [default: 127.0.0.1]
    #[arg(long)]
    pub host: Option<String>,
    /// Port of the server [default: 8000]
    #[arg(long)]
    pub port: Option<u16>,
    /// Path to post to [default: by backend, e.g. /v1/completions]
    #[arg(long, value_name = "PATH")]
    pub endpoint: Option<String>,
    /// Model to ask for [default: the first that /v1/models lists]
    #[arg(long)]
    pub model: Option<String>,
    /// Name the server knows the model by, where it differs from --model
    #[arg(long, value_name = "NAME")]
    pub served_model_name: Option<String>,
    /// Models that requests ask for in place of --model, one each: LoRA modules of the server
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub lora_modules: Vec<String>,
    /// How they are dealt out
    #[arg(long, value_name = "HOW", value_enum, requires = "lora_modules", default_value_t = LoraAssignmentName::Random)]
    pub lora_assignment: LoraAssignmentName,
    /// Have the server profile the measured part: posts to /start_profile before it, to /stop_profile after it
    #[arg(long)]
    pub profile: bool,
    /// Tokenizer for prompt counts and chat templates: a folder, a tokenizer.json or a Hub id [default: embedded cl100k_base]
    #[arg(long, value_name = "PATH|ID")]
    pub tokenizer: Option<String>,
    /// Extra request headers (OPENAI_API_KEY in the environment becomes the bearer token)
    #[arg(long, value_name = "KEY=VALUE", num_args = 1..)]
    pub header: Vec<String>,
    /// Do not check the server's TLS certificate
    #[arg(long)]
    pub insecure: bool,
    /// Begin of each request's x-request-id; the request's number follows
    #[arg(long, value_name = "PREFIX")]
    pub request_id_prefix: Option<String>,
    /// Wait up to so many seconds for the server to be ready; 0 does not wait
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub ready_check_timeout_sec: u64,
}

/// How LoRA modules are dealt out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LoraAssignmentName {
    /// Drawn for each request, by --seed
    Random,
    /// In turn
    RoundRobin,
}

/// Which requests are constrained, and how the constraint travels.
#[derive(Args, Clone, Debug)]
pub struct ConstraintArgs {
    /// Share of the requests that carry their constraint [default: 1.0]; the rest are the control arm
    #[arg(long, visible_alias = "structured-output-ratio", value_name = "RATIO", allow_negative_numbers = true)]
    pub guided_decoding_ratio: Option<f64>,
    /// Send no constraint at all (ratio 0)
    #[arg(long, visible_alias = "no-structured-output", conflicts_with = "guided_decoding_ratio")]
    pub no_guided_decoding: bool,
    /// Decoding engine: chosen on the embedded engine (lm-format-enforcer and llama.cpp are server only), sent in the guided
    /// dialect, otherwise recorded as declared. Several are held side by side
    #[arg(long, visible_alias = "structured-output-backend", value_name = "ENGINE", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(EngineName::ALL.map(EngineName::name).into_iter().chain(SERVER_ONLY)))]
    pub guided_decoding_backend: Vec<String>,
    /// Say which engine auto sends each distinct constraint to, and why (embedded engine)
    #[arg(long)]
    pub explain: bool,
    /// How the constraint is put into the request
    #[arg(long, value_name = "DIALECT", default_value = "auto",
          value_parser = PossibleValuesParser::new(std::iter::once("auto").chain(ConstraintDialect::ALL.map(ConstraintDialect::name))))]
    pub constraint_dialect: String,
    /// Measure although the server drops the constraint, and say so in every output
    #[arg(long)]
    pub allow_unenforced: bool,
    /// Do not ask the server beforehand whether it applies constraints
    #[arg(long, conflicts_with = "allow_unenforced")]
    pub skip_preflight: bool,
    /// Notation that grammars are sent in; one of the other notation is converted
    #[arg(long, value_name = "DIALECT", default_value = "auto", value_parser = ["auto", "lark", "ebnf"])]
    pub grammar_dialect: String,
    /// Do not assert `format` when judging answers by a JSON Schema
    #[arg(long)]
    pub no_format_assertion: bool,
}

/// How much, how fast.
#[derive(Args, Clone, Debug)]
pub struct TrafficArgs {
    /// Number of requests [default: 1000; with --duration, as many as there is time for]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub num_prompts: Option<usize>,
    /// Stop sending after so many seconds; requests under way may end
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub duration: Option<f64>,
    /// Most tokens of an answer (max_tokens) [default: 128, or by dataset]
    #[arg(long, value_name = "OUTPUT_LEN", allow_negative_numbers = true)]
    pub output_len: Option<u32>,
    /// Requests per second; inf sends all at once
    #[arg(long, value_name = "RPS", default_value_t = f64::INFINITY, allow_negative_numbers = true)]
    pub request_rate: f64,
    /// How the rate rises from the first request to the last, in place of --request-rate
    #[arg(long, value_name = "HOW", value_enum, requires_all = ["ramp_up_start_rps", "ramp_up_end_rps"])]
    pub ramp_up_strategy: Option<RampUpName>,
    /// Requests per second at the first request
    #[arg(long, value_name = "RPS", requires = "ramp_up_strategy", allow_negative_numbers = true)]
    pub ramp_up_start_rps: Option<u32>,
    /// Requests per second at the last request
    #[arg(long, value_name = "RPS", requires = "ramp_up_strategy", allow_negative_numbers = true)]
    pub ramp_up_end_rps: Option<u32>,
    /// Shape of the gamma-distributed gaps: 1 is a Poisson process, lower is burstier, inf is even spacing
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    pub burstiness: f64,
    /// Most requests in flight at once
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub max_concurrency: Option<usize>,
    /// Share of --max-concurrency from which a run counts as steady; the steady part is reported beside the whole
    #[arg(long, value_name = "SHARE", default_value_t = 0.95, allow_negative_numbers = true)]
    pub steady_state_threshold: f64,
    /// Send a request for one token beside the run so many times a second, one at a time and outside the cap, and report its latency:
    /// what the run does to requests that have nothing to do with it
    #[arg(long, value_name = "RPS", default_value_t = 0.0, allow_negative_numbers = true)]
    pub probe_request_rate: f64,
    /// Seed of everything that is drawn: which requests are constrained, due times, unique members
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    pub seed: u64,
    /// Requests sent before the measured ones, under the same cap: unconstrained, with prompts of their own
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub num_warmups: usize,
    /// Give every so many-th constrained request a JSON Schema that no server has seen, and report what that does to the others
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    pub cold_schema_every: Option<usize>,
    /// Exit with 1 where the client itself stood in the way of the figures
    #[arg(long)]
    pub strict_client: bool,
    /// End a request that takes longer than so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 21600.0, allow_negative_numbers = true)]
    pub request_timeout: f64,
    /// End a request whose server sends no byte of the answer for so many seconds, before its head or between its pieces; comments
    /// that keep a stream alive are bytes [default: no such limit]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub idle_timeout: Option<f64>,
    /// Give up where more than this share of the requests that have ended are errors, once 20 have; what is under way may end, and all
    /// is reported
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    pub max_error_rate: Option<f64>,
    /// Give up where so many requests in a row end in an error: a refusal, a failure, a broken connection, a time limit
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub max_consecutive_errors: Option<usize>,
    /// After the first Ctrl-C, wait up to so many seconds for requests under way
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, allow_negative_numbers = true)]
    pub drain_timeout: f64,
    /// Ask for a count of tokens in every chunk, so that chunks of several tokens can be told (vLLM's continuous_usage_stats)
    #[arg(long, conflicts_with = "disable_stream")]
    pub continuous_usage: bool,
    /// Ask for whole answers instead of streams
    #[arg(long)]
    pub disable_stream: bool,
}

/// How a rate rises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RampUpName {
    /// By the same number of requests per second each time
    Linear,
    /// By the same factor each time
    Exponential,
}

/// Fields of the request that steer sampling.
#[derive(Args, Clone, Debug)]
pub struct SamplingArgs {
    /// Sampling temperature
    #[arg(long, allow_negative_numbers = true)]
    pub temperature: Option<f64>,
    /// Nucleus sampling
    #[arg(long)]
    pub top_p: Option<f64>,
    /// Sample from so many tokens
    #[arg(long, allow_negative_numbers = true)]
    pub top_k: Option<i64>,
    /// Least probability, relative to the likeliest token's
    #[arg(long)]
    pub min_p: Option<f64>,
    /// Penalty on tokens by how often they came
    #[arg(long, allow_negative_numbers = true)]
    pub frequency_penalty: Option<f64>,
    /// Penalty on tokens that came
    #[arg(long, allow_negative_numbers = true)]
    pub presence_penalty: Option<f64>,
    /// Factor on tokens that came
    #[arg(long)]
    pub repetition_penalty: Option<f64>,
    /// Ask the server to go on past the end of the answer; breaks constrained requests
    #[arg(long)]
    pub ignore_eos: bool,
    /// Ask for the log probabilities of so many of the likeliest tokens at each place, in the field that the backend has for it
    #[arg(long, value_name = "N")]
    pub logprobs: Option<u32>,
    /// Answers to choose the best one from; only 1 can be asked for
    #[arg(long, value_name = "N", hide = true)]
    pub best_of: Option<u32>,
    /// JSON object of variables for the chat template: the server's, or the tokenizer's where prompts are put into it here
    #[arg(long, value_name = "JSON")]
    pub chat_template_kwargs: Option<String>,
    /// JSON object merged into every request body
    #[arg(long, value_name = "JSON")]
    pub extra_body: Option<String>,
}

/// What is printed and kept.
#[derive(Args, Clone, Debug)]
pub struct OutputArgs {
    /// Write the result to a JSON file
    #[arg(long, visible_alias = "save-results")]
    pub save_result: bool,
    /// Also keep every request's times, text and verdict in the file
    #[arg(long)]
    pub save_detailed: bool,
    /// Layout of the result file: sobench's own, that of `vllm bench serve`, or that of vLLM's structured-output script; the
    /// default name follows it
    #[arg(long, value_name = "LAYOUT", default_value = ResultFormat::Sobench.name(),
          value_parser = PossibleValuesParser::new(ResultFormat::ALL.map(ResultFormat::name))
              .map(|name| ResultFormat::ALL.into_iter().find(|it| it.name() == name).expect("the parser let only listed names through")))]
    pub result_format: ResultFormat,
    /// Add the result to the file as one line, below those that it holds; implies --save-result
    #[arg(long)]
    pub append_result: bool,
    /// Write the failing cases, whole, to a file (JSONL) beside the result or in its folder
    #[arg(long)]
    pub save_failures: bool,
    /// Also write the report as a page
    #[arg(long, value_name = "PATH")]
    pub html: Option<PathBuf>,
    /// Also write the report as a comment for a pull request
    #[arg(long, value_name = "PATH")]
    pub markdown: Option<PathBuf>,
    /// Also write a line for every request
    #[arg(long, value_name = "PATH")]
    pub csv: Option<PathBuf>,
    /// Also write the requests as tests for CI
    #[arg(long, value_name = "PATH")]
    pub junit: Option<PathBuf>,
    /// What one test of --junit is
    #[arg(long, value_name = "WHAT", requires = "junit", default_value = JunitPer::Case.name(),
          value_parser = PossibleValuesParser::new(JunitPer::ALL.map(JunitPer::name))
              .map(|name| JunitPer::ALL.into_iter().find(|it| it.name() == name).expect("the parser let only listed names through")))]
    pub junit_per: JunitPer,
    /// Draw latencies and the run over its time below the report
    #[arg(long)]
    pub plot: bool,
    /// Write a page of what each request did when, beside the result or in its folder
    #[arg(long)]
    pub plot_timeline: bool,
    /// Where gaps between chunks change their colour on that page, in ms
    #[arg(
        long,
        value_name = "MS,MS",
        value_delimiter = ',',
        num_args = 1,
        default_value = "25,50",
        requires = "plot_timeline",
        allow_negative_numbers = true
    )]
    pub timeline_itl_thresholds: Vec<f64>,
    /// Write a page of the lengths of prompts and answers, beside the result or in its folder
    #[arg(long)]
    pub plot_dataset_stats: bool,
    /// Folder of the result file; made if missing [default: the current one]
    #[arg(long, value_name = "PATH")]
    pub result_dir: Option<PathBuf>,
    /// Name of the result file [default: made from ratio, backend, rate, model, dataset, number and length]
    #[arg(long, value_name = "NAME")]
    pub result_filename: Option<String>,
    /// File that every request is written to when it ends; `report`, `score` and `compare` read it [default: beside the saved
    /// result, else in the user's cache folder]
    #[arg(long, value_name = "PATH")]
    pub run_log: Option<PathBuf>,
    /// Write no run log
    #[arg(long, conflicts_with = "run_log")]
    pub no_run_log: bool,
    /// Bound that the run has to keep, for exit code 0: a metric of the saved result, >= or <=, and a number, such as
    /// 'correct_rate>=99.5' or 'p99_ttft_ms<=200'; may be given several times
    #[arg(long, value_name = "RULE")]
    pub require: Vec<String>,
    /// What a bound counts as that the samples are too few to tell of
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = crate::commands::compare::args::UndecidedName::Pass)]
    pub undecided: crate::commands::compare::args::UndecidedName,
    /// Facts to keep in the result
    #[arg(long, value_name = "KEY=VALUE", num_args = 1..)]
    pub metadata: Vec<String>,
    /// A name for the run, kept in the result
    #[arg(long)]
    pub label: Option<String>,
    /// Metrics to print in full [default: ttft,tpot,itl; e2el where nothing is generated]
    #[arg(long, value_name = "A,B", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(
              LatencyMetric::ALL.map(LatencyMetric::key).into_iter().chain(QueueMetric::ALL.map(QueueMetric::key))))]
    pub percentile_metrics: Vec<String>,
    /// Percentiles of those metrics
    #[arg(long, value_name = "P,P", value_delimiter = ',', default_value = "99")]
    pub metric_percentiles: Vec<f64>,
    /// Service-level objectives in ms that a good request meets: ttft, tpot, e2el; and `valid`, for a valid answer
    #[arg(long, value_name = "METRIC:MS", num_args = 1..)]
    pub goodput: Vec<String>,
    /// No progress on stderr
    #[arg(long)]
    pub disable_tqdm: bool,
}

impl ConstraintArgs {
    /// The decoding engine asked for, where it is one.
    pub fn engine(&self) -> Option<&str> {
        self.guided_decoding_backend.first().map(String::as_str)
    }

    /// The dialect asked for; `None` for `auto`.
    pub fn dialect(&self) -> Option<ConstraintDialect> {
        self.constraint_dialect.parse().ok()
    }

    /// The notation asked for; `None` for `auto`.
    pub fn grammar_notation(&self) -> Option<GrammarDialect> {
        [GrammarDialect::Lark, GrammarDialect::Ebnf].into_iter().find(|dialect| dialect.name() == self.grammar_dialect)
    }
}
