//! Local faults: full disk, resource limits, closed streams, and a server that restarts.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use sobench_core::observation::Outcome;
use sobench_runlog::RunLog;
use sobench_testkit::repository_path;
use sobench_testkit::scripted::free_port;

use crate::runlog::LoggedRun;
use crate::support::{Folder, choice_server, ran, sobench, through_shell};

const LOAD: &str = "--dataset choice --output-len 4 --disable-tqdm --skip-preflight";
const SMALL: &str = "--dataset choice --disable-tqdm --skip-preflight --num-prompts 12 --base-url";

fn check_complete(page: &str) {
    let (before, rest) = page.split_once(" of ").unwrap();
    let valid = before.split_whitespace().last().unwrap();
    assert!(page.contains("Serving Benchmark Result"), "{page}");
    assert!(
        rest.starts_with(&format!("{valid} answers valid")),
        "{page}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn unwritable_file_gives_exit_3_and_other_files_are_complete() {
    let server = choice_server();
    let folder = Folder::new();
    let (log, csv) = (folder.path("run.jsonl"), folder.path("other.csv"));
    let [full, second_file] = ["full.md", "also.xml"].map(|name| folder.path(name));
    for path in [&full, &second_file] {
        std::os::unix::fs::symlink("/dev/full", path).unwrap();
    }
    let own_log = format!("--run-log {log}");
    let of_result = "--result-dir /dev --result-filename full";
    for (flags, lost) in [
        (format!("{own_log} --save {full} --save {csv}"), 1),
        (format!("{own_log} --save {second_file} --save {full}"), 2),
        (format!("{own_log} --save-result {of_result}"), 1),
        (format!("{own_log} --append-result {of_result}"), 1),
        ("--run-log /dev/full".to_owned(), 1),
    ] {
        let ran = sobench(&[SMALL, &server.base_url, &flags]);
        assert_eq!(ran.code, 3, "{flags}: {}", ran.stderr);
        check_complete(&ran.stdout);
        let errors: Vec<&str> = ran
            .stderr
            .lines()
            .filter(|line| line.starts_with("error: "))
            .collect();
        assert!(
            errors.len() >= lost,
            "each file is reported: {}",
            ran.stderr
        );
        for error in &errors {
            assert!(error.contains("cannot write"), "{flags}: {error}");
        }
        assert!(errors[0].contains("No space left on device"));
        ran.assert_exits(3, &["\nhint: "]);
        if flags.starts_with(&own_log) {
            let again = sobench(&["report", &log]);
            assert_eq!(
                (again.code, again.stdout),
                (0, ran.stdout),
                "{flags}: the log is whole"
            );
        }
    }
    assert_eq!(
        folder.read("other.csv").lines().count(),
        13,
        "other files are complete"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn unwritable_folder_fails_before_the_run() {
    let server = choice_server();
    // Not even root can create files below this folder.
    for flag in ["--save", "--run-log", "--save-result --result-dir"] {
        let flag = format!("{flag} /proc/none/a.html");
        let ran = sobench(&[SMALL, &server.base_url, &flag]);
        ran.assert_fails(3, &["none/a.html", "\nhint: "]);
    }
}

/// Without handling, SIGXFSZ would end the program.
#[cfg(target_os = "linux")]
#[test]
fn file_size_limit_is_handled_like_a_full_disk() {
    let server = choice_server();
    let folder = Folder::new();
    let (log, html) = (folder.path("run.jsonl"), folder.path("run.html"));
    let load = "--dataset choice --disable-tqdm --skip-preflight --num-prompts 60 --base-url";
    let flags = [load, &server.base_url, "--run-log", &log, "--save", &html];
    // 16 blocks of 512 bytes.
    let ran = ran(&mut through_shell("ulimit -f 16 && exec \"$@\"", &flags));
    check_complete(&ran.stdout);
    let errors = [
        "the run goes on with its log in memory",
        "error: cannot write the run log",
        "cannot write the report",
    ];
    ran.assert_exits(3, &[&errors[..], &["File too large", &html]].concat());
    // The part that was written is a valid log.
    let part = sobench(&["report", &log, "--format json"]);
    let part: Value = serde_json::from_str(&part.stdout).unwrap();
    assert_eq!(part["sobench"]["partial"], true);
}

#[test]
fn closed_streams_do_not_change_the_exit_code() {
    let server = choice_server();
    let folder = Folder::new();
    let (log, run_log) = (folder.path("kept.jsonl"), folder.path("run.jsonl"));
    let first = sobench(&[SMALL, &server.base_url, "--run-log", &log]);
    assert_eq!(first.code, 0, "{}", first.stderr);
    let rows = repository_path("fixtures/runs/rows.jsonl");
    let commands: [&[&str]; 6] = [
        &[SMALL, &server.base_url, "--run-log", &run_log],
        &["report", &log, "--format html"],
        &["score", rows.to_str().unwrap(), "--format json"],
        &["compare", &log, &log, "--resamples 1000"],
        &[
            "preflight",
            "--guided-decoding-backend guidance --kind choice",
        ],
        &["--help"],
    ];
    for arguments in commands {
        let whole = ran(&mut through_shell("exec \"$@\"", arguments));
        // In order: a reader of one line, a reader of nothing, closed stdout, all streams closed.
        for script in [
            "{ \"$@\"; echo $? >&3; } 3>&2 2>/dev/null | head -n 1 >/dev/null",
            "{ \"$@\"; echo $? >&3; } 3>&2 2>/dev/null | true",
            "\"$@\" >&- 2>/dev/null; echo $? >&2",
            "\"$@\" >&- 2>&- <&-; code=$?; echo $code >&2",
        ] {
            let _ = std::fs::remove_file(&run_log);
            let ran = ran(&mut through_shell(script, arguments));
            assert_eq!(
                ran.stderr.trim(),
                whole.code.to_string(),
                "{script}: {arguments:?}"
            );
            if arguments[0] == SMALL {
                let log = RunLog::read(Path::new(&run_log)).unwrap();
                assert_eq!(log.requests.len(), 12, "{script}");
            }
        }
        let quiet = ran(&mut through_shell("\"$@\" 2>&-", arguments));
        assert_eq!(
            (quiet.code, quiet.stdout.is_empty()),
            (whole.code, false),
            "{arguments:?}"
        );
    }
}

#[test]
fn unusual_terminal_settings_do_not_fail() {
    let server = choice_server();
    for (name, value) in [
        ("TERM", None),
        ("TERM", Some("no-such-terminal")),
        ("COLUMNS", Some("0")),
        ("COLUMNS", Some("99999999999999999999")),
    ] {
        let mut command = through_shell(
            "exec \"$@\" --plot --no-run-log",
            &[SMALL, &server.base_url],
        );
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
    let folder = Folder::new();
    // Only the soft limit is too low, so the program raises it.
    let script = "ulimit -S -n 64 && exec \"$@\" --num-prompts 150 --no-run-log";
    let raised = ran(&mut through_shell(script, &[LOAD]));
    assert!(
        raised
            .stdout
            .starts_with("enforced? yes: 150 of 150 answers valid"),
        "{}",
        raised.stdout
    );
    assert!(!raised.has_error("open files"), "{}", raised.stderr);
    // The embedded server holds the other end of each connection, so 40 files suffice for neither.
    // Its steps are long, so that no connection is free again before all are wanted.
    for limit in ["40", "200"] {
        let script = format!("ulimit -n {limit} && exec \"$@\"");
        let ran = ran(&mut through_shell(
            &script,
            &[
                LOAD,
                "--num-prompts 150 --embedded-step-ms 300 --save-result --result-filename r.json --result-dir",
                &folder.path(""),
            ],
        ));
        assert!([0, 3].contains(&ran.code), "{}: {}", ran.code, ran.stderr);
        let warning = format!(
            "warning: the limit of {limit} open files is too low for 150 concurrent requests"
        );
        assert!(
            ran.has_error(&warning) && ran.has_error("ulimit -n"),
            "{}",
            ran.stderr
        );
        let own = folder.json("r.json")["sobench"].take();
        let outcomes = own["outcomes"].as_object().unwrap();
        let all: u64 = outcomes.values().filter_map(Value::as_u64).sum();
        assert_eq!(all, 150, "{outcomes:?}");
        assert!(outcomes["transport"].as_u64() > Some(0), "{outcomes:?}");
        let metrics = &own["metrics"];
        let of = |rate: &str| metrics[rate]["of"].as_u64().unwrap_or(0);
        let unsent = metrics["not_sent_rate"]["hits"].as_u64().unwrap();
        // Unsent requests are in no rate.
        assert_eq!([of("correct_rate"), of("coverage")], [150 - unsent; 2]);
        assert!(
            ran.page().contains("open-file limit of sobench reached"),
            "{}",
            ran.stdout
        );
    }
}

/// The server is another process, so its files do not count.
#[cfg(target_os = "linux")]
#[test]
fn connection_to_a_separate_server_needs_one_file() {
    let server = choice_server();
    let flags = [LOAD, "--num-prompts 100 --base-url", &server.base_url];
    let script = "ulimit -n 400 && exec \"$@\" --max-concurrency 100 --no-run-log";
    let ran = ran(&mut through_shell(script, &flags));
    assert_eq!(
        (ran.code, ran.has_error("open files")),
        (0, false),
        "{}",
        ran.stderr
    );
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

#[test]
fn server_restart_is_reported_as_an_outage() {
    let server = CrashingServer::default();
    let address = server.listen(free_port());
    // More requests than needed: the test stops the run.
    let url = format!("--base-url http://{address} --detail full");
    let load = "--request-rate 100 --num-prompts 2000";
    let mut run = LoggedRun::start(&["--dataset choice --skip-preflight", load, &url]);
    run.wait_for("\"kind\":\"completed\"", 5);
    server.stop(address);
    run.wait_for("\"kind\":\"transport\"", 5);
    server.listen(address);
    let before = server.answered.load(Ordering::SeqCst);
    run.wait_for("\"kind\":\"completed\"", before + 10);
    run.running.signal(rustix::process::Signal::TERM);
    let (ran, log, _folder) = run.end();
    assert_eq!(ran.code, 130, "{}", ran.stderr);
    let outcomes: Vec<Outcome> = log
        .requests
        .iter()
        .map(|request| request.outcome().clone())
        .collect();
    let is_lost = |outcome: &Outcome| matches!(outcome, Outcome::Transport { .. });
    let count =
        |is: &dyn Fn(&Outcome) -> bool| outcomes.iter().filter(|outcome| is(outcome)).count();
    let (answers, lost) = (count(&Outcome::is_answer), count(&is_lost));
    let cancelled = count(&|outcome| *outcome == Outcome::Cancelled);
    assert!(answers >= 15 && lost >= 5, "{answers} {lost}");
    // Sent and unsent requests are all planned requests, and there are no other outcomes.
    assert_eq!((answers + lost + cancelled, outcomes.len()), (2000, 2000));
    let last_lost = outcomes.iter().rposition(is_lost).unwrap();
    let are_measured = outcomes[last_lost..].iter().any(Outcome::is_answer);
    assert!(are_measured, "requests after the outage are measured");
    let page = ran.page();
    assert!(page.contains("server outages from "), "{page}");
    assert!(page.contains(&format!("({lost} requests)")), "{page}");
}
