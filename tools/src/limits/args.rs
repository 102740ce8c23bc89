//! Flags of `sobench-tools limits`.

use clap::Args;

use super::{DEFAULT_STEP_TIMEOUT_S, LadderKind};
use sobench::commands::flags::paths::InputPath;
use sobench::commands::flags::rendering::{DetailArgs, SaveArgs};
use sobench::commands::flags::values::{formats, named};
use sobench::commands::preflight::args::{FORMATS, TargetArgs};
use sobench_core::output_format::OutputFormat;

/// Flags of `sobench-tools limits`.
#[derive(Args, Clone, Debug)]
pub struct LimitsArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// Test only these ladders
    #[arg(long, value_name = "A,B", value_delimiter = ',',
          value_parser = named(&LadderKind::ALL, LadderKind::name))]
    pub ladder: Vec<LadderKind>,
    /// Time limit of a step of a ladder, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_STEP_TIMEOUT_S, allow_negative_numbers = true)]
    pub step_timeout: f64,
    /// Test the limits of a server that is not on this machine. The test can stall or end it
    #[arg(long)]
    pub i_own_this_server: bool,
    /// Report earlier results together: read these JSON files, and send nothing
    #[arg(long, value_name = "FILE", num_args = 1..,
          conflicts_with_all = ["base_url", "guided_decoding_backend", "ladder"])]
    pub merge: Vec<InputPath>,
    #[command(flatten)]
    pub save: SaveArgs,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = formats(&FORMATS[..2]))]
    pub format: OutputFormat,
    #[command(flatten)]
    pub detail: DetailArgs,
}
