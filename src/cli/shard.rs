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
}
