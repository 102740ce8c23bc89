//! The run log: everything that a run did, a line at a time, in a file from which the report can be made again. Knows no server, no
//! clock and no rendering.
//!
//! JSON Lines, each an object with one member that says what the line is (contract: `schemas/contracts/run-log.schema.json`):
//!
//! 1. `header` ([`Header`]): what was planned and found out before the first request.
//! 2. `constraint`, `prompt` and `oracle`: what many requests share, written before its first use, by number.
//! 3. `request`: a case and what happened to it, the moment it ended, in any order.
//! 4. `judged` ([`Judged`]): verdict and token counts of each request, after the run.
//! 5. `footer` ([`Footer`]): how the run ended. A log without one is of a run that was killed.
//!
//! The logs of the shards of a run are put together by [`merge`].
//!
//! To read one, as `sobench compare` does:
//!
//! ```no_run
//! use sobench::runlog::{Keep, RunLog};
//!
//! let log = RunLog::read("run.jsonl".as_ref(), Keep::WithoutTexts)?;
//! for (place, request) in log.requests.iter().enumerate() {
//!     let verdict = request.verdict();
//!     // `request.text()` is empty: `log.answer(place)` reads it where it is wanted.
//! }
//! # Ok::<(), sobench::error::Error>(())
//! ```
//!
//! `requests` are in plan order, with what was found out about them where `is_judged`; where the run was killed, somebody has to
//! judge (`crate::report::from_log` does). Instants are exact: chunks are written as the gaps between them, and added up again.

pub mod judge;
mod line;
pub mod merge;
mod read;
mod shards;
mod source;
#[cfg(test)]
mod tests;
pub mod write;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use self::line::{Answer, ConstraintsAbout, MAX_LINE_BYTES};
pub use self::read::{Keep, RunLog};
pub use self::shards::{MergedShard, ShardAbout, ShardEnd};
pub use self::source::Source;
use crate::evaluate::EvaluateOptions;
pub use crate::metrics::Judged;
use crate::metrics::MetricsOptions;
use crate::metrics::client::ClientCost;
use crate::metrics::probe::Probed;
use crate::metrics::spec_decode::SpecDecode;
use crate::metrics::{LatencyMetric, QueueMetric};
use crate::report::{About, EngineAbout};
use crate::shard::ClockAbout;

/// The version of the format, raised whenever a reader of the one before would misread it.
pub const VERSION: u32 = 1;

/// What is known before the first request is sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`VERSION`].
    pub version: u32,
    /// The begin (the instant from which due times count) in ISO 8601, UTC.
    pub started: String,
    /// The same, in nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// Everything that is said about the run, as far as it was known by then.
    pub about: About,
    /// The name of the model that requests asked for; not in the first logs.
    #[serde(default)]
    pub model: Option<String>,
    /// Names of the headers that the user added; their values are secrets.
    pub header_names: Vec<String>,
    pub constraints: ConstraintsAbout,
    pub load: LoadTerms,
    pub metrics: MetricsOptions,
    pub percentile_metrics: Vec<LatencyMetric>,
    /// The wait before sending as latencies of its own, where it was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queue_metrics: Vec<QueueMetric>,
    /// Whether the saved result holds every request.
    pub detailed: bool,
    pub evaluate: EvaluateOptions,
    /// The tokenizer as the user named it; `None` is the embedded one.
    pub tokenizer: Option<String>,
    /// SHA-256 of the constraints that the server was sent before the run, in order.
    pub known_constraints: Vec<String>,
    /// Which part of a plan this is the log of, whose whole the rest of the header tells; `None` of a run by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<ShardAbout>,
    /// The shards that this log was merged from, in their order; none of a log that a run wrote.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<MergedShard>,
}

/// The terms of the load: what was to be sent, how fast, for how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadTerms {
    /// Requests that were prepared.
    pub requests: usize,
    pub seed: u64,
    /// Requests per second, `"inf"` where all are due at once; `None` where a ramp has its own.
    #[serde(serialize_with = "crate::report::rate_or_inf", deserialize_with = "crate::report::rate_or_inf_back")]
    pub request_rate: Option<f64>,
    pub ramp: Option<RampTerms>,
    /// Shape of the gamma distribution of gaps; `"inf"` for even spacing.
    #[serde(serialize_with = "number_or_inf", deserialize_with = "number_or_inf_back")]
    pub burstiness: f64,
    pub max_concurrency: Option<usize>,
    /// When sending was to end, in nanoseconds from the begin; `None` with the last case.
    pub duration_ns: Option<u64>,
    /// Whether the cases went round until then.
    pub cycling: bool,
    pub steady_state_threshold: f64,
    pub cold_schema_every: Option<usize>,
    /// The share of errors, and the errors in a row, at which the run was to give up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_error_rate: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_consecutive_errors: Option<usize>,
}

/// A rate that rises.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RampTerms {
    /// `linear` or `exponential`.
    pub strategy: String,
    pub start_rps: u32,
    pub end_rps: u32,
}

/// How the run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Footer {
    /// Requests in the log.
    pub requests: usize,
    /// From the begin to the last end of a request that was sent.
    pub duration_ns: u64,
    /// What the run took from the machine.
    pub cost: ClientCost,
    /// The small requests beside the run, where they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<Probed>,
    /// What speculative decoding did, where the server tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec_decode: Option<SpecDecode>,
    /// The decoding engine with what it did, where it is ours.
    pub engine: Option<EngineAbout>,
    /// Whether the user stopped the run.
    pub interrupted: bool,
    /// Why the run gave up on the server before its planned end, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken_off: Option<String>,
    /// What the reader has to know besides the header's notices.
    pub notices: Vec<String>,
    /// What this machine's clock was off shard 1's after the run, where that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockAbout>,
}

impl Header {
    /// The begin by the wall clock.
    pub fn started(&self) -> std::time::SystemTime {
        std::time::UNIX_EPOCH + std::time::Duration::from_nanos(self.started_unix_ns)
    }
}

fn number_or_inf<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    crate::report::rate_or_inf(&Some(*number), serializer)
}

fn number_or_inf_back<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    crate::report::rate_or_inf_back(deserializer)?.ok_or_else(|| serde::de::Error::custom("no number"))
}
