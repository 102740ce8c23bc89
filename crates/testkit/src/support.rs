//! Shared helpers: run the program, find shipped files, check results, wait for conditions.

use std::io::{BufRead as _, BufReader, Lines, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::scripted::{ScriptedServer, models, whole};
use crate::{contract, repository_path};
use serde_json::Value;

/// Exit code and output of the program.
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
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

impl Ran {
    /// The printed page on one line, because the wrapping of sentences depends on the length of
    /// paths and addresses.
    pub fn page(&self) -> String {
        unwrapped(&self.stdout)
    }

    /// Checks exit code, error and hint of a command without output. `errors` are the messages
    /// before the hint.
    #[track_caller]
    pub fn assert_fails(&self, code: i32, errors: &[&str]) {
        assert_eq!(self.stdout, "");
        self.assert_exits(code, errors);
    }

    /// The same, with or without a report.
    #[track_caller]
    pub fn assert_exits(&self, code: i32, errors: &[&str]) {
        assert_eq!(self.code, code, "{}", self.stderr);
        for text in errors {
            assert!(self.has_error(text), "{text:?} is not in:\n{}", self.stderr);
        }
    }

    /// Checks the exit code, and the first words of the page.
    #[track_caller]
    pub fn assert_headline(&self, code: i32, headline: &str) {
        let page = self.page();
        assert_eq!(
            (self.code, page.get(..headline.len())),
            (code, Some(headline)),
            "{}",
            self.stderr
        );
    }

    pub fn has_error(&self, text: &str) -> bool {
        self.stderr.contains(text)
    }
}

/// Text on one line, with single spaces.
pub fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The words of a command line. Items that start with `--` are split at white space; others, such
/// as paths, are one word.
pub fn words<S: AsRef<str>>(arguments: &[S]) -> Vec<&str> {
    let mut words = Vec::new();
    for argument in arguments.iter().map(AsRef::as_ref) {
        match argument.starts_with("--") {
            true => words.extend(argument.split_whitespace()),
            false => words.push(argument),
        }
    }
    words
}

/// A program of the workspace. Cargo builds those of all packages before it starts tests of all.
fn executable(name: &str) -> PathBuf {
    let path = built().join(name);
    assert!(
        path.exists(),
        "{name} is not built: run cargo build --workspace"
    );
    path
}

/// The folder that this test was built in; the test is in its `deps`.
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("a test is a file");
    test.ancestors()
        .nth(2)
        .expect("it is in a folder")
        .to_owned()
}

/// The commands of `sobench-tools`.
const TOOLS: [&str; 2] = ["mask", "limits"];

/// The program that has the command of this command line.
pub fn program_of(words: &[&str]) -> PathBuf {
    executable(match words.first() {
        Some(command) if TOOLS.contains(command) => "sobench-tools",
        _ => "sobench",
    })
}

/// Runs a command that both programs have in `sobench-tools`.
pub fn tools<S: AsRef<str>>(arguments: &[S]) -> Ran {
    let mut command = Command::new(executable("sobench-tools"));
    ran(isolated(command.args(words(arguments))))
}

/// `sobench`, or `sobench-tools` for its commands, without the machine's proxy, key or configuration.
/// [`words`] splits the arguments.
pub fn program<S: AsRef<str>>(arguments: &[S]) -> Command {
    let words = words(arguments);
    let mut command = Command::new(program_of(&words));
    isolated(command.args(words));
    command
}

/// Removes proxy, key and configuration of the machine.
fn isolated(command: &mut Command) -> &mut Command {
    command
        .env_remove("OPENAI_API_KEY")
        .env("NO_PROXY", "127.0.0.1")
        .env("XDG_CACHE_HOME", cache())
}

/// Runs `sobench`. [`words`] splits the arguments.
pub fn sobench<S: AsRef<str>>(arguments: &[S]) -> Ran {
    ran(&mut program(arguments))
}

/// The program started by a shell script that sets limits or closes streams; `"$@"` is the program
/// with its arguments.
pub fn through_shell(script: &str, arguments: &[&str]) -> Command {
    let words = words(arguments);
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(program_of(&words));
    command.args(words);
    isolated(&mut command);
    command
}

/// Runs a command to its end.
pub fn ran(command: &mut Command) -> Ran {
    command.output().expect("the program was built").into()
}

/// The running program, and its stderr by line.
pub struct Running {
    pub child: Child,
    stderr: Lines<BufReader<ChildStderr>>,
}

impl Running {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program was built");
        let stderr = child.stderr.take().expect("stderr is a pipe");
        Self {
            child,
            stderr: BufReader::new(stderr).lines(),
        }
    }

    /// Waits for a line of stderr that contains `text`, and returns it.
    pub fn wait_for(&mut self, text: &str) -> String {
        let mut lines = self
            .stderr
            .by_ref()
            .map(|line| line.expect("stderr is UTF-8"));
        let found = lines.find(|line| line.contains(text));
        found.unwrap_or_else(|| panic!("stderr ended without: {text}"))
    }

    /// Waits until the condition holds, while the program runs.
    #[track_caller]
    pub fn wait_until(&mut self, condition: &str, mut holds: impl FnMut() -> bool) {
        wait_until(condition, || {
            let does_hold = holds();
            assert!(
                does_hold || self.is_running(),
                "it ended before: {condition}"
            );
            does_hold
        });
    }

    /// Waits until `count` lines of a run log contain `text`.
    #[track_caller]
    pub fn wait_for_lines(&mut self, log: &Path, text: &str, count: usize) {
        self.wait_until(&format!("the log has {count} lines with {text}"), || {
            let log = std::fs::read_to_string(log).unwrap_or_default();
            log.lines().filter(|line| line.contains(text)).count() >= count
        });
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("it is a child").is_none()
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, signal).expect("the program runs");
    }

    /// Waits for the end. Standard error is what was not read before; the exit code after SIGKILL is -1.
    pub fn end(mut self) -> Ran {
        let stderr: Vec<String> = self
            .stderr
            .map(|line| line.expect("stderr is UTF-8"))
            .collect();
        let mut stdout = String::new();
        let mut pipe = self.child.stdout.take().expect("stdout is a pipe");
        pipe.read_to_string(&mut stdout).expect("stdout is UTF-8");
        let status = self.child.wait().expect("it is a child");
        Ran {
            code: status.code().unwrap_or(-1),
            stdout,
            stderr: stderr.join("\n"),
        }
    }
}

/// A server that answers `Positive`, a choice of the dataset `choice`. Runs on it need no engine,
/// and are short.
pub fn choice_server() -> ScriptedServer {
    let answer = "data: {\"choices\":[{\"text\":\"Positive\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    ScriptedServer::answering(move |request| match request.line.starts_with("POST ") {
        true => whole("200 OK", "text/event-stream", answer),
        false if request.is_model_list() => models(),
        false => whole("404 Not Found", "text/plain", ""),
    })
}

/// `sobench serve` on a free port, until this value is dropped.
pub struct ServeProcess {
    child: Child,
    /// Open, so that the server can write to it.
    _stderr: BufReader<ChildStderr>,
    /// What the server says of itself before its URL.
    pub greeting: String,
    pub base_url: String,
}

impl ServeProcess {
    pub fn start(flags: &[&str]) -> Self {
        let mut child = program(&[&["serve", "--port 0"], flags].concat())
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
pub fn cache() -> PathBuf {
    built().join("../tmp/cache")
}

/// Runs `sobench` with a saved result, and returns it.
pub fn sobench_result(arguments: &[&str]) -> (Ran, Value) {
    let folder = Folder::new();
    let fixed = [
        "--save-result --result-filename result.json --disable-tqdm --detail full --result-dir",
        &folder.path(""),
    ];
    let ran = sobench(&[&fixed, arguments].concat());
    let text = std::fs::read_to_string(folder.path("result.json"))
        .unwrap_or_else(|error| panic!("no result file ({error}); stderr:\n{}", ran.stderr));
    (
        ran,
        serde_json::from_str(&text).expect("the result is JSON"),
    )
}

/// The same for rows of the dataset `custom`, sent one after the other to a server; the exit code
/// is 0, and the result keeps its contract.
#[track_caller]
pub fn custom_result(base_url: &str, rows: &[Value], arguments: &[&str]) -> (Ran, Value) {
    let folder = Folder::new();
    let path = folder.lines("rows.jsonl", rows);
    let count = rows.len().to_string();
    let fixed = [
        "--dataset custom --max-concurrency 1 --num-warmups 0 --save-detailed --dataset-path",
        &path,
        "--base-url",
        base_url,
        "--num-prompts",
        &count,
    ];
    let (ran, result) = sobench_result(&[&fixed, arguments].concat());
    assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
    check_result(&result).unwrap_or_else(|error| panic!("{error}"));
    (ran, result)
}

/// A temporary folder for files of a test.
pub struct Folder(tempfile::TempDir);

impl Default for Folder {
    fn default() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder can be made"))
    }
}

impl Folder {
    pub fn new() -> Self {
        Self::default()
    }

    /// The path of a file, which need not exist.
    pub fn path(&self, name: &str) -> String {
        let path = self.0.path().join(name);
        path.to_str()
            .expect("the folder's path is UTF-8")
            .to_owned()
    }

    /// Writes a file and returns its path.
    pub fn file(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).expect("the folder is writable");
        path
    }

    /// Writes a file with a line for each value.
    pub fn lines(&self, name: &str, values: &[Value]) -> String {
        let lines: Vec<String> = values.iter().map(Value::to_string).collect();
        self.file(name, lines.join("\n"))
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("the file exists")
    }

    pub fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(name)).expect("the file is JSON")
    }
}

/// Fails if a file does not follow the contract of this name, or would follow it with an unknown
/// member. Lines of verdicts have the members of their rows.
#[track_caller]
pub fn assert_follows(name: &str, file: &Value) {
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
pub fn check_result(file: &Value) -> Result<(), String> {
    contract::check(
        include_str!("../../../schemas/contracts/result.schema.json"),
        file,
    )
}

/// The names of the verdicts on all answers of a detailed result: the reason, or `valid`.
pub fn verdicts(result: &Value) -> Vec<&str> {
    fn name(output: &Value) -> &str {
        let verdict = &output["verdict"];
        let (reason, why) = (&verdict["reason"], &verdict["why"]);
        let names = [
            &reason["fault"],
            &reason["reason"],
            &why["why"],
            why,
            &verdict["verdict"],
        ];
        names
            .into_iter()
            .find_map(Value::as_str)
            .expect("it is judged")
    }
    let outputs = result["outputs"].as_array();
    let outputs = outputs.expect("the result is detailed");
    outputs.iter().map(name).collect()
}

/// Polls until the condition holds; fails after a minute.
#[track_caller]
pub fn wait_until(condition: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "timeout waiting for: {condition}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}
