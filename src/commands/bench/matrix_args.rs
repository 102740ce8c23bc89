//! The flags of comparisons of engines, servers, datasets and loads.

use clap::{Args, ValueEnum};

use crate::commands::flags::paths::InputPath;

/// The flags of a comparison.
#[derive(Args, Clone, Debug)]
pub struct MatrixArgs {
    /// Name and URL of a server to compare. Give the flag once for each server
    #[arg(long, value_name = "NAME=URL")]
    pub target: Vec<String>,
    /// Start a server with this command for each engine of --guided-decoding-backend in turn, and
    /// stop it after its runs. {port} and {backend} in the command are replaced. To compare servers
    /// that differ in other flags, give --launch NAME=COMMAND for each
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["target", "base_url", "host", "port"])]
    pub launch: Vec<String>,
    /// Number of repeats of all runs, in balanced order
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeat: u32,
    /// Order of the runs of the compared servers or engines
    #[arg(long, visible_alias = "arm-order", value_name = "ORDER", value_enum, default_value_t = MatrixOrder::Auto)]
    pub matrix_order: MatrixOrder,
    /// Skip the control arm, which sends the same cases on the same schedule without constraints
    #[arg(long)]
    pub no_control_arm: bool,
    /// Request rates of a sweep. With --goodput, the report names the highest rate that meets the
    /// objectives with valid answers
    #[arg(long, value_name = "RPS,RPS", value_delimiter = ',', allow_negative_numbers = true,
          conflicts_with_all = ["request_rate", "ramp_up_strategy", "sweep_max_concurrency"])]
    pub sweep_request_rate: Vec<f64>,
    /// Concurrency caps of a sweep
    #[arg(
        long,
        value_name = "N,N",
        value_delimiter = ',',
        allow_negative_numbers = true,
        conflicts_with = "max_concurrency"
    )]
    pub sweep_max_concurrency: Vec<usize>,
    /// Find the highest request rate that meets the objectives of --goodput, and with which the
    /// answers keep up, with and without the constraint. Rates double and are then bisected, in at
    /// most 8 runs for each server, dataset and arm. The first rate is --request-rate, or is
    /// measured
    #[arg(long, conflicts_with_all = ["sweep_request_rate", "sweep_max_concurrency", "max_concurrency", "ramp_up_strategy", "duration"])]
    pub sweep: bool,
    /// Least time in seconds that the requests of a run of --sweep are spread over. Longer than six
    /// answers take, so that a queue can show. Longer runs decide more
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 30.0,
        requires = "sweep",
        allow_negative_numbers = true
    )]
    pub sweep_duration: f64,
    /// Percentage of constrained requests that must be valid within the objectives of --goodput for
    /// a load of a sweep to pass
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 99.0,
        allow_negative_numbers = true
    )]
    pub goodput_share: f64,
    /// Read flags from a TOML file, one key for each flag. Flags on the command line take
    /// precedence
    #[arg(long, value_name = "PATH")]
    pub config: Option<InputPath>,
    /// Print the plan and one complete request of each arm, and send nothing. With --matrix-order
    /// paired: the pairs that a loss needs
    #[arg(long, visible_alias = "plan")]
    pub dry_run: bool,
}

/// The requested order of the runs of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MatrixOrder {
    /// Interleaved if each has its own server, or an embedded one and enough cores; else blocks
    Auto,
    /// Concurrent runs, request by request; an error if impossible
    Interleaved,
    /// Complete runs, one after the other, in balanced order
    Blocks,
    /// The same requests to two servers, without a control arm; interleaved if possible. The page
    /// is that of sobench compare: what the second one lost
    Paired,
}
