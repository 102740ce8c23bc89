//! `sobench calibrate`: measures every point, one client after the other.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use super::child::{self, FinishedClient};
use super::errors::{Record, Saved, compare, p99, read_saved};
use super::options::CalibrateArgs;
use super::server::{Log, MODEL, ServerCommand, Timetable};
use super::{Calibration, FLOOR, Flow, Load, Measured, Point, Row, SOBENCH, cores, cost};
use crate::commands::calibrate::report;
use crate::commands::output::{CommandOutput, pretty};
use crate::terminal;
use sobench_core::error::{Error, Result};
use sobench_core::exit_codes::{ENVIRONMENT, SUCCESS};
use sobench_core::output_format::OutputFormat;
use sobench_render::{markdown, text};

/// The file in which a client saves its result.
const RESULT_FILE: &str = "result.json";

/// Concurrency cap for clients that require one.
const NO_CAP: usize = 1_000_000;

/// Measures every point and renders the result.
///
/// # Errors
/// Usage errors of the flags; the reference server does not start. Failures of a client are part of
/// the result.
pub fn run(options: &CalibrateArgs) -> Result<CommandOutput> {
    let points = options.points()?;
    let others = options.other_clients()?;
    let mut server = Server::start(&options.server_cores)?;
    let mut rows = Vec::new();
    for _ in 0..options.repeat {
        for point in &points {
            for client in clients(options, &others, point.load) {
                terminal::say(&format!("calibrate: {} at {}", client.name(), point.load));
                let (measured, failure) = match measure(&mut server, options, *point, &client) {
                    Ok(measured) => (Some(measured), None),
                    Err(reason) => (None, Some(reason)),
                };
                rows.push(Row {
                    client: client.name().to_owned(),
                    point: *point,
                    measured,
                    failure,
                });
            }
        }
    }
    let some_failed = rows.iter().any(|row| row.failure.is_some());
    let calibration = Calibration {
        machine: machine(),
        ttft_ms: options.ttft_ms,
        itl_ms: options.itl_ms,
        repeat: options.repeat,
        costs: cost::costs(&rows),
        rows,
    };
    let stdout = match options.format {
        OutputFormat::Json => pretty(&calibration),
        OutputFormat::Markdown => markdown::render(&report::document(&calibration), 1),
        _ => text::render(&report::document(&calibration)),
    };
    Ok(CommandOutput {
        stdout,
        exit_code: if some_failed { ENVIRONMENT } else { SUCCESS },
        ..CommandOutput::default()
    })
}

/// A client to measure.
#[derive(Clone, Copy)]
enum Client<'a> {
    /// This program.
    Sobench,
    Other {
        name: &'a str,
        template: &'a str,
    },
    /// The minimal loop of this program.
    Floor,
}

impl Client<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Sobench => SOBENCH,
            Self::Other { name, .. } => name,
            Self::Floor => FLOOR,
        }
    }
}

/// The clients for a load. The minimal loop supports streams only.
fn clients<'a>(
    options: &CalibrateArgs,
    others: &'a [(&str, &str)],
    load: Load,
) -> impl Iterator<Item = Client<'a>> {
    let others = others
        .iter()
        .map(|(name, template)| Client::Other { name, template });
    let floor = (options.floor && matches!(load, Load::Streams(_))).then_some(Client::Floor);
    std::iter::once(Client::Sobench).chain(others).chain(floor)
}

/// Measures one client at one point; the error is a message.
fn measure(
    server: &mut Server,
    options: &CalibrateArgs,
    point: Point,
    client: &Client<'_>,
) -> std::result::Result<Measured, String> {
    let folder = tempfile::tempdir()
        .map_err(|error| format!("cannot create a temporary folder: {error}"))?;
    let not_found =
        |error: std::io::Error| format!("cannot find the path of this program: {error}");
    let mut command = match client {
        Client::Sobench => sobench_command(server, point, folder.path()).map_err(not_found)?,
        Client::Floor => floor_command(server, point).map_err(not_found)?,
        Client::Other { template, .. } => other_command(server, point, folder.path(), template),
    };
    let timetable = options.timetable();
    server.ask(ServerCommand::Start(timetable))?;
    let finished = child::run(&mut command, &options.client_cores)
        .map_err(|error| format!("cannot be started: {error}"))?;
    let answer = server.ask(ServerCommand::Log)?;
    let log: Log = serde_json::from_str(&answer)
        .map_err(|error| format!("invalid log of the server: {error}"))?;
    let reported = match client {
        Client::Floor if finished.status.success() => None,
        Client::Floor => {
            return Err(format!(
                "ended with {}{}",
                finished.status,
                stderr_suffix(&finished)
            ));
        }
        Client::Sobench | Client::Other { .. } => {
            Some(reported(&finished, &folder.path().join(RESULT_FILE))?)
        }
    };
    result(&log, &finished, point, timetable, reported.as_ref())
}

fn stderr_suffix(finished: &FinishedClient) -> String {
    if finished.last_lines.is_empty() {
        String::new()
    } else {
        format!(": {}", finished.last_lines)
    }
}

/// The saved result of the client.
fn reported(finished: &FinishedClient, file: &Path) -> std::result::Result<Saved, String> {
    let text = std::fs::read(file).map_err(|_| {
        format!(
            "saved no result, and ended with {}{}",
            finished.status,
            stderr_suffix(finished)
        )
    })?;
    let saved: Value =
        serde_json::from_slice(&text).map_err(|error| format!("saved invalid JSON: {error}"))?;
    read_saved(&saved)
}

fn result(
    log: &Log,
    finished: &FinishedClient,
    point: Point,
    timetable: Timetable,
    reported: Option<&Saved>,
) -> std::result::Result<Measured, String> {
    let unknown = || {
        format!(
            "reported no request of the server's log{}",
            stderr_suffix(finished)
        )
    };
    let compared = reported
        .map(|reported| compare(&log.records, reported, point.load).ok_or_else(unknown))
        .transpose()?;
    let tokens: usize = log
        .records
        .iter()
        .map(|record| record.written_ns.len())
        .sum();
    let per_million = |cpu_s: f64| cpu_s / tokens as f64 * 1e6;
    // A trial request before the run does not count for the rates.
    let ids: Option<HashSet<u64>> =
        reported.map(|saved| saved.requests.iter().map(|report| report.id).collect());
    let run: Vec<&Record> = log
        .records
        .iter()
        .filter(|record| ids.as_ref().is_none_or(|ids| ids.contains(&record.id)))
        .collect();
    let arrivals = || run.iter().map(|record| record.arrived_ns);
    let first_arrival_ns = log.records.iter().map(|record| record.arrived_ns).min();
    let span_s = arrivals()
        .max()
        .zip(arrivals().min())
        .map(|(last, first)| (last - first) as f64 / 1e9);
    let gaps = compared
        .as_ref()
        .map_or(0, |compared| compared.matched)
        .saturating_sub(1) as f64;
    Ok(Measured {
        cpu_s_per_million_tokens: finished.cpu_s.filter(|_| tokens > 0).map(per_million),
        peak_memory_mib: finished.peak_memory_mib,
        first_request_s: first_arrival_ns.map(|at_ns| log.since_start_s(at_ns)),
        achieved_rps: span_s
            .filter(|span_s| *span_s > 0.0 && matches!(point.load, Load::PerSecond(_)))
            .map(|span_s| gaps / span_s),
        flow: flow(log, &run, finished, timetable),
        compared,
        arrivals: log.records.len(),
        stamped_arrivals: log
            .records
            .iter()
            .filter(|record| record.is_arrival_stamped)
            .count(),
        tokens,
    })
}

/// The load on both sides from the first to the last of these records. The server has nothing else
/// to do.
fn flow(
    log: &Log,
    records: &[&Record],
    finished: &FinishedClient,
    timetable: Timetable,
) -> Option<Flow> {
    let first_ns = records.iter().map(|record| record.arrived_ns).min()?;
    let last_ns = records
        .iter()
        .filter_map(|record| record.write_ends_ns.last());
    let (from_s, to_s) = (
        log.since_start_s(first_ns),
        log.since_start_s(*last_ns.max()?),
    );
    let time_s = Some(to_s - from_s).filter(|time_s| *time_s > 0.0)?;
    let mut late_ms: Vec<f64> = records
        .iter()
        .flat_map(|record| record.late_ms(timetable))
        .collect();
    Some(Flow {
        tokens_per_s: late_ms.len() as f64 / time_s,
        client_cores: finished
            .cpu_s_between(from_s, to_s)
            .map(|cpu_s| cpu_s / time_s),
        server_cores: log.cpu_s.map(|cpu_s| cpu_s / time_s),
        server_late_p99_ms: p99(&mut late_ms)?,
    })
}

/// A benchmark of unconstrained requests by this program.
fn sobench_command(server: &Server, point: Point, folder: &Path) -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([
        "--base-url",
        &server.base_url(),
        "--model",
        MODEL,
        "--no-guided-decoding",
        "--disable-tqdm",
    ]);
    command.args([
        "--num-prompts",
        &point.requests.to_string(),
        "--output-len",
        &point.output_len.to_string(),
    ]);
    command
        .args([
            "--save-result",
            "--save-detailed",
            "--result-filename",
            RESULT_FILE,
            "--result-dir",
        ])
        .arg(folder);
    match point.load {
        Load::Streams(streams) => command.args(["--max-concurrency", &streams.to_string()]),
        Load::PerSecond(rate) => command.args(["--request-rate", &rate.to_string()]),
    };
    Ok(command)
}

/// The minimal loop.
fn floor_command(server: &Server, point: Point) -> std::io::Result<Command> {
    let Load::Streams(streams) = point.load else {
        unreachable!("the minimal loop supports streams only")
    };
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("calibrate-floor");
    command.args(
        [
            usize::from(server.port),
            streams,
            point.requests,
            point.output_len,
        ]
        .map(|number| number.to_string()),
    );
    Ok(command)
}

/// The user's command line. `exec` replaces the shell, so that only the client is measured.
fn other_command(server: &Server, point: Point, folder: &Path, template: &str) -> Command {
    let (streams, rate) = match point.load {
        Load::Streams(streams) => (streams, "inf".to_owned()),
        Load::PerSecond(rate) => (NO_CAP, rate.to_string()),
    };
    let line = template
        .replace("{base_url}", &server.base_url())
        .replace("{model}", MODEL)
        .replace("{requests}", &point.requests.to_string())
        .replace("{streams}", &streams.to_string())
        .replace("{rate}", &rate)
        .replace("{output_len}", &point.output_len.to_string())
        .replace("{dir}", &folder.to_string_lossy())
        .replace("{file}", RESULT_FILE);
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("exec {line}"));
    command
}

/// The reference server with known timing, in its own process.
struct Server {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    port: u16,
}

impl Server {
    fn start(server_cores: &[usize]) -> Result<Self> {
        let broken = |reason: String| {
            Error::environment(format!("the reference server did not start: {reason}")).hint(
                "check that the file of this program still exists; it is started a second time",
            )
        };
        let program = std::env::current_exe().map_err(|error| broken(error.to_string()))?;
        let mut command = Command::new(program);
        command
            .arg("calibrate-server")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process =
            cores::spawn(&mut command, server_cores).map_err(|error| broken(error.to_string()))?;
        let input = process.stdin.take();
        let output = process
            .stdout
            .take()
            .map(BufReader::new)
            .ok_or_else(|| broken("no output".to_owned()))?;
        let mut server = Self {
            process,
            input,
            output,
            port: 0,
        };
        server.port = server
            .line()
            .ok()
            .and_then(|line| line.parse().ok())
            .ok_or_else(|| broken("it printed no port".to_owned()))?;
        Ok(server)
    }

    fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Sends one command and returns its line of reply; the error is a message.
    fn ask(&mut self, ask: ServerCommand) -> std::result::Result<String, String> {
        let line = serde_json::to_string(&ask).expect("a command is JSON");
        let input = self
            .input
            .as_mut()
            .ok_or("the reference server has no input")?;
        writeln!(input, "{line}")
            .map_err(|error| format!("the reference server has ended: {error}"))?;
        self.line()
    }

    fn line(&mut self) -> std::result::Result<String, String> {
        let mut line = String::new();
        let read = self
            .output
            .read_line(&mut line)
            .map_err(|error| format!("the reference server failed: {error}"))?;
        if read == 0 {
            return Err("the reference server has ended".to_owned());
        }
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process ends with its input; waiting avoids a zombie process.
        drop(self.input.take());
        let _ = self.process.wait();
    }
}

/// The machine of the measurement.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let cpu = std::fs::read_to_string("/proc/cpuinfo")
        .ok()
        .and_then(|text| {
            text.lines()
                .find_map(|line| {
                    line.strip_prefix("model name")
                        .and_then(|rest| rest.split_once(':'))
                })
                .map(|(_, name)| name.trim().to_owned())
        });
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease")
        .ok()
        .map(|text| text.trim().to_owned());
    let parts = [
        Some(format!("{cores} cores")),
        cpu,
        kernel.map(|release| format!("{} {release}", std::env::consts::OS)),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
