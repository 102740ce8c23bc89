//! The run log: a file with every event of a run, from which the report can be created again.
//!
//! JSON Lines, each an object with one member that names the type of the line (contract:
//! `schemas/contracts/run-log.schema.json`):
//!
//! 1. `header`: [`VERSION`] and the run record ([`sobench_plan::record::RunRecord`]), written before the first request.
//! 2. `constraint`, `prompt` and `oracle`: parts that requests share, by number, written before their first use.
//! 3. `request`: a case and its observation, written when the request ends, in any order.
//! 4. `server_metrics` ([`sobench_core::server_sample::ServerSample`]): a reading of the server's metrics page, at any place before the verdicts.
//! 5. `judged` ([`sobench_facts::Judged`]): verdict and token counts of each request, after the run.
//! 6. `footer` ([`Footer`]): how the run ended. A log without a footer is from a killed run.
//!
//! [`merge`] combines the logs of the shards of a run.
//!
//! To read a log, as `sobench compare` does:
//!
//! ```no_run
//! use sobench_runlog::RunLog;
//!
//! let log = RunLog::read("run.jsonl".as_ref())?;
//! let mut answers = log.answers();
//! for request in log.requests.iter() {
//!     let verdict = request.verdict();
//!     // Texts are read from the file again.
//!     let answer = answers.read(request)?;
//! }
//! # Ok::<(), sobench_core::error::Error>(())
//! ```
//!
//! `requests` are in plan order. If `is_judged` is false, the run was killed, and the requests have
//! to be judged first (`sobench_report::from_log` does this). Times are exact: chunks are written
//! as gaps and added up again.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod judge;
mod line;
pub mod merge;
pub mod probe;
mod read;
pub mod recovery;
mod request_lines;
mod source;
pub mod spec_decode;
#[cfg(test)]
mod tests;
mod wire;
pub mod write;

pub use self::line::{Footer, LoggedAnswer, MAX_LINE_BYTES};
pub use self::read::{AnswerReader, RunLog};
pub use self::request_lines::{RequestLines, RequestReader};
pub use self::source::Source;

/// The version of the format. It increases if older readers would misread the format.
pub const VERSION: u32 = 2;

/// The contract of a line.
pub fn contract() -> serde_json::Value {
    sobench_core::contract::written::<line::Line<'_>>()
}
