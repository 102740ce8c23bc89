//! What the integration tests share: running the program, and finding the files that ship. Knows no server.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use sobench::record::RunRecord;
use sobench::runlog::{Keep, RunLog};

/// What a run of the program left behind.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs `sobench` with these arguments, away from any proxy, key or configuration of the machine.
pub(crate) fn sobench<S: AsRef<str>>(arguments: &[S]) -> Ran {
    let output = Command::new(env!("CARGO_BIN_EXE_sobench"))
        .args(arguments.iter().map(AsRef::as_ref))
        .env_remove("OPENAI_API_KEY")
        .env("NO_PROXY", "127.0.0.1")
        .env("XDG_CACHE_HOME", cache())
        .output()
        .expect("the program was built");
    Ran {
        code: output.status.code().expect("the program ended by itself"),
        stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("stderr is UTF-8"),
    }
}

/// A cache folder for the programs that tests run, so that no run log of theirs is among the user's own.
pub(crate) fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache")
}

/// Runs `sobench` saving its result, and reads the result back.
pub(crate) fn sobench_result(arguments: &[&str]) -> (Ran, Value) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().to_str().expect("the temporary folder's path is UTF-8");
    let mut all = vec!["--save-result", "--result-dir", path, "--result-filename", "result.json", "--disable-tqdm"];
    all.extend_from_slice(arguments);
    let ran = sobench(&all);
    let text = std::fs::read_to_string(folder.path().join("result.json"))
        .unwrap_or_else(|error| panic!("no result file ({error}); stderr:\n{}", ran.stderr));
    (ran, serde_json::from_str(&text).expect("the result is JSON"))
}

/// A path below the package's root.
pub(crate) fn in_package(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The record of the frozen run.
pub(crate) fn record() -> RunRecord {
    RunLog::read(&in_package("fixtures/runs/v2.jsonl"), Keep::WithoutTexts).expect("the frozen run is a run log").record
}
