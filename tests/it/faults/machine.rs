//! Local faults: full disk, resource limits, closed streams, signals, and a server that restarts.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use sobench_core::observation::Outcome;
use sobench_results::runlog::RunLog;
use sobench_testkit::repository_path;
use sobench_testkit::scripted::free_port;

use crate::support::{Ran, ran, sobench, through_shell, wait_until};

const SMALL: [&str; 8] = [
    "--dataset",
    "choice",
    "--output-len",
    "4",
    "--num-prompts",
    "12",
    "--disable-tqdm",
    "--skip-preflight",
];

fn check_complete(page: &str) {
    let (valid, rest) = page.split_once(" of ").unwrap();
    assert!(
        page.contains("Serving Benchmark Result") && rest.starts_with(&format!("{valid} valid; ")),
        "{page}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn unwritable_file_gives_exit_3_and_other_files_are_complete() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("run.jsonl");
    let csv = folder.path().join("other.csv");
    let second_file = folder.path().join("also-full");
    std::os::unix::fs::symlink("/dev/full", &second_file).unwrap();
    for (flags, file) in [
        (&["--html", "/dev/full"][..], "/dev/full"),
        (&["--csv", "/dev/full"], "/dev/full"),
        (
            &["--markdown", "/dev/full", "--csv", csv.to_str().unwrap()],
            "/dev/full",
        ),
        (
            &[
                "--junit",
                second_file.to_str().unwrap(),
                "--html",
                "/dev/full",
            ],
            "/dev/full",
        ),
        (
            &[
                "--save-result",
                "--result-dir",
                "/dev",
                "--result-filename",
                "full",
            ],
            "/dev/full",
        ),
        (
            &[
                "--append-result",
                "--result-dir",
                "/dev",
                "--result-filename",
                "full",
            ],
            "/dev/full",
        ),
        (&["--run-log", "/dev/full"], "/dev/full"),
    ] {
        let has_log = flags.contains(&"--run-log");
        let own_log = if has_log {
            &[][..]
        } else {
            &["--run-log", log.to_str().unwrap()]
        };
        let ran = sobench(&[&SMALL[..], own_log, flags].concat());
        assert_eq!(ran.code, 3, "{flags:?}: {}", ran.stderr);
        check_complete(&ran.stdout);
        let error = ran
            .stderr
            .lines()
            .find(|line| line.starts_with("error: "))
            .unwrap();
        assert!(
            error.contains("No space left on device") && error.ends_with(file),
            "{flags:?}: {error}"
        );
        assert!(ran.stderr.contains("hint: "), "{}", ran.stderr);
        let lost = ran
            .stderr
            .lines()
            .filter(|line| line.starts_with("error: ") && line.contains("cannot write"))
            .count();
        let two_files = flags.contains(&"--junit");
        assert!(
            lost > usize::from(two_files),
            "each file is reported: {}",
            ran.stderr
        );
        assert!(
            !two_files || ran.stderr.contains(second_file.to_str().unwrap()),
            "{}",
            ran.stderr
        );
        if !has_log {
            let again = sobench(&["report", log.to_str().unwrap()]);
            assert_eq!(
                (again.code, again.stdout),
                (0, ran.stdout),
                "{flags:?}: the log is whole"
            );
        }
    }
    assert!(
        std::fs::read_to_string(&csv).unwrap().lines().count() == 13,
        "other files are complete"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn unwritable_folder_fails_before_the_run() {
    // Not even root can create files below these folders.
    for folder in ["/proc", "/dev/null"] {
        for flag in ["--html", "--csv", "--markdown", "--junit", "--run-log"] {
            let ran = sobench(&[&SMALL[..], &[flag, &format!("{folder}/none/a.file")]].concat());
            assert_eq!(
                (ran.code, ran.stdout.as_str()),
                (3, ""),
                "{flag}: {}",
                ran.stderr
            );
            assert!(
                ran.stderr.contains("none/a.file") && ran.stderr.contains("hint: "),
                "{flag}: {}",
                ran.stderr
            );
        }
        let ran = sobench(
            &[
                &SMALL[..],
                &["--save-result", "--result-dir", &format!("{folder}/none")],
            ]
            .concat(),
        );
        assert_eq!((ran.code, ran.stdout.as_str()), (3, ""), "{}", ran.stderr);
    }
}

/// Without handling, SIGXFSZ would end the program.
#[cfg(target_os = "linux")]
#[test]
fn file_size_limit_is_handled_like_a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (log, html) = (at("run.jsonl"), at("run.html"));
    let flags = [
        "--num-prompts",
        "300",
        "--dataset",
        "choice",
        "--output-len",
        "4",
        "--disable-tqdm",
        "--run-log",
        &log,
        "--html",
        &html,
    ];
    // 16 blocks of 512 bytes.
    let ran = ran(&mut through_shell("ulimit -f 16 && exec \"$@\"", &flags));
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    check_complete(&ran.stdout);
    for text in [
        "the run goes on with its log in memory",
        "error: cannot write the run log",
        "cannot write the report",
        "File too large",
    ] {
        assert!(ran.stderr.contains(text), "{text}: {}", ran.stderr);
    }
    assert!(ran.stderr.contains(&html), "{}", ran.stderr);
    // The part that was written is a valid log.
    let part = sobench(&["report", &log]);
    assert!(
        part.code == 0 && part.stdout.contains("partial"),
        "{}\n{}",
        part.stderr,
        part.stdout
    );
}

#[cfg(unix)]
#[test]
fn closed_streams_do_not_change_the_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder
        .path()
        .join("kept.jsonl")
        .to_str()
        .unwrap()
        .to_owned();
    let ran_first = sobench(&[&SMALL[..], &["--run-log", &log]].concat());
    assert_eq!(ran_first.code, 0, "{}", ran_first.stderr);
    let rows = repository_path("fixtures/runs/rows.jsonl");
    let commands: [&[&str]; 9] = [
        &SMALL,
        &["report", &log],
        &["report", &log, "--format", "html"],
        &["report", &log, "--format", "csv"],
        &["score", rows.to_str().unwrap(), "--format", "json"],
        &["compare", &log, &log],
        &[
            "preflight",
            "--guided-decoding-backend",
            "guidance",
            "--kind",
            "choice",
        ],
        &["mask", "--help"],
        &["--help"],
    ];
    for arguments in commands {
        let run_log = folder.path().join("run.jsonl").to_str().unwrap().to_owned();
        let own_log = ["--run-log", run_log.as_str()];
        let arguments = if arguments == SMALL {
            [arguments, &own_log].concat()
        } else {
            arguments.to_vec()
        };
        let whole = ran(&mut through_shell("exec \"$@\"", &arguments));
        // In order: a reader of one line, a reader of nothing, closed stdout, all streams closed.
        for script in [
            "{ \"$@\"; echo $? >&3; } 3>&2 2>/dev/null | head -n 1 >/dev/null",
            "{ \"$@\"; echo $? >&3; } 3>&2 2>/dev/null | true",
            "\"$@\" >&- 2>/dev/null; echo $? >&2",
            "\"$@\" >&- 2>&- <&-; code=$?; echo $code >&2",
        ] {
            let _ = std::fs::remove_file(&run_log);
            let ran = ran(&mut through_shell(script, &arguments));
            assert_eq!(
                ran.stderr.trim(),
                whole.code.to_string(),
                "{script}: {arguments:?}"
            );
            if arguments.contains(&run_log.as_str()) {
                assert_eq!(
                    RunLog::read(Path::new(&run_log)).unwrap().requests.len(),
                    12,
                    "{script}"
                );
            }
        }
        let quiet = ran(&mut through_shell("\"$@\" 2>&-", &arguments));
        assert_eq!(quiet.code, whole.code, "{arguments:?}");
        assert!(!quiet.stdout.is_empty(), "{arguments:?}");
    }
}

#[cfg(unix)]
#[test]
fn unusual_terminal_settings_do_not_fail() {
    for (name, value) in [
        ("TERM", None),
        ("TERM", Some("no-such-terminal")),
        ("COLUMNS", Some("0")),
        ("COLUMNS", Some("99999999999999999999")),
    ] {
        let mut command = through_shell("exec \"$@\" --plot --no-run-log", &SMALL);
        match value {
            None => command.env_remove(name),
            Some(value) => command.env(name, value),
        };
        let ran = ran(&mut command);
        assert_eq!(ran.code, 0, "{name}={value:?}: {}", ran.stderr);
        check_complete(&ran.stdout);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn low_open_file_limit_is_reported_and_the_run_completes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    // Only the soft limit is too low, so the program raises it.
    let raised = ran(&mut through_shell(
        "ulimit -S -n 64 && exec \"$@\" --num-prompts 150 --no-run-log",
        &SMALL[..4],
    ));
    assert_eq!(raised.code, 0, "{}", raised.stderr);
    assert!(
        !raised.stderr.contains("open files") && raised.stdout.starts_with("150 of 150 valid"),
        "{}\n{}",
        raised.stderr,
        raised.stdout
    );
    // The embedded server holds the other end of each connection, so 40 files suffice for neither.
    // Its steps are long, so that no connection is free again before all are wanted.
    for limit in ["40", "64", "200"] {
        let script = format!(
            "ulimit -n {limit} && exec \"$@\" --num-prompts 150 --embedded-step-ms 300 --save-result --result-dir {path} --result-filename r.json"
        );
        let ran = ran(&mut through_shell(&script, &SMALL[..4]));
        assert!(
            ran.code == 0 || ran.code == 3,
            "{}: {}",
            ran.code,
            ran.stderr
        );
        let warning = format!(
            "warning: the limit of {limit} open files is too low for 150 concurrent requests"
        );
        assert!(
            ran.stderr.contains(&warning) && ran.stderr.contains("ulimit -n"),
            "{}",
            ran.stderr
        );
        let result: Value =
            serde_json::from_str(&std::fs::read_to_string(folder.path().join("r.json")).unwrap())
                .unwrap();
        let outcomes = result["sobench"]["outcomes"].as_object().unwrap();
        assert_eq!(
            outcomes.values().filter_map(Value::as_u64).sum::<u64>(),
            150,
            "{outcomes:?}"
        );
        let without_connection = outcomes["transport"].as_u64().unwrap();
        assert!(without_connection > 0, "{outcomes:?}");
        let quality = &result["sobench"]["quality"];
        let of = |rate: &str| quality[rate]["of"].as_u64().unwrap_or(0);
        let unsent = quality["not_sent"].as_u64().unwrap();
        assert_eq!(
            [of("correct_rate"), of("coverage")],
            [150 - unsent; 2],
            "unsent requests are in no rate"
        );
        let page = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            page.contains(" not sent; ") && page.contains("open-file limit of sobench reached"),
            "{page}"
        );
    }
}

/// The server is another process, so its files do not count.
#[cfg(target_os = "linux")]
#[test]
fn connection_to_a_separate_server_needs_one_file() {
    let server = super::run::failing_after(usize::MAX, |_| sobench_testkit::scripted::Then::Close);
    let flags = [
        "--base-url",
        &server.base_url,
        "--skip-preflight",
        "--dataset",
        "choice",
        "--num-prompts",
        "100",
    ];
    let ran = ran(&mut through_shell(
        "ulimit -n 400 && exec \"$@\" --max-concurrency 100 --no-run-log",
        &flags,
    ));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(!ran.stderr.contains("open files"), "{}", ran.stderr);
}

/// A running program that writes a run log.
struct Running {
    child: Child,
    log: std::path::PathBuf,
    _folder: tempfile::TempDir,
}

#[cfg(unix)]
impl Running {
    fn start(script: &str, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("run.jsonl");
        let flags = [
            flags,
            &["--run-log", log.to_str().unwrap(), "--disable-tqdm"],
        ]
        .concat();
        let child = through_shell(script, &flags)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            child,
            log,
            _folder: folder,
        }
    }

    /// Waits until `count` lines of the log contain `text`.
    fn wait_for(&mut self, text: &str, count: usize) {
        wait_until(&format!("the log has {count} lines with {text}"), || {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            let is_there = log.lines().filter(|line| line.contains(text)).count() >= count;
            assert!(
                is_there || self.child.try_wait().unwrap().is_none(),
                "the run ended before the expected lines"
            );
            is_there
        });
    }

    fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal)
            .unwrap();
    }

    fn end(self) -> (Ran, RunLog) {
        let output = self.child.wait_with_output().unwrap();
        (output.into(), RunLog::read(&self.log).unwrap())
    }
}

const SLOW: [&str; 8] = [
    "--num-prompts",
    "500",
    "--max-concurrency",
    "2",
    "--embedded-step-ms",
    "3",
    "--guided-decoding-backend",
    "guidance",
];

#[cfg(unix)]
#[test]
fn shutdown_signals_give_a_partial_report() {
    use rustix::process::Signal;
    // If the tests run under nohup, so does the program.
    let signals = [Signal::TERM, Signal::INT]
        .into_iter()
        .chain((!sobench_shutdown::is_hang_up_ignored()).then_some(Signal::HUP));
    for signal in signals {
        let mut running = Running::start("exec \"$@\"", &SLOW);
        running.wait_for("{\"request\"", 4);
        running.signal(signal);
        let (ran, log) = running.end();
        assert_eq!(ran.code, 130, "{signal:?}: {}", ran.stderr);
        assert!(
            ran.stdout.contains("partial: the run was interrupted"),
            "{}",
            ran.stdout
        );
        assert_eq!(
            (log.requests.len(), log.is_partial()),
            (500, true),
            "unsent requests are in the log"
        );
    }
}

/// nohup sets SIGHUP to be ignored, and the program keeps that.
#[cfg(target_os = "linux")]
#[test]
fn sighup_is_ignored_under_nohup() {
    use rustix::process::Signal;
    let mut running = Running::start("trap '' HUP; exec \"$@\"", &SLOW);
    running.wait_for("{\"request\"", 4);
    running.signal(Signal::HUP);
    running.wait_for("{\"request\"", 12);
    running.signal(Signal::TERM);
    let (ran, log) = running.end();
    assert_eq!(
        (ran.code, ran.stderr.matches("stopping").count()),
        (130, 1),
        "{}",
        ran.stderr
    );
    assert_eq!(log.requests.len(), 500);
}

/// A server that can stop and restart on the same port.
#[derive(Clone, Default)]
struct CrashingServer {
    /// Open connections.
    open: Arc<Mutex<Vec<TcpStream>>>,
    is_stopped: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
}

impl CrashingServer {
    fn listen(&self, address: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        self.is_stopped.store(false, Ordering::SeqCst);
        let server = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if server.is_stopped.load(Ordering::SeqCst) {
                    return;
                }
                let stream = stream.unwrap();
                server
                    .open
                    .lock()
                    .unwrap()
                    .push(stream.try_clone().unwrap());
                let server = server.clone();
                std::thread::spawn(move || server.handle_connection(stream));
            }
        });
        address
    }

    /// Closes the listener and every connection.
    fn stop(&self, address: SocketAddr) {
        self.is_stopped.store(true, Ordering::SeqCst);
        // Wakes the listener, which then stops. Later connections are refused.
        while TcpStream::connect(address).is_ok() {}
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }

    fn handle_connection(&self, mut stream: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        loop {
            let (mut line, mut length) = (String::new(), 0);
            let mut first = String::new();
            reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
            while reader.read_line(&mut line).ok()? > 2 {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().ok()?;
                }
                line.clear();
            }
            reader.read_exact(&mut vec![0; length]).ok()?;
            let response = if first.starts_with("GET /v1/models") {
                sobench_testkit::scripted::models()
            } else if first.starts_with("GET") {
                sobench_testkit::scripted::whole("404 Not Found", "text/plain", "")
            } else {
                self.answered.fetch_add(1, Ordering::SeqCst);
                sobench_testkit::scripted::whole("200 OK", "text/event-stream", super::run::ANSWER)
            };
            stream.write_all(response.as_bytes()).ok()?;
        }
    }
}

#[cfg(unix)]
#[test]
fn server_restart_is_reported_as_an_outage() {
    let server = CrashingServer::default();
    let address = server.listen(free_port());
    let url = format!("http://{address}");
    let flags = [
        "--base-url",
        &url,
        "--skip-preflight",
        "--dataset",
        "choice",
        "--request-rate",
        "100",
        "--detail",
        "full",
    ];
    // More requests than needed: the test stops the run.
    let mut running = Running::start(
        "exec \"$@\"",
        &[&flags[..], &["--num-prompts", "20000"]].concat(),
    );
    running.wait_for("\"kind\":\"completed\"", 5);
    server.stop(address);
    running.wait_for("\"kind\":\"transport\"", 5);
    server.listen(address);
    let before = server.answered.load(Ordering::SeqCst);
    running.wait_for("\"kind\":\"completed\"", before + 10);
    running.signal(rustix::process::Signal::TERM);
    let (ran, log) = running.end();
    assert_eq!(ran.code, 130, "{}", ran.stderr);
    assert_eq!(
        log.requests.len(),
        20_000,
        "sent and unsent requests are all planned requests"
    );
    let outcomes: Vec<Outcome> = log
        .requests
        .iter()
        .map(|request| request.outcome().clone())
        .collect();
    let count = |is: fn(&Outcome) -> bool| outcomes.iter().filter(|outcome| is(outcome)).count();
    let (answers, lost) = (
        count(Outcome::is_answer),
        count(|outcome| matches!(outcome, Outcome::Transport { .. })),
    );
    assert!(answers >= 15 && lost >= 5, "{answers} {lost}");
    assert_eq!(
        answers + lost + count(|outcome| *outcome == Outcome::Cancelled),
        20_000,
        "no other outcomes"
    );
    let last_lost = outcomes
        .iter()
        .rposition(|outcome| matches!(outcome, Outcome::Transport { .. }))
        .unwrap();
    assert!(
        outcomes[last_lost..].iter().any(Outcome::is_answer),
        "requests after the outage are measured"
    );
    let page = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        page.contains("server outages from ") && page.contains(&format!("({lost} requests)")),
        "{page}"
    );
}
