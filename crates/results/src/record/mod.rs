//! The record of a run: everything that is known of it before its first request. It is written
//! once, at the head of the run log, goes into the saved result whole, and is read back typed by
//! report, compare, merge and the gate.

pub mod condition;
mod engine;
mod settings;
mod shards;
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used)]
pub mod testing;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

pub use self::engine::{Engine, EngineChoice, EngineWork};
pub use self::settings::{
    ConstraintSettings, Lora, LoraAssignment, ReportSettings, RequestSettings, Settings,
};
pub use self::shards::{MergedShard, ShardEnd, ShardRecord};
use sobench_backend::ConstraintDialect;
use sobench_core::constraint::GrammarDialect;
use sobench_core::dates::date;
use sobench_core::shard::Shard;
use sobench_notices::enforcement::Enforcement;
use sobench_notices::notice::Notice;

/// What is known of a run before its first request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The version of sobench that made the run.
    pub sobench_version: String,
    /// The start (the instant from which due times count) in ISO 8601, UTC.
    pub started: String,
    /// The same, in nanoseconds since 1970.
    pub started_unix_ns: u64,
    pub settings: Settings,
    pub server: ServerRecord,
    pub dataset: DatasetRecord,
    /// The tokenizer that counts tokens where the server does not.
    pub tokenizer_id: String,
    pub host: Host,
    /// Whether constraints were seen to be enforced before the run.
    pub enforcement: Enforcement,
    /// Requests before the run that are in no figure.
    pub trial_requests: usize,
    pub warmup_requests: usize,
    /// SHA-256 of the constraints that the server was sent before the run, in order.
    pub known_constraints: Vec<String>,
    /// Which part of a plan this run carried; the rest of the record is of the whole. `None` for a
    /// run by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<ShardRecord>,
    /// The shards that the run log was merged from, in their order; none in a log that a run wrote.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<MergedShard>,
    /// What a reader of the figures has to know, a sentence each.
    pub notices: Vec<Notice>,
}

/// The server of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerRecord {
    pub base_url: String,
    /// The path that requests were sent to, e.g. `/v1/completions`.
    pub endpoint: String,
    /// Names of the headers that the user added; their values are secrets.
    pub header_names: Vec<String>,
    /// The name of the model that requests asked for.
    pub model: String,
    /// The name of the model that results are filed under.
    pub model_id: String,
    pub version: Option<String>,
    /// Whether the server is sobench's own, with its synthetic model.
    pub embedded: bool,
    /// The request field that carries constraints; `None` where no request can have one.
    pub constraint_dialect: Option<ConstraintDialect>,
    /// The decoding engine that the user named, and how the name was used.
    pub engine_choice: EngineChoice,
    /// The engine that did the work, where it is sobench's own.
    pub engine: Option<Engine>,
}

/// The requests of a run, as they were loaded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DatasetRecord {
    /// What the rows were read from: `shipped`, `command line`, a path, or a Hub repository with
    /// its commit.
    pub source: String,
    /// Distinct rows; fewer than requests where rows are used in turn.
    pub rows: usize,
    /// SHA-256 of the dataset, in hex.
    pub sha256: String,
    /// The notation that grammars were written in, where they were sent in the other one.
    pub grammar_converted_from: Option<GrammarDialect>,
    /// Requests that were prepared, over all shards.
    pub requests: usize,
    /// The kinds of constraint among them (`json`, `regex`, ...), in order.
    pub constraint_kinds: Vec<String>,
    pub constraints: ConstraintSet,
}

/// The constraints of a run, as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConstraintSet {
    /// Distinct constraints, without those that were made for this run alone
    /// (`--cold-schema-every`).
    pub distinct: usize,
    /// SHA-256 over their fingerprints in order, each followed by a line end; `None` where there is
    /// none.
    pub sha256: Option<String>,
}

/// The machine that sobench ran on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    pub os: Option<String>,
    pub arch: Option<String>,
    pub cpus: Option<usize>,
}

impl RunRecord {
    /// The start by the wall clock.
    pub fn started(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(self.started_unix_ns)
    }

    /// The start as vLLM writes it: `%Y%m%d-%H%M%S`, UTC.
    pub fn date(&self) -> String {
        date(self.started())
    }

    /// The part of the requests that this client sent: all of them, except in a shard.
    pub fn part(&self) -> Shard {
        self.shard.as_ref().map_or(Shard::WHOLE, ShardRecord::part)
    }

    /// Requests that were prepared for this client.
    pub fn own_requests(&self) -> usize {
        self.part().share(self.dataset.requests)
    }

    /// The most requests that this client might have in flight; `None` without a cap.
    pub fn own_cap(&self) -> Option<usize> {
        self.settings
            .load
            .max_concurrency
            .map(|cap| self.part().share(cap))
    }

    /// Requests per second of this client, as vLLM writes them: infinite where a ramp takes the
    /// rate's place.
    pub fn own_request_rate(&self) -> f64 {
        self.settings.load.pace.steady_rate().per_second() / self.part().of as f64
    }
}
