//! Notices of engines that are measured in process.

use serde::{Deserialize, Serialize};

use super::{OfShard, list};
use sobench_core::printable::thousands;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum MaskNotice {
    #[error(
        "partial: the measurement was stopped before its end; every figure is over the rows that were done by then"
    )]
    MeasurementStopped,
    #[error(
        "shard {shard} of {shards}: every figure is of this part of the entries alone, and several sequences at once (--batch) are \
         measured on whole corpora only; sobench merge puts the rows of all shards together"
    )]
    OneShardOfEntries { shard: usize, shards: usize },
    #[error(
        "the lock of {engine} was drawn anew in each of its child processes, by the first constraint there: {processes}{}",
        if *.resumed { ", those of the interrupted run counted as one" } else { "" }
    )]
    LockDrawnAgain {
        engine: String,
        processes: usize,
        resumed: bool,
    },
    #[error(
        "no figures of {engine} for several sequences at once: no valid instance of {min_tokens} tokens passes"
    )]
    NoBatchInstance { engine: String, min_tokens: u32 },
    #[error("no figures of {engine} for {sequences} sequences at once: {why}")]
    BatchFailed {
        engine: String,
        sequences: usize,
        why: String,
    },
    #[error("there was no rows file to go on with, so that all rows were measured: {file}")]
    NoRowsFile { file: String },
    #[error("the last row of {file} was not whole, and is measured again")]
    TornRow { file: String },
    #[error("the last row of {file} was not whole, and was left out")]
    TornRowLeftOut { file: String },
    #[error("partial: shard {shard}/{shards} has {rows} of its {planned} rows")]
    RowsMissing {
        shard: usize,
        shards: usize,
        rows: usize,
        planned: usize,
    },
    #[error("the shards ran on different processors, whose times are in the same figures: {}", list(.processors))]
    DifferentProcessors { processors: Vec<OfShard> },
    #[error("{engine} has rows of {} of {} schemas", thousands(*.rows), thousands(*.schemas))]
    SchemasMissing {
        engine: String,
        rows: u64,
        schemas: u64,
    },
    #[error(
        "sobench's own evaluator was stopped on schemas of {engine}; faults found before stand, and the rest is not judged: {}",
        thousands(*.schemas)
    )]
    EvaluatorStopped { engine: String, schemas: u64 },
    #[error("the common set is empty, and not shown: no schema is passed by every engine{}", by_none(.passing_none))]
    NoCommonSchema { passing_none: Vec<String> },
    #[error("with one engine the common set is what it passes itself")]
    OneEngine,
    #[error(
        "no instance is JSON: text has one spelling, its own, so there is nothing to say of the others"
    )]
    NoJsonInstance,
    #[error(
        "some instances are text, which has one spelling, its own; they count in each of the others"
    )]
    TextInstances,
    #[error("tags that were too many to tell apart: {} of rows", thousands(*.rows))]
    TagsLeftOut { rows: u64 },
}

fn by_none(engines: &[String]) -> String {
    if engines.is_empty() {
        String::new()
    } else {
        format!("; none at all by {}", list(engines))
    }
}
