//! The flags of `sobench merge`: clap types only.

use clap::Args;

use crate::commands::flags::paths::{InputPath, OutputPath};
use crate::commands::flags::rendering::RenderingArgs;

/// Which logs are put together, and what becomes of them.
#[derive(Args, Clone, Debug)]
pub struct MergeArgs {
    /// The run log of every shard, in any order; or the rows file of every shard of `sobench mask`
    #[arg(value_name = "SHARD.JSONL", required = true)]
    pub logs: Vec<InputPath>,
    /// File that the merged log, or the merged rows, are written to; one that is there stays as it
    /// is [default: only the report is made]
    #[arg(long, short, value_name = "PATH")]
    pub output: Option<OutputPath>,
    /// File that the report is written to [default: stdout]
    #[arg(long, value_name = "PATH")]
    pub report: Option<OutputPath>,
    #[command(flatten)]
    pub rendering: RenderingArgs,
}
