//! The flags of `sobench calibrate`, checked and turned into the points to measure. Starts nothing.

use crate::commands::calibrate::args::{CalibrateArgs, CalibrateFormat};
use crate::commands::calibrate::{Load, Plan, Point};
use crate::error::{Error, Result};

/// Tokens of an answer where a rate is offered: what is measured is how requests go out.
const RATE_OUTPUT_LEN: usize = 5;

/// The most requests of one point: the server keeps an instant for every token.
const MAX_REQUESTS: usize = 1_000_000;

/// Longest wait for a token.
const MAX_MS: f64 = 60_000.0;

/// Checks the flags of `sobench calibrate`.
///
/// # Errors
/// Usage errors that name the flag and its value.
pub fn calibrate_plan(flags: &CalibrateArgs) -> Result<Plan> {
    for (flag, ms) in [("--ttft-ms", flags.ttft_ms), ("--itl-ms", flags.itl_ms)] {
        if !(0.0..=MAX_MS).contains(&ms) {
            return Err(Error::usage(format!("{flag} is no time that a server takes: {ms}")).hint("give 0 to 60000 milliseconds"));
        }
    }
    for (flag, number) in [("--output-len", flags.output_len), ("--rounds", flags.rounds), ("--repeat", flags.repeat)] {
        if number == 0 {
            return Err(Error::usage(format!("nothing can be measured with {flag} 0")).hint("give at least 1"));
        }
    }
    if flags.floor && cfg!(not(target_os = "linux")) {
        return Err(Error::usage("--floor is for Linux").hint("leave it out: it loops over Linux' own system calls"));
    }
    let mut points = Vec::new();
    for streams in flags.streams.iter().copied().filter(|streams| *streams > 0) {
        let requests = bounded("--streams", streams as f64, streams as f64 * flags.rounds as f64)?;
        points.push(Point { load: Load::Streams(streams), requests, output_len: flags.output_len });
    }
    for rate in flags.request_rate.iter().copied().filter(|rate| *rate != 0.0) {
        let requests = bounded("--request-rate", rate, rate * flags.rate_duration)?;
        points.push(Point { load: Load::PerSecond(rate), requests, output_len: RATE_OUTPUT_LEN });
    }
    if points.is_empty() {
        return Err(Error::usage("nothing to measure").hint("give --streams or --request-rate"));
    }
    Ok(Plan {
        points,
        ttft_ms: flags.ttft_ms,
        itl_ms: flags.itl_ms,
        repeat: flags.repeat,
        against: flags.against.clone(),
        floor: flags.floor,
        against_name: flags.against_name.clone(),
        json: flags.format == CalibrateFormat::Json,
    })
}

fn bounded(flag: &str, value: f64, requests: f64) -> Result<usize> {
    if !(1.0..=MAX_REQUESTS as f64).contains(&requests) {
        return Err(Error::usage(format!("{flag} {value} comes to {requests} requests"))
            .hint(format!("a point has 1 to {MAX_REQUESTS}: change it, --rounds or --rate-duration")));
    }
    Ok(requests.round() as usize)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn plan(flags: &[&str]) -> Result<Plan> {
        let typed = ["sobench", "calibrate"].iter().chain(flags);
        match Cli::try_parse_from(typed).unwrap().into_command() {
            Command::Calibrate(flags) => calibrate_plan(&flags),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn points_follow_from_flags_and_nonsense_is_refused() {
        let found = plan(&["--streams", "10,20", "--request-rate", "30", "--rounds", "3"]).unwrap();
        let counts: Vec<_> = found.points.iter().map(|point| (point.load, point.requests, point.output_len)).collect();
        let expected = [(Load::Streams(10), 30, 50), (Load::Streams(20), 60, 50), (Load::PerSecond(30.0), 150, 5)];
        assert_eq!(counts, expected);
        for (flags, what) in [
            (&["--itl-ms", "-1"][..], "--itl-ms is no time that a server takes: -1"),
            (&["--rounds", "0"], "nothing can be measured with --rounds 0"),
            (&["--streams", "0", "--request-rate", "0"], "nothing to measure"),
            (&["--request-rate", "-2"], "--request-rate -2 comes to -10 requests"),
            (&["--request-rate", "nan"], "--request-rate NaN comes to NaN requests"),
        ] {
            let error = plan(flags).unwrap_err();
            assert_eq!((error.what.as_str(), error.exit_code()), (what, 2));
        }
    }
}
