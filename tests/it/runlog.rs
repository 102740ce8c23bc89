//! Run log: `report` repeats the run's output exactly; the log survives a kill, a signal and a full
//! disk, and contains no secrets.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use sobench_core::observation::Outcome;
use sobench_embedded::{EmbeddedOptions, EmbeddedServer, Fault};
use sobench_results::runlog::RunLog;
use sobench_testkit::repository_path;
use sobench_testkit::scripted::{ScriptedServer, Then, models, wait_until_closed, whole};

use crate::support::{Ran, cache, check_result, sobench, wait_until};

const LOG_SCHEMA: &str = include_str!("../../schemas/contracts/run-log.schema.json");

pub(crate) fn check_lines(path: &Path) {
    let schema: Value = serde_json::from_str(LOG_SCHEMA).unwrap();
    jsonschema::draft202012::meta::validate(&schema).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(&value)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{}\n{line}", errors.join("\n"));
    }
}

/// Runs with a log and a result in a temporary folder.
fn logged(arguments: &[&str]) -> (tempfile::TempDir, PathBuf, Ran) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap().to_owned();
    let mut all = vec![
        "--disable-tqdm",
        "--save-result",
        "--result-dir",
        &path,
        "--result-filename",
        "run.json",
    ];
    all.extend_from_slice(arguments);
    let ran = sobench(&all);
    let log = folder.path().join("run.jsonl");
    assert!(
        ran.stderr.contains(&format!("run log: {}", log.display())),
        "{}",
        ran.stderr
    );
    (folder, log, ran)
}

fn report(log: &Path, format: &str) -> Ran {
    sobench(&["report", log.to_str().unwrap(), "--format", format])
}

#[test]
fn report_of_a_log_is_identical_to_the_output_of_the_run() {
    let faults = ["extra-text@0.3", "error-500@0.1", "truncate@0.1"]
        .map(|fault| Fault::parse(fault).unwrap());
    let faulty = EmbeddedServer::start(EmbeddedOptions {
        faults: faults.to_vec(),
        ..EmbeddedOptions::default()
    })
    .unwrap();
    let url = faulty.base_url();
    let ramp = [
        "--ramp-up-strategy",
        "linear",
        "--ramp-up-start-rps",
        "50",
        "--ramp-up-end-rps",
        "200",
    ];
    for arguments in [
        &["--num-prompts", "30"][..],
        &[
            "--num-prompts",
            "30",
            "--save-detailed",
            "--guided-decoding-ratio",
            "0.5",
            "--goodput",
            "ttft:1.1",
            "--metadata",
            "a=b",
        ],
        &[
            "--num-prompts",
            "30",
            "--no-guided-decoding",
            "--max-concurrency",
            "4",
            "--metric-percentiles",
            "50,99.9",
        ],
        &[
            &[
                "--num-prompts",
                "20",
                "--cold-schema-every",
                "3",
                "--temperature",
                "0.1",
            ][..],
            &ramp,
        ]
        .concat(),
        &[
            "--dataset",
            "grammar",
            "--duration",
            "0.2",
            "--max-concurrency",
            "4",
            "--output-len",
            "4",
            "--num-warmups",
            "2",
        ],
        &[
            "--base-url",
            url,
            "--num-prompts",
            "60",
            "--skip-preflight",
            "--max-concurrency",
            "8",
            "--save-detailed",
        ],
        &[
            "--base-url",
            url,
            "--num-prompts",
            "60",
            "--skip-preflight",
            "--max-concurrency",
            "8",
        ],
    ] {
        let (folder, log, ran) = logged(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}\n{}", ran.stderr);
        check_lines(&log);
        let text = report(&log, "text");
        assert_eq!((text.code, text.stdout), (0, ran.stdout), "{arguments:?}");
        let saved = std::fs::read_to_string(folder.path().join("run.json")).unwrap();
        assert_eq!(report(&log, "json").stdout, saved, "{arguments:?}");
        let value: Value = serde_json::from_str(&saved).unwrap();
        assert_eq!(check_result(&value), Ok(()), "{arguments:?}");
        let has_failures = !value["sobench"]["failures"].as_array().unwrap().is_empty();
        assert!(
            has_failures || !arguments.contains(&"--base-url"),
            "the injected faults are visible"
        );
    }
}

#[test]
fn examples_of_invalid_answers_are_read_from_the_log() {
    let faults = vec![Fault::parse("extra-text").unwrap()];
    let faulty = EmbeddedServer::start(EmbeddedOptions {
        faults,
        ..EmbeddedOptions::default()
    })
    .unwrap();
    let (folder, _, _) = logged(&[
        "--base-url",
        faulty.base_url(),
        "--num-prompts",
        "8",
        "--skip-preflight",
    ]);
    let saved = std::fs::read_to_string(folder.path().join("run.json")).unwrap();
    let value: Value = serde_json::from_str(&saved).unwrap();
    let excerpt = &value["sobench"]["quality"]["reasons"][0]["excerpts"][0];
    assert!(
        excerpt["text"].as_str().unwrap().contains('{')
            && excerpt["text_bytes"].as_u64().unwrap() > 10,
        "{excerpt}"
    );
}

#[test]
fn default_log_is_private_in_the_cache_folder() {
    let ran = sobench(&["--num-prompts", "3", "--disable-tqdm"]);
    let path = ran
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix("run log: "))
        .unwrap();
    assert!(
        Path::new(path).starts_with(cache()) && path.contains("runs"),
        "{path}"
    );
    #[cfg(unix)]
    {
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(path).unwrap().permissions(),
        );
        assert_eq!(mode & 0o777, 0o600);
    }
    assert_eq!(report(path.as_ref(), "text").stdout, ran.stdout);
    std::fs::remove_file(path).unwrap();
    let none = sobench(&["--num-prompts", "3", "--disable-tqdm", "--no-run-log"]);
    assert!(
        none.code == 0 && !none.stderr.contains("run log"),
        "{}",
        none.stderr
    );
}

#[test]
fn log_beside_a_result_has_the_same_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    for _ in 0..2 {
        let endless = [
            "--dataset",
            "choice",
            "--output-len",
            "4",
            "--max-concurrency",
            "2",
            "--duration",
            "0.1",
        ];
        let ran = sobench(
            &[
                &endless[..],
                &["--save-result", "--result-dir", path, "--disable-tqdm"],
            ]
            .concat(),
        );
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    }
    let files = || {
        std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
    };
    let stems = |ending: &str| {
        let mut stems: Vec<_> = files()
            .filter(|path| path.extension().unwrap() == ending)
            .map(|path| path.with_extension(""))
            .collect();
        stems.sort();
        stems
    };
    assert_eq!((stems("json").len(), stems("json")), (2, stems("jsonl")));
}

#[test]
fn unwritable_log_fails_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let taken = folder.path().join("file");
    std::fs::write(&taken, "x").unwrap();
    for (path, code) in [
        (folder.path().to_path_buf(), 2),
        (taken.join("run.jsonl"), 3),
    ] {
        let ran = sobench(&["--num-prompts", "3", "--run-log", path.to_str().unwrap()]);
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (code, ""),
            "{}",
            ran.stderr
        );
        assert!(ran.stderr.contains("hint: "), "{}", ran.stderr);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn full_disk_loses_the_log_but_not_the_report() {
    let ran = sobench(&[
        "--num-prompts",
        "20",
        "--disable-tqdm",
        "--run-log",
        "/dev/full",
    ]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stdout.starts_with("20 of 20 valid; "), "{}", ran.stdout);
    assert!(
        ran.stderr
            .contains("the run goes on with its log in memory")
            && ran.stderr.contains("No space left"),
        "{}",
        ran.stderr
    );
}

#[test]
fn secrets_are_in_no_file() {
    const KEY: &str = "sk-0123456789abcdef";
    const HEADER: &str = "tenant-secret-value";
    let answer = whole(
        "200 OK",
        "text/event-stream",
        "data: {\"choices\":[{\"text\":\"Positive\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
    );
    let server = ScriptedServer::answering(move |request| match request.number {
        _ if request.is_model_list() => models(),
        number if number < 5 => answer.clone(),
        // The server echoes the request.
        _ => whole(
            "401 Unauthorized",
            "text/plain",
            &format!("refused: {:?}", request.headers),
        ),
    });
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let url = server
        .base_url
        .replace("http://", "http://user:passw0rd-secret@");
    let ran = Command::new(env!("CARGO_BIN_EXE_sobench"))
        .args([
            "--base-url",
            &url,
            "--model",
            "tiny",
            "--dataset",
            "choice",
            "--num-prompts",
            "6",
            "--skip-preflight",
        ])
        .args([
            "--header",
            &format!("x-tenant={HEADER}"),
            "--run-log",
            &path("run.jsonl"),
            "--save-detailed",
            "--max-concurrency",
            "1",
        ])
        .args([
            "--result-dir",
            &path(""),
            "--result-filename",
            "run.json",
            "--disable-tqdm",
        ])
        .env("OPENAI_API_KEY", KEY)
        .output()
        .unwrap();
    let (stdout, stderr) = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    assert_eq!(ran.status.code(), Some(0), "{stderr}");
    let files = [
        std::fs::read_to_string(path("run.jsonl")).unwrap(),
        std::fs::read_to_string(path("run.json")).unwrap(),
    ];
    for text in files.iter().map(String::as_str).chain([&*stdout]) {
        for secret in [KEY, HEADER, "passw0rd-secret"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
        assert!(text.contains("***") && text.contains("refused: "), "{text}");
    }
    assert!(files[0].contains(r#""header_names":["x-tenant"]"#));
    check_lines(path("run.jsonl").as_ref());
}

/// A run in a child process, and its log.
struct Running {
    child: Child,
    log: PathBuf,
    _folder: tempfile::TempDir,
}

impl Running {
    fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("run.jsonl");
        let child = Command::new(env!("CARGO_BIN_EXE_sobench"))
            .args(["--disable-tqdm", "--run-log", log.to_str().unwrap()])
            .args(arguments)
            .env_remove("OPENAI_API_KEY")
            .env("NO_PROXY", "127.0.0.1")
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

    /// Waits until `count` lines of the log start with `prefix`.
    fn wait_for(&mut self, prefix: &str, count: usize) {
        wait_until(
            &format!("the log has {count} lines that start with {prefix}"),
            || {
                let text = std::fs::read_to_string(&self.log).unwrap_or_default();
                let is_found =
                    text.lines().filter(|line| line.starts_with(prefix)).count() >= count;
                assert!(
                    is_found || self.child.try_wait().unwrap().is_none(),
                    "the run ended before the expected lines"
                );
                is_found
            },
        );
    }

    #[cfg(unix)]
    fn interrupt(&self) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    }

    fn end(self) -> (Ran, RunLog, String, tempfile::TempDir) {
        let output = self.child.wait_with_output().unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        let log = RunLog::read(&self.log).unwrap();
        check_lines(&self.log);
        let again = report(&self.log, "text").stdout;
        let code = output.status.code().unwrap_or(-1);
        (
            Ran {
                code,
                stdout,
                stderr: String::from_utf8(output.stderr).unwrap(),
            },
            log,
            again,
            self._folder,
        )
    }
}

/// A page without the line breaks of wrapping.
fn unwrapped(page: &str) -> String {
    page.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn sigkill_loses_only_requests_in_flight() {
    let slow = [
        "--num-prompts",
        "500",
        "--max-concurrency",
        "2",
        "--embedded-step-ms",
        "3",
        "--guided-decoding-ratio",
        "0.5",
    ];
    let mut running = Running::start(&slow);
    running.wait_for("{\"request\"", 6);
    running.child.kill().unwrap();
    let (killed, log, again, _folder) = running.end();
    assert_eq!((killed.code, killed.stdout.as_str()), (-1, ""));
    let ended = log.requests.len();
    assert!(ended >= 6 && log.footer.is_none() && !log.is_judged);
    let last = log
        .requests
        .iter()
        .map(|request| request.case_index())
        .max()
        .unwrap();
    assert!(
        last < ended + 2,
        "at most two requests in flight: {last}, {ended}"
    );
    let page = unwrapped(&again);
    assert!(
        page.contains("partial: the run log has no footer")
            && page.contains(&format!("{ended} of 500 prepared")),
        "{again}"
    );
    assert!(again.contains("correct rate (%)"), "{again}");
    let path = log.source().path().unwrap();
    let value: Value = serde_json::from_str(&report(path, "json").stdout).unwrap();
    assert_eq!(check_result(&value), Ok(()));
    assert_eq!(
        (value["num_prompts"].as_u64(), &value["sobench"]["partial"]),
        (Some(ended as u64), &Value::Bool(true))
    );
    assert!(value["sobench"]["client"].is_null() && value["duration"].as_f64().unwrap() > 0.0);
    // A truncated last line is skipped with a warning. The kill may have truncated one already, and
    // the last whole line may be a reading of the server's metrics.
    let text = std::fs::read_to_string(path).unwrap();
    let whole_lines = &text[..=text.rfind('\n').unwrap()];
    let last_request = whole_lines.rfind("\n{\"request\"").unwrap() + 1;
    let length = text[last_request..].find('\n').unwrap();
    std::fs::write(path, &text[..last_request + length - 2]).unwrap();
    let truncated = report(path, "text");
    assert!(
        truncated.code == 0
            && truncated
                .stderr
                .contains("the last line of the run log is truncated"),
        "{}",
        truncated.stderr
    );
    assert!(
        unwrapped(&truncated.stdout).contains(&format!("{} of 500 prepared", ended - 1)),
        "{}",
        truncated.stdout
    );
}

/// A server that answers the first `answered` requests. The others wait until the client closes the
/// connection; returns their number so far.
#[cfg(unix)]
fn answering_first(answered: usize) -> (ScriptedServer, Arc<AtomicUsize>) {
    let waiting = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&waiting);
    let answer = whole(
        "200 OK",
        "text/event-stream",
        "data: {\"choices\":[{\"text\":\"Positive\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
    );
    let server = ScriptedServer::new(move |request, stream| {
        if request.is_model_list() {
            stream.write_all(models().as_bytes()).unwrap();
        } else if request.line.starts_with("GET") {
            stream
                .write_all(whole("404 Not Found", "text/plain", "").as_bytes())
                .unwrap();
        } else if request.number < answered {
            stream.write_all(answer.as_bytes()).unwrap();
        } else {
            counter.fetch_add(1, Ordering::SeqCst);
            wait_until_closed(stream);
            return Then::Close;
        }
        Then::Keep
    });
    (server, waiting)
}

#[cfg(unix)]
#[test]
fn first_signal_drains_requests_in_flight() {
    let slow = [
        "--num-prompts",
        "500",
        "--max-concurrency",
        "2",
        "--embedded-step-ms",
        "3",
    ];
    let mut running = Running::start(&slow);
    running.wait_for("{\"request\"", 4);
    running.interrupt();
    let (ran, log, again, _folder) = running.end();
    assert_eq!(ran.code, 130, "{}", ran.stderr);
    assert!(
        unwrapped(&ran.stdout).contains("partial: the run was interrupted"),
        "{}",
        ran.stdout
    );
    assert_eq!(again, ran.stdout);
    assert_eq!(log.requests.len(), 500, "unsent requests are in the log");
    for request in log.requests.iter() {
        let is_cancelled = *request.outcome() == Outcome::Cancelled;
        assert_eq!(
            is_cancelled,
            request.request_times().sent_ns.is_none(),
            "{:?}",
            request.observation()
        );
    }
    assert!(log.is_partial() && log.footer.is_some_and(|footer| footer.interrupted));
}

#[cfg(unix)]
fn interrupted(drain_timeout: &str, signals: usize) {
    const CAP: usize = 3;
    let (server, waiting) = answering_first(6);
    let mut running = Running::start(&[
        "--base-url",
        &server.base_url,
        "--dataset",
        "choice",
        "--num-prompts",
        "20",
        "--max-concurrency",
        &CAP.to_string(),
        "--skip-preflight",
        "--drain-timeout",
        drain_timeout,
    ]);
    running.wait_for("{\"request\"", 1);
    wait_until("every slot has a request without an answer", || {
        waiting.load(Ordering::SeqCst) == CAP
    });
    let mut stderr = BufReader::new(running.child.stderr.take().unwrap());
    running.interrupt();
    let mut line = String::new();
    while !line.starts_with("stopping: requests in flight may end") {
        line.clear();
        assert!(
            stderr.read_line(&mut line).unwrap() > 0,
            "no message after the first signal"
        );
    }
    if signals > 1 {
        running.interrupt();
    }
    let (ran, log, again, _folder) = running.end();
    assert_eq!((ran.code, &again), (130, &ran.stdout));
    let is_cut = |request: &sobench_results::metrics::Sample<'_>| {
        *request.outcome() == Outcome::Cancelled && request.request_times().sent_ns.is_some()
    };
    assert_eq!(
        (
            log.requests.len(),
            log.requests.iter().filter(is_cut).count()
        ),
        (20, CAP),
        "requests in flight are cancelled"
    );
}

#[cfg(unix)]
#[test]
fn second_signal_cancels_requests_in_flight() {
    interrupted("3600", 2);
}

#[cfg(unix)]
#[test]
fn drain_timeout_cancels_requests_in_flight() {
    interrupted("0", 1);
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
    let ran = sobench(&["report", path.to_str().unwrap(), "--detail", "full"]);
    insta::assert_snapshot!("run_log_v1", ran.stdout);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}

#[test]
fn error_names_a_file_that_is_not_a_run_log() {
    let ran = report(&repository_path("README.md"), "text");
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    assert!(
        ran.stderr.contains("not a run log") && ran.stderr.contains("README.md"),
        "{}",
        ran.stderr
    );
}
