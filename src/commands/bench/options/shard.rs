//! The sharding flags: the part of the load that this client sends, and its start.

use std::path::Path;
use std::time::{Duration, SystemTime};

use clap::Args;

use super::{OutputPlan, RunLogPlan, Target};
use crate::commands::bench::args::BenchArgs;
use crate::commands::flags::checks::seconds;
use crate::commands::flags::environment::variable;
use crate::commands::flags::shard::{path_of_shard, shard};
use sobench_client::CoordinatorSettings;
use sobench_core::dates::parse_unix_time;
use sobench_core::error::{Error, Result};
use sobench_core::load::Load;
use sobench_core::schedule::{Pace, Rate, Until};
use sobench_core::shard::{Shard, Start};

/// The sharding flags.
#[derive(Args, Clone, Debug, Default)]
pub struct ShardArgs {
    /// Send shard I (from 1) of N of the load: every N-th request, at its due time in the whole
    /// load; `sobench merge` merges the run logs. `auto` reads I and N from SOBENCH_SHARD, a Slurm
    /// array, a task of srun, or an indexed Kubernetes job with SOBENCH_SHARDS. `{shard}` in names
    /// of output files is I
    #[arg(long, value_name = "I/N|auto")]
    pub shard: Option<String>,
    /// Start of the schedule by the wall clock: RFC 3339 in UTC, or seconds since 1970. The run
    /// fails if it is not ready by then
    #[arg(long, value_name = "TIME", conflicts_with = "coordinator")]
    pub start_at: Option<String>,
    /// Address of shard 1, which listens on this port, for the other shards. All shards start
    /// together when they are ready, and measure the offsets of their clocks
    #[arg(long, value_name = "HOST:PORT", requires = "shard")]
    pub coordinator: Option<String>,
    /// Time limit in seconds for the other shards to join and to become ready
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 600.0,
        requires = "coordinator",
        allow_negative_numbers = true
    )]
    pub coordinator_timeout: f64,
}

/// The start of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartPlan {
    /// When the run is ready.
    WhenReady,
    At(SystemTime),
    Coordinator(CoordinatorSettings),
}

impl StartPlan {
    /// The kind of start, for the run record.
    pub fn kind(&self) -> Start {
        match self {
            Self::WhenReady => Start::Own,
            Self::At(_) => Start::StartAt,
            Self::Coordinator(_) => Start::Coordinator,
        }
    }
}

/// The longest `--coordinator-timeout`: a week, because jobs may be queued for days.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(7 * 86_400);

/// The shard of a run, if one is requested.
///
/// # Errors
/// The shard is invalid, or another flag cannot be combined with shards.
pub(crate) fn shard_of_run(
    arguments: &BenchArgs,
    traffic: &Load,
    requests: usize,
    target: &Target,
    output: &mut OutputPlan,
) -> Result<Option<Shard>> {
    let flag = arguments.shards.shard.as_deref();
    let Some(shard) = shard(flag, &variable)? else {
        return Ok(None);
    };
    let own = |path: &Path| path_of_shard(path, shard, flag, &variable);
    for (_, path) in &mut output.files {
        *path = own(path);
    }
    if let RunLogPlan::At(path) = &mut output.run_log {
        *path = own(path);
    }
    if let Some(name) = &mut output.filename {
        *name = own(Path::new(name)).to_string_lossy().into_owned();
    }
    refuse_indivisible(arguments, traffic, target, output)?;
    if requests < shard.of {
        return Err(Error::usage(format!(
            "{requests} requests are too few for --shard {shard}"
        ))
        .hint("raise --num-prompts, or use fewer shards: each needs at least one request"));
    }
    match traffic.max_concurrency {
        Some(cap) if cap < shard.of => Err(Error::usage(format!(
            "--max-concurrency {cap} is too low for --shard {shard}"
        ))
        .hint("raise it, or use fewer shards: each needs at least 1 of the cap")),
        _ => Ok(Some(shard)),
    }
}

/// The start of the run.
///
/// # Errors
/// The instant, the address or the timeout is invalid.
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
        let is_address = address.rsplit_once(':').is_some_and(|(host, port)| {
            !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
        });
        if !is_address {
            return Err(
                Error::usage(format!("--coordinator is not HOST:PORT: {address}"))
                    .hint("give the address of shard 1, e.g. 10.0.0.5:7070"),
            );
        }
        return Ok(StartPlan::Coordinator(CoordinatorSettings {
            address: address.clone(),
            timeout,
        }));
    }
    let Some(text) = &flags.start_at else {
        return Ok(StartPlan::WhenReady);
    };
    let since = parse_unix_time(text).or_else(|| decimal_seconds(text));
    let start = since.and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since));
    start.map(StartPlan::At).ok_or_else(|| {
        Error::usage(format!("--start-at is not an instant: {text}"))
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

/// Refuses flags that cannot be divided among shards.
fn refuse_indivisible(
    arguments: &BenchArgs,
    traffic: &Load,
    target: &Target,
    output: &OutputPlan,
) -> Result<()> {
    let refuse = |what: &str, hint: &str| Err(Error::usage(what).hint(hint));
    match (target, traffic.until) {
        (Target::Embedded { .. }, _) => refuse(
            "--shard needs a server, because the embedded server belongs to one client",
            "start sobench serve, and name it with --base-url",
        ),
        (_, Until::Cycling(_)) => refuse(
            "--shard needs a number of requests, which --duration alone does not determine",
            "give --num-prompts in place of --duration, or a --request-rate beside it",
        ),
        (_, Until::Time(_)) if traffic.pace == Pace::Steady(Rate::Infinite) => refuse(
            "--shard cannot be combined with --duration in a closed loop: shards would end at different requests",
            "leave --duration out, or give a --request-rate",
        ),
        _ if arguments.server.profile => refuse(
            "--shard cannot be combined with --profile: every shard would start and stop the profiler",
            "leave --profile out, and post to /start_profile and /stop_profile before and after all shards",
        ),
        _ if !output.require.is_empty() => refuse(
            "--require does not apply to a single shard",
            "merge the run logs, and check the thresholds with sobench compare --require",
        ),
        _ if output.run_log == RunLogPlan::Off => refuse(
            "--shard needs a run log, which --no-run-log disables",
            "leave --no-run-log out, or name a file with --run-log",
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_is_an_instant_or_an_address() {
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
                    format!("--start-at is not an instant: {text}"),
                    sobench_core::error::ErrorKind::Usage
                )
            );
        }
        let coordinator = |address: &str, timeout_s: f64| {
            start(&ShardArgs {
                coordinator: Some(address.to_owned()),
                coordinator_timeout: timeout_s,
                ..ShardArgs::default()
            })
        };
        let options = CoordinatorSettings {
            address: "one:7070".to_owned(),
            timeout: Duration::from_secs(5),
        };
        assert_eq!(
            coordinator("one:7070", 5.0).unwrap(),
            StartPlan::Coordinator(options)
        );
        for address in ["one", "one:", ":7070", "one:0", "one:70700"] {
            assert_eq!(
                coordinator(address, 5.0).unwrap_err().what,
                format!("--coordinator is not HOST:PORT: {address}")
            );
        }
        assert_eq!(
            coordinator("one:7070", 0.0).unwrap_err().what,
            "--coordinator-timeout is not a time: 0"
        );
        assert_eq!(
            coordinator("one:7070", 1e18).unwrap_err().what,
            "--coordinator-timeout is longer than a week: 1000000000000000000"
        );
    }
}
