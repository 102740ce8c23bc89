//! `--shard`: which part of a load, or of a corpus, is this process's own.

use sobench_core::error::{Error, Result};
use sobench_core::shard::{MAX_SHARDS, Shard};

/// The value that leaves the part to the environment.
const AUTO: &str = "auto";

/// Where the part stands as `I/N`, whoever started the clients.
const SHARD: &str = "SOBENCH_SHARD";

/// Slurm's variables of a task of an array.
const SLURM_ID: &str = "SLURM_ARRAY_TASK_ID";
const SLURM_FIRST: &str = "SLURM_ARRAY_TASK_MIN";
const SLURM_COUNT: &str = "SLURM_ARRAY_TASK_COUNT";
const SLURM_STEP: &str = "SLURM_ARRAY_TASK_STEP";

/// Kubernetes' variable of a pod of an indexed job, which counts from 0; how many there are it does
/// not say.
const JOB_INDEX: &str = "JOB_COMPLETION_INDEX";
const SHARDS: &str = "SOBENCH_SHARDS";

/// The part that a flag names: `I/N`, or `auto`, for which alone the environment is asked. A
/// scheduler's array of independent runs must not turn into shards.
///
/// # Errors
/// It is no part; the environment does not say, or says what makes no sense.
pub(crate) fn shard(
    flag: Option<&str>,
    read: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Shard>> {
    match flag {
        None => Ok(None),
        Some(AUTO) => from_environment(read).map(Some),
        Some(text) => text.parse().map(Some).map_err(|words: String| {
            Error::usage(format!("--shard is {words}"))
                .hint("count from 1, e.g. --shard 1/4 to --shard 4/4; auto asks the environment")
        }),
    }
}

fn from_environment(read: &dyn Fn(&str) -> Option<String>) -> Result<Shard> {
    if let Some(text) = read(SHARD) {
        return text.parse().map_err(|words: String| {
            Error::usage(format!("{SHARD} is {words}")).hint("count from 1, e.g. SOBENCH_SHARD=1/4")
        });
    }
    if read(SLURM_ID).is_some() {
        return of_slurm(read);
    }
    if read(JOB_INDEX).is_some() {
        return of_an_indexed_job(read);
    }
    Err(Error::usage(format!(
        "--shard auto finds neither {SHARD}, {SLURM_ID} nor {JOB_INDEX} in the environment"
    ))
    .hint("set SOBENCH_SHARD=I/N, or name the part, e.g. --shard 1/4"))
}

/// The tasks of an array are numbered from the least one by its step.
fn of_slurm(read: &dyn Fn(&str) -> Option<String>) -> Result<Shard> {
    let hint =
        "run it as a task of an array, e.g. sbatch --array=1-4, or name the part with --shard I/N";
    let number = |name: &str| number(name, read, hint);
    let (id, first, count, step) = (
        number(SLURM_ID)?,
        number(SLURM_FIRST)?,
        number(SLURM_COUNT)?,
        number(SLURM_STEP)?,
    );
    let steps = id
        .checked_sub(first)
        .filter(|_| step > 0)
        .filter(|ahead| ahead % step == 0)
        .map(|ahead| ahead / step);
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
    Shard::new(index.saturating_add(1), of).ok_or_else(|| {
        Error::usage(format!(
            "{JOB_INDEX}={index} is no index among {SHARDS}={of}"
        ))
        .hint(hint)
    })
}

fn number(name: &str, read: &dyn Fn(&str) -> Option<String>, hint: &str) -> Result<usize> {
    let text = read(name).ok_or_else(|| {
        Error::usage(format!("--shard auto finds no {name} in the environment")).hint(hint)
    })?;
    let number = text
        .parse()
        .ok()
        .filter(|number| *number <= usize::MAX / (2 * MAX_SHARDS));
    number.ok_or_else(|| Error::usage(format!("{name} is no number: {text}")).hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(flag: Option<&str>, variables: &[(&str, &str)]) -> Result<Option<String>> {
        let value = |name: &str| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        };
        shard(flag, &value).map(|shard| shard.map(|shard| shard.to_string()))
    }

    const ARRAY: [(&str, &str); 4] = [
        (SLURM_ID, "6"),
        (SLURM_FIRST, "2"),
        (SLURM_COUNT, "3"),
        (SLURM_STEP, "2"),
    ];
    const JOB: [(&str, &str); 2] = [(JOB_INDEX, "0"), (SHARDS, "5")];

    #[test]
    fn the_environment_is_asked_by_auto_alone_and_in_its_order() {
        let ours = [(SHARD, "2/3")];
        for (flag, variables, expected) in [
            (None, &[&ours[..], &ARRAY, &JOB].concat()[..], None),
            (
                Some("1/9"),
                &[&ours[..], &ARRAY, &JOB].concat(),
                Some("1/9"),
            ),
            (Some(AUTO), &[&JOB[..], &ARRAY, &ours].concat(), Some("2/3")),
            (Some(AUTO), &[&JOB[..], &ARRAY].concat(), Some("3/3")),
            (Some(AUTO), &JOB, Some("1/5")),
        ] {
            assert_eq!(
                read(flag, variables).unwrap().as_deref(),
                expected,
                "{flag:?} {variables:?}"
            );
        }
    }

    #[test]
    fn what_is_missing_or_makes_no_sense_is_refused_by_name() {
        let with = |name: &'static str, value: &'static str| {
            let mut variables = ARRAY;
            variables
                .iter_mut()
                .filter(|(known, _)| *known == name)
                .for_each(|pair| pair.1 = value);
            variables
        };
        for (flag, variables, words) in [
            ("5/4", &[][..], "--shard is no shard from 1/4 to 4/4: 5/4"),
            ("x", &[], "--shard is not I/N: x"),
            (
                AUTO,
                &[],
                "--shard auto finds neither SOBENCH_SHARD, SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX",
            ),
            (AUTO, &[(SHARD, "3")], "SOBENCH_SHARD is not I/N: 3"),
            (
                AUTO,
                &ARRAY[..2],
                "--shard auto finds no SLURM_ARRAY_TASK_COUNT in the environment",
            ),
            (
                AUTO,
                &ARRAY[..3],
                "--shard auto finds no SLURM_ARRAY_TASK_STEP in the environment",
            ),
            (
                AUTO,
                &with(SLURM_ID, "5"),
                "SLURM_ARRAY_TASK_ID=5 is no place in an array with SLURM_ARRAY_TASK_MIN=2",
            ),
            (
                AUTO,
                &with(SLURM_ID, "8"),
                "SLURM_ARRAY_TASK_ID=8 is no place",
            ),
            (
                AUTO,
                &with(SLURM_ID, "0"),
                "SLURM_ARRAY_TASK_ID=0 is no place",
            ),
            (AUTO, &with(SLURM_STEP, "0"), "SLURM_ARRAY_TASK_STEP=0"),
            (
                AUTO,
                &with(SLURM_COUNT, "many"),
                "SLURM_ARRAY_TASK_COUNT is no number: many",
            ),
            (
                AUTO,
                &JOB[..1],
                "--shard auto finds no SOBENCH_SHARDS in the environment",
            ),
            (
                AUTO,
                &[(JOB_INDEX, "5"), (SHARDS, "5")],
                "JOB_COMPLETION_INDEX=5 is no index among SOBENCH_SHARDS=5",
            ),
        ] {
            let error = read(Some(flag), variables).unwrap_err();
            assert!(
                error.what.contains(words) && error.hint.is_some() && error.exit_code() == 2,
                "{words}: {error}"
            );
        }
    }
}
