//! Notices of run logs: truncated logs, runs that ended early, and shards.

use serde::{Deserialize, Serialize};

use super::{Notice, ShardValue, list};

#[derive(
    Clone, Debug, PartialEq, schemars::JsonSchema, Serialize, Deserialize, thiserror::Error,
)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LogNotice {
    #[error("the last line of the run log is truncated and is skipped: {file}")]
    #[serde(alias = "torn_line")]
    TruncatedLastLine { file: String },
    #[error("output tokens are unknown where the server did not count them: {why}")]
    TokensNotCounted { why: String },
    #[error("partial: the run was interrupted; unfinished requests were cancelled")]
    Interrupted,
    #[error("partial: {why}; unsent requests were cancelled")]
    GaveUp { why: String },
    #[error("{why}; all requests were already sent")]
    GaveUpAfterLastRequest { why: String },
    #[error(
        "partial: the run log has no footer, the run was probably killed; {ended} of {prepared} prepared requests had ended; requests in \
         flight and client figures are lost"
    )]
    Killed { ended: usize, prepared: usize },
    #[error(
        "shard {shard} of {shards}: {requests} of {all_requests} requests; all figures, such as rate, throughput and concurrency cap, \
         describe this shard alone, and first uses of a constraint are unknown; use sobench merge to combine the logs of all shards"
    )]
    OneShard {
        shard: usize,
        shards: usize,
        requests: usize,
        all_requests: usize,
    },
    #[error(
        "partial: the log of shard {shard} has no footer, the run was probably killed; {ended} of its {prepared} requests had ended; \
         requests in flight and client figures are lost"
    )]
    ShardKilled {
        shard: usize,
        ended: usize,
        prepared: usize,
    },
    #[error("the shards sent requests to different addresses: {}", list(.addresses))]
    ShardAddresses { addresses: Vec<ShardValue> },
    #[error(
        "the shards did not start together: shard {last_shard} started {after_s:.3} s after the first, and its requests were due later by \
         that time; the load was not as planned; use --coordinator or --start-at for a common start"
    )]
    ShardsStartedApart { last_shard: usize, after_s: f64 },
    #[error(
        "clock offsets of the shards were measured against shard 1: times of different shards are comparable within {within_ms:.3} ms \
         (shard {shard}, the largest; {})", drift(.drift_unknown)
    )]
    ShardClocks {
        within_ms: f64,
        shard: usize,
        /// Shards whose clock was not measured after the run.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        drift_unknown: Vec<usize>,
    },
    #[error(
        "partial: the logs of shards are missing: {}; {requests} of {all_requests} requests are not in the figures", list(.shards)
    )]
    ShardsMissing {
        shards: Vec<usize>,
        requests: usize,
        all_requests: usize,
    },
    #[error(
        "clock offsets of the shards were not measured: figures across shards, such as peak concurrency and tokens per second, depend on \
         the clocks of the machines; use --coordinator to measure offsets"
    )]
    ShardClocksNotMeasured,
    /// A notice of one shard of a merged log.
    #[error("shard {shard}: {notice}")]
    Shard { shard: usize, notice: Box<Notice> },
    #[error("the run ended early")]
    EndedEarly,
    #[error(
        "--dataset {dataset} has no effect: the file contains the constraints, and answers are judged by them"
    )]
    DatasetIgnored { dataset: String },
}

/// Whether the drift of clocks is known.
fn drift(unknown: &[usize]) -> String {
    match unknown {
        [] => "including drift during the run".to_owned(),
        shards => format!(
            "drift during the run not measured for shards: {}",
            list(shards)
        ),
    }
}
