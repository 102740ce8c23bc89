//! The limits of a server: constraints that grow step by step until the server refuses them or takes
//! too long, with the effect on other requests, on memory, and after a cancelled request.
//!
//! [`ladder`] has the constraints, [`probe`] sends the requests, [`judge`] names what the steps
//! show, `server_process` reads memory and CPU time of the server.

pub mod args;
pub mod command;
pub mod judge;
pub mod ladder;
mod neighbour;
pub mod probe;
pub mod report;
mod request_body;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use sobench_backend::{ConstraintDialect, ServerKind};

pub use judge::Verdict;
pub use ladder::LadderKind;
pub use probe::test_limits;
pub use sobench_process::server::ProcessSource;

/// Tokens of an answer: enough to see the first one.
pub const OUTPUT_LEN: u32 = 16;

/// Default time limit of a step, in seconds.
pub const DEFAULT_STEP_TIMEOUT_S: f64 = 10.0;

/// The most bytes of a request body. A ladder ends there. Servers have limits of their own, such as
/// 4 MiB of the embedded server.
pub const MAX_REQUEST_BYTES: usize = 4_000_000;

/// A ladder ends when the server has this much more memory than at its start: the machine may have
/// no more.
pub const MAX_MEMORY_GROWTH: u64 = 4 << 30;

/// No ladder is started later than this after the first one, in seconds.
pub const TIME_BUDGET_S: f64 = 1800.0;

/// The limits of one server, or one engine of the embedded server.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerLimits {
    /// The name in tables and charts.
    pub label: String,
    pub backend: ServerKind,
    pub base_url: String,
    /// The path that requests were sent to.
    pub endpoint: String,
    pub model: String,
    /// The dialect of JSON Schemas.
    pub constraint_dialect: ConstraintDialect,
    pub product: Option<String>,
    pub version: Option<String>,
    /// The engine that enforces constraints, as the server names it.
    pub engine: Option<String>,
    pub stream: bool,
    pub step_timeout_s: f64,
    /// Where memory and CPU time were read; `None` if they are unknown.
    pub process: Option<ProcessSource>,
    /// A small request without a constraint, before the ladders.
    pub neighbour: Latencies,
    /// A request with a small constraint that is new to the server, before the ladders: to the first
    /// token.
    pub small_constraint: Latencies,
    /// Generating requests sent.
    pub requests: usize,
    pub ladders: Vec<Ladder>,
}

/// Latencies of several equal requests, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latencies {
    pub requests: usize,
    /// Requests without an answer. Their time until they failed is among the latencies.
    pub failed: usize,
    pub median_ms: f64,
    pub worst_ms: f64,
}

/// The result of one ladder.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ladder {
    pub ladder: LadderKind,
    /// From small to large.
    pub steps: Vec<Step>,
    pub end: End,
    /// Why the ladder ended, if the end and the last step do not say it.
    pub reason: Option<String>,
    /// The cancelled request, if a step took long enough.
    pub cancelled: Option<Cancelled>,
    /// The worst first.
    pub verdicts: Vec<Verdict>,
}

/// One request with a constraint.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub size: u64,
    pub request_bytes: usize,
    pub outcome: StepOutcome,
    pub status: Option<u16>,
    /// The message of the server, or of the client if there was no answer. Not escaped for a
    /// terminal.
    pub message: String,
    /// To the first token, if there was one.
    pub ttft_ms: Option<f64>,
    /// To the end of the answer.
    pub end_ms: f64,
    /// Small requests without a constraint meanwhile.
    pub neighbours: Option<Latencies>,
    /// Whether other requests waited for this one, in two attempts.
    pub stalls_others: bool,
    pub memory_before_bytes: Option<u64>,
    pub memory_after_bytes: Option<u64>,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepOutcome {
    Accepted,
    Refused,
    /// Status 5xx, or an error in the stream.
    ServerError,
    TimedOut,
    /// The connection was lost.
    Lost,
}

/// Why a ladder ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The largest size was accepted.
    LargestSize,
    /// The server refused a size.
    Refused,
    TimedOut,
    ServerError,
    /// The server accepts no connections after a step.
    Died,
    /// The next request body would exceed [`MAX_REQUEST_BYTES`].
    RequestSize,
    /// The memory of the server grew by more than [`MAX_MEMORY_GROWTH`].
    Memory,
    /// The kind of server has no field for the constraint.
    NotCarried,
    /// An earlier ladder ended the server, there was no time left, or the user stopped the command.
    NotTested,
}

/// A request whose client closed the connection while the server was busy with it.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cancelled {
    pub size: u64,
    /// When the connection was closed, after the request was sent.
    pub after_ms: f64,
    /// How long the server was watched.
    pub watched_ms: f64,
    /// When a request with a small constraint was answered, after the connection was closed; `None` if
    /// none was.
    pub answered_ms: Option<f64>,
    /// When one was answered within its usual time; `None` if none was.
    pub recovered_ms: Option<f64>,
    /// How long the server worked on, as far as its metrics or its CPU time show it; `None` if
    /// unknown.
    pub worked_ms: Option<f64>,
    /// Whether it still worked when it was last seen.
    pub is_working: bool,
}

impl Latencies {
    /// `None` without requests.
    fn new(mut ms: Vec<f64>, failed: usize) -> Option<Self> {
        ms.sort_by(f64::total_cmp);
        Some(Self {
            requests: ms.len(),
            failed,
            median_ms: *ms.get(ms.len() / 2)?,
            worst_ms: *ms.last()?,
        })
    }
}

impl Ladder {
    fn untested(ladder: LadderKind, end: End, reason: String) -> Self {
        Self {
            ladder,
            steps: Vec::new(),
            end,
            reason: Some(reason),
            cancelled: None,
            verdicts: vec![match end {
                End::NotCarried => Verdict::NotCarried,
                _ => Verdict::NotTested,
            }],
        }
    }

    /// The largest accepted step.
    pub fn largest(&self) -> Option<&Step> {
        self.steps
            .iter()
            .rfind(|step| step.outcome == StepOutcome::Accepted)
    }
}

impl ServerLimits {
    /// The ladders with a verdict that [`Verdict::is_bad`].
    pub fn bad_ladders(&self) -> impl Iterator<Item = &Ladder> {
        self.ladders
            .iter()
            .filter(|ladder| ladder.verdicts.iter().any(|verdict| verdict.is_bad()))
    }
}
