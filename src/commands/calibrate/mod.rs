//! `sobench calibrate`: measures the accuracy of clients. Runs them against a reference server with
//! known timing and compares their reports with the server's log.
//!
//! [`server`] is the reference server, in its own process; `child` runs a client, which is
//! sobench or another one; `cores` chooses the cores of both; [`errors`] compares; `floor` is a
//! minimal client; [`command`] measures all points; `cost` divides the CPU time.

mod child;
pub mod command;
mod cores;
mod cost;
pub mod errors;
#[cfg(target_os = "linux")]
mod floor;
pub mod options;
pub mod report;
pub mod server;

use std::io::BufReader;

use serde::Serialize;

use self::options::{CalibrateArgs, FloorArgs};
use super::output::CommandOutput;
use sobench_core::error::Result;
use sobench_shutdown::Shutdown;

pub use cost::Cost;
pub use errors::{CheckedBound, Compared, Spread};

/// Runs the command.
///
/// # Errors
/// See [`command::run`].
pub fn run(flags: CalibrateArgs, shutdown: &Shutdown) -> Result<CommandOutput> {
    shutdown.run_or_abandon(move || command::run(&flags))
}

/// The reference server: JSON lines over its standard streams.
///
/// # Errors
/// A stream cannot be read or written.
#[expect(
    clippy::disallowed_methods,
    reason = "a child process replies to its parent over standard output"
)]
pub fn run_server() -> Result<CommandOutput> {
    server::serve(BufReader::new(std::io::stdin()), std::io::stdout())
        .map(|()| CommandOutput::default())
}

/// The name of this program in the table.
pub const SOBENCH: &str = "sobench";

/// The name of the minimal loop in the table.
pub const FLOOR: &str = "bare system calls";

/// One load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    pub load: Load,
    pub requests: usize,
    /// Tokens of each answer.
    pub output_len: usize,
}

/// The kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// Concurrent streams.
    Streams(usize),
    /// Requests per second, with Poisson arrivals.
    PerSecond(f64),
}

/// The result of one client at one point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    pub client: String,
    #[serde(flatten)]
    pub point: Point,
    /// `None` if the client failed; `failure` has the reason.
    pub measured: Option<Measured>,
    pub failure: Option<String>,
}

/// The accuracy and overhead of a client.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// `None` for the minimal loop, which reports nothing.
    #[serde(flatten)]
    pub compared: Option<Compared>,
    /// Requests that arrived at the server.
    pub arrivals: usize,
    /// Those whose arrival the kernel stamped.
    pub stamped_arrivals: usize,
    /// Tokens that the server sent to it.
    pub tokens: usize,
    /// CPU time of the client process from start to end, per million tokens.
    pub cpu_s_per_million_tokens: Option<f64>,
    /// Peak memory; `None` if the system does not report it.
    pub peak_memory_mib: Option<f64>,
    /// From the start of the client to its first request at the server.
    pub first_request_s: Option<f64>,
    /// Requests per second that reached the server, from the first to the last.
    pub achieved_rps: Option<f64>,
    /// `None` if there was at most one token.
    pub flow: Option<Flow>,
}

/// The load on both sides, from the first request to the last token.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Flow {
    pub tokens_per_s: f64,
    /// Mean number of cores that the client used; `None` if the system does not report it.
    pub client_cores: Option<f64>,
    /// Mean number of cores that the server used.
    pub server_cores: Option<f64>,
    /// 99th percentile of the time from when a token was due until the server began to write it.
    pub server_late_p99_ms: f64,
}

/// Runs the minimal loop until all requests are answered.
///
/// # Errors
/// A connection cannot be made or breaks, or the system is not Linux.
pub fn run_floor(flags: &FloorArgs) -> Result<CommandOutput> {
    #[cfg(target_os = "linux")]
    return floor::run(flags).map(|()| CommandOutput::default());
    #[cfg(not(target_os = "linux"))]
    Err(sobench_core::error::Error::usage(format!(
        "the minimal loop runs on Linux only: port {}",
        flags.port
    ))
    .hint("remove --floor"))
}

/// The result of a calibration.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibration {
    pub machine: String,
    pub ttft_ms: f64,
    pub itl_ms: f64,
    pub repeat: usize,
    pub rows: Vec<Row>,
    /// The parts of the CPU time of each client, if the points separate them.
    pub costs: Vec<Cost>,
}

impl std::fmt::Display for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Streams(streams) => write!(f, "{streams} streams"),
            Self::PerSecond(rate) => write!(f, "{rate} requests/s"),
        }
    }
}
