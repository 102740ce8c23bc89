//! The groups of flags of a benchmark run in the order of `--help`. Flags have the names of `vllm
//! bench serve` and of vLLM's structured-output script. Each group is in the file that checks it.

use clap::Args;

use crate::commands::bench::matrix_args::MatrixArgs;
use crate::commands::bench::options::compat_flags::CompatArgs;
use crate::commands::bench::options::constraint::ConstraintArgs;
use crate::commands::bench::options::output::OutputArgs;
use crate::commands::bench::options::request::SamplingArgs;
use crate::commands::bench::options::server::ServerArgs;
use crate::commands::bench::options::shard::ShardArgs;
use crate::commands::bench::options::traffic::TrafficArgs;
use crate::commands::flags::engine::{
    EMBEDDED_HEADING, ENGINE_HEADING, EmbeddedArgs, EngineArgs, KnowledgeArgs,
};
use sobench_data::dataset::DatasetArgs;

/// All flags of a benchmark run.
#[derive(Args, Clone, Debug)]
pub struct BenchArgs {
    /// Print the help of every flag
    #[arg(long)]
    pub help_all: bool,
    #[command(flatten, next_help_heading = "Server")]
    pub server: ServerArgs,
    #[command(flatten, next_help_heading = "Dataset")]
    pub dataset: DatasetArgs,
    /// Options of the dataset, such as random-input-len=512,disable-shuffle=true. May be repeated
    #[arg(long, value_name = "KEY=VALUE,...", help_heading = "Dataset")]
    pub dataset_options: Vec<String>,
    #[command(flatten, next_help_heading = "Constraint")]
    pub constraint: ConstraintArgs,
    #[command(flatten, next_help_heading = "Traffic")]
    pub traffic: TrafficArgs,
    #[command(
        flatten,
        next_help_heading = "Sampling (sent only if given; backend vllm always sends a repetition penalty)"
    )]
    pub sampling: SamplingArgs,
    #[command(flatten, next_help_heading = "Output")]
    pub output: OutputArgs,
    #[command(flatten, next_help_heading = "Comparison")]
    pub matrix: MatrixArgs,
    #[command(
        flatten,
        next_help_heading = "Sharding (one load from several clients)"
    )]
    pub shards: ShardArgs,
    #[command(
        flatten,
        next_help_heading = EMBEDDED_HEADING
    )]
    pub embedded: EmbeddedArgs,
    #[command(
        flatten,
        next_help_heading = EMBEDDED_HEADING
    )]
    pub knowledge: KnowledgeArgs,
    #[command(flatten, next_help_heading = ENGINE_HEADING)]
    pub engine: EngineArgs,
    #[command(flatten, next_help_heading = "Compatibility with other benchmarks")]
    pub compat: CompatArgs,
}
