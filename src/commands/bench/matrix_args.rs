//! The flags that hold backends, servers, datasets and loads side by side. Clap types only.

use clap::{Args, ValueEnum};

use crate::commands::flags::paths::{InputPath, OutputPath};

/// Several runs instead of one.
#[derive(Args, Clone, Debug)]
pub struct MatrixArgs {
    /// A server to compare, under a name of yours; give it once for each
    #[arg(long, value_name = "NAME=URL")]
    pub target: Vec<String>,
    /// Start this server for each of --guided-decoding-backend in turn, and stop it after its runs;
    /// {port} and {backend} are filled in
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["target", "base_url", "host", "port"])]
    pub launch: Option<String>,
    /// Run everything so many times, in balanced order
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeat: u32,
    /// How contenders take turns
    #[arg(long, visible_alias = "arm-order", value_name = "ORDER", value_enum, default_value_t = WantedOrder::Auto)]
    pub matrix_order: WantedOrder,
    /// Compare without the control arm (the same cases on the same schedule, constraints not sent)
    #[arg(long)]
    pub no_control_arm: bool,
    /// Run at each of these request rates; with --goodput, the highest that meets the objectives
    /// with valid answers is named
    #[arg(long, value_name = "RPS,RPS", value_delimiter = ',', allow_negative_numbers = true,
          conflicts_with_all = ["request_rate", "ramp_up_strategy", "sweep_max_concurrency"])]
    pub sweep_request_rate: Vec<f64>,
    /// Run at each of these caps on requests in flight
    #[arg(
        long,
        value_name = "N,N",
        value_delimiter = ',',
        allow_negative_numbers = true,
        conflicts_with = "max_concurrency"
    )]
    pub sweep_max_concurrency: Vec<usize>,
    /// Share of the constrained requests, in percent, that have to be valid within the objectives
    /// for a load to count as carried
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = 99.0,
        allow_negative_numbers = true
    )]
    pub goodput_share: f64,
    /// Also write the comparison to files; .json, .md, .html and .txt say in which form
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub save_comparison: Vec<OutputPath>,
    /// Read flags from a TOML file, every flag a key; what is typed wins
    #[arg(long, value_name = "PATH")]
    pub config: Option<InputPath>,
    /// Print the plan, and one full request of each arm; send nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// How those that are compared take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WantedOrder {
    /// At once where each has a server of its own, or an embedded one and cores enough; else whole
    /// runs
    Auto,
    /// At once, request by request; refused where that is not possible
    Interleaved,
    /// Whole runs, one after the other, in balanced order
    Blocks,
}
