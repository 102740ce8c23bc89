//! The flags by which several clients carry one load together: clap types only.

use clap::Args;

/// Which part of a load this client carries.
#[derive(Args, Clone, Debug, Default)]
pub struct ShardArgs {
    /// Carry part I of N of the load, I from 1: each shard takes every N-th request of the same plan, at the time that the whole has it
    /// due; `auto` reads I and N from SOBENCH_SHARD, a Slurm array, or an indexed job of Kubernetes with SOBENCH_SHARDS.
    /// `sobench merge` makes one run of the logs
    #[arg(long, value_name = "I/N|auto")]
    pub shard: Option<String>,
    /// Begin at this instant by the wall clock, from which all due times count: RFC 3339 in UTC, or seconds since 1970. One that passes
    /// before the run is ready ends it
    #[arg(long, value_name = "TIME", conflicts_with = "coordinator")]
    pub start_at: Option<String>,
    /// Where shards find each other: shard 1 listens on this port, the others look for it at HOST:PORT. They begin together when all are
    /// ready, and measure what their clocks are off each other
    #[arg(long, value_name = "HOST:PORT", requires = "shard")]
    pub coordinator: Option<String>,
    /// How long a shard waits for the others to join and to become ready
    #[arg(long, value_name = "SECONDS", default_value_t = 600.0, requires = "coordinator", allow_negative_numbers = true)]
    pub coordinator_timeout: f64,
}
