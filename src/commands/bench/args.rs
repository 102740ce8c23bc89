//! The flags of a benchmark run, named as `vllm bench serve` and its structured-output script name
//! them: the groups, in the order of `--help`. Each group is in the file that checks it.

use clap::Args;

use crate::commands::bench::matrix_args::MatrixArgs;
use crate::commands::bench::options::compat_flags::ForeignArgs;
use crate::commands::bench::options::constraint::ConstraintArgs;
use crate::commands::bench::options::output::OutputArgs;
use crate::commands::bench::options::request::SamplingArgs;
use crate::commands::bench::options::server::ServerArgs;
use crate::commands::bench::options::shard::ShardArgs;
use crate::commands::bench::options::traffic::TrafficArgs;
use crate::commands::flags::engine::{EmbeddedArgs, EngineArgs};
use sobench_data::dataset::DatasetArgs;

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
    pub matrix: MatrixArgs,
    #[command(flatten, next_help_heading = "One load from several clients")]
    pub shards: ShardArgs,
    #[command(
        flatten,
        next_help_heading = "Embedded engine (used when no server is named)"
    )]
    pub embedded: EmbeddedArgs,
    #[command(flatten, next_help_heading = "Decoding engines of the embedded engine")]
    pub engine: EngineArgs,
    #[command(flatten, next_help_heading = "Flags of other benchmarks")]
    pub foreign: ForeignArgs,
}
