//! Notices of engines that are measured in process.

use serde::{Deserialize, Serialize};

use super::{OfShard, list};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum MaskNotice {
    #[error("partial: the measurement was stopped before its end; every figure is over the rows that were done by then")]
    MeasurementStopped,
    #[error(
        "shard {shard} of {shards}: every figure is of this part of the entries alone, and several sequences at once (--batch) are \
         measured on whole corpora only; sobench merge puts the rows of all shards together"
    )]
    OneShardOfEntries { shard: usize, shards: usize },
    #[error(
        "the lock of {engine} was drawn anew in each of its child processes, by the first constraint there: {processes}{}",
        resumed_run(*.resumed)
    )]
    LockDrawnAgain { engine: String, processes: usize, resumed: bool },
    #[error("no figures of {engine} for several sequences at once: no valid instance of {min_tokens} tokens passes")]
    NoBatchInstance { engine: String, min_tokens: u32 },
    #[error("no figures of {engine} for {sequences} sequences at once: {why}")]
    BatchFailed { engine: String, sequences: usize, why: String },
    #[error("there was no rows file to go on with, so that all rows were measured: {file}")]
    NoRowsFile { file: String },
    #[error("the last row of {file} was not whole, and is measured again")]
    TornRow { file: String },
    #[error("the last row of {file} was not whole, and was left out")]
    TornRowLeftOut { file: String },
    #[error("partial: shard {shard}/{shards} has {rows} of its {planned} rows")]
    RowsMissing { shard: usize, shards: usize, rows: usize, planned: usize },
    #[error("the shards ran on different processors, whose times are in the same figures: {}", list(.processors))]
    DifferentProcessors { processors: Vec<OfShard> },
}

fn resumed_run(resumed: bool) -> &'static str {
    if resumed { ", those of the interrupted run counted as one" } else { "" }
}
