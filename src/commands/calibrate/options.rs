//! Flags of `sobench calibrate`, and the points to measure.

use clap::Args;

use super::cores;
use super::server::Timetable;
use crate::commands::calibrate::{FLOOR, Load, Point, SOBENCH};
use crate::commands::flags::values::formats;
use sobench_core::distinct::distinct;
use sobench_core::error::{Error, Result};
use sobench_core::output_format::OutputFormat;

/// Tokens of an answer with a request rate, where only the sending of requests is measured.
const RATE_OUTPUT_LEN: usize = 5;

/// Maximum requests of one point, because the server stores an instant for every token.
const MAX_REQUESTS: usize = 1_000_000;

/// The name of the other client if there is one and it has none.
const ONLY_OTHER: &str = "the other client";

/// Maximum wait for a token.
const MAX_MS: f64 = 60_000.0;

/// Flags of `sobench calibrate`.
#[derive(Args, Clone, Debug)]
pub struct CalibrateArgs {
    /// Numbers of concurrent streams, one row each
    #[arg(
        long,
        value_name = "N,N",
        value_delimiter = ',',
        default_value = "100,500,1000,2000",
        allow_negative_numbers = true
    )]
    pub streams: Vec<usize>,
    /// Request rates in requests per second, one row each; 0 for none
    #[arg(
        long,
        value_name = "RPS,RPS",
        value_delimiter = ',',
        default_value = "50,500,2000",
        allow_negative_numbers = true
    )]
    pub request_rate: Vec<f64>,
    /// Output tokens per request. Each number is measured with each number of streams
    #[arg(
        long,
        value_name = "N,N",
        value_delimiter = ',',
        default_value = "50",
        allow_negative_numbers = true
    )]
    pub output_len: Vec<usize>,
    /// Requests per stream. Each number is measured with each number of streams; with several
    /// numbers here and in --output-len, the CPU time is divided into parts per connection, request
    /// and token
    #[arg(
        long,
        value_name = "N,N",
        value_delimiter = ',',
        default_value = "2",
        allow_negative_numbers = true
    )]
    pub rounds: Vec<usize>,
    /// Duration of each request rate, in seconds
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 5.0,
        allow_negative_numbers = true
    )]
    pub rate_duration: f64,
    /// Time from the arrival of a request to its first token, in milliseconds
    #[arg(
        long,
        value_name = "MS",
        default_value_t = 100.0,
        allow_negative_numbers = true
    )]
    pub ttft_ms: f64,
    /// Time between tokens, in milliseconds
    #[arg(
        long,
        value_name = "MS",
        default_value_t = 50.0,
        allow_negative_numbers = true
    )]
    pub itl_ms: f64,
    /// Number of repetitions; the clients alternate
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        allow_negative_numbers = true
    )]
    pub repeat: usize,
    /// Command line of another client to compare with; give it once for each client. {base_url},
    /// {model}, {requests}, {streams} (or a large number), {rate} (or inf), {output_len}, {dir} and
    /// {file} are replaced; it must save ttfts, itls and generated_texts like vLLM's clients in
    /// {dir}/{file}
    #[arg(long, value_name = "CMD")]
    pub against: Vec<String>,
    /// Name of the other client in the table; with several, one for each --against, in their order
    #[arg(long, value_name = "NAME")]
    pub against_name: Vec<String>,
    /// Also measure a minimal loop of the same system calls, the lower bound of client overhead
    /// (Linux)
    #[arg(long)]
    pub floor: bool,
    /// Cores that each client runs on, such as 0 or 0,1 (Linux) [default: all]
    #[arg(long, value_name = "CORE,CORE", value_delimiter = ',')]
    pub client_cores: Vec<usize>,
    /// Cores that the server runs on (Linux) [default: all]
    #[arg(long, value_name = "CORE,CORE", value_delimiter = ',')]
    pub server_cores: Vec<usize>,
    /// Output format
    #[arg(long, default_value = "text", value_parser = formats(&[OutputFormat::Text, OutputFormat::Json, OutputFormat::Markdown]))]
    pub format: OutputFormat,
}

/// The minimal loop of `calibrate --floor`.
#[derive(Clone, Copy, Debug, Args)]
pub struct FloorArgs {
    pub port: u16,
    pub streams: usize,
    pub requests: usize,
    pub output_len: usize,
}

impl CalibrateArgs {
    /// When the server's tokens are due.
    pub fn timetable(&self) -> Timetable {
        Timetable {
            ttft_ms: self.ttft_ms,
            itl_ms: self.itl_ms,
        }
    }

    /// Checks the flags and returns the points to measure.
    ///
    /// # Errors
    /// Usage errors with the flag and its value.
    pub fn points(&self) -> Result<Vec<Point>> {
        for (flag, ms) in [("--ttft-ms", self.ttft_ms), ("--itl-ms", self.itl_ms)] {
            if !(0.0..=MAX_MS).contains(&ms) {
                return Err(Error::usage(format!("{flag} is out of range: {ms}"))
                    .hint("give 0 to 60000 milliseconds"));
            }
        }
        for (flag, numbers) in [
            ("--output-len", self.output_len.as_slice()),
            ("--rounds", &self.rounds),
            ("--repeat", &[self.repeat]),
        ] {
            if numbers.contains(&0) {
                return Err(
                    Error::usage(format!("{flag} must be at least 1: 0")).hint("give at least 1")
                );
            }
        }
        cores::check("--client-cores", &self.client_cores)?;
        cores::check("--server-cores", &self.server_cores)?;
        if self.floor && cfg!(not(target_os = "linux")) {
            return Err(Error::usage("--floor is supported on Linux only")
                .hint("remove --floor; it uses system calls of Linux"));
        }
        let mut points = Vec::new();
        for streams in self.streams.iter().copied().filter(|streams| *streams > 0) {
            for rounds in &self.rounds {
                let requests = checked_request_count(
                    "--streams",
                    streams as f64,
                    streams as f64 * *rounds as f64,
                )?;
                points.extend(self.output_len.iter().map(|output_len| Point {
                    load: Load::Streams(streams),
                    requests,
                    output_len: *output_len,
                }));
            }
        }
        for rate in self
            .request_rate
            .iter()
            .copied()
            .filter(|rate| *rate != 0.0)
        {
            let requests =
                checked_request_count("--request-rate", rate, rate * self.rate_duration)?;
            points.push(Point {
                load: Load::PerSecond(rate),
                requests,
                output_len: RATE_OUTPUT_LEN,
            });
        }
        if points.is_empty() {
            return Err(Error::usage("no streams and no request rate to measure")
                .hint("give --streams or --request-rate"));
        }
        Ok(points)
    }
}

impl CalibrateArgs {
    /// The other clients: name and command line.
    ///
    /// # Errors
    /// Usage errors: names that are missing, superfluous or used twice.
    pub fn other_clients(&self) -> Result<Vec<(&str, &str)>> {
        let names: Vec<&str> = match (self.against.as_slice(), self.against_name.as_slice()) {
            ([_], []) => vec![ONLY_OTHER],
            (_, names) => names.iter().map(String::as_str).collect(),
        };
        if names.len() != self.against.len() {
            return Err(Error::usage(format!(
                "--against is given {} times and --against-name {} times",
                self.against.len(),
                self.against_name.len()
            ))
            .hint("give --against-name once for each --against"));
        }
        let taken = |name: &&str| [SOBENCH, FLOOR].contains(name);
        if distinct(&names).len() != names.len() || names.iter().any(taken) {
            return Err(Error::usage(format!(
                "--against-name is not unique: {}",
                names.join(", ")
            ))
            .hint(format!(
                "give each client a name of its own, other than {SOBENCH} and {FLOOR}"
            )));
        }
        let commands = self.against.iter().map(String::as_str);
        Ok(names.into_iter().zip(commands).collect())
    }
}

fn checked_request_count(flag: &str, value: f64, requests: f64) -> Result<usize> {
    if !(1.0..=MAX_REQUESTS as f64).contains(&requests) {
        return Err(
            Error::usage(format!("{flag} {value} results in {requests} requests")).hint(format!(
                "change it, --rounds or --rate-duration to get 1 to {MAX_REQUESTS} requests"
            )),
        );
    }
    Ok(requests.round() as usize)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn parsed(flags: &[&str]) -> CalibrateArgs {
        let arguments = ["sobench", "calibrate"].iter().chain(flags);
        match Cli::try_parse_from(arguments).unwrap().into_command() {
            Command::Calibrate(flags) => *flags,
            other => panic!("{other:?}"),
        }
    }

    fn points(flags: &[&str]) -> Result<Vec<Point>> {
        parsed(flags).points()
    }

    #[test]
    fn streams_are_combined_with_rounds_and_output_lengths() {
        let flags = [
            "--streams",
            "10,20",
            "--rounds",
            "1,3",
            "--output-len",
            "5,7",
        ];
        let found = points(&[&flags[..], &["--request-rate", "0"]].concat()).unwrap();
        let counts: Vec<_> = found
            .iter()
            .map(|point| (point.requests, point.output_len))
            .collect();
        let expected = [10, 30, 20, 60].map(|requests| [(requests, 5), (requests, 7)]);
        assert_eq!(counts, expected.concat());
    }

    #[test]
    fn each_other_client_has_a_name_of_its_own() {
        assert_eq!(parsed(&[]).other_clients().unwrap(), []);
        assert_eq!(
            parsed(&["--against", "a x"]).other_clients().unwrap(),
            [("the other client", "a x")]
        );
        let two = ["--against", "a x", "--against", "b y"];
        let named = |names: &[&str]| {
            let names = names.iter().flat_map(|name| ["--against-name", *name]);
            let flags: Vec<&str> = two.into_iter().chain(names).collect();
            let clients = parsed(&flags);
            let clients = clients.other_clients();
            clients.map(|clients| format!("{clients:?}"))
        };
        assert_eq!(
            named(&["a", "b"]).unwrap(),
            r#"[("a", "a x"), ("b", "b y")]"#
        );
        for (names, what) in [
            (
                &[][..],
                "--against is given 2 times and --against-name 0 times",
            ),
            (
                &["a"],
                "--against is given 2 times and --against-name 1 times",
            ),
            (&["a", "a"], "--against-name is not unique: a, a"),
            (
                &["a", "sobench"],
                "--against-name is not unique: a, sobench",
            ),
        ] {
            assert_eq!(named(names).unwrap_err().what, what);
        }
        let error = parsed(&["--against-name", "a"])
            .other_clients()
            .unwrap_err();
        assert_eq!(error.exit_code(), 2);
    }

    #[test]
    fn flags_determine_the_points_and_invalid_ones_are_rejected() {
        let found = points(&[
            "--streams",
            "10,20",
            "--request-rate",
            "30",
            "--rounds",
            "3",
        ])
        .unwrap();
        let counts: Vec<_> = found
            .iter()
            .map(|point| (point.load, point.requests, point.output_len))
            .collect();
        let expected = [
            (Load::Streams(10), 30, 50),
            (Load::Streams(20), 60, 50),
            (Load::PerSecond(30.0), 150, 5),
        ];
        assert_eq!(counts, expected);
        for (flags, what) in [
            (&["--itl-ms", "-1"][..], "--itl-ms is out of range: -1"),
            (&["--rounds", "0"], "--rounds must be at least 1: 0"),
            (
                &["--streams", "0", "--request-rate", "0"],
                "no streams and no request rate to measure",
            ),
            (
                &["--request-rate", "-2"],
                "--request-rate -2 results in -10 requests",
            ),
            (
                &["--request-rate", "nan"],
                "--request-rate NaN results in NaN requests",
            ),
        ] {
            let error = points(flags).unwrap_err();
            assert_eq!((error.what.as_str(), error.exit_code()), (what, 2));
        }
    }
}
