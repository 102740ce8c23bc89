//! Run log: `report` repeats the run's output exactly; the log survives a kill and a signal.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use sobench_core::observation::Outcome;
use sobench_embedded::{EmbeddedServer, EmbeddedSettings, Fault};
use sobench_facts::Sample;
use sobench_runlog::RunLog;
use sobench_testkit::repository_path;
use sobench_testkit::scripted::{ScriptedServer, Then, models, wait_until_closed, whole};

use crate::support::{
    Folder, Ran, Running, cache, check_result, choice_server, program, sobench, through_shell,
};

const LOG_SCHEMA: &str = include_str!("../../schemas/contracts/run-log.schema.json");

pub(crate) fn check_lines(path: &Path) {
    let schema: Value = serde_json::from_str(LOG_SCHEMA).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        let errors = validator.iter_errors(&value);
        let errors: Vec<String> = errors
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{}\n{line}", errors.join("\n"));
    }
}

fn report(log: &str, format: &str) -> Ran {
    sobench(&["report", log, "--format", format])
}

#[test]
fn report_of_a_log_is_identical_to_the_output_of_the_run() {
    let faults = ["extra-text@0.3", "error-500@0.1", "truncate@0.1"];
    let faulty = EmbeddedServer::start(EmbeddedSettings {
        faults: faults.map(|fault| Fault::parse(fault).unwrap()).to_vec(),
        ..EmbeddedSettings::default()
    })
    .unwrap();
    let of_faulty = format!(
        "--base-url {} --skip-preflight --save-detailed",
        faulty.base_url()
    );
    for arguments in [
        "--guided-decoding-ratio 0.5 --goodput ttft:1.1 --metadata a=b --num-prompts 30",
        "--cold-schema-every 3 --ramp-up-strategy linear --ramp-up-start-rps 50 --ramp-up-end-rps 200 --num-prompts 20",
        "--dataset grammar --duration 0.2 --max-concurrency 4 --output-len 4 --num-warmups 2",
        &format!("{of_faulty} --num-prompts 60 --max-concurrency 8"),
    ] {
        let folder = Folder::new();
        let place = "--disable-tqdm --save-result --result-filename run.json --result-dir";
        let ran = sobench(&[place, &folder.path(""), arguments]);
        assert_eq!(ran.code, 0, "{arguments}\n{}", ran.stderr);
        let log = folder.path("run.jsonl");
        let line = format!("run log: {log}");
        assert!(
            ran.stderr.lines().any(|other| other == line),
            "{}",
            ran.stderr
        );
        check_lines(log.as_ref());
        let text = report(&log, "text");
        assert_eq!((text.code, text.stdout), (0, ran.stdout), "{arguments}");
        let value = folder.json("run.json");
        assert_eq!(
            report(&log, "json").stdout,
            folder.read("run.json"),
            "{arguments}"
        );
        assert_eq!(check_result(&value), Ok(()), "{arguments}");
        // The planted faults are visible.
        let failures = value["sobench"]["failures"].as_array().unwrap();
        assert_eq!(!failures.is_empty(), arguments.starts_with(&of_faulty));
    }
}

#[test]
fn default_log_is_private_in_the_cache_folder() {
    let server = choice_server();
    let run = "--dataset choice --num-prompts 3 --skip-preflight --disable-tqdm --base-url";
    let ran = sobench(&[run, &server.base_url]);
    let mut lines = ran.stderr.lines();
    let path = lines
        .find_map(|line| line.strip_prefix("run log: "))
        .unwrap();
    assert!(
        Path::new(path).starts_with(cache().join("sobench/runs")),
        "{path}"
    );
    {
        let permissions = std::fs::metadata(path).unwrap().permissions();
        let mode = std::os::unix::fs::PermissionsExt::mode(&permissions);
        assert_eq!(mode & 0o777, 0o600);
    }
    assert_eq!(report(path, "text").stdout, ran.stdout);
    std::fs::remove_file(path).unwrap();
    let none = sobench(&[run, &server.base_url, "--no-run-log"]);
    assert_eq!(
        (none.code, none.stderr.matches("run log").count()),
        (0, 0),
        "{}",
        none.stderr
    );
}

/// A run in a child process, and its log.
pub(crate) struct LoggedRun {
    pub(crate) running: Running,
    log: String,
    folder: Folder,
}

impl LoggedRun {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let folder = Folder::new();
        let log = folder.path("run.jsonl");
        let all = [&["--disable-tqdm --run-log", &log], arguments].concat();
        Self {
            running: Running::start(&mut program(&all)),
            log,
            folder,
        }
    }

    /// Waits until `count` lines of the log contain `text`.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str, count: usize) {
        self.running.wait_for_lines(self.log.as_ref(), text, count);
    }

    /// The end of the program, and its log.
    pub(crate) fn end(self) -> (Ran, RunLog, Folder) {
        let ran = self.running.end();
        check_lines(self.log.as_ref());
        (ran, RunLog::read(self.log.as_ref()).unwrap(), self.folder)
    }
}

/// A run that lasts long, on the embedded server.
const SLOW: &str = "--num-prompts 500 --max-concurrency 2 --embedded-step-ms 3";

#[test]
fn sigkill_loses_only_requests_in_flight() {
    let mut run = LoggedRun::start(&[SLOW, "--guided-decoding-ratio 0.5"]);
    run.wait_for("{\"request\"", 6);
    run.running.signal(rustix::process::Signal::KILL);
    let (killed, log, folder) = run.end();
    let again = report(&folder.path("run.jsonl"), "text");
    assert_eq!((killed.code, killed.stdout.as_str()), (-1, ""));
    let ended = log.requests.len();
    assert!(ended >= 6 && log.footer.is_none() && !log.is_judged);
    let last = log
        .requests
        .iter()
        .map(|request| request.case_index())
        .max();
    assert!(
        last < Some(ended + 2),
        "at most two requests in flight: {last:?}, {ended}"
    );
    let page = again.page();
    assert!(
        page.contains("partial: the run log has no footer"),
        "{page}"
    );
    assert!(page.contains(&format!("{ended} of 500 prepared")), "{page}");
    let path = log.source().path().unwrap().to_str().unwrap();
    let value: Value = serde_json::from_str(&report(path, "json").stdout).unwrap();
    assert_eq!(check_result(&value), Ok(()));
    assert_eq!(value["num_prompts"].as_u64(), Some(ended as u64));
    assert_eq!(
        (&value["sobench"]["partial"], &value["sobench"]["client"]),
        (&Value::Bool(true), &Value::Null)
    );
    // A truncated last line is skipped with a warning. The kill may have truncated one already, and
    // the last whole line may be a reading of the server's metrics.
    let text = std::fs::read_to_string(path).unwrap();
    let whole_lines = &text[..=text.rfind('\n').unwrap()];
    let last_request = whole_lines.rfind("\n{\"request\"").unwrap() + 1;
    let length = text[last_request..].find('\n').unwrap();
    std::fs::write(path, &text[..last_request + length - 2]).unwrap();
    let truncated = report(path, "json");
    truncated.assert_exits(0, &["the last line of the run log is truncated"]);
    let value: Value = serde_json::from_str(&truncated.stdout).unwrap();
    assert_eq!(value["num_prompts"].as_u64(), Some(ended as u64 - 1));
}

/// A server that answers the first `answered` requests. The others wait until the client closes the
/// connection; returns their number so far.
fn answering_first(answered: usize) -> (ScriptedServer, Arc<AtomicUsize>) {
    let waiting = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&waiting);
    let answer = "data: {\"choices\":[{\"text\":\"Positive\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let server = ScriptedServer::new(move |request, stream| {
        let response = match () {
            () if request.is_model_list() => models(),
            () if request.line.starts_with("GET") => whole("404 Not Found", "text/plain", ""),
            () if request.number < answered => whole("200 OK", "text/event-stream", answer),
            () => {
                counter.fetch_add(1, Ordering::SeqCst);
                wait_until_closed(stream);
                return Then::Close;
            }
        };
        stream.write_all(response.as_bytes()).unwrap();
        Then::Keep
    });
    (server, waiting)
}

#[test]
fn shutdown_signals_drain_requests_in_flight() {
    use rustix::process::Signal;
    // If the tests run under nohup, so does the program.
    let hang_up = (!sobench_shutdown::is_hang_up_ignored()).then_some(Signal::HUP);
    for signal in [Signal::TERM, Signal::INT].into_iter().chain(hang_up) {
        let mut run = LoggedRun::start(&[SLOW]);
        run.wait_for("{\"request\"", 4);
        run.running.signal(signal);
        let (ran, log, folder) = run.end();
        let again = report(&folder.path("run.jsonl"), "text");
        assert_eq!(ran.code, 130, "{signal:?}: {}", ran.stderr);
        assert!(
            ran.page().contains("partial: the run was interrupted"),
            "{}",
            ran.stdout
        );
        assert_eq!(again.stdout, ran.stdout);
        assert_eq!(log.requests.len(), 500, "unsent requests are in the log");
        for request in log.requests.iter() {
            let is_cancelled = *request.outcome() == Outcome::Cancelled;
            let is_unsent = request.request_times().sent_ns.is_none();
            assert_eq!(is_cancelled, is_unsent, "{:?}", request.observation());
        }
        assert!(log.is_partial() && log.footer.is_some_and(|footer| footer.interrupted));
    }
}

fn interrupted(drain_timeout: &str, signals: usize) {
    const CAP: usize = 3;
    let (server, waiting) = answering_first(6);
    let mut run = LoggedRun::start(&[
        "--dataset choice --num-prompts 20 --max-concurrency 3 --skip-preflight --base-url",
        &server.base_url,
        drain_timeout,
    ]);
    run.wait_for("{\"request\"", 1);
    run.running
        .wait_until("every slot has a request without an answer", || {
            waiting.load(Ordering::SeqCst) == CAP
        });
    run.running.signal(rustix::process::Signal::INT);
    run.running.wait_for("stopping: requests in flight may end");
    if signals > 1 {
        run.running.signal(rustix::process::Signal::INT);
    }
    let (ran, log, folder) = run.end();
    let again = report(&folder.path("run.jsonl"), "text");
    assert_eq!((ran.code, &again.stdout), (130, &ran.stdout));
    let is_cut = |request: &Sample<'_>| {
        *request.outcome() == Outcome::Cancelled && request.request_times().sent_ns.is_some()
    };
    let cut = log.requests.iter().filter(is_cut).count();
    assert_eq!(
        (log.requests.len(), cut),
        (20, CAP),
        "requests in flight are cancelled"
    );
}

#[test]
fn second_signal_cancels_requests_in_flight() {
    interrupted("--drain-timeout 3600", 2);
}

#[test]
fn drain_timeout_cancels_requests_in_flight() {
    interrupted("--drain-timeout 0", 1);
}

/// nohup sets SIGHUP to be ignored, and the program keeps that.
#[cfg(target_os = "linux")]
#[test]
fn sighup_is_ignored_under_nohup() {
    use rustix::process::Signal;
    let folder = Folder::new();
    let log = folder.path("run.jsonl");
    let arguments = [SLOW, "--disable-tqdm --run-log", &log];
    let mut command = through_shell("trap '' HUP; exec \"$@\"", &arguments);
    let mut running = Running::start(&mut command);
    running.wait_for_lines(log.as_ref(), "{\"request\"", 4);
    running.signal(Signal::HUP);
    running.wait_for_lines(log.as_ref(), "{\"request\"", 12);
    running.signal(Signal::TERM);
    let ran = running.end();
    assert_eq!(
        (ran.code, ran.stderr.matches("stopping").count()),
        (130, 1),
        "{}",
        ran.stderr
    );
    assert_eq!(RunLog::read(log.as_ref()).unwrap().requests.len(), 500);
}

#[test]
fn stored_run_log_stays_readable() {
    let path = repository_path("fixtures/runs/v2.jsonl");
    check_lines(&path);
    let log = RunLog::read(&path).unwrap();
    assert_eq!(
        (log.requests.len(), log.is_judged, log.is_partial()),
        (8, true, false)
    );
    let ran = sobench(&["report", path.to_str().unwrap(), "--detail full"]);
    insta::assert_snapshot!("run_log_v1", ran.stdout);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}
