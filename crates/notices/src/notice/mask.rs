//! Notices about engines that are measured in process.

use serde::{Deserialize, Serialize};

use super::{ShardValue, list};
use sobench_core::printable::thousands;

#[derive(
    Clone, Debug, PartialEq, schemars::JsonSchema, Serialize, Deserialize, thiserror::Error,
)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum MaskNotice {
    #[error(
        "partial: the measurement was stopped early; the figures include only the completed rows"
    )]
    MeasurementStopped,
    #[error(
        "shard {shard} of {shards}: the figures include only the entries of this shard, and batches (--batch) are measured on whole corpora \
         only; use sobench merge to combine the rows of all shards"
    )]
    OneShardOfEntries { shard: usize, shards: usize },
    #[error(
        "the engine of {engine} was selected again in each child process, by the first constraint of that process: {processes}{}",
        if *.resumed { "; the processes of the interrupted run count as one" } else { "" }
    )]
    #[serde(alias = "lock_drawn_again")]
    EngineSelectedAgain {
        engine: String,
        processes: usize,
        resumed: bool,
    },
    #[error("no batch figures of {engine}: no valid instance with {min_tokens} tokens is accepted")]
    NoBatchInstance { engine: String, min_tokens: u32 },
    #[error("no figures of {engine} for batches of {sequences} sequences: {why}")]
    BatchFailed {
        engine: String,
        sequences: usize,
        why: String,
    },
    #[error("no rows file to resume from, all rows were measured: {file}")]
    NoRowsFile { file: String },
    #[error("the last row of {file} is truncated and is measured again")]
    #[serde(alias = "torn_row")]
    TruncatedRow { file: String },
    #[error("the last row of {file} is truncated and is skipped")]
    #[serde(alias = "torn_row_left_out")]
    TruncatedRowSkipped { file: String },
    #[error("partial: shard {shard}/{shards} has {rows} of its {planned} rows")]
    RowsMissing {
        shard: usize,
        shards: usize,
        rows: usize,
        planned: usize,
    },
    #[error("the shards ran on different processors, and their times are in the same figures: {}", list(.processors))]
    DifferentProcessors { processors: Vec<ShardValue> },
    #[error("{engine} has rows for {} of {} schemas", thousands(*.rows), thousands(*.schemas))]
    SchemasMissing {
        engine: String,
        rows: u64,
        schemas: u64,
    },
    #[error(
        "the evaluator of sobench stopped early on schemas of {engine}; faults found before the stop count, the rest is not judged: {}",
        thousands(*.schemas)
    )]
    EvaluatorStopped { engine: String, schemas: u64 },
    #[error("the common set is empty and not shown: no schema passes with every engine{}", by_none(.passing_none))]
    NoCommonSchema { passing_none: Vec<String> },
    #[error("with one engine, the common set contains the schemas that pass with this engine")]
    OneEngine,
    #[error(
        "no instance is JSON: plain text has only its own spelling, and the other spellings have no rows"
    )]
    NoJsonInstance,
    #[error(
        "some instances are plain text, which has only its own spelling; they count in every other spelling"
    )]
    TextInstances,
    #[error("tags beyond the limit were not counted: {} of rows", thousands(*.rows))]
    TagsLeftOut { rows: u64 },
}

fn by_none(engines: &[String]) -> String {
    if engines.is_empty() {
        String::new()
    } else {
        format!("; no schema at all passes with {}", list(engines))
    }
}
