//! The flags of `sobench merge`.

use clap::Args;

use crate::commands::flags::paths::InputPath;
use crate::commands::flags::rendering::{DetailArgs, RenderingArgs, SaveArgs};

/// Flags of `sobench merge`.
#[derive(Args, Clone, Debug)]
pub struct MergeArgs {
    /// Run logs of all shards in any order
    #[arg(value_name = "SHARD.JSONL", required = true)]
    pub logs: Vec<InputPath>,
    #[command(flatten)]
    pub save: SaveArgs,
    /// Make a partial report if logs of shards are missing or empty
    #[arg(long)]
    pub allow_missing: bool,
    #[command(flatten)]
    pub rendering: RenderingArgs,
    #[command(flatten)]
    pub detail: DetailArgs,
}
