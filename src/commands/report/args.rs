//! The flags of `sobench report`.

use clap::Args;

use crate::commands::flags::paths::InputPath;
use crate::commands::flags::rendering::{DetailArgs, RenderingArgs, SaveArgs};

/// Flags of `sobench report`.
#[derive(Args, Clone, Debug)]
pub struct ReportArgs {
    /// Run log, as a run writes it (`--run-log`)
    #[arg(value_name = "RUN.JSONL", required_unless_present = "last")]
    pub log: Option<InputPath>,
    /// The newest run log in the cache (sobench runs)
    #[arg(long, conflicts_with = "log")]
    pub last: bool,
    #[command(flatten)]
    pub rendering: RenderingArgs,
    #[command(flatten)]
    pub detail: DetailArgs,
    #[command(flatten)]
    pub save: SaveArgs,
}
