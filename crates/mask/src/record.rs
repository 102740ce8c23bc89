//! What a measurement was made of and on: engines, corpora, vocabulary, machine, limits. Plain
//! data; knows no clock and no file.

use serde::{Deserialize, Serialize};

use super::plan::Effort;
use super::row::Spelling;
use super::times::Durations;
use sobench_core::shard::Shard;
use sobench_engine::{EngineName, EnginePolicy};

/// Address space that a child process is granted beyond the limit that was asked for: the stack of
/// the thread that works, and what the allocator sets aside for threads without using it.
pub const RESERVED_BYTES: u64 = 512 << 20;

/// Everything about a measurement that is not a row of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MaskRecord {
    /// In the order asked for, which is the order they ran in, one after the other.
    pub engines: Vec<MeasuredEngine>,
    /// In the order asked for; entries are numbered through all of them.
    pub corpora: Vec<CorpusRecord>,
    /// Entries that filter and limit left, of all corpora together, and of them those of the shard;
    /// every engine is measured on each of them.
    pub selected: usize,
    pub vocabulary: VocabularyRecord,
    pub policy: EnginePolicy,
    pub spellings: Vec<Spelling>,
    /// Whether our evaluator takes a string that breaks its `format` for invalid.
    pub assert_formats: bool,
    /// Whether every instance was walked a second time, for durations that are warm.
    pub warm: bool,
    pub filter: Option<String>,
    pub limit: Option<usize>,
    /// Which of the entries that the filter left were drawn; `None` for all of them.
    pub sample: Option<Sample>,
    /// Child processes at the same time.
    pub jobs: usize,
    /// After which a row is stopped as a timeout.
    pub timeout_ms: u64,
    /// Address space that a child process may have beyond [`RESERVED_BYTES`]; `None` where there is
    /// no limit.
    pub memory_limit_bytes: Option<u64>,
    /// Where errors are proved: how much is done for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prove: Option<Effort>,
    /// Which part of the entries that filter, limit and sample left was measured; `None` for all of
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    pub host: MachineRecord,
}

/// Entries drawn at random, as CPython's `random.sample` draws them; they keep the corpora's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// At most so many.
    pub entries: usize,
    pub seed: u64,
}

/// One engine of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredEngine {
    pub engine: EngineName,
    /// The library and its version.
    pub version: String,
    /// Choices that matter to it, name and value.
    pub settings: Vec<(String, String)>,
    /// The most resident memory that one of its child processes had; `None` where the system cannot
    /// say.
    pub peak_rss_bytes: Option<u64>,
    /// From the start of its first child process to the end of its last, resumed rows not counted.
    pub wall_ns: u64,
    /// Loading the vocabulary and opening the engine over it, in a first child process.
    pub open_ns: Option<u64>,
}

/// One corpus of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CorpusRecord {
    /// As the user named it.
    pub source: String,
    pub kind: CorpusKind,
    /// Entries before filter and limit.
    pub entries: usize,
    pub instances: usize,
    /// Files, groups or lines that could not be read; the first ones are named in notices.
    pub unreadable: usize,
    /// Of its entries in their order: names, tags, constraints, instances and labels.
    pub sha256: String,
}

/// The layout of a corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CorpusKind {
    /// Files of MaskBench: a schema and tests.
    Maskbench,
    /// Parquet files of JSONSchemaBench: schemas without instances.
    JsonSchemaBench,
    /// Files of the JSON-Schema-Test-Suite.
    Jsts,
    /// The user's own JSON Lines.
    Custom,
    /// The workloads inside this program.
    Shipped,
}

impl CorpusKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [
        Self::Maskbench,
        Self::JsonSchemaBench,
        Self::Jsts,
        Self::Custom,
        Self::Shipped,
    ];

    /// The name that flags, files and reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Maskbench => "maskbench",
            Self::JsonSchemaBench => "jsonschemabench",
            Self::Jsts => "jsts",
            Self::Custom => "custom",
            Self::Shipped => "shipped",
        }
    }
}

/// The vocabulary that all engines masked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VocabularyRecord {
    pub name: String,
    /// Ids, unused ones included.
    pub ids: usize,
}

/// The machine, as far as its numbers depend on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineRecord {
    /// The operating system's name, e.g. `linux`.
    pub os: String,
    /// The processor's architecture, e.g. `x86_64`.
    pub arch: String,
    /// The processor's own name, where the system says it.
    pub cpu: Option<String>,
    /// Threads that run at the same time.
    pub threads: usize,
    /// The median of measuring nothing: part of every duration, not subtracted.
    pub clock_ns: u64,
}

/// Masks of several sequences at once, a step at a time, on all threads of one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BatchRow {
    pub engine: EngineName,
    /// Sequences that run at the same time.
    pub sequences: usize,
    /// Different instances among them; where it is smaller than `sequences`, some run several
    /// times.
    pub distinct: usize,
    pub threads: usize,
    /// How long one step took: a mask of every sequence, on all threads.
    pub step: Durations,
    /// Masks of all steps together.
    pub masks: u64,
    /// Masks by the sum of the steps' durations.
    pub masks_per_second: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_written_by_their_names() {
        for kind in CorpusKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}
