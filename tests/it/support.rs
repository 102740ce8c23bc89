//! Shared helpers: run the program, find shipped files, check results, wait for conditions.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use sobench_testkit::{contract, repository_path};

/// Exit code and output of the program.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().expect("no signal ended the program"),
            stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("stderr is UTF-8"),
        }
    }
}

/// Runs `sobench` without the machine's proxy, key or configuration.
pub(crate) fn sobench<S: AsRef<str>>(arguments: &[S]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sobench"));
    command.args(arguments.iter().map(AsRef::as_ref));
    ran(command.env_remove("OPENAI_API_KEY"))
}

/// The program started by a shell script that sets limits or closes streams; `"$@"` is the program
/// with its arguments.
pub(crate) fn through_shell(script: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", script, "sh", env!("CARGO_BIN_EXE_sobench")])
        .args(arguments)
        .env_remove("OPENAI_API_KEY")
        .env("XDG_CACHE_HOME", cache());
    command
}

/// Runs a command without the machine's proxy or configuration.
pub(crate) fn ran(command: &mut Command) -> Ran {
    let output = command
        .env("NO_PROXY", "127.0.0.1")
        .env("XDG_CACHE_HOME", cache())
        .output();
    output.expect("the program was built").into()
}

/// `sobench serve` on a free port, until this value is dropped.
pub(crate) struct ServeProcess {
    child: Child,
    /// Open, so that the server can write to it.
    _stderr: BufReader<ChildStderr>,
    /// What the server says of itself before its URL.
    pub(crate) greeting: String,
    pub(crate) base_url: String,
}

impl ServeProcess {
    pub(crate) fn start(flags: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sobench"))
            .args(["serve", "--port", "0"])
            .args(flags)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program was built");
        let mut stderr = BufReader::new(child.stderr.take().expect("stderr is a pipe"));
        let mut line = String::new();
        stderr.read_line(&mut line).expect("stderr is UTF-8");
        let (greeting, base_url) = line
            .trim()
            .rsplit_once(' ')
            .unwrap_or_else(|| panic!("no URL: {line}"));
        Self {
            child,
            _stderr: stderr,
            greeting: greeting.to_owned(),
            base_url: base_url.to_owned(),
        }
    }
}

impl Drop for ServeProcess {
    fn drop(&mut self) {
        // It can have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A cache folder for tests, so that their run logs are not in the user's cache.
pub(crate) fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache")
}

/// Runs `sobench` with a saved result, and returns it.
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
        "--detail",
        "full",
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

/// Fails if a file does not follow the contract of this name, or would follow it with an unknown
/// member. Lines of verdicts have the members of their rows.
#[track_caller]
pub(crate) fn assert_follows(name: &str, file: &Value) {
    let path = repository_path(&format!("schemas/contracts/{name}.schema.json"));
    let contract = std::fs::read_to_string(path).unwrap();
    assert_eq!(contract::check(&contract, file), Ok(()), "{file}");
    let other = contract::with_member(file, "/unknown", true.into());
    assert_eq!(
        contract::check(&contract, &other).is_ok(),
        name == "verdict"
    );
}

/// Validates a result file against its contract; the error lists the violations.
pub(crate) fn check_result(file: &Value) -> Result<(), String> {
    let contract = repository_path("schemas/contracts/result.schema.json");
    contract::check(&std::fs::read_to_string(contract).unwrap(), file)
}

/// Polls until the condition holds; fails after a minute.
#[track_caller]
pub(crate) fn wait_until(condition: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "timeout waiting for: {condition}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}
