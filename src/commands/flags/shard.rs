//! `--shard`: the part of a load or of a corpus that this process handles.

use sobench_core::error::{Error, Result};
use sobench_core::shard::{MAX_SHARDS, Shard};

/// The value that reads the shard from the environment.
const AUTO: &str = "auto";

/// The variable with the shard as `I/N`, for any scheduler.
const SHARD: &str = "SOBENCH_SHARD";

/// Slurm's variables of an array task.
const SLURM_ID: &str = "SLURM_ARRAY_TASK_ID";
const SLURM_FIRST: &str = "SLURM_ARRAY_TASK_MIN";
const SLURM_COUNT: &str = "SLURM_ARRAY_TASK_COUNT";
const SLURM_STEP: &str = "SLURM_ARRAY_TASK_STEP";

/// Kubernetes' variable of a pod of an indexed job, which counts from 0. Kubernetes does not
/// provide the number of pods.
const JOB_INDEX: &str = "JOB_COMPLETION_INDEX";
const SHARDS: &str = "SOBENCH_SHARDS";

/// The shard of a flag: `I/N`, or `auto`. Only `auto` reads the environment, because the tasks of
/// an array may be independent runs.
///
/// # Errors
/// The value or the environment variables are invalid, or a variable is missing.
pub(crate) fn shard(
    flag: Option<&str>,
    read: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Shard>> {
    match flag {
        None => Ok(None),
        Some(AUTO) => from_environment(read).map(Some),
        Some(text) => text.parse().map(Some).map_err(|message: String| {
            Error::usage(format!("--shard is {message}"))
                .hint("count from 1, e.g. --shard 1/4 to --shard 4/4, or use auto to read the environment")
        }),
    }
}

fn from_environment(read: &dyn Fn(&str) -> Option<String>) -> Result<Shard> {
    if let Some(text) = read(SHARD) {
        return text.parse().map_err(|message: String| {
            Error::usage(format!("{SHARD} is {message}"))
                .hint("count from 1, e.g. SOBENCH_SHARD=1/4")
        });
    }
    if read(SLURM_ID).is_some() {
        return from_slurm(read);
    }
    if read(JOB_INDEX).is_some() {
        return from_indexed_job(read);
    }
    Err(Error::usage(format!(
        "--shard auto finds neither {SHARD}, {SLURM_ID} nor {JOB_INDEX} in the environment"
    ))
    .hint("set SOBENCH_SHARD=I/N, or give the shard, e.g. --shard 1/4"))
}

/// The shard of an array task. Tasks are numbered from the minimum in steps.
fn from_slurm(read: &dyn Fn(&str) -> Option<String>) -> Result<Shard> {
    let hint = "run it as an array task, e.g. sbatch --array=1-4, or give --shard I/N";
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
            "{SLURM_ID}={id} is not a task of an array with {SLURM_FIRST}={first}, {SLURM_COUNT}={count} and {SLURM_STEP}={step}"
        ))
        .hint("number the tasks evenly, e.g. --array=1-4 or --array=0-6:2, or give --shard I/N")
    })
}

fn from_indexed_job(read: &dyn Fn(&str) -> Option<String>) -> Result<Shard> {
    let hint = "set SOBENCH_SHARDS to .spec.completions of the indexed job";
    let (index, of) = (number(JOB_INDEX, read, hint)?, number(SHARDS, read, hint)?);
    Shard::new(index.saturating_add(1), of).ok_or_else(|| {
        Error::usage(format!("{JOB_INDEX}={index} is not below {SHARDS}={of}")).hint(hint)
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
    number.ok_or_else(|| Error::usage(format!("{name} is not a number: {text}")).hint(hint))
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
    fn only_auto_reads_the_environment_in_order() {
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
    fn missing_and_invalid_variables_are_refused_by_name() {
        let with = |name: &'static str, value: &'static str| {
            let mut variables = ARRAY;
            variables
                .iter_mut()
                .filter(|(known, _)| *known == name)
                .for_each(|pair| pair.1 = value);
            variables
        };
        for (flag, variables, message) in [
            (
                "5/4",
                &[][..],
                "--shard is not a shard from 1/4 to 4/4: 5/4",
            ),
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
                "SLURM_ARRAY_TASK_ID=5 is not a task of an array with SLURM_ARRAY_TASK_MIN=2",
            ),
            (
                AUTO,
                &with(SLURM_ID, "8"),
                "SLURM_ARRAY_TASK_ID=8 is not a task of",
            ),
            (
                AUTO,
                &with(SLURM_ID, "0"),
                "SLURM_ARRAY_TASK_ID=0 is not a task of",
            ),
            (AUTO, &with(SLURM_STEP, "0"), "SLURM_ARRAY_TASK_STEP=0"),
            (
                AUTO,
                &with(SLURM_COUNT, "many"),
                "SLURM_ARRAY_TASK_COUNT is not a number: many",
            ),
            (
                AUTO,
                &JOB[..1],
                "--shard auto finds no SOBENCH_SHARDS in the environment",
            ),
            (
                AUTO,
                &[(JOB_INDEX, "5"), (SHARDS, "5")],
                "JOB_COMPLETION_INDEX=5 is not below SOBENCH_SHARDS=5",
            ),
        ] {
            let error = read(Some(flag), variables).unwrap_err();
            assert!(
                error.what.contains(message) && error.hint.is_some() && error.exit_code() == 2,
                "{message}: {error}"
            );
        }
    }
}
