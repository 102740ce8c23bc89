//! Tired machines: what runs out, who closes, who tells the program to end; with what the user sees
//! and the exit code.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use sobench_core::observation::Outcome;
use sobench_results::runlog::{Keep, RunLog};
use sobench_testkit::in_package;
use sobench_testkit::scripted::free_port;

use crate::support::{Ran, cache, sobench, wait_until};

/// The program by way of a shell, which sets limits and closes what is to be closed; `"$@"` is the
/// program with its arguments.
pub(super) fn through_shell(script: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", script, "sh", env!("CARGO_BIN_EXE_sobench")])
        .args(arguments);
    command
        .env_remove("OPENAI_API_KEY")
        .env("XDG_CACHE_HOME", cache());
    command
}

pub(super) fn ran(command: &mut Command) -> Ran {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    // A shell says 128 and more for a program that a signal ended.
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

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

fn check_whole(page: &str) {
    assert!(
        page.contains("Serving Benchmark Result") && page.contains("correct rate   | 100.00"),
        "{page}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_cannot_be_written_costs_itself_and_the_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("run.jsonl");
    let others = folder.path().join("other.csv");
    let also = folder.path().join("also-full");
    std::os::unix::fs::symlink("/dev/full", &also).unwrap();
    for (flags, file) in [
        (&["--html", "/dev/full"][..], "/dev/full"),
        (&["--csv", "/dev/full"], "/dev/full"),
        (
            &["--markdown", "/dev/full", "--csv", others.to_str().unwrap()],
            "/dev/full",
        ),
        (
            &["--junit", also.to_str().unwrap(), "--html", "/dev/full"],
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
        check_whole(&ran.stdout);
        let said = ran
            .stderr
            .lines()
            .find(|line| line.starts_with("error: "))
            .unwrap();
        assert!(
            said.contains("No space left on device") && said.ends_with(file),
            "{flags:?}: {said}"
        );
        assert!(ran.stderr.contains("hint: "), "{}", ran.stderr);
        let lost = ran
            .stderr
            .lines()
            .filter(|line| line.starts_with("error: ") && line.contains("cannot be written"))
            .count();
        let both = flags.contains(&"--junit");
        assert!(
            lost > usize::from(both),
            "each file is named: {}",
            ran.stderr
        );
        assert!(
            !both || ran.stderr.contains(also.to_str().unwrap()),
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
        std::fs::read_to_string(&others).unwrap().lines().count() == 13,
        "one file's failure is not another's"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_takes_no_file_ends_the_run_before_it_begins() {
    // Nobody, root neither, makes files below these.
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

/// The system would end the program with SIGXFSZ.
#[cfg(target_os = "linux")]
#[test]
fn a_limit_on_file_sizes_is_a_full_disk() {
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
    // Sixteen blocks of 512 bytes.
    let ran = ran(&mut through_shell("ulimit -f 16 && exec \"$@\"", &flags));
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    check_whole(&ran.stdout);
    for words in [
        "the run goes on, and its log in memory",
        "error: the run log is not whole",
        "the report cannot be written",
        "File too large",
    ] {
        assert!(ran.stderr.contains(words), "{words}: {}", ran.stderr);
    }
    assert!(ran.stderr.contains(&html), "{}", ran.stderr);
    // What there was room for is a log.
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
fn whoever_reads_may_go_away_and_streams_may_be_closed() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder
        .path()
        .join("kept.jsonl")
        .to_str()
        .unwrap()
        .to_owned();
    let ran_first = sobench(&[&SMALL[..], &["--run-log", &log]].concat());
    assert_eq!(ran_first.code, 0, "{}", ran_first.stderr);
    let rows = in_package("fixtures/runs/rows.jsonl");
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
        // A reader that takes a line, one that takes nothing; closed streams, one by one and all.
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
                    RunLog::read(Path::new(&run_log), Keep::WithoutTexts)
                        .unwrap()
                        .requests
                        .len(),
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
fn no_terminal_and_an_absurd_one_are_all_the_same() {
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
        check_whole(&ran.stdout);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn files_that_run_out_are_named_before_and_after_and_nothing_hangs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    // The soft limit alone is raised.
    let raised = ran(&mut through_shell(
        "ulimit -S -n 64 && exec \"$@\" --num-prompts 150 --no-run-log",
        &SMALL[..4],
    ));
    assert_eq!(raised.code, 0, "{}", raised.stderr);
    assert!(
        !raised.stderr.contains("open files") && raised.stdout.contains("150/150"),
        "{}\n{}",
        raised.stderr,
        raised.stdout
    );
    // The embedded server holds the other ends: with 40 files neither has enough for the other.
    for limit in ["40", "64", "200"] {
        let script = format!(
            "ulimit -n {limit} && exec \"$@\" --num-prompts 150 --save-result --result-dir {path} --result-filename r.json"
        );
        let ran = ran(&mut through_shell(&script, &SMALL[..4]));
        assert!(
            ran.code == 0 || ran.code == 3,
            "{}: {}",
            ran.code,
            ran.stderr
        );
        let warning = format!(
            "warning: the system allows {limit} open files, too few for 150 requests at once"
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
        let lacking = outcomes["transport"].as_u64().unwrap();
        assert!(lacking > 0, "{outcomes:?}");
        let quality = &result["sobench"]["quality"];
        let of = |rate: &str| quality[rate]["of"].as_u64().unwrap_or(0);
        let unsent = quality["not_sent"].as_u64().unwrap();
        assert_eq!(
            [of("correct_rate"), of("coverage")],
            [150 - unsent; 2],
            "what never came to the server is in no rate"
        );
        let page = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            page.contains("requests that found no connection on this machine")
                && page.contains("may open no more files"),
            "{page}"
        );
    }
}

/// The other ends are another process's matter, and its files as well.
#[cfg(target_os = "linux")]
#[test]
fn one_file_is_enough_for_a_connection_to_a_server_elsewhere() {
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

/// A program that runs with a log.
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

    /// Waits until the log has so many lines with these words.
    fn wait_for(&mut self, words: &str, count: usize) {
        wait_until(&format!("the log has {count} lines with {words}"), || {
            let text = std::fs::read_to_string(&self.log).unwrap_or_default();
            let is_there = text.lines().filter(|line| line.contains(words)).count() >= count;
            assert!(
                is_there || self.child.try_wait().unwrap().is_none(),
                "the run ended too early"
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
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let ran = Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        };
        (ran, RunLog::read(&self.log, Keep::Texts).unwrap())
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
fn whoever_tells_the_program_to_end_gets_a_whole_report() {
    use rustix::process::Signal;
    // Where the tests themselves are run under nohup the program is, too.
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
            "what was not sent is in the log, too"
        );
    }
}

/// The terminal's end is nothing to a program that was told so.
#[cfg(target_os = "linux")]
#[test]
fn under_nohup_the_run_outlives_its_terminal() {
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

/// A server that can die and come back at the same port.
#[derive(Clone, Default)]
struct Mortal {
    /// Connections that are open.
    open: Arc<Mutex<Vec<TcpStream>>>,
    is_dead: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
}

impl Mortal {
    fn live(&self, address: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        self.is_dead.store(false, Ordering::SeqCst);
        let server = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if server.is_dead.load(Ordering::SeqCst) {
                    return;
                }
                let stream = stream.unwrap();
                server
                    .open
                    .lock()
                    .unwrap()
                    .push(stream.try_clone().unwrap());
                let server = server.clone();
                std::thread::spawn(move || server.converse(stream));
            }
        });
        address
    }

    /// The listener goes, and every connection with it.
    fn die(&self, address: SocketAddr) {
        self.is_dead.store(true, Ordering::SeqCst);
        // Wakes the listener, which sees that it is dead; what is refused from then on has found
        // nobody.
        while TcpStream::connect(address).is_ok() {}
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }

    fn converse(&self, mut stream: TcpStream) -> Option<()> {
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
            let said = if first.starts_with("GET /v1/models") {
                sobench_testkit::scripted::models()
            } else if first.starts_with("GET") {
                sobench_testkit::scripted::whole("404 Not Found", "text/plain", "")
            } else {
                self.answered.fetch_add(1, Ordering::SeqCst);
                sobench_testkit::scripted::whole("200 OK", "text/event-stream", super::run::ANSWER)
            };
            stream.write_all(said.as_bytes()).ok()?;
        }
    }
}

#[cfg(unix)]
#[test]
fn a_server_that_dies_and_comes_back_is_measured_before_and_after() {
    let server = Mortal::default();
    let address = server.live(free_port());
    let url = format!("http://{address}");
    let flags = [
        "--base-url",
        &url,
        "--skip-preflight",
        "--dataset",
        "choice",
        "--request-rate",
        "100",
    ];
    // Far more than it takes: the run ends when it has seen enough.
    let mut running = Running::start(
        "exec \"$@\"",
        &[&flags[..], &["--num-prompts", "20000"]].concat(),
    );
    running.wait_for("\"kind\":\"completed\"", 5);
    server.die(address);
    running.wait_for("\"kind\":\"transport\"", 5);
    server.live(address);
    let before = server.answered.load(Ordering::SeqCst);
    running.wait_for("\"kind\":\"completed\"", before + 10);
    running.signal(rustix::process::Signal::TERM);
    let (ran, log) = running.end();
    assert_eq!(ran.code, 130, "{}", ran.stderr);
    assert_eq!(
        log.requests.len(),
        20_000,
        "sent and not sent are what was planned"
    );
    let outcomes: Vec<Outcome> = log
        .requests
        .iter()
        .map(|request| request.outcome().clone())
        .collect();
    let count = |is: fn(&Outcome) -> bool| outcomes.iter().filter(|outcome| is(outcome)).count();
    let (answers, lost) = (
        count(Outcome::is_answer),
        count(|it| matches!(it, Outcome::Transport { .. })),
    );
    assert!(answers >= 15 && lost >= 5, "{answers} {lost}");
    assert_eq!(
        answers + lost + count(|it| *it == Outcome::Cancelled),
        20_000,
        "nothing else came of any of them"
    );
    let last_lost = outcomes
        .iter()
        .rposition(|it| matches!(it, Outcome::Transport { .. }))
        .unwrap();
    assert!(
        outcomes[last_lost..].iter().any(Outcome::is_answer),
        "those after the gap are measured"
    );
    let page = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        page.contains("nobody was there to answer from ")
            && page.contains(&format!("({lost} requests)")),
        "{page}"
    );
}
