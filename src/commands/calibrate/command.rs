//! `sobench calibrate`: goes through the points, one client after the other. Knows no wire.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use super::child::{self, Ended};
use super::errors::{Reported, compare, read_reports};
use super::options::CalibrateArgs;
use super::server::{Ask, Log, MODEL, Timetable};
use super::{Calibration, FLOOR, Load, Measured, Point, Row};
use crate::commands::calibrate::report;
use crate::commands::output::{CommandOutput, pretty};
use crate::terminal;
use sobench_core::error::{Error, Result};
use sobench_core::exit_codes::{COULD_NOT, DONE};
use sobench_core::output_format::OutputFormat;
use sobench_render::text;

/// The file in which a client saves its result.
const RESULT_FILE: &str = "result.json";

/// For clients that want a cap where there is none.
const NO_CAP: usize = 1_000_000;

/// Measures every point and says what came of it.
///
/// # Errors
/// Usage errors of the flags; the server of known timing does not start. What a client does is part
/// of the result.
pub fn run(options: &CalibrateArgs) -> Result<CommandOutput> {
    let points = options.points()?;
    let mut server = Server::start()?;
    let mut rows = Vec::new();
    for _ in 0..options.repeat {
        for point in &points {
            for client in clients(options, point.load) {
                terminal::say(&format!("calibrate: {} at {}", client.name(), point.load));
                let (measured, failure) = match measure(&mut server, options, *point, &client) {
                    Ok(measured) => (Some(measured), None),
                    Err(why) => (None, Some(why)),
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
        rows,
    };
    let stdout = match options.format {
        OutputFormat::Json => pretty(&calibration),
        _ => text::render(&report::document(&calibration)),
    };
    Ok(CommandOutput {
        stdout,
        exit_code: if some_failed { COULD_NOT } else { DONE },
        ..CommandOutput::default()
    })
}

/// The name of this client in the table.
const OURS: &str = "sobench";

/// Who is measured.
#[derive(Clone, Copy)]
enum Client<'a> {
    /// This very program.
    Ours,
    Other {
        name: &'a str,
        template: &'a str,
    },
    /// The bare loop, by this very program.
    Floor,
}

impl Client<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Ours => OURS,
            Self::Other { name, .. } => name,
            Self::Floor => FLOOR,
        }
    }
}

/// Those that a load is put on. The bare loop has streams alone.
fn clients(options: &CalibrateArgs, load: Load) -> impl Iterator<Item = Client<'_>> {
    let other = options.against.as_deref().map(|template| Client::Other {
        name: &options.against_name,
        template,
    });
    let floor = (options.floor && matches!(load, Load::Streams(_))).then_some(Client::Floor);
    std::iter::once(Client::Ours).chain(other).chain(floor)
}

/// One client at one point; the error is in words.
fn measure(
    server: &mut Server,
    options: &CalibrateArgs,
    point: Point,
    client: &Client<'_>,
) -> std::result::Result<Measured, String> {
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    let lost = |error: std::io::Error| format!("this program cannot find itself: {error}");
    let mut command = match client {
        Client::Ours => own_command(server, point, folder.path()).map_err(lost)?,
        Client::Floor => floor_command(server, point).map_err(lost)?,
        Client::Other { template, .. } => other_command(server, point, folder.path(), template),
    };
    server.ask(Ask::Begin(Timetable {
        ttft_ms: options.ttft_ms,
        itl_ms: options.itl_ms,
    }))?;
    let ended =
        child::run(&mut command).map_err(|error| format!("could not be started: {error}"))?;
    let answer = server.ask(Ask::Log)?;
    let log: Log = serde_json::from_str(&answer)
        .map_err(|error| format!("the server's log is not one: {error}"))?;
    let reported = match client {
        Client::Floor if ended.status.success() => None,
        Client::Floor => return Err(format!("ended with {}{}", ended.status, said(&ended))),
        Client::Ours | Client::Other { .. } => {
            Some(reported(&ended, &folder.path().join(RESULT_FILE))?)
        }
    };
    result(&log, &ended, point, reported.as_deref())
}

fn said(ended: &Ended) -> String {
    if ended.words.is_empty() {
        String::new()
    } else {
        format!(": {}", ended.words)
    }
}

/// What the client saved.
fn reported(ended: &Ended, file: &Path) -> std::result::Result<Vec<Reported>, String> {
    let text = std::fs::read(file).map_err(|_| {
        format!(
            "saved no result, and ended with {}{}",
            ended.status,
            said(ended)
        )
    })?;
    let saved: Value =
        serde_json::from_slice(&text).map_err(|error| format!("saved what is no JSON: {error}"))?;
    read_reports(&saved)
}

fn result(
    log: &Log,
    ended: &Ended,
    point: Point,
    reported: Option<&[Reported]>,
) -> std::result::Result<Measured, String> {
    let unknown = || format!("reported no request that the server knows{}", said(ended));
    let compared = reported
        .map(|reported| compare(&log.records, reported).ok_or_else(unknown))
        .transpose()?;
    let tokens: usize = log
        .records
        .iter()
        .map(|record| record.written_ns.len())
        .sum();
    let per_million = |cpu_s: f64| cpu_s / tokens as f64 * 1e6;
    // A trial request before the run is no part of the rate.
    let ids: HashSet<u64> = reported
        .unwrap_or_default()
        .iter()
        .map(|one| one.id)
        .collect();
    let arrivals = || {
        log.records
            .iter()
            .filter(|record| ids.contains(&record.id))
            .map(|record| record.arrived_ns)
    };
    let span_s = arrivals()
        .max()
        .zip(arrivals().min())
        .map(|(last, first)| (last - first) as f64 / 1e9);
    let gaps = compared
        .as_ref()
        .map_or(0, |compared| compared.matched)
        .saturating_sub(1) as f64;
    Ok(Measured {
        cpu_s_per_million_tokens: ended.cpu_s.filter(|_| tokens > 0).map(per_million),
        peak_memory_mib: ended.peak_memory_mib,
        first_request_s: log.first_arrival_ns.map(|ns| ns as f64 / 1e9),
        achieved_rps: span_s
            .filter(|span_s| *span_s > 0.0 && matches!(point.load, Load::PerSecond(_)))
            .map(|span_s| gaps / span_s),
        compared,
        tokens,
    })
}

/// A benchmark of plain requests by this very program.
fn own_command(server: &Server, point: Point, folder: &Path) -> std::io::Result<Command> {
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

/// The bare loop.
fn floor_command(server: &Server, point: Point) -> std::io::Result<Command> {
    let Load::Streams(streams) = point.load else {
        unreachable!("the bare loop is put under streams alone")
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

/// The user's command line, by the shell, which it replaces: what is measured is the client alone.
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

/// The server of known timing, in its own process.
struct Server {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    port: u16,
}

impl Server {
    fn start() -> Result<Self> {
        let broken = |why: String| {
            Error::environment(format!("the server of known timing did not start: {why}"))
                .hint("it is this program once more: is it still where it was started from?")
        };
        let program = std::env::current_exe().map_err(|error| broken(error.to_string()))?;
        let mut command = Command::new(program);
        command
            .arg("calibrate-server")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = command.spawn().map_err(|error| broken(error.to_string()))?;
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
            .ok_or_else(|| broken("it said no port".to_owned()))?;
        Ok(server)
    }

    fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// One question, one line of answer; the error is in words.
    fn ask(&mut self, ask: Ask) -> std::result::Result<String, String> {
        let question = serde_json::to_string(&ask).expect("a question is JSON");
        let input = self
            .input
            .as_mut()
            .ok_or("the server of known timing takes no questions")?;
        writeln!(input, "{question}")
            .map_err(|error| format!("the server of known timing has ended: {error}"))?;
        self.line()
    }

    fn line(&mut self) -> std::result::Result<String, String> {
        let mut line = String::new();
        let read = self
            .output
            .read_line(&mut line)
            .map_err(|error| format!("the server of known timing broke: {error}"))?;
        if read == 0 {
            return Err("the server of known timing has ended".to_owned());
        }
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It ends with its input; it is waited for, so that nothing is left behind.
        drop(self.input.take());
        let _ = self.process.wait();
    }
}

/// What the figures were measured on.
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
