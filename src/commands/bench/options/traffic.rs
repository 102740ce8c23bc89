//! The traffic flags: number of requests, arrival rate, concurrency, duration and timeouts.

use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args};

use crate::commands::flags::checks::seconds;
use crate::commands::flags::values::{Described, described};
use sobench_core::error::{Error, Result};
use sobench_core::load::{CancelAfter, Cancellation, ErrorLimits, Load};
use sobench_core::schedule::{Pace, Ramp, RampStrategy, Rate, Until};
use sobench_plan::dataset::MAX_PROMPTS;

/// The traffic flags.
#[derive(Args, Clone, Debug)]
pub struct TrafficArgs {
    /// Number of requests, of items where each is sent in several arms, or of sessions [default: 1000, or as many as fit into --duration]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub num_prompts: Option<usize>,
    /// Time in seconds after which no request is sent. Requests in flight may finish
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub duration: Option<f64>,
    /// Limit of tokens of an answer (max_tokens) [default: 128, or depends on the dataset]
    #[arg(long, value_name = "OUTPUT_LEN", allow_negative_numbers = true)]
    pub output_len: Option<u32>,
    /// Arrival rate in requests per second, or in sessions per second; inf sends all at once
    #[arg(long, value_name = "RPS", default_value_t = f64::INFINITY, allow_negative_numbers = true)]
    pub request_rate: f64,
    /// Increase of the arrival rate from the first request to the last, in place of --request-rate
    #[arg(long, value_name = "HOW", requires_all = ["ramp_up_start_rps", "ramp_up_end_rps"], value_parser = described(&RAMP_STRATEGIES))]
    pub ramp_up_strategy: Option<RampStrategy>,
    /// Arrival rate of the ramp-up at the first request, in requests per second
    #[arg(
        long,
        value_name = "RPS",
        requires = "ramp_up_strategy",
        allow_negative_numbers = true
    )]
    pub ramp_up_start_rps: Option<u32>,
    /// Arrival rate of the ramp-up at the last request, in requests per second
    #[arg(
        long,
        value_name = "RPS",
        requires = "ramp_up_strategy",
        allow_negative_numbers = true
    )]
    pub ramp_up_end_rps: Option<u32>,
    /// Send the requests of --dataset requests at the times at which they were recorded, FACTOR times
    /// as fast
    #[arg(long, value_name = "FACTOR", allow_negative_numbers = true)]
    pub replay_speed: Option<f64>,
    /// Shape of the gamma distribution of the gaps between requests: 1 is a Poisson process, less
    /// is burstier, inf is even spacing
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    pub burstiness: f64,
    /// Concurrency cap: the maximum number of requests in flight. A session counts as one request
    /// from its first turn to its last
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub max_concurrency: Option<usize>,
    /// Share of --max-concurrency at which the run is in steady state. The report has the metrics
    /// of the steady state beside those of the whole run
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.95,
        allow_negative_numbers = true
    )]
    pub steady_state_threshold: f64,
    /// Rate of probes in requests per second: requests for one token, one at a time and outside the
    /// cap. The report shows their latency, the effect of the load on unrelated requests
    #[arg(
        long,
        value_name = "RPS",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    pub probe_request_rate: f64,
    /// Seed of all random choices, such as the constrained requests and the due times
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    pub seed: u64,
    /// Number of warm-up requests before the measured ones, under the same cap. They are
    /// unconstrained and have different prompts
    #[arg(long, alias = "warmup-requests", value_name = "N", default_value_t = 0)]
    pub num_warmups: usize,
    /// Send a never-seen JSON Schema with every K-th constrained request, and report the effect on
    /// the other requests
    #[arg(long, value_name = "K", allow_negative_numbers = true)]
    pub cold_schema_every: Option<usize>,
    /// Share of the requests that the client abandons by closing the connection, from 0 to 1. --seed
    /// chooses them. They count in no rate and no latency. After the run, the report says whether the
    /// server still answers as before
    #[arg(
        long,
        value_name = "RATE",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    pub cancel_rate: f64,
    /// When the client closes the connection: after the first token, or this many seconds after the
    /// request was sent [default: first-token]
    #[arg(
        long,
        value_name = "first-token|SECONDS",
        allow_negative_numbers = true
    )]
    pub cancel_after: Option<String>,
    /// Exit with code 1 if the client can have added more than 10 % to a latency or throughput
    #[arg(long)]
    pub strict_client: bool,
    /// Time limit of a request in seconds
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 21600.0,
        allow_negative_numbers = true
    )]
    pub request_timeout: f64,
    /// Time limit in seconds without a byte of the response, before its head or within it [default:
    /// no limit]. Keep-alive comments of a stream count as bytes
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub idle_timeout: Option<f64>,
    /// Stop the run if more than this share of the finished requests failed, once 20 have finished.
    /// Requests in flight may finish, and the report is printed
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    pub max_error_rate: Option<f64>,
    /// Stop the run after this number of consecutive errors: refusals, failures, broken connections
    /// or timeouts
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub max_consecutive_errors: Option<usize>,
    /// Time limit in seconds for requests in flight after the first Ctrl-C
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 30.0,
        allow_negative_numbers = true
    )]
    pub drain_timeout: f64,
    /// Request a token count in each chunk, to recognize chunks of several tokens (vLLM's
    /// continuous_usage_stats)
    #[arg(long, conflicts_with = "disable_stream")]
    pub continuous_usage: bool,
    /// Request complete answers instead of streams
    #[arg(long)]
    pub disable_stream: bool,
    /// After the run, send this share of the requests again for whole answers (all by default), and
    /// report where a streamed answer differs from the whole one. The temperature is 0 unless given,
    /// and --seed is sent
    #[arg(
        long,
        value_name = "SHARE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1",
        conflicts_with_all = ["disable_stream", "duration"],
        allow_negative_numbers = true
    )]
    pub stream_parity: Option<f64>,

    /// Check the frames of every answer against the API, and what client libraries read of them
    #[arg(
        long,
        value_name = "on|off",
        default_value = "on",
        value_parser = BoolishValueParser::new(),
        action = ArgAction::Set
    )]
    pub wire: bool,
}

/// The values of `--ramp-up-strategy`.
const RAMP_STRATEGIES: [Described<RampStrategy>; 2] = [
    Described(
        RampStrategy::Linear,
        "linear",
        "Constant increase in requests per second",
    ),
    Described(
        RampStrategy::Exponential,
        "exponential",
        "Constant growth factor",
    ),
];

/// The default number of requests, as in vLLM.
const DEFAULT_PROMPTS: usize = 1000;

/// The longest schedule: a year.
const LONGEST_SCHEDULE_S: f64 = 366.0 * 86_400.0;

/// Checks the flags against each other. Returns the load and the number of cases.
///
/// # Errors
/// Usage errors that name the flag and its value.
pub(crate) fn traffic(flags: &TrafficArgs) -> Result<(Load, usize)> {
    if flags.num_prompts == Some(0) {
        return Err(Error::usage("--num-prompts is 0").hint("give at least 1"));
    }
    if flags.burstiness.is_nan() || flags.burstiness <= 0.0 {
        return Err(Error::usage(format!(
            "--burstiness is not positive: {}",
            flags.burstiness
        ))
        .hint("give a number above 0; 1 is a Poisson process"));
    }
    if flags.max_concurrency == Some(0) {
        return Err(Error::usage("--max-concurrency is 0").hint("give at least 1, or leave it out"));
    }
    let threshold = flags.steady_state_threshold;
    if threshold.is_nan() || threshold <= 0.0 || threshold > 1.0 {
        return Err(Error::usage(format!(
            "--steady-state-threshold is not a share of the cap: {threshold}"
        ))
        .hint("give a number above 0 and up to 1"));
    }
    let request_timeout = seconds("--request-timeout", flags.request_timeout)?;
    let idle_timeout = flags
        .idle_timeout
        .map(|value| idle_timeout(flags, value, request_timeout))
        .transpose()?;
    let pace = pace(flags)?;
    check_replay(flags.replay_speed, pace)?;
    let (until, requests) = extent(flags, pace)?;
    check_length(flags, pace, requests)?;
    check_cold(flags.cold_schema_every, until)?;
    let traffic = Load {
        pace,
        replay_speed: flags.replay_speed,
        burstiness: flags.burstiness,
        max_concurrency: flags.max_concurrency,
        warmups: flags.num_warmups,
        request_timeout,
        idle_timeout,
        drain_timeout: drain_timeout(flags.drain_timeout)?,
        until,
        error_limits: error_limits(flags)?,
        steady_state_threshold: flags.steady_state_threshold,
        cold_schema_every: flags.cold_schema_every,
        probe_request_rate: probe_rate(flags.probe_request_rate)?,
        strict_client: flags.strict_client,
        cancellation: cancellation(flags, request_timeout)?,
    };
    Ok((traffic, requests))
}

fn check_replay(speed: Option<f64>, pace: Pace) -> Result<()> {
    let Some(speed) = speed else {
        return Ok(());
    };
    if !speed.is_finite() || speed <= 0.0 {
        return Err(
            Error::usage(format!("--replay-speed is not a positive number: {speed}"))
                .hint("give 1 for the recorded times, or 2 for half of the gaps"),
        );
    }
    if pace == Pace::Steady(Rate::Infinite) {
        return Ok(());
    }
    Err(Error::usage(format!(
        "--replay-speed cannot be combined with another rate: {speed}"
    ))
    .hint("leave --request-rate, --ramp-up-strategy or --replay-speed out"))
}

/// The lowest rate of probes: one per day.
const SLOWEST_PROBE_RPS: f64 = 1.0 / 86_400.0;

fn probe_rate(rate: f64) -> Result<Option<f64>> {
    if rate == 0.0 {
        return Ok(None);
    }
    if rate.is_finite() && rate >= SLOWEST_PROBE_RPS {
        return Ok(Some(rate));
    }
    Err(
        Error::usage(format!("--probe-request-rate is not a rate: {rate}"))
            .hint("give requests per second, e.g. 1; 0 sends none"),
    )
}

/// The requests that the client abandons; `None` for none.
///
/// # Errors
/// A share outside of 0 to 1, an instant that cannot be read or is never reached, or an instant
/// without a share.
fn cancellation(flags: &TrafficArgs, request_timeout: Duration) -> Result<Option<Cancellation>> {
    let rate = flags.cancel_rate;
    if !(0.0..=1.0).contains(&rate) {
        return Err(Error::usage(format!(
            "--cancel-rate is not a share of the requests: {rate}"
        ))
        .hint("give a number from 0 to 1, e.g. 0.1 for a tenth of the requests"));
    }
    let text = flags.cancel_after.as_deref();
    if rate == 0.0 {
        return match text {
            None => Ok(None),
            Some(text) => Err(Error::usage(format!(
                "--cancel-after has no effect without --cancel-rate: {text}"
            ))
            .hint("give --cancel-rate a number above 0, e.g. 0.1")),
        };
    }
    let after = match text {
        None => CancelAfter::default(),
        Some(text) => CancelAfter::parse(text).ok_or_else(|| {
            Error::usage(format!(
                "--cancel-after is neither first-token nor a time: {text}"
            ))
            .hint("give first-token, or seconds above 0, e.g. 0.5")
        })?,
    };
    match after {
        CancelAfter::FirstToken if flags.disable_stream => Err(Error::usage(
            "--cancel-after first-token has no meaning with --disable-stream",
        )
        .hint("give --cancel-after seconds")),
        CancelAfter::Seconds(seconds) if seconds >= request_timeout.as_secs_f64() => {
            Err(Error::usage(format!(
                "--cancel-after is not below --request-timeout {}: {seconds}",
                flags.request_timeout
            ))
            .hint("give a shorter time; the request times out first"))
        }
        _ => Ok(Some(Cancellation { rate, after })),
    }
}

/// The idle timeout.
///
/// # Errors
/// Answers are not streamed, or the request timeout is shorter.
fn idle_timeout(flags: &TrafficArgs, value: f64, request_timeout: Duration) -> Result<Duration> {
    let limit = seconds("--idle-timeout", value)?;
    if flags.disable_stream {
        return Err(Error::usage(format!(
            "--idle-timeout has no meaning with --disable-stream: {value}"
        ))
        .hint("leave it out, and use --request-timeout"));
    }
    if limit >= request_timeout {
        return Err(Error::usage(format!(
            "--idle-timeout is not below --request-timeout {}: {value}",
            flags.request_timeout
        ))
        .hint("give fewer seconds, or leave it out"));
    }
    Ok(limit)
}

fn drain_timeout(value: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(value).map_err(|_| {
        Error::usage(format!("--drain-timeout is not a time: {value}"))
            .hint("give seconds; 0 aborts requests in flight")
    })
}

/// The error limits. There are none by default, because errors are results, and a server may
/// recover from a failure.
fn error_limits(flags: &TrafficArgs) -> Result<ErrorLimits> {
    if let Some(share) = flags
        .max_error_rate
        .filter(|share| !(0.0..1.0).contains(share))
    {
        return Err(Error::usage(format!(
            "--max-error-rate is not a share of errors: {share}"
        ))
        .hint("give a number from 0 to below 1, such as 0.1, or leave it out for no limit"));
    }
    if flags.max_consecutive_errors == Some(0) {
        return Err(Error::usage("--max-consecutive-errors is 0")
            .hint("give at least 1, or leave it out for no limit"));
    }
    Ok(ErrorLimits {
        max_error_rate: flags.max_error_rate,
        max_consecutive_errors: flags.max_consecutive_errors,
    })
}

fn pace(flags: &TrafficArgs) -> Result<Pace> {
    let steady = match flags.request_rate {
        rate if rate == f64::INFINITY => Rate::Infinite,
        rate if rate.is_finite() && rate > 0.0 => Rate::PerSecond(rate),
        rate => {
            return Err(
                Error::usage(format!("--request-rate is not a positive number: {rate}"))
                    .hint("give requests per second, or inf to send all at once"),
            );
        }
    };
    let ramp = flags
        .ramp_up_strategy
        .zip(flags.ramp_up_start_rps.zip(flags.ramp_up_end_rps));
    let Some((strategy, (start_rps, end_rps))) = ramp else {
        return Ok(Pace::Steady(steady));
    };
    if let Rate::PerSecond(rate) = steady {
        return Err(Error::usage(format!(
            "--request-rate cannot be combined with a ramp-up: {rate}"
        ))
        .hint("leave --request-rate or --ramp-up-strategy out"));
    }
    if start_rps == 0 {
        return Err(
            Error::usage("--ramp-up-start-rps is 0, so the first request is never due")
                .hint("give at least 1 request per second"),
        );
    }
    if start_rps > end_rps {
        return Err(Error::usage(format!(
            "--ramp-up-end-rps is below --ramp-up-start-rps {start_rps}: {end_rps}"
        ))
        .hint("give an end rate at or above the start rate"));
    }
    Ok(Pace::Ramp(Ramp {
        strategy,
        start_rps,
        end_rps,
    }))
}

/// The end of sending, and the number of cases.
fn extent(flags: &TrafficArgs, pace: Pace) -> Result<(Until, usize)> {
    let Some(duration_s) = flags.duration else {
        return Ok((
            Until::LastCase,
            flags.num_prompts.unwrap_or(DEFAULT_PROMPTS),
        ));
    };
    let duration = seconds("--duration", duration_s)?;
    if flags.replay_speed.is_some() {
        let requests = flags.num_prompts.unwrap_or(DEFAULT_PROMPTS);
        return Ok((Until::Time(duration), requests));
    }
    match (flags.num_prompts, pace.requests_within(duration)) {
        (_, None) if flags.max_concurrency.is_none() => Err(Error::usage(format!(
            "--duration needs a rate or a concurrency cap, because all requests are due at once: {duration_s}"
        ))
        .hint("give --request-rate, or --max-concurrency for a closed loop")),
        (Some(requests), _) => Ok((Until::Time(duration), requests)),
        (None, None) => Ok((Until::Cycling(duration), DEFAULT_PROMPTS)),
        (None, Some(requests)) if requests < 1.0 => {
            Err(Error::usage(format!("no request is due within --duration {duration_s}")).hint("raise the rate or the duration"))
        }
        (None, Some(requests)) if requests > MAX_PROMPTS as f64 => {
            Err(Error::usage(format!("too many requests within --duration {duration_s}: {requests}"))
                .hint(format!("lower the rate or the duration to at most {MAX_PROMPTS} requests")))
        }
        (None, Some(requests)) => Ok((Until::Time(duration), requests as usize)),
    }
}

fn check_length(flags: &TrafficArgs, pace: Pace, requests: usize) -> Result<()> {
    let (flag, slowest) = match pace {
        Pace::Steady(rate) => ("--request-rate", rate.per_second()),
        Pace::Ramp(ramp) => ("--ramp-up-start-rps", f64::from(ramp.start_rps)),
    };
    let longest_s = requests as f64 / slowest;
    if longest_s <= LONGEST_SCHEDULE_S {
        return Ok(());
    }
    let given = if matches!(pace, Pace::Steady(_)) {
        flags.request_rate
    } else {
        slowest
    };
    Err(Error::usage(format!(
        "{flag} results in a schedule of {longest_s:.0} s: {given}"
    ))
    .hint(format!(
        "raise the rate or lower --num-prompts to at most {LONGEST_SCHEDULE_S} s in total"
    )))
}

fn check_cold(every: Option<usize>, until: Until) -> Result<()> {
    match (every, until) {
        (Some(every), _) if every < 2 => Err(Error::usage(format!(
            "--cold-schema-every is below 2, which leaves no warm request: {every}"
        ))
        .hint("give 2 or more, or use --dataset json-unique for a new schema in every request")),
        (Some(_), Until::Cycling(_)) => Err(Error::usage(
            "--cold-schema-every cannot be combined with --duration alone, which repeats the requests",
        )
        .hint("give --num-prompts or --request-rate as well")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::cli::{Cli, Command};

    fn read(arguments: &[&str]) -> Result<(Load, usize)> {
        let arguments = std::iter::once("sobench")
            .chain(arguments.iter().copied())
            .map(OsString::from);
        let command = Cli::parse_arguments(arguments)
            .expect("the arguments parse")
            .into_command();
        let Command::Bench(arguments) = command else {
            panic!("{command:?}")
        };
        traffic(&arguments.traffic)
    }

    const LINEAR: [&str; 6] = [
        "--ramp-up-strategy",
        "linear",
        "--ramp-up-start-rps",
        "1",
        "--ramp-up-end-rps",
        "19",
    ];

    #[test]
    fn number_and_duration_limit_a_run_together_or_alone() {
        let ten = Duration::from_secs(10);
        for (arguments, until, requests) in [
            (&[][..], Until::LastCase, 1000),
            (&["--num-prompts", "7"], Until::LastCase, 7),
            (
                &["--request-rate", "50", "--duration", "10"],
                Until::Time(ten),
                500,
            ),
            (
                &["--request-rate", "0.1", "--duration", "10"],
                Until::Time(ten),
                1,
            ),
            (
                &[
                    "--request-rate",
                    "50",
                    "--duration",
                    "10",
                    "--num-prompts",
                    "9",
                ],
                Until::Time(ten),
                9,
            ),
            (
                &["--max-concurrency", "4", "--duration", "10"],
                Until::Cycling(ten),
                1000,
            ),
            (
                &[
                    "--max-concurrency",
                    "4",
                    "--duration",
                    "10",
                    "--num-prompts",
                    "9",
                ],
                Until::Time(ten),
                9,
            ),
        ] {
            let (traffic, loaded) = read(arguments).unwrap();
            assert_eq!((traffic.until, loaded), (until, requests), "{arguments:?}");
        }
        let (traffic, loaded) = read(&[&LINEAR[..], &["--duration", "10"]].concat()).unwrap();
        assert_eq!(
            (traffic.until, loaded),
            (Until::Time(ten), 61),
            "10 s * 18 / ln 19"
        );
        let ramp = Ramp {
            strategy: RampStrategy::Linear,
            start_rps: 1,
            end_rps: 19,
        };
        assert_eq!(traffic.pace, Pace::Ramp(ramp));
    }

    #[test]
    fn contradictory_flags_are_refused() {
        for (arguments, message) in [
            (
                &["--duration", "0", "--max-concurrency", "1"][..],
                "--duration is not a time: 0",
            ),
            (
                &["--drain-timeout", "-1"],
                "--drain-timeout is not a time: -1",
            ),
            (&["--idle-timeout", "0"], "--idle-timeout is not a time: 0"),
            (
                &["--idle-timeout", "9", "--request-timeout", "9"],
                "--idle-timeout is not below --request-timeout 9: 9",
            ),
            (
                &["--idle-timeout", "9", "--disable-stream"],
                "--idle-timeout has no meaning with --disable-stream: 9",
            ),
            (
                &["--steady-state-threshold", "0"],
                "--steady-state-threshold is not a share of the cap: 0",
            ),
            (
                &["--steady-state-threshold", "1.5"],
                "--steady-state-threshold is not a share of the cap: 1.5",
            ),
            (
                &["--cold-schema-every", "1"],
                "--cold-schema-every is below 2, which leaves no warm request: 1",
            ),
            (
                &[
                    "--cold-schema-every",
                    "9",
                    "--duration",
                    "5",
                    "--max-concurrency",
                    "2",
                ],
                "--cold-schema-every cannot be combined with --duration alone, which repeats the requests",
            ),
            (
                &["--duration", "5"],
                "--duration needs a rate or a concurrency cap, because all requests are due at once: 5",
            ),
            (
                &["--duration", "5", "--request-rate", "0.1"],
                "no request is due within --duration 5",
            ),
            (
                &["--duration", "1e6", "--request-rate", "1e6"],
                "too many requests within --duration 1000000: 1000000000000",
            ),
            (
                &[
                    "--ramp-up-strategy",
                    "exponential",
                    "--ramp-up-start-rps",
                    "0",
                    "--ramp-up-end-rps",
                    "5",
                ],
                "--ramp-up-start-rps is 0, so the first request is never due",
            ),
            (
                &[
                    "--ramp-up-strategy",
                    "linear",
                    "--ramp-up-start-rps",
                    "6",
                    "--ramp-up-end-rps",
                    "5",
                ],
                "--ramp-up-end-rps is below --ramp-up-start-rps 6: 5",
            ),
        ] {
            let error = read(arguments).expect_err("the flags contradict each other");
            assert_eq!((error.what.as_str(), error.exit_code()), (message, 2));
            assert!(error.hint.is_some(), "{arguments:?}");
        }
        let error = read(&[&LINEAR[..], &["--request-rate", "3"]].concat()).unwrap_err();
        assert_eq!(
            error.what,
            "--request-rate cannot be combined with a ramp-up: 3"
        );
    }
}
