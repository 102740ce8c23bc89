//! Notices of run logs: damaged ones, those of runs that did not end as planned, and those of
//! shards.

use serde::{Deserialize, Serialize};

use super::{Notice, OfShard, list};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LogNotice {
    #[error("the last line of the run log is torn, and was left out: {file}")]
    TornLine { file: String },
    #[error("output tokens that the server did not count are not known: {why}")]
    TokensNotCounted { why: String },
    #[error("partial: the run was interrupted, what had not ended by then is cancelled")]
    Interrupted,
    #[error("partial: {why}; what had not been sent by then is cancelled")]
    GaveUp { why: String },
    #[error("{why}; nothing was left to be sent by then")]
    GaveUpAfterLastRequest { why: String },
    #[error(
        "partial: the run log has no end, as of a run that was killed; {ended} of {prepared} prepared requests had ended, what was under \
         way is lost, and of the client's own part nothing is known"
    )]
    Killed { ended: usize, prepared: usize },
    #[error(
        "shard {shard} of {shards}: {requests} of {all_requests} requests, and every figure is of this part alone: rate, throughput and \
         cap are its own, and which uses of a constraint were the first is not known of a part; sobench merge makes one run of the logs \
         of all shards"
    )]
    OneShard {
        shard: usize,
        shards: usize,
        requests: usize,
        all_requests: usize,
    },
    #[error(
        "partial: the log of shard {shard} has no end, as of a run that was killed; {ended} of its {prepared} requests had ended, what \
         was under way is lost, and of its client's own part nothing is known"
    )]
    ShardKilled {
        shard: usize,
        ended: usize,
        prepared: usize,
    },
    #[error("the shards sent to different addresses: {}", list(.addresses))]
    ShardAddresses { addresses: Vec<OfShard> },
    #[error(
        "the shards did not begin at one instant: shard {last_shard} began {after_s:.3} s after the first, and its requests were due so \
         much later; the load was not quite the plan's (--coordinator and --start-at give a common begin)"
    )]
    ShardsStartedApart { last_shard: usize, after_s: f64 },
    #[error(
        "the clocks of the shards were measured against shard 1's: instants of different shards are comparable within {within_ms:.3} ms \
         (shard {shard}, the largest; drift during the run included)"
    )]
    ShardClocks { within_ms: f64, shard: usize },
    #[error(
        "the clocks of the shards were not measured against each other, which --coordinator does: what compares instants of different \
         shards, such as peak concurrency and tokens in one second, is as good as the clocks of their machines"
    )]
    ShardClocksNotMeasured,
    /// Of one shard of a merged log.
    #[error("shard {shard}: {notice}")]
    Shard { shard: usize, notice: Box<Notice> },
    #[error("the run did not come to its planned end")]
    EndedEarly,
    #[error(
        "the file holds its constraints, by which it is judged: --dataset {dataset} says nothing of it"
    )]
    DatasetIgnored { dataset: String },
}
