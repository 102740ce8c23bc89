//! The run log: everything that a run did, a line at a time, in a file from which the report can be
//! made again.
//!
//! JSON Lines, each an object with one member that says what the line is (contract:
//! `schemas/contracts/run-log.schema.json`):
//!
//! 1. `header`: [`VERSION`] and the run record ([`crate::record::RunRecord`]), everything that is known before the first request.
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
//! use sobench_results::runlog::{Keep, RunLog};
//!
//! let log = RunLog::read("run.jsonl".as_ref(), Keep::WithoutTexts)?;
//! for (place, request) in log.requests.iter().enumerate() {
//!     let verdict = request.verdict();
//!     // `request.text()` is empty: `log.answer(place)` reads it where it is wanted.
//! }
//! # Ok::<(), sobench_core::error::Error>(())
//! ```
//!
//! `requests` are in plan order, with what was found out about them where `is_judged`; where the
//! run was killed, somebody has to judge (`sobench_report::from_log` does). Instants are exact:
//! chunks are written as the gaps between them, and added up again.

pub mod judge;
mod line;
pub mod merge;
mod read;
mod source;
#[cfg(test)]
mod tests;
pub mod write;

use serde::{Deserialize, Serialize};

pub use self::line::{LoggedAnswer, MAX_LINE_BYTES};
pub use self::read::{Keep, RunLog};
pub use self::source::Source;
pub use crate::metrics::Judged;
use crate::metrics::client::ClientCost;
use crate::metrics::probe::Probed;
use crate::metrics::spec_decode::SpecDecode;
use crate::record::Engine;
use sobench_core::shard::ClockOffset;
use sobench_notices::notice::Notice;

/// The version of the format, raised whenever a reader of the one before would misread it.
pub const VERSION: u32 = 2;

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
    pub engine: Option<Engine>,
    /// Whether the user stopped the run.
    pub interrupted: bool,
    /// Why the run gave up on the server before its planned end, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken_off: Option<String>,
    /// What the reader has to know besides the record's notices.
    pub notices: Vec<Notice>,
    /// What this machine's clock was off shard 1's after the run, where that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockOffset>,
}
