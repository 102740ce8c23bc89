//! The flags of `sobench calibrate`, and the points that they ask to measure.

use clap::Args;

use crate::commands::calibrate::{Load, Point};
use crate::commands::flags::values::formats;
use sobench_core::error::{Error, Result};
use sobench_core::output_format::OutputFormat;

/// Tokens of an answer where a rate is offered: what is measured is how requests go out.
const RATE_OUTPUT_LEN: usize = 5;

/// The most requests of one point: the server keeps an instant for every token.
const MAX_REQUESTS: usize = 1_000_000;

/// Longest wait for a token.
const MAX_MS: f64 = 60_000.0;

/// What is measured of the client.
#[derive(Args, Clone, Debug)]
pub struct CalibrateArgs {
    /// Streams at a time, a row each
    #[arg(
        long,
        value_name = "N,N",
        value_delimiter = ',',
        default_value = "100,500,1000,2000",
        allow_negative_numbers = true
    )]
    pub streams: Vec<usize>,
    /// Offered requests per second, a row each; 0 leaves them out
    #[arg(
        long,
        value_name = "RPS,RPS",
        value_delimiter = ',',
        default_value = "50,500,2000",
        allow_negative_numbers = true
    )]
    pub request_rate: Vec<f64>,
    /// Tokens of an answer
    #[arg(long, default_value_t = 50, allow_negative_numbers = true)]
    pub output_len: usize,
    /// Requests for each stream
    #[arg(
        long,
        value_name = "N",
        default_value_t = 2,
        allow_negative_numbers = true
    )]
    pub rounds: usize,
    /// Seconds for which a rate is offered
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 5.0,
        allow_negative_numbers = true
    )]
    pub rate_duration: f64,
    /// Milliseconds from a request's arrival at the server to its first token
    #[arg(
        long,
        value_name = "MS",
        default_value_t = 100.0,
        allow_negative_numbers = true
    )]
    pub ttft_ms: f64,
    /// Milliseconds from each token to the next
    #[arg(
        long,
        value_name = "MS",
        default_value_t = 50.0,
        allow_negative_numbers = true
    )]
    pub itl_ms: f64,
    /// Measure everything so often, the clients taking turns
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        allow_negative_numbers = true
    )]
    pub repeat: usize,
    /// Command line of another client, for the same server in the same run. {base_url}, {model},
    /// {requests}, {streams} (or a large number), {rate} (or inf), {output_len}, {dir} and {file}
    /// are filled in; it has to save ttfts, itls and generated_texts as vLLM's clients do, in
    /// {dir}/{file}
    #[arg(long, value_name = "CMD")]
    pub against: Option<String>,
    /// Name of the other client in the table
    #[arg(long, value_name = "NAME", default_value = "the other client")]
    pub against_name: String,
    /// Measure a bare loop of the same system calls as well: what no client of so many streams can
    /// go below (Linux)
    #[arg(long)]
    pub floor: bool,
    /// Format of the result
    #[arg(long, default_value = "text", value_parser = formats(&[OutputFormat::Text, OutputFormat::Json]))]
    pub format: OutputFormat,
}

/// The bare loop of `calibrate --floor`.
#[derive(Clone, Copy, Debug, Args)]
pub struct FloorArgs {
    pub port: u16,
    pub streams: usize,
    pub requests: usize,
    pub output_len: usize,
}

impl CalibrateArgs {
    /// Checks the flags, and lists the points to measure.
    ///
    /// # Errors
    /// Usage errors that name the flag and its value.
    pub fn points(&self) -> Result<Vec<Point>> {
        for (flag, ms) in [("--ttft-ms", self.ttft_ms), ("--itl-ms", self.itl_ms)] {
            if !(0.0..=MAX_MS).contains(&ms) {
                return Err(
                    Error::usage(format!("{flag} is no time that a server takes: {ms}"))
                        .hint("give 0 to 60000 milliseconds"),
                );
            }
        }
        for (flag, number) in [
            ("--output-len", self.output_len),
            ("--rounds", self.rounds),
            ("--repeat", self.repeat),
        ] {
            if number == 0 {
                return Err(
                    Error::usage(format!("nothing can be measured with {flag} 0"))
                        .hint("give at least 1"),
                );
            }
        }
        if self.floor && cfg!(not(target_os = "linux")) {
            return Err(Error::usage("--floor is for Linux")
                .hint("leave it out: it loops over Linux' own system calls"));
        }
        let mut points = Vec::new();
        for streams in self.streams.iter().copied().filter(|streams| *streams > 0) {
            let requests = bounded(
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
            let requests = bounded("--request-rate", rate, rate * self.rate_duration)?;
            points.push(Point {
                load: Load::PerSecond(rate),
                requests,
                output_len: RATE_OUTPUT_LEN,
            });
        }
        if points.is_empty() {
            return Err(Error::usage("nothing to measure").hint("give --streams or --request-rate"));
        }
        Ok(points)
    }
}

fn bounded(flag: &str, value: f64, requests: f64) -> Result<usize> {
    if !(1.0..=MAX_REQUESTS as f64).contains(&requests) {
        return Err(
            Error::usage(format!("{flag} {value} comes to {requests} requests")).hint(format!(
                "a point has 1 to {MAX_REQUESTS}: change it, --rounds or --rate-duration"
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
        let typed = ["sobench", "calibrate"].iter().chain(flags);
        match Cli::try_parse_from(typed).unwrap().into_command() {
            Command::Calibrate(flags) => flags.points(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn points_follow_from_flags_and_nonsense_is_refused() {
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
            (
                &["--itl-ms", "-1"][..],
                "--itl-ms is no time that a server takes: -1",
            ),
            (
                &["--rounds", "0"],
                "nothing can be measured with --rounds 0",
            ),
            (
                &["--streams", "0", "--request-rate", "0"],
                "nothing to measure",
            ),
            (
                &["--request-rate", "-2"],
                "--request-rate -2 comes to -10 requests",
            ),
            (
                &["--request-rate", "nan"],
                "--request-rate NaN comes to NaN requests",
            ),
        ] {
            let error = points(flags).unwrap_err();
            assert_eq!((error.what.as_str(), error.exit_code()), (what, 2));
        }
    }
}
