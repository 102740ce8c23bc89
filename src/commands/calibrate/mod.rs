//! How far can the client's own figures be trusted? Runs clients against a server of known timing
//! and holds what they report against what the server did.
//!
//! [`server`] is that server, in a process of its own; [`child`] runs a client, which is sobench
//! itself or another one; [`errors`] compares, and is pure; `floor` is the least that any client
//! takes; [`command`] goes through the points. Knows no constraint and no verdict.

mod child;
pub mod command;
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

pub use errors::{Compared, Spread};

/// Measures the client.
///
/// # Errors
/// As [`command::run`].
pub fn run(flags: CalibrateArgs, shutdown: &Shutdown) -> Result<CommandOutput> {
    shutdown.or_abandon(move || command::run(&flags))
}

/// The server of known timing: JSON lines over its standard streams.
///
/// # Errors
/// A stream that cannot be read or written.
#[expect(
    clippy::disallowed_methods,
    reason = "a child process answers its parent over standard output"
)]
pub fn run_server() -> Result<CommandOutput> {
    server::serve(BufReader::new(std::io::stdin()), std::io::stdout())
        .map(|()| CommandOutput::default())
}

/// The name of the bare loop in the table.
pub const FLOOR: &str = "bare system calls";

/// One load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    pub load: Load,
    pub requests: usize,
    /// Tokens of each answer.
    pub output_len: usize,
}

/// How requests are offered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// So many streams at a time.
    Streams(usize),
    /// So many requests per second, with Poisson arrivals.
    PerSecond(f64),
}

/// One client at one point, over all repeats.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    pub client: String,
    #[serde(flatten)]
    pub point: Point,
    /// `None` where the client did not come to an end; `failure` says why.
    pub measured: Option<Measured>,
    pub failure: Option<String>,
}

/// What a client said against what the server did, and what the client took.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// `None` of the bare loop, which reports nothing.
    #[serde(flatten)]
    pub compared: Option<Compared>,
    /// Tokens that the server wrote for it.
    pub tokens: usize,
    /// CPU time of the client's process from start to end, for each million tokens that it read.
    pub cpu_s_per_million_tokens: Option<f64>,
    /// The most memory that it held; `None` where the system does not tell.
    pub peak_memory_mib: Option<f64>,
    /// From starting the client to its first request at the server.
    pub first_request_s: Option<f64>,
    /// Requests per second that reached the server, from the first to the last.
    pub achieved_rps: Option<f64>,
}

/// Runs the bare loop: as many streams at a time as asked for, until all requests are answered.
///
/// # Errors
/// No connection, one that breaks, or a system other than Linux.
pub fn run_floor(flags: &FloorArgs) -> Result<CommandOutput> {
    #[cfg(target_os = "linux")]
    return floor::run(flags).map(|()| CommandOutput::default());
    #[cfg(not(target_os = "linux"))]
    Err(sobench_core::error::Error::usage(format!(
        "the bare loop is for Linux: port {}",
        flags.port
    ))
    .hint("leave --floor out"))
}

/// The whole of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibration {
    pub machine: String,
    pub ttft_ms: f64,
    pub itl_ms: f64,
    pub repeat: usize,
    pub rows: Vec<Row>,
}

impl std::fmt::Display for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Streams(streams) => write!(f, "{streams} streams"),
            Self::PerSecond(rate) => write!(f, "{rate} requests/s"),
        }
    }
}
