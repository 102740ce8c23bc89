//! The flags of `sobench report`.

use clap::Args;

use crate::commands::flags::paths::{InputPath, OutputPath};
use crate::commands::flags::rendering::{DetailArgs, ForceArgs, RenderingArgs};

/// Flags of `sobench report`.
#[derive(Args, Clone, Debug)]
pub struct ReportArgs {
    /// Run log, as a run writes it (`--run-log`)
    #[arg(value_name = "RUN.JSONL")]
    pub log: InputPath,
    #[command(flatten)]
    pub rendering: RenderingArgs,
    #[command(flatten)]
    pub detail: DetailArgs,
    /// File that the report is written to [default: stdout]
    #[arg(long, short, value_name = "PATH")]
    pub output: Option<OutputPath>,
    #[command(flatten)]
    pub force: ForceArgs,
}
