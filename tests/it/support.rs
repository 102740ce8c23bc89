//! Shared by the integration tests: running the program, finding the files that ship, checking
//! results, waiting for events.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

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

/// A cache folder for the programs that tests run, so that no run log of theirs is among the user's
/// own.
pub(crate) fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache")
}

/// Runs `sobench` saving its result, and reads the result back.
pub(crate) fn sobench_result(arguments: &[&str]) -> (Ran, Value) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder
        .path()
        .to_str()
        .expect("the temporary folder's path is UTF-8");
    let mut all = vec![
        "--save-result",
        "--result-dir",
        path,
        "--result-filename",
        "result.json",
        "--disable-tqdm",
    ];
    all.extend_from_slice(arguments);
    let ran = sobench(&all);
    let text = std::fs::read_to_string(folder.path().join("result.json"))
        .unwrap_or_else(|error| panic!("no result file ({error}); stderr:\n{}", ran.stderr));
    (
        ran,
        serde_json::from_str(&text).expect("the result is JSON"),
    )
}

/// Checks a result file against its contract; the error lists what breaks it.
pub(crate) fn check_result(file: &Value) -> Result<(), String> {
    let schema: Value =
        serde_json::from_str(include_str!("../../schemas/contracts/result.schema.json"))
            .expect("the contract is JSON");
    jsonschema::draft202012::meta::validate(&schema)
        .map_err(|error| format!("the contract itself: {error}"))?;
    let validator = jsonschema::draft202012::new(&schema).expect("the contract is a schema");
    let errors: Vec<String> = validator
        .iter_errors(file)
        .map(|it| format!("{}: {it}", it.instance_path()))
        .collect();
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors.join("\n"))
    }
}

/// Polls until the condition holds. Fails after a minute, which no test that passes takes.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "waited in vain: {what}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}
