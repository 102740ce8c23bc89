//! Flags of `sobench calibrate`, and the points to measure.

use clap::Args;

use crate::commands::calibrate::{Load, Point};
use crate::commands::flags::values::formats;
use sobench_core::error::{Error, Result};
use sobench_core::output_format::OutputFormat;

/// Tokens of an answer with a request rate, where only the sending of requests is measured.
const RATE_OUTPUT_LEN: usize = 5;

/// Maximum requests of one point, because the server stores an instant for every token.
const MAX_REQUESTS: usize = 1_000_000;

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
    /// Output tokens per request
    #[arg(long, default_value_t = 50, allow_negative_numbers = true)]
    pub output_len: usize,
    /// Requests per stream
    #[arg(
        long,
        value_name = "N",
        default_value_t = 2,
        allow_negative_numbers = true
    )]
    pub rounds: usize,
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
    /// Command line of another client to compare with. {base_url}, {model}, {requests}, {streams}
    /// (or a large number), {rate} (or inf), {output_len}, {dir} and {file} are replaced; it must
    /// save ttfts, itls and generated_texts like vLLM's clients in {dir}/{file}
    #[arg(long, value_name = "CMD")]
    pub against: Option<String>,
    /// Name of the other client in the table
    #[arg(long, value_name = "NAME", default_value = "the other client")]
    pub against_name: String,
    /// Also measure a minimal loop of the same system calls, the lower bound of client overhead
    /// (Linux)
    #[arg(long)]
    pub floor: bool,
    /// Output format
    #[arg(long, default_value = "text", value_parser = formats(&[OutputFormat::Text, OutputFormat::Json]))]
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
        for (flag, number) in [
            ("--output-len", self.output_len),
            ("--rounds", self.rounds),
            ("--repeat", self.repeat),
        ] {
            if number == 0 {
                return Err(
                    Error::usage(format!("{flag} must be at least 1: 0")).hint("give at least 1")
                );
            }
        }
        if self.floor && cfg!(not(target_os = "linux")) {
            return Err(Error::usage("--floor is supported on Linux only")
                .hint("remove --floor; it uses system calls of Linux"));
        }
        let mut points = Vec::new();
        for streams in self.streams.iter().copied().filter(|streams| *streams > 0) {
            let requests = checked_request_count(
                "--streams",
                streams as f64,
                streams as f64 * self.rounds as f64,
            )?;
            points.push(Point {
                load: Load::Streams(streams),
                requests,
                output_len: self.output_len,
            });
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

    fn points(flags: &[&str]) -> Result<Vec<Point>> {
        let arguments = ["sobench", "calibrate"].iter().chain(flags);
        match Cli::try_parse_from(arguments).unwrap().into_command() {
            Command::Calibrate(flags) => flags.points(),
            other => panic!("{other:?}"),
        }
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
