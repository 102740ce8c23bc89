//! Flags and variables to a part of a load, and what cannot be dealt out. Opens nothing.

use std::time::{Duration, SystemTime};

use super::traffic::seconds;
use super::{OutputPlan, RunLogPlan, Target};
use crate::commands::bench::args::BenchArgs;
use crate::commands::bench::shard_args::ShardArgs;
use crate::commands::flags::environment::variable;
use crate::dates::unix_s_of;
use crate::driver::CoordinatorOptions;
use crate::error::{Error, Result};
use crate::load::Load;
use crate::schedule::{Pace, Rate, Until};
use crate::shard::{MAX_SHARDS, Shard, Start};

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

/// The value that leaves the part to the environment.
const AUTO: &str = "auto";

/// Where the part stands as `I/N`, whoever started the clients.
const SHARD: &str = "SOBENCH_SHARD";

/// Slurm's variables of a task of an array.
const SLURM_ID: &str = "SLURM_ARRAY_TASK_ID";
const SLURM_FIRST: &str = "SLURM_ARRAY_TASK_MIN";
const SLURM_COUNT: &str = "SLURM_ARRAY_TASK_COUNT";
const SLURM_STEP: &str = "SLURM_ARRAY_TASK_STEP";

/// Kubernetes' variable of a pod of an indexed job, which counts from 0; how many there are it does not say.
const JOB_INDEX: &str = "JOB_COMPLETION_INDEX";
const SHARDS: &str = "SOBENCH_SHARDS";

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
    let Some(shard) = shard(arguments.shards.shard.as_deref(), &variable)? else { return Ok(None) };
    refuse_what_is_one(arguments, traffic, target, output)?;
    if requests < shard.of {
        return Err(Error::usage(format!("{requests} requests are too few for the shards of --shard {shard}"))
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

/// The part that a flag names: `I/N`, or `auto`, for which alone the environment is asked. A scheduler's array of independent runs must
/// not turn into shards.
///
/// # Errors
/// It is no part; the environment does not say, or says what makes no sense.
pub(crate) fn shard(flag: Option<&str>, read: &dyn Fn(&str) -> Option<String>) -> Result<Option<Shard>> {
    match flag {
        None => Ok(None),
        Some(AUTO) => from_environment(read).map(Some),
        Some(text) => text.parse().map(Some).map_err(|words: String| {
            Error::usage(format!("--shard is {words}"))
                .hint("count from 1, e.g. --shard 1/4 to --shard 4/4; auto asks the environment")
        }),
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
            return Err(Error::usage(format!("--coordinator-timeout is longer than a week: {}", flags.coordinator_timeout))
                .hint("give seconds, e.g. 3600"));
        }
        let is_place = address
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0));
        if !is_place {
            return Err(Error::usage(format!("--coordinator is not HOST:PORT: {address}"))
                .hint("name where the others find shard 1, e.g. 10.0.0.5:7070"));
        }
        return Ok(StartPlan::Coordinator(CoordinatorOptions { address: address.clone(), timeout }));
    }
    let Some(text) = &flags.start_at else { return Ok(StartPlan::Own) };
    let start = since_1970(text).and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since));
    start.map(StartPlan::At).ok_or_else(|| {
        Error::usage(format!("--start-at is no instant: {text}"))
            .hint("give RFC 3339 in UTC, e.g. 2026-03-01T12:00:00Z, or seconds since 1970, e.g. \"$(($(date +%s) + 60))\"")
    })
}

/// Seconds with or without decimals, or a date with its time in UTC (RFC 3339).
fn since_1970(text: &str) -> Option<Duration> {
    let (whole, decimals) = match text.strip_suffix(['Z', 'z']).or_else(|| text.strip_suffix("+00:00")) {
        Some(utc) => {
            let (second, decimals) = utc.split_once('.').map_or((utc, None), |(second, decimals)| (second, Some(decimals)));
            (u64::try_from(unix_s_of(second)?).ok()?, decimals)
        }
        None => {
            let (second, decimals) = text.split_once('.').map_or((text, None), |(second, decimals)| (second, Some(decimals)));
            let is_whole = !second.is_empty() && second.bytes().all(|byte| byte.is_ascii_digit());
            (second.parse().ok().filter(|_| is_whole)?, decimals)
        }
    };
    let nanoseconds = match decimals {
        None => 0,
        Some(digits) if (1..=9).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{digits:0<9}").parse().ok()?
        }
        Some(_) => return None,
    };
    Some(Duration::new(whole, nanoseconds))
}

fn from_environment(read: &dyn Fn(&str) -> Option<String>) -> Result<Shard> {
    if let Some(text) = read(SHARD) {
        return text
            .parse()
            .map_err(|words: String| Error::usage(format!("{SHARD} is {words}")).hint("count from 1, e.g. SOBENCH_SHARD=1/4"));
    }
    if read(SLURM_ID).is_some() {
        return of_slurm(read);
    }
    if read(JOB_INDEX).is_some() {
        return of_an_indexed_job(read);
    }
    Err(Error::usage(format!("--shard auto finds neither {SHARD}, {SLURM_ID} nor {JOB_INDEX} in the environment"))
        .hint("set SOBENCH_SHARD=I/N, or name the part, e.g. --shard 1/4"))
}

/// The tasks of an array are numbered from the least one by its step.
fn of_slurm(read: &dyn Fn(&str) -> Option<String>) -> Result<Shard> {
    let hint = "run it as a task of an array, e.g. sbatch --array=1-4, or name the part with --shard I/N";
    let number = |name: &str| number(name, read, hint);
    let (id, first, count, step) = (number(SLURM_ID)?, number(SLURM_FIRST)?, number(SLURM_COUNT)?, number(SLURM_STEP)?);
    let steps = id.checked_sub(first).filter(|_| step > 0).filter(|ahead| ahead % step == 0).map(|ahead| ahead / step);
    steps.and_then(|steps| Shard::new(steps + 1, count)).ok_or_else(|| {
        Error::usage(format!(
            "{SLURM_ID}={id} is no place in an array with {SLURM_FIRST}={first}, {SLURM_COUNT}={count} and {SLURM_STEP}={step}"
        ))
        .hint("number the array evenly, e.g. --array=1-4 or --array=0-6:2, or name the part with --shard I/N")
    })
}

fn of_an_indexed_job(read: &dyn Fn(&str) -> Option<String>) -> Result<Shard> {
    let hint = "an indexed job does not tell its pods how many they are: set SOBENCH_SHARDS to its .spec.completions";
    let (index, of) = (number(JOB_INDEX, read, hint)?, number(SHARDS, read, hint)?);
    Shard::new(index.saturating_add(1), of)
        .ok_or_else(|| Error::usage(format!("{JOB_INDEX}={index} is no index among {SHARDS}={of}")).hint(hint))
}

fn number(name: &str, read: &dyn Fn(&str) -> Option<String>, hint: &str) -> Result<usize> {
    let text = read(name).ok_or_else(|| Error::usage(format!("--shard auto finds no {name} in the environment")).hint(hint))?;
    let number = text.parse().ok().filter(|number| *number <= usize::MAX / (2 * MAX_SHARDS));
    number.ok_or_else(|| Error::usage(format!("{name} is no number: {text}")).hint(hint))
}

/// Refuses what several clients cannot do as one would.
fn refuse_what_is_one(arguments: &BenchArgs, traffic: &Load, target: &Target, output: &OutputPlan) -> Result<()> {
    let refuse = |what: &str, hint: &str| Err(Error::usage(format!("a load in shards {what}")).hint(hint));
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

    fn read(flag: Option<&str>, variables: &[(&str, &str)]) -> Result<Option<String>> {
        let value = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        shard(flag, &value).map(|shard| shard.map(|shard| shard.to_string()))
    }

    const ARRAY: [(&str, &str); 4] = [(SLURM_ID, "6"), (SLURM_FIRST, "2"), (SLURM_COUNT, "3"), (SLURM_STEP, "2")];
    const JOB: [(&str, &str); 2] = [(JOB_INDEX, "0"), (SHARDS, "5")];

    #[test]
    fn the_environment_is_asked_by_auto_alone_and_in_its_order() {
        let ours = [(SHARD, "2/3")];
        for (flag, variables, expected) in [
            (None, &[&ours[..], &ARRAY, &JOB].concat()[..], None),
            (Some("1/9"), &[&ours[..], &ARRAY, &JOB].concat(), Some("1/9")),
            (Some(AUTO), &[&JOB[..], &ARRAY, &ours].concat(), Some("2/3")),
            (Some(AUTO), &[&JOB[..], &ARRAY].concat(), Some("3/3")),
            (Some(AUTO), &JOB, Some("1/5")),
        ] {
            assert_eq!(read(flag, variables).unwrap().as_deref(), expected, "{flag:?} {variables:?}");
        }
    }

    #[test]
    fn a_begin_is_an_instant_or_a_place() {
        let at = |text: &str| start(&ShardArgs { start_at: Some(text.to_owned()), ..ShardArgs::default() });
        for (text, expected_ns) in [
            ("1790000000", 1_790_000_000_000_000_000_u64),
            ("1790000000.25", 1_790_000_000_250_000_000),
            ("2026-09-21T14:13:20Z", 1_790_000_000_000_000_000),
            ("2026-09-21t14:13:20.000000001+00:00", 1_790_000_000_000_000_001),
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
            assert_eq!((error.what, error.kind), (format!("--start-at is no instant: {text}"), crate::error::Kind::Usage));
        }
        let place = |address: &str, timeout_s: f64| {
            start(&ShardArgs { coordinator: Some(address.to_owned()), coordinator_timeout: timeout_s, ..ShardArgs::default() })
        };
        let options = CoordinatorOptions { address: "one:7070".to_owned(), timeout: Duration::from_secs(5) };
        assert_eq!(place("one:7070", 5.0).unwrap(), StartPlan::Coordinator(options));
        for address in ["one", "one:", ":7070", "one:0", "one:70700"] {
            assert_eq!(place(address, 5.0).unwrap_err().what, format!("--coordinator is not HOST:PORT: {address}"));
        }
        assert_eq!(place("one:7070", 0.0).unwrap_err().what, "--coordinator-timeout is not a time: 0");
        assert_eq!(place("one:7070", 1e18).unwrap_err().what, "--coordinator-timeout is longer than a week: 1000000000000000000");
    }

    #[test]
    fn what_is_missing_or_makes_no_sense_is_refused_by_name() {
        let with = |name: &'static str, value: &'static str| {
            let mut variables = ARRAY;
            variables.iter_mut().filter(|(known, _)| *known == name).for_each(|pair| pair.1 = value);
            variables
        };
        for (flag, variables, words) in [
            ("5/4", &[][..], "--shard is no shard from 1/4 to 4/4: 5/4"),
            ("x", &[], "--shard is not I/N: x"),
            (AUTO, &[], "--shard auto finds neither SOBENCH_SHARD, SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX"),
            (AUTO, &[(SHARD, "3")], "SOBENCH_SHARD is not I/N: 3"),
            (AUTO, &ARRAY[..2], "--shard auto finds no SLURM_ARRAY_TASK_COUNT in the environment"),
            (AUTO, &ARRAY[..3], "--shard auto finds no SLURM_ARRAY_TASK_STEP in the environment"),
            (AUTO, &with(SLURM_ID, "5"), "SLURM_ARRAY_TASK_ID=5 is no place in an array with SLURM_ARRAY_TASK_MIN=2"),
            (AUTO, &with(SLURM_ID, "8"), "SLURM_ARRAY_TASK_ID=8 is no place"),
            (AUTO, &with(SLURM_ID, "0"), "SLURM_ARRAY_TASK_ID=0 is no place"),
            (AUTO, &with(SLURM_STEP, "0"), "SLURM_ARRAY_TASK_STEP=0"),
            (AUTO, &with(SLURM_COUNT, "many"), "SLURM_ARRAY_TASK_COUNT is no number: many"),
            (AUTO, &JOB[..1], "--shard auto finds no SOBENCH_SHARDS in the environment"),
            (AUTO, &[(JOB_INDEX, "5"), (SHARDS, "5")], "JOB_COMPLETION_INDEX=5 is no index among SOBENCH_SHARDS=5"),
        ] {
            let error = read(Some(flag), variables).unwrap_err();
            assert!(error.what.contains(words) && error.hint.is_some() && error.exit_code() == 2, "{words}: {error}");
        }
    }
}
