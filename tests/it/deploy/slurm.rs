//! Slurm scripts, with a stub of `sbatch` that stores submitted jobs. The tests run the tasks of an
//! array concurrently, with the variables that Slurm sets.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use sobench_embedded::{EmbeddedServer, EmbeddedSettings};

use super::{executable, path_with, script};
use crate::support::{cache, sobench};

/// Stub of `sbatch`: stores options and script of each job, one per line, in files named by job
/// number.
const SBATCH: &str = r#"#!/usr/bin/env bash
here=$(dirname "$0")
id=$(cat "$here/next")
echo $((id + 1)) >"$here/next"
while [[ $1 == --* ]]; do echo "$1" >>"$here/options-$id"; shift; done
printf '%s\n' "$@" >"$here/command-$id"
echo "$id;cluster"
"#;

/// Options of sbatch and script of the job `id`.
fn submitted(folder: &Path, id: usize) -> (Vec<String>, Vec<String>) {
    let lines = |kind: &str| {
        let text = fs::read_to_string(folder.join(format!("{kind}-{id}"))).unwrap();
        text.lines().map(str::to_owned).collect()
    };
    (lines("options"), lines("command"))
}

/// An array number from which the script derives a free port. The script uses ports 20000 to 29999,
/// so number and port are the same.
fn free_array() -> usize {
    let first = std::process::id() as usize;
    let mut ports = (0..10_000).map(|step| 20_000 + (first + step) % 10_000);
    ports
        .find(|port| TcpListener::bind(("127.0.0.1", u16::try_from(*port).unwrap())).is_ok())
        .unwrap()
}

/// Runs a submitted script as a node does, with the variables of the task.
fn start_job(
    command: &[String],
    folder: &Path,
    variables: &[(&str, String)],
) -> std::process::Child {
    Command::new("bash")
        .args(command)
        .current_dir(folder)
        .env("NO_PROXY", "127.0.0.1")
        .env("XDG_CACHE_HOME", cache())
        .env("SOBENCH", env!("CARGO_BIN_EXE_sobench"))
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn array_of_shards_merges_to_the_run_of_one_client() {
    let array = free_array();
    let server = EmbeddedServer::start(EmbeddedSettings::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    executable(&folder.path().join("sbatch"), SBATCH);
    // Other nodes find a node by its host name; this test uses the address.
    executable(
        &folder.path().join("hostname"),
        "#!/bin/sh\necho 127.0.0.1\n",
    );
    fs::write(folder.path().join("next"), array.to_string()).unwrap();
    let path = path_with(folder.path());

    let run = [
        "--base-url",
        server.base_url(),
        "--dataset",
        "choice",
        "--num-prompts",
        "20",
        "--max-concurrency",
        "8",
    ];
    let submit = [&["3", "results"], &run[..]].concat();
    let ran = script(
        "slurm/submit.sh",
        folder.path(),
        &submit,
        &[("PATH", &path)],
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let results = folder.path().canonicalize().unwrap().join("results");
    let logs = results.join(array.to_string());
    assert_eq!(
        ran.stdout,
        format!(
            "shards: {array}, merge: {}, results: {}\n",
            array + 1,
            logs.display()
        )
    );

    let (options, command) = submitted(folder.path(), array);
    assert!(options.contains(&"--array=1-3".to_owned()), "{options:?}");
    let tasks: Vec<_> = (1..=3)
        .map(|task: usize| {
            let variables = [
                ("PATH", path.clone()),
                ("SLURM_ARRAY_JOB_ID", array.to_string()),
                ("SLURM_ARRAY_TASK_ID", task.to_string()),
                ("SLURM_ARRAY_TASK_MIN", "1".to_owned()),
                ("SLURM_ARRAY_TASK_MAX", "3".to_owned()),
                ("SLURM_ARRAY_TASK_STEP", "1".to_owned()),
                ("SLURM_ARRAY_TASK_COUNT", "3".to_owned()),
            ];
            start_job(&command, folder.path(), &variables)
        })
        .collect();
    for task in tasks {
        let ended = task.wait_with_output().unwrap();
        assert!(
            ended.status.success(),
            "{}",
            String::from_utf8_lossy(&ended.stderr)
        );
    }
    assert_eq!(
        fs::read_to_string(logs.join("coordinator")).unwrap(),
        format!("127.0.0.1:{array}\n")
    );

    let (options, command) = submitted(folder.path(), array + 1);
    assert!(
        options.contains(&format!("--dependency=afterany:{array}")),
        "{options:?}"
    );
    let merged = start_job(&command, folder.path(), &[])
        .wait_with_output()
        .unwrap();
    assert!(
        merged.status.success(),
        "{}",
        String::from_utf8_lossy(&merged.stderr)
    );
    let page = String::from_utf8(merged.stdout).unwrap();
    assert!(
        page.contains("Successful requests:                     20 "),
        "{page}"
    );
    let again = sobench(&["report", logs.join("run.jsonl").to_str().unwrap()]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert!(
        again
            .stdout
            .contains("Successful requests:                     20 "),
        "{}",
        again.stdout
    );
}

#[test]
fn tasks_of_srun_have_one_command_line_and_logs_of_their_own() {
    let server = EmbeddedServer::start(EmbeddedSettings::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let tasks: Vec<_> = (0..3)
        .map(|task: usize| {
            Command::new(env!("CARGO_BIN_EXE_sobench"))
                .args(["--base-url", server.base_url(), "--dataset", "choice"])
                .args(["--num-prompts", "20", "--shard", "auto"])
                .args(["--run-log", "run.jsonl", "--save", "page-{shard}.html"])
                .current_dir(folder.path())
                .env("NO_PROXY", "127.0.0.1")
                .env("XDG_CACHE_HOME", cache())
                .env("SLURM_PROCID", task.to_string())
                .env("SLURM_NTASKS", "3")
                .env("SLURM_STEP_ID", "0")
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for task in tasks {
        let ended = task.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{stderr}");
    }
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let names = [
        "run-shard-1.jsonl",
        "run-shard-2.jsonl",
        "run-shard-3.jsonl",
    ];
    let logs = names.map(at);
    let [first, second, third] = logs.each_ref().map(String::as_str);
    let merged = sobench(&["merge", first, second, third]);
    assert_eq!(merged.code, 0, "{}", merged.stderr);
    let page = &merged.stdout;
    assert!(
        page.contains("Successful requests:                     20 "),
        "{page}"
    );
    for shard in 1..=3 {
        assert!(folder.path().join(format!("page-{shard}.html")).exists());
    }
    assert!(!folder.path().join("run.jsonl").exists());
}

#[test]
fn invalid_array_is_rejected_before_submission() {
    let folder = tempfile::tempdir().unwrap();
    executable(
        &folder.path().join("sbatch"),
        "#!/bin/sh\necho submitted >&2\nexit 1\n",
    );
    let path = path_with(folder.path());
    for typed in [
        &["4", "results"][..],
        &["0", "results", "--dataset"],
        &["four", "results", "--dataset"],
    ] {
        let ran = script("slurm/submit.sh", folder.path(), typed, &[("PATH", &path)]);
        assert!(
            ran.code == 2 && ran.stderr.starts_with("error: "),
            "{typed:?}: {}, {}",
            ran.code,
            ran.stderr
        );
    }
}
