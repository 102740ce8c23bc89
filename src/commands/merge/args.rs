//! The flags of `sobench merge`.

use clap::Args;

use crate::commands::flags::paths::{InputPath, OutputPath};
use crate::commands::flags::rendering::{DetailArgs, ForceArgs, RenderingArgs};

/// Flags of `sobench merge`.
#[derive(Args, Clone, Debug)]
pub struct MergeArgs {
    /// Run logs of all shards in any order, or rows files of all shards of `sobench mask`
    #[arg(value_name = "SHARD.JSONL", required = true)]
    pub logs: Vec<InputPath>,
    /// Write the merged log or rows to this file, which must not exist [default: write only the
    /// report]
    #[arg(long, short, value_name = "PATH")]
    pub output: Option<OutputPath>,
    /// Write the report to this file [default: stdout]
    #[arg(long, value_name = "PATH")]
    pub report: Option<OutputPath>,
    #[command(flatten)]
    pub force: ForceArgs,
    /// Make a partial report if logs of shards are missing or empty
    #[arg(long)]
    pub allow_missing: bool,
    #[command(flatten)]
    pub rendering: RenderingArgs,
    #[command(flatten)]
    pub detail: DetailArgs,
}
