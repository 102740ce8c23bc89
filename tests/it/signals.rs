//! Shutdown signals: each stage for each command with several stages.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::channel;

use rustix::process::{Pid, Signal, kill_process};
use sobench_testkit::constrained::{Reply, allowed, answering, constraint_text};
use sobench_testkit::scripted::{ScriptedServer, Then, models, wait_until_closed, whole};

use crate::support::{cache, wait_until};

/// The running program and its stderr.
struct Running {
    child: Child,
    stderr: Lines<BufReader<ChildStderr>>,
}

impl Running {
    fn start<S: AsRef<std::ffi::OsStr>>(flags: &[S]) -> Self {
        let mut program = Command::new(env!("CARGO_BIN_EXE_sobench"));
        program
            .args(flags)
            .env("XDG_CACHE_HOME", cache())
            .env("NO_PROXY", "127.0.0.1");
        let mut child = program
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, stderr }
    }

    /// Waits for a line of stderr that contains `text`.
    fn wait_for(&mut self, text: &str) {
        let mut lines = self.stderr.by_ref().map(Result::unwrap);
        assert!(
            lines.any(|line| line.contains(text)),
            "stderr ended without: {text}"
        );
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Returns exit code, stdout and the rest of stderr.
    fn end(mut self) -> (Option<i32>, String, String) {
        let stderr: Vec<String> = self.stderr.map(Result::unwrap).collect();
        let mut stdout = String::new();
        self.child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut stdout)
            .unwrap();
        (self.child.wait().unwrap().code(), stdout, stderr.join("\n"))
    }
}

/// A server that answers the trial request and never answers the run.
fn hanging() -> ScriptedServer {
    let answer =
        "data: {\"choices\":[{\"text\":\"yes\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    ScriptedServer::new(move |request, stream| {
        let is_of_the_run = request.header("x-request-id").is_some_and(|id| {
            id.strip_prefix("r-")
                .is_some_and(|number| number.parse::<usize>().is_ok())
        });
        let text = match () {
            () if request.is_model_list() => models(),
            () if is_of_the_run => {
                wait_until_closed(stream);
                return Then::Close;
            }
            () if request.line.starts_with("POST") => whole("200 OK", "text/event-stream", answer),
            () => whole("404 Not Found", "text/plain", ""),
        };
        stream.write_all(text.as_bytes()).unwrap();
        Then::Keep
    })
}

/// Starts a comparison of servers that never answer, and waits for the first requests of the runs.
fn hanging_matrix(order: &str) -> (Running, [ScriptedServer; 2]) {
    let servers = [hanging(), hanging()];
    let targets = [0, 1].map(|index| format!("s{index}={}", servers[index].base_url));
    let flags = [
        "--target",
        &targets[0],
        "--target",
        &targets[1],
        "--matrix-order",
        order,
        "--no-control-arm",
        "--skip-preflight",
    ];
    let load = [
        "--dataset",
        "choice",
        "--choice",
        "yes,no",
        "--num-prompts",
        "5",
        "--max-concurrency",
        "1",
        "--disable-tqdm",
    ];
    let ends = [
        "--request-id-prefix",
        "r-",
        "--drain-timeout",
        "3600",
        "--no-run-log",
    ];
    let mut running = Running::start(&[&flags[..], &load, &ends].concat());
    let hangs = |server: &ScriptedServer| {
        server.requests().iter().any(|request| {
            request
                .header("x-request-id")
                .is_some_and(|id| id.starts_with("r-0"))
        })
    };
    let expected_servers = if order == "blocks" { 1 } else { 2 };
    wait_until("the requests of the run arrive", || {
        assert!(
            running.is_running(),
            "the program ended before its requests arrived"
        );
        servers.iter().filter(|server| hangs(server)).count() >= expected_servers
    });
    (running, servers)
}

#[test]
fn the_second_signal_aborts_every_run_of_a_matrix() {
    for order in ["interleaved", "blocks"] {
        let (mut running, _servers) = hanging_matrix(order);
        running.signal(Signal::INT);
        running.wait_for("stopping: requests in flight may end");
        assert!(
            running.is_running(),
            "requests in flight have an hour to end"
        );
        running.signal(Signal::INT);
        running.wait_for("stopping now");
        let (code, _, stderr) = running.end();
        assert_eq!(code, Some(130), "{order}: {stderr}");
        assert!(
            !stderr.contains("stopping"),
            "each stage is reported once: {stderr}"
        );
    }
}

#[test]
fn serve_ends_at_the_first_signal() {
    for signal in [Signal::INT, Signal::TERM] {
        let mut running = Running::start(&["serve", "--port", "0"]);
        running.wait_for("stop with Ctrl-C");
        running.signal(signal);
        let (code, stdout, stderr) = running.end();
        assert_eq!(
            (code, stdout.as_str(), stderr.as_str()),
            (Some(0), "", "stopped"),
            "{signal:?}"
        );
    }
}

#[test]
fn engines_are_measured_until_the_first_signal() {
    let folder = tempfile::tempdir().unwrap();
    let rows = folder.path().join("rows.jsonl");
    let flags = [
        "mask",
        "--limit",
        "1",
        "--engine",
        "guidance",
        "--disable-tqdm",
        "--rows",
        rows.to_str().unwrap(),
    ];
    // More masks than the test could wait for.
    let endless = ["--prove", "--budget", "100000000", "--timeout", "86400"];
    let mut running = Running::start(&[&flags[..], &endless].concat());
    wait_until("the file of rows has a line", || {
        assert!(running.is_running(), "the program ended before the signal");
        has_lines(&rows)
    });
    running.signal(Signal::TERM);
    running.wait_for("stopping: the completed part is reported");
    let (code, stdout, stderr) = running.end();
    assert_eq!(code, Some(130), "{stderr}");
    assert!(
        stderr.contains("interrupted: the report covers the completed entries"),
        "{stdout}{stderr}"
    );
}

/// Whether the rows file has its first line, the record of the measurement.
fn has_lines(path: &Path) -> bool {
    std::fs::read_to_string(path).is_ok_and(|text| text.contains('\n'))
}

/// The second of three keywords is in flight at the signal: its answers are awaited, no more are
/// requested, and the keyword that was tested is reported.
#[test]
fn an_interrupted_feature_probe_reports_the_tested_keywords() {
    let (asked, is_asked) = channel::<()>();
    let (release, is_released) = channel::<()>();
    let is_released = Mutex::new(is_released);
    let server = answering(move |body| {
        let schema = constraint_text(body).unwrap_or_default();
        if schema.contains("uniqueItems") {
            return Reply::Status(
                "400 Bad Request",
                r#"{"error":{"message":"no uniqueItems"}}"#,
            );
        }
        if schema.contains("maxLength") {
            asked.send(()).unwrap();
            // Fails at once after the first release.
            let _ = is_released.lock().unwrap().recv();
        }
        allowed(body).map_or(Reply::Prose, Reply::Text)
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("features.json");
    let flags = [
        "preflight",
        "--features",
        "--disable-tqdm",
        "--base-url",
        &server.base_url,
        "--keyword",
        "uniqueItems,maxLength,multipleOf",
        "--json",
        file.to_str().unwrap(),
    ];
    let mut program = Running::start(&flags);
    is_asked.recv().unwrap();
    program.signal(Signal::INT);
    program.wait_for("stopping: the tested keywords are reported");
    drop(release);
    let (code, stdout, stderr) = program.end();
    assert_eq!(code, Some(130), "{stdout}{stderr}");
    let written: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let found = written["servers"][0]["found"].as_array().unwrap();
    let verdicts: Vec<[&str; 2]> = found
        .iter()
        .map(|found| ["id", "verdict"].map(|name| found[name].as_str().unwrap()))
        .collect();
    for expected in [["uniqueItems", "rejected"], ["multipleOf", "not_asked"]] {
        assert!(verdicts.contains(&expected), "{verdicts:?}");
    }
    assert!(stdout.contains("rejected at compile"), "{stdout}");
}

/// The third step is in flight at the signal: it is aborted, and the two before it are reported.
#[test]
fn an_interrupted_test_of_limits_reports_the_steps_that_ended() {
    let (asked, is_asked) = channel::<()>();
    let (release, is_released) = channel::<()>();
    let is_released = Mutex::new(is_released);
    let server = answering(move |body| {
        let schema = constraint_text(body).unwrap_or_default();
        if schema.contains(r#""maxItems":10}"#) {
            asked.send(()).unwrap();
            // Fails at once after the first release.
            let _ = is_released.lock().unwrap().recv();
        }
        Reply::Prose
    });
    let flags = [
        "preflight",
        "--limits",
        "--disable-tqdm",
        "--base-url",
        &server.base_url,
        "--ladder",
        "max-items,max-length",
        "--limits-step-timeout",
        "60",
        "--format",
        "json",
    ];
    let mut program = Running::start(&flags);
    is_asked.recv().unwrap();
    program.signal(Signal::INT);
    program.wait_for("stopping: the steps that ended are reported");
    let (code, stdout, stderr) = program.end();
    drop(release);
    assert_eq!(code, Some(130), "{stdout}{stderr}");
    let written: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let [interrupted, after] = [0, 1].map(|index| &written["servers"][0]["ladders"][index]);
    let sizes: Vec<u64> = interrupted["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["size"].as_u64().unwrap())
        .collect();
    assert_eq!(sizes, [1, 3]);
    for ladder in [interrupted, after] {
        assert_eq!(
            (&ladder["end"], &ladder["reason"]),
            (&"not_tested".into(), &"interrupted".into())
        );
    }
}
