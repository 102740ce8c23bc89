//! The record of a measurement: engines, corpora, vocabulary, machine and limits.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::plan::Effort;
use super::row::Spelling;
use super::times::Durations;
use sobench_core::shard::Shard;
use sobench_engine::{EngineName, EnginePolicy};

/// Address space that a child process gets beyond the requested limit: for the stack of the working
/// thread and the arenas that the allocator reserves per thread.
pub const RESERVED_BYTES: u64 = 512 << 20;

/// The settings and environment of a measurement.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct MaskRecord {
    /// In the requested order, in which they ran one after another.
    pub engines: Vec<MeasuredEngine>,
    /// In the requested order; entries are numbered through all of them.
    pub corpora: Vec<CorpusRecord>,
    /// Entries selected by filter and limit, of all corpora, restricted to the shard. Every engine
    /// is measured on each of them.
    pub selected: usize,
    pub vocabulary: VocabularyRecord,
    pub policy: EnginePolicy,
    pub spellings: Vec<Spelling>,
    /// Whether the evaluator asserts `format`.
    pub assert_formats: bool,
    /// Whether every instance was walked a second time, for warm durations.
    pub warm: bool,
    pub filter: Option<String>,
    pub limit: Option<usize>,
    /// Random sample of the filtered entries; `None` for all.
    pub sample: Option<Sample>,
    /// Number of concurrent child processes.
    pub jobs: usize,
    /// Time limit of a row.
    pub timeout_ms: u64,
    /// Address-space limit of a child process, without [`RESERVED_BYTES`]; `None` for no limit.
    pub memory_limit_bytes: Option<u64>,
    /// Tokens of the drafts along every instance; `None` for no drafts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drafts: Option<usize>,
    /// Seed and budget of a proof search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prove: Option<Effort>,
    /// Which shard of the selected entries was measured; `None` for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    pub host: MachineRecord,
}

/// Random sample of entries, drawn as CPython's `random.sample` does, in corpus order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Sample {
    /// Maximum number of entries.
    pub entries: usize,
    pub seed: u64,
}

/// One engine of a measurement.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct MeasuredEngine {
    pub engine: EngineName,
    /// The library and its version.
    pub version: String,
    /// Relevant settings, as name and value.
    pub settings: Vec<(String, String)>,
    /// Peak resident memory of any of its child processes; `None` if unknown.
    pub peak_rss_bytes: Option<u64>,
    /// From the start of its first child process to the end of its last; resumed rows are not
    /// included.
    pub wall_ns: u64,
    /// Time to load the vocabulary and open the engine, in the first child process.
    pub open_ns: Option<u64>,
}

/// One corpus of a measurement.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct CorpusRecord {
    /// As given by the user.
    pub source: String,
    pub kind: CorpusKind,
    /// Entries before filter and limit.
    pub entries: usize,
    pub instances: usize,
    /// Unreadable files, groups or lines; the first ones are named in notices.
    pub unreadable: usize,
    /// Hash of the entries in order: names, tags, constraints, instances and labels.
    pub sha256: String,
}

/// The layout of a corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CorpusKind {
    /// MaskBench files: a schema and tests.
    Maskbench,
    /// JSONSchemaBench Parquet files: schemas without instances.
    JsonSchemaBench,
    /// JSON-Schema-Test-Suite files.
    Jsts,
    /// Custom JSON Lines.
    Custom,
    /// The shipped workloads.
    Shipped,
    /// Generated structural tags of tools.
    Tags,
}

impl CorpusKind {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::Maskbench,
        Self::JsonSchemaBench,
        Self::Jsts,
        Self::Custom,
        Self::Shipped,
        Self::Tags,
    ];

    /// The name that flags, files and reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Maskbench => "maskbench",
            Self::JsonSchemaBench => "jsonschemabench",
            Self::Jsts => "jsts",
            Self::Custom => "custom",
            Self::Shipped => "shipped",
            Self::Tags => "tags",
        }
    }
}

/// The vocabulary that all engines mask.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct VocabularyRecord {
    pub name: String,
    /// Number of ids, including unused ones.
    pub ids: usize,
}

/// The machine on which the measurement ran.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct MachineRecord {
    /// The operating system's name, e.g. `linux`.
    pub os: String,
    /// The processor's architecture, e.g. `x86_64`.
    pub arch: String,
    /// The processor's name, if known.
    pub cpu: Option<String>,
    /// Available hardware threads.
    pub threads: usize,
    /// Median duration of an empty measurement in ns; included in every duration.
    pub clock_ns: u64,
}

/// One batch size: masks of several sequences per step, on all threads of one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BatchRow {
    pub engine: EngineName,
    /// Concurrent sequences.
    pub sequences: usize,
    /// Different instances among them; if fewer than `sequences`, instances are repeated.
    pub distinct: usize,
    pub threads: usize,
    /// Duration of a step: one mask of every sequence, on all threads.
    pub step: Durations,
    /// Masks of all steps.
    pub masks: u64,
    /// Masks divided by the sum of the step durations.
    pub masks_per_second: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpus_kinds_serialize_as_their_names() {
        for kind in CorpusKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}
