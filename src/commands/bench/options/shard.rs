//! Which part of a load a client carries and when it starts: the flags, checked, and what cannot be
//! divided. Opens nothing.

use std::time::{Duration, SystemTime};

use clap::Args;

use super::{OutputPlan, RunLogPlan, Target};
use crate::commands::bench::args::BenchArgs;
use crate::commands::flags::checks::seconds;
use crate::commands::flags::environment::variable;
use crate::commands::flags::shard::shard;
use sobench_client::CoordinatorOptions;
use sobench_core::dates::since_1970;
use sobench_core::error::{Error, Result};
use sobench_core::load::Load;
use sobench_core::schedule::{Pace, Rate, Until};
use sobench_core::shard::{Shard, Start};

/// Which part of a load this client carries.
#[derive(Args, Clone, Debug, Default)]
pub struct ShardArgs {
    /// Carry part I of N of the load, I from 1: each shard takes every N-th request of the same
    /// plan, at the time that the whole has it due; `auto` reads I and N from SOBENCH_SHARD, a
    /// Slurm array, or an indexed job of Kubernetes with SOBENCH_SHARDS. `sobench merge` makes one
    /// run of the logs
    #[arg(long, value_name = "I/N|auto")]
    pub shard: Option<String>,
    /// Begin at this instant by the wall clock, from which all due times count: RFC 3339 in UTC, or
    /// seconds since 1970. One that passes before the run is ready ends it
    #[arg(long, value_name = "TIME", conflicts_with = "coordinator")]
    pub start_at: Option<String>,
    /// Where shards find each other: shard 1 listens on this port, the others look for it at
    /// HOST:PORT. They begin together when all are ready, and measure what their clocks are off
    /// each other
    #[arg(long, value_name = "HOST:PORT", requires = "shard")]
    pub coordinator: Option<String>,
    /// How long a shard waits for the others to join and to become ready
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 600.0,
        requires = "coordinator",
        allow_negative_numbers = true
    )]
    pub coordinator_timeout: f64,
}

/// Whose word the begin of a run is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartPlan {
    /// The run's own: it begins when it is ready.
    Own,
    At(SystemTime),
    Coordinator(CoordinatorOptions),
}

impl StartPlan {
    /// The same as a word.
    pub fn whose(&self) -> Start {
        match self {
            Self::Own => Start::Own,
            Self::At(_) => Start::StartAt,
            Self::Coordinator(_) => Start::Coordinator,
        }
    }
}

/// The longest that shards wait for each other: a week, as a queue of jobs may take.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(7 * 86_400);

/// The part of a load, where one was asked for.
///
/// # Errors
/// It is none, or something else was asked for that cannot be dealt out.
pub(crate) fn of_a_run(
    arguments: &BenchArgs,
    traffic: &Load,
    requests: usize,
    target: &Target,
    output: &OutputPlan,
) -> Result<Option<Shard>> {
    let Some(shard) = shard(arguments.shards.shard.as_deref(), &variable)? else {
        return Ok(None);
    };
    refuse_what_is_one(arguments, traffic, target, output)?;
    if requests < shard.of {
        return Err(Error::usage(format!(
            "{requests} requests are too few for the shards of --shard {shard}"
        ))
        .hint("give each a request at least: raise --num-prompts, or take fewer shards"));
    }
    match traffic.max_concurrency {
        Some(cap) if cap < shard.of => {
            Err(Error::usage(format!("--max-concurrency {cap} is too little for the shards of --shard {shard}"))
                .hint("each shard has its part of the cap, one request under way at least: raise it, or take fewer shards"))
        }
        _ => Ok(Some(shard)),
    }
}

/// When the run begins.
///
/// # Errors
/// What was given is no instant, no place or no time.
pub(crate) fn start(flags: &ShardArgs) -> Result<StartPlan> {
    if let Some(address) = &flags.coordinator {
        let timeout = seconds("--coordinator-timeout", flags.coordinator_timeout)?;
        if timeout > LONGEST_TIMEOUT {
            return Err(Error::usage(format!(
                "--coordinator-timeout is longer than a week: {}",
                flags.coordinator_timeout
            ))
            .hint("give seconds, e.g. 3600"));
        }
        let is_place = address.rsplit_once(':').is_some_and(|(host, port)| {
            !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
        });
        if !is_place {
            return Err(
                Error::usage(format!("--coordinator is not HOST:PORT: {address}"))
                    .hint("name where the others find shard 1, e.g. 10.0.0.5:7070"),
            );
        }
        return Ok(StartPlan::Coordinator(CoordinatorOptions {
            address: address.clone(),
            timeout,
        }));
    }
    let Some(text) = &flags.start_at else {
        return Ok(StartPlan::Own);
    };
    let since = since_1970(text).or_else(|| decimal_seconds(text));
    let start = since.and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since));
    start.map(StartPlan::At).ok_or_else(|| {
        Error::usage(format!("--start-at is no instant: {text}"))
            .hint("give RFC 3339 in UTC, e.g. 2026-03-01T12:00:00Z, or seconds since 1970, e.g. \"$(($(date +%s) + 60))\"")
    })
}

/// Seconds with or without decimals.
fn decimal_seconds(text: &str) -> Option<Duration> {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = is_digits(whole) && is_digits(decimals) && decimals.len() <= 9;
    is_number.then(|| {
        Some(Duration::new(
            whole.parse().ok()?,
            format!("{decimals:0<9}").parse().ok()?,
        ))
    })?
}

/// Refuses what several clients cannot do as one would.
fn refuse_what_is_one(
    arguments: &BenchArgs,
    traffic: &Load,
    target: &Target,
    output: &OutputPlan,
) -> Result<()> {
    let refuse =
        |what: &str, hint: &str| Err(Error::usage(format!("a load in shards {what}")).hint(hint));
    match (target, traffic.until) {
        (Target::Embedded { .. }, _) => refuse(
            "needs one server for all of them, and none is named: the embedded engine is each client's own",
            "start sobench serve, and name it with --base-url",
        ),
        (_, Until::Cycling(_)) => refuse(
            "has a number of requests, and --duration alone lets them go round as fast as the server answers",
            "give --num-prompts in place of --duration, or a --request-rate beside it",
        ),
        (_, Until::Time(_)) if traffic.pace == Pace::Steady(Rate::Infinite) => refuse(
            "cannot end in the middle of a closed loop: each shard would have come to another place of the plan (--duration)",
            "leave --duration out, or give a --request-rate",
        ),
        _ if arguments.server.profile => refuse(
            "would have every shard begin and end the server's profile (--profile)",
            "leave it out, and post to /start_profile and /stop_profile before and after all shards",
        ),
        _ if !output.require.is_empty() => refuse(
            "has no bounds on one of them (--require)",
            "merge the logs, and hold the whole against its bounds with sobench compare --require",
        ),
        _ if output.run_log == RunLogPlan::Off => refuse(
            "is put together from the logs of its shards (--no-run-log)",
            "leave --no-run-log out, or name a file with --run-log",
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_begin_is_an_instant_or_a_place() {
        let at = |text: &str| {
            start(&ShardArgs {
                start_at: Some(text.to_owned()),
                ..ShardArgs::default()
            })
        };
        for (text, expected_ns) in [
            ("1790000000", 1_790_000_000_000_000_000_u64),
            ("1790000000.25", 1_790_000_000_250_000_000),
            ("2026-09-21T14:13:20Z", 1_790_000_000_000_000_000),
            (
                "2026-09-21t14:13:20.000000001+00:00",
                1_790_000_000_000_000_001,
            ),
            ("2024-02-29T00:00:00Z", 1_709_164_800_000_000_000),
        ] {
            let expected = SystemTime::UNIX_EPOCH + Duration::from_nanos(expected_ns);
            assert_eq!(at(text).unwrap(), StartPlan::At(expected), "{text}");
        }
        for text in [
            "",
            "soon",
            "-5",
            "+5",
            "1e9",
            "1.",
            ".5",
            "2026-02-30T00:00:00Z",
            "2026-09-21T14:13:20",
            "2026-09-21 14:13:20Z",
            "2026-09-21T24:00:00Z",
        ] {
            let error = at(text).unwrap_err();
            assert_eq!(
                (error.what, error.kind),
                (
                    format!("--start-at is no instant: {text}"),
                    sobench_core::error::Kind::Usage
                )
            );
        }
        let place = |address: &str, timeout_s: f64| {
            start(&ShardArgs {
                coordinator: Some(address.to_owned()),
                coordinator_timeout: timeout_s,
                ..ShardArgs::default()
            })
        };
        let options = CoordinatorOptions {
            address: "one:7070".to_owned(),
            timeout: Duration::from_secs(5),
        };
        assert_eq!(
            place("one:7070", 5.0).unwrap(),
            StartPlan::Coordinator(options)
        );
        for address in ["one", "one:", ":7070", "one:0", "one:70700"] {
            assert_eq!(
                place(address, 5.0).unwrap_err().what,
                format!("--coordinator is not HOST:PORT: {address}")
            );
        }
        assert_eq!(
            place("one:7070", 0.0).unwrap_err().what,
            "--coordinator-timeout is not a time: 0"
        );
        assert_eq!(
            place("one:7070", 1e18).unwrap_err().what,
            "--coordinator-timeout is longer than a week: 1000000000000000000"
        );
    }
}
