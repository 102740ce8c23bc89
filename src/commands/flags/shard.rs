//! `--shard`: the part of a load or of a corpus that this process handles.

use std::path::{Path, PathBuf};

use sobench_core::error::{Error, Result};
use sobench_core::output_files::with_suffix;
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

/// Slurm's variables of a task of `srun`, which counts from 0. A batch script has the first two as
/// well, but no step.
const SLURM_TASK: &str = "SLURM_PROCID";
const SLURM_TASKS: &str = "SLURM_NTASKS";
const SLURM_STEP_ID: &str = "SLURM_STEP_ID";

/// Kubernetes' variable of a pod of an indexed job, which counts from 0. Kubernetes does not
/// provide the number of pods.
const JOB_INDEX: &str = "JOB_COMPLETION_INDEX";
const SHARDS: &str = "SOBENCH_SHARDS";

/// The shard of a flag: `I/N`, or `auto`. Only `auto` reads the environment, because the tasks of
/// an array may be independent runs.
///
/// # Errors
/// The value or the environment variables are invalid, or a variable is missing.
pub fn shard(flag: Option<&str>, read: &dyn Fn(&str) -> Option<String>) -> Result<Option<Shard>> {
    match flag {
        None => Ok(None),
        Some(AUTO) => from_environment(read).map(Some),
        Some(text) => text.parse().map(Some).map_err(|message: String| {
            Error::usage(format!("--shard is {message}"))
                .hint("count from 1, e.g. --shard 1/4 to --shard 4/4, or use auto to read the environment")
        }),
    }
}

/// The number of the shard, as a placeholder in the name of an output file.
const PLACEHOLDER: &str = "{shard}";

/// The path of an output file of a shard. `srun` gives all tasks the same command line, so that a
/// name without the placeholder gets the number of the shard at its end.
pub fn path_of_shard(
    path: &Path,
    shard: Shard,
    flag: Option<&str>,
    read: &dyn Fn(&str) -> Option<String>,
) -> PathBuf {
    let text = path.to_string_lossy();
    if text.contains(PLACEHOLDER) {
        return text.replace(PLACEHOLDER, &shard.number.to_string()).into();
    }
    let others = [SHARD, SLURM_ID, JOB_INDEX];
    let is_srun = flag == Some(AUTO) && others.iter().all(|name| read(name).is_none());
    let suffix = is_srun.then(|| format!("shard-{}", shard.number));
    with_suffix(path, suffix.as_slice())
}

fn from_environment(read: &dyn Fn(&str) -> Option<String>) -> Result<Shard> {
    if let Some(text) = read(SHARD) {
        return text.parse().map_err(|message: String| {
            Error::usage(format!("{SHARD} is {message}"))
                .hint("count from 1, e.g. SOBENCH_SHARD=1/4")
        });
    }
    if read(SLURM_ID).is_some() {
        return from_array(read);
    }
    if read(JOB_INDEX).is_some() {
        return from_indexed_job(read);
    }
    if read(SLURM_TASK).is_some() {
        return from_step(read);
    }
    Err(Error::usage(format!(
        "--shard auto finds neither {SHARD}, {SLURM_ID}, {JOB_INDEX} nor {SLURM_TASK} in the environment"
    ))
    .hint("set SOBENCH_SHARD=I/N, or give the shard, e.g. --shard 1/4"))
}

/// The shard of an array task. Tasks are numbered from the minimum in steps.
fn from_array(read: &dyn Fn(&str) -> Option<String>) -> Result<Shard> {
    let tasks = read(SLURM_TASKS).filter(|tasks| read(SLURM_STEP_ID).is_some() && tasks != "1");
    if let Some(tasks) = tasks {
        return Err(Error::usage(format!(
            "--shard auto finds both an array ({SLURM_ID}) and a step of several tasks ({SLURM_TASKS}={tasks})"
        ))
        .hint("use either sbatch --array or srun -n, or give the shard, e.g. --shard 1/4"));
    }
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

/// The shard of a task of `srun`.
fn from_step(read: &dyn Fn(&str) -> Option<String>) -> Result<Shard> {
    let hint =
        "start all shards with srun, e.g. srun -n4 sobench --shard auto, or give --shard I/N";
    number(SLURM_STEP_ID, read, hint)?;
    let (task, of) = (
        number(SLURM_TASK, read, hint)?,
        number(SLURM_TASKS, read, hint)?,
    );
    Shard::new(task.saturating_add(1), of).ok_or_else(|| {
        Error::usage(format!(
            "{SLURM_TASK}={task} is not below {SLURM_TASKS}={of}"
        ))
        .hint(hint)
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
    const STEP: [(&str, &str); 3] = [(SLURM_TASK, "3"), (SLURM_TASKS, "4"), (SLURM_STEP_ID, "0")];
    /// The batch script of an array task has a number of tasks, too.
    const BATCH: [(&str, &str); 2] = [(SLURM_TASK, "0"), (SLURM_TASKS, "2")];

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
            (Some(AUTO), &[&STEP[..], &JOB].concat(), Some("1/5")),
            (Some(AUTO), &STEP, Some("4/4")),
            (Some(AUTO), &[&ARRAY[..], &BATCH].concat(), Some("3/3")),
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
                "--shard auto finds neither SOBENCH_SHARD, SLURM_ARRAY_TASK_ID, JOB_COMPLETION_INDEX nor SLURM_PROCID in",
            ),
            (
                AUTO,
                &BATCH,
                "--shard auto finds no SLURM_STEP_ID in the environment",
            ),
            (
                AUTO,
                &[STEP[0], STEP[2]],
                "--shard auto finds no SLURM_NTASKS in the environment",
            ),
            (
                AUTO,
                &[(SLURM_TASK, "4"), STEP[1], STEP[2]],
                "SLURM_PROCID=4 is not below SLURM_NTASKS=4",
            ),
            (
                AUTO,
                &[&ARRAY[..], &STEP].concat(),
                "both an array (SLURM_ARRAY_TASK_ID) and a step of several tasks (SLURM_NTASKS=4)",
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

    #[test]
    fn tasks_of_srun_have_files_of_their_own() {
        let shard = Shard::new(2, 4).unwrap();
        for (flag, variables, path, expected) in [
            (AUTO, &STEP[..], "logs/run.jsonl", "logs/run-shard-2.jsonl"),
            (AUTO, &STEP, "logs/run", "logs/run-shard-2"),
            (AUTO, &STEP, "{shard}/run-{shard}.jsonl", "2/run-2.jsonl"),
            (AUTO, &JOB, "run.jsonl", "run.jsonl"),
            (AUTO, &JOB, "run-{shard}.jsonl", "run-2.jsonl"),
            ("2/4", &STEP, "run.jsonl", "run.jsonl"),
            ("2/4", &[], "run-{shard}.jsonl", "run-2.jsonl"),
        ] {
            let value = |name: &str| {
                let mut known = variables.iter().filter(|(known, _)| *known == name);
                known.next().map(|(_, value)| (*value).to_owned())
            };
            let own = path_of_shard(Path::new(path), shard, Some(flag), &value);
            assert_eq!(own, Path::new(expected), "{flag} {path}");
        }
    }
}
