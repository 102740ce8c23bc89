//! Failing servers and error limits: output, files and exit codes.

use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use sobench_testkit::scripted::{Request, ScriptedServer, Then, models, whole};

use crate::support::{Ran, check_result, sobench};

pub(super) const ANSWER: &str =
    "data: {\"choices\":[{\"text\":\"Positive\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

fn answer() -> String {
    whole("200 OK", "text/event-stream", ANSWER)
}

/// A server that answers metadata requests and the first `answered` requests (including the trial),
/// and applies `fault` to the others.
pub(super) fn failing_after(
    answered: usize,
    fault: impl Fn(&mut TcpStream) -> Then + Send + Sync + 'static,
) -> ScriptedServer {
    let request_count = AtomicUsize::new(0);
    ScriptedServer::new(move |request, stream| match metadata_response(request) {
        Some(response) => keep(stream, &response),
        None if request_count.fetch_add(1, Ordering::SeqCst) < answered => keep(stream, &answer()),
        None => fault(stream),
    })
}

fn keep(stream: &mut TcpStream, bytes: &str) -> Then {
    // The client may have closed the connection.
    if stream.write_all(bytes.as_bytes()).is_ok() {
        Then::Keep
    } else {
        Then::Close
    }
}

fn metadata_response(request: &Request) -> Option<String> {
    if request.is_model_list() {
        return Some(models());
    }
    request
        .line
        .starts_with("GET ")
        .then(|| whole("404 Not Found", "text/plain", ""))
}

/// A run that writes every file it can, in a temporary folder.
struct RunFiles(tempfile::TempDir);

impl RunFiles {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn flags(&self) -> Vec<String> {
        let named = |flag: &str, name: &str| {
            [
                flag.to_owned(),
                self.path(name).to_str().unwrap().to_owned(),
            ]
        };
        let files = [
            ("--html", "run.html"),
            ("--csv", "run.csv"),
            ("--markdown", "run.md"),
            ("--junit", "run.xml"),
        ];
        let flags = [
            "--save-result --disable-tqdm --skip-preflight --dataset choice --result-filename run.json",
        ];
        let files = files.into_iter().flat_map(|(flag, name)| named(flag, name));
        flags
            .map(str::to_owned)
            .into_iter()
            .chain(named("--result-dir", ""))
            .chain(files)
            .collect()
    }

    fn run(&self, flags: &[&str]) -> Ran {
        let mut all = self.flags();
        all.extend(["--detail".to_owned(), "full".to_owned()]);
        all.extend(flags.iter().map(|flag| (*flag).to_owned()));
        sobench(&all)
    }

    /// Checks that all files exist and that `report` repeats the output of the run, and returns the
    /// result, validated against its contract.
    fn result(&self, ran: &Ran) -> Value {
        for name in ["run.html", "run.csv", "run.md", "run.xml"] {
            assert!(
                std::fs::metadata(self.path(name)).is_ok_and(|file| file.len() > 100),
                "{name}: {}",
                ran.stderr
            );
        }
        let again = sobench(&[
            "report",
            self.path("run.jsonl").to_str().unwrap(),
            "--detail full",
        ]);
        assert_eq!(
            (again.code, &again.stdout),
            (0, &ran.stdout),
            "{}",
            again.stderr
        );
        let result: Value =
            serde_json::from_str(&std::fs::read_to_string(self.path("run.json")).unwrap()).unwrap();
        assert_eq!(check_result(&result), Ok(()));
        result
    }
}

/// Checks the number of requests per outcome; each planned request has one outcome.
#[track_caller]
fn check_outcomes(result: &Value, planned: u64, expected: &[(&str, u64)]) {
    let outcomes = result["sobench"]["outcomes"].as_object().unwrap();
    let counts: Vec<(&str, u64)> = outcomes
        .iter()
        .map(|(name, count)| (name.as_str(), count.as_u64().unwrap()))
        .filter(|(_, count)| *count > 0)
        .collect();
    assert_eq!(counts, expected);
    assert_eq!(
        counts.iter().map(|(_, count)| count).sum::<u64>(),
        planned,
        "every request has an outcome"
    );
    assert_eq!(result["num_prompts"].as_u64(), Some(planned));
}

/// Closes the connection after an incomplete response head.
fn break_off(stream: &mut TcpStream) -> Then {
    keep(stream, "HTTP/1.1 200 OK\r\n");
    Then::Close
}

/// Text without the line breaks of wrapping.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn error_limits_stop_the_run_with_a_complete_report() {
    for (limit, request, errors, why) in [
        (
            "--max-consecutive-errors 5",
            12,
            5,
            "5 consecutive errors; 5 errors in 13 finished requests",
        ),
        (
            "--max-error-rate 0.3",
            19,
            12,
            "60.0 % errors; 12 errors in 20 finished requests",
        ),
    ] {
        // The trial and eight requests of the run.
        let server = failing_after(9, break_off);
        let files = RunFiles::new();
        let limits: Vec<&str> = limit.split(' ').collect();
        let load = [
            "--base-url",
            &server.base_url,
            "--num-prompts 40 --max-concurrency 1",
        ];
        let ran = files.run(&[&load[..], &limits].concat());
        assert_eq!(ran.code, 3, "{}", ran.stderr);
        let message = format!("{limit} stopped the run at request {request} (choice-{request})");
        assert!(
            ran.stderr.contains(&format!("error: {message}")) && ran.stderr.contains(why),
            "{}",
            ran.stderr
        );
        assert!(
            ran.stderr
                .contains(&format!("({errors} times): transport: connection closed")),
            "{}",
            ran.stderr
        );
        let result = files.result(&ran);
        check_outcomes(
            &result,
            40,
            &[
                ("completed", 8),
                ("transport", errors),
                ("cancelled", 32 - errors),
            ],
        );
        assert_eq!(result["sobench"]["partial"], Value::Bool(true));
        let key = &limits[0][2..].replace('-', "_");
        assert_eq!(result["sobench"]["load"][key].to_string(), limits[1]);
        let page = unwrapped(&ran.stdout);
        assert!(
            page.contains(&format!("partial: {message}"))
                && page.contains("error limits: the run stops"),
            "{}",
            ran.stdout
        );
        assert!(page.contains("server outages from"), "{}", ran.stdout);
        // Nothing is sent after the error limit stopped the run.
        let generating = server
            .requests()
            .iter()
            .filter(|request| request.line.starts_with("POST"))
            .count() as u64;
        assert_eq!(generating, 1 + 8 + errors);
    }
}

#[test]
fn error_limit_at_the_last_request_is_not_partial() {
    let server = failing_after(9, break_off);
    let files = RunFiles::new();
    let load = [
        "--base-url",
        &server.base_url,
        "--num-prompts 13 --max-concurrency 1",
    ];
    let ran = files.run(&[&load[..], &["--max-consecutive-errors 5"]].concat());
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    let message = "--max-consecutive-errors 5 stopped the run at request 12 (choice-12)";
    assert!(
        ran.stderr.contains(message) && ran.stderr.contains("hint: all requests had been sent"),
        "{}",
        ran.stderr
    );
    let result = files.result(&ran);
    check_outcomes(&result, 13, &[("completed", 8), ("transport", 5)]);
    assert_eq!(result["sobench"]["partial"], Value::Bool(false));
    let page = unwrapped(&ran.stdout);
    assert!(
        page.contains(message) && !page.to_lowercase().contains("partial"),
        "{}",
        ran.stdout
    );
}

#[test]
fn truncated_error_quotes_show_no_part_of_a_key() {
    const KEY: &str = "sk-of-ours-0123456789abcdef";
    // Long enough that the error quote is truncated within the key.
    let body = format!("{} {KEY} is refused", "x".repeat(128));
    let server = failing_after(1, move |stream| {
        keep(stream, &whole("401 Unauthorized", "text/plain", &body))
    });
    let files = RunFiles::new();
    let header = format!("Authorization=Bearer {KEY}");
    let load = [
        "--base-url",
        &server.base_url,
        "--num-prompts 12 --max-concurrency 1 --header",
        &header,
    ];
    let ran = files.run(&[&load[..], &["--max-consecutive-errors 3"]].concat());
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("(3 times): rejected: HTTP 401: xxx") && ran.stderr.contains("x ***"),
        "{}",
        ran.stderr
    );
    let written = std::fs::read_dir(files.path(""))
        .unwrap()
        .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    for text in written.chain([ran.stdout, ran.stderr]) {
        assert!(!text.contains("sk-of"), "{text}");
    }
}

#[test]
fn error_limits_count_every_error_but_not_invalid_answers() {
    let responds = |response: String| move |stream: &mut TcpStream| keep(stream, &response);
    let stream = |events: &str| whole("200 OK", "text/event-stream", events);
    let wrong = "data: {\"choices\":[{\"text\":\"Neutral\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    for (outcome, response) in [
        (
            Some("rejected"),
            whole("400 Bad Request", "text/plain", "no"),
        ),
        (
            Some("rejected"),
            whole("429 Too Many Requests", "text/html", "<p>later"),
        ),
        (
            Some("server_error"),
            whole("503 Service Unavailable", "text/plain", ""),
        ),
        (
            Some("stream_error"),
            stream("data: {\"choices\":[{\"text\":\"Po\"}]}\n\n"),
        ),
        (Some("transport"), "SSH-2.0-OpenSSH\r\n".to_owned()),
        (None, stream(wrong)),
    ] {
        let server = failing_after(1, responds(response));
        let files = RunFiles::new();
        let load = [
            "--base-url",
            &server.base_url,
            "--num-prompts 12 --max-concurrency 1",
        ];
        let ran = files.run(&[&load[..], &["--max-consecutive-errors 4"]].concat());
        let result = files.result(&ran);
        match outcome {
            Some(outcome) => {
                assert_eq!(ran.code, 3, "{}", ran.stderr);
                assert!(
                    ran.stderr.contains(&format!("(4 times): {outcome}")),
                    "{}",
                    ran.stderr
                );
                check_outcomes(&result, 12, &[(outcome, 4), ("cancelled", 8)]);
            }
            None => {
                assert_eq!(ran.code, 0, "{}", ran.stderr);
                check_outcomes(&result, 12, &[("completed", 12)]);
            }
        }
    }
}

#[test]
fn warm_up_errors_do_not_count() {
    // The trial, four failing warm-ups, and the run.
    let request_count = AtomicUsize::new(0);
    let server = ScriptedServer::new(move |request, stream| match metadata_response(request) {
        Some(response) => keep(stream, &response),
        None if (1..5).contains(&request_count.fetch_add(1, Ordering::SeqCst)) => keep(
            stream,
            &whole("500 Internal Server Error", "text/plain", "warming up"),
        ),
        None => keep(stream, &answer()),
    });
    let files = RunFiles::new();
    let load = [
        "--base-url",
        &server.base_url,
        "--num-prompts 10 --num-warmups 4 --max-concurrency 1",
    ];
    let ran = files.run(
        &[
            &load[..],
            &["--max-consecutive-errors 1 --max-error-rate 0"],
        ]
        .concat(),
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    check_outcomes(&files.result(&ran), 10, &[("completed", 10)]);
    assert!(
        unwrapped(&ran.stdout).contains("4 of 4 warm-up requests failed"),
        "{}",
        ran.stdout
    );
}

#[test]
fn error_limit_stops_only_the_failing_server() {
    for order in ["interleaved", "blocks"] {
        let (dying, healthy) = (
            failing_after(4, break_off),
            failing_after(usize::MAX, break_off),
        );
        let targets = [
            format!("dying={}", dying.base_url),
            format!("healthy={}", healthy.base_url),
        ];
        let flags = [
            "--target",
            &targets[0],
            "--target",
            &targets[1],
            "--dataset choice --num-prompts 30",
        ];
        let more = [
            "--max-concurrency 1 --skip-preflight --no-control-arm --disable-tqdm",
            "--matrix-order",
            order,
        ];
        let ran = sobench(&[&flags[..], &more, &["--max-consecutive-errors 3"]].concat());
        assert_eq!(ran.code, 3, "{}", ran.stderr);
        let page = unwrapped(&ran.stdout);
        assert!(
            page.contains("--max-consecutive-errors 3 stopped the run at request 5 (choice-5)"),
            "{order}: {}",
            ran.stdout
        );
        assert!(ran.stderr.contains("some runs failed"), "{}", ran.stderr);
        assert!(!page.contains("PARTIAL"), "{order}: {}", ran.stdout);
        let answered = healthy
            .requests()
            .iter()
            .filter(|request| request.line.starts_with("POST"))
            .count();
        assert_eq!(answered, 31, "the complete run with its trial request");
    }
}

#[test]
fn error_limits_are_validated_and_shown_before_the_run() {
    for (flags, message) in [
        (
            ["--max-error-rate 1"],
            "--max-error-rate is not a share of errors: 1",
        ),
        (
            ["--max-error-rate -0.1"],
            "--max-error-rate is not a share of errors: -0.1",
        ),
        (
            ["--max-error-rate NaN"],
            "--max-error-rate is not a share of errors: NaN",
        ),
        (
            ["--max-consecutive-errors 0"],
            "--max-consecutive-errors is 0",
        ),
    ] {
        let ran = sobench(&flags);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
        assert!(
            ran.stderr.contains(message) && ran.stderr.contains("hint: "),
            "{}",
            ran.stderr
        );
    }
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"max-error-rate = 0.25\nmax_consecutive_errors = 40\n")
        .unwrap();
    let ran = sobench(&[
        "--config",
        file.path().to_str().unwrap(),
        "--dry-run --num-prompts 2",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for message in [
        "a run gives up above an error rate of 0.25, once 20 of its requests have finished (--max-error-rate)",
        "a run gives up at 40 consecutive errors (--max-consecutive-errors)",
    ] {
        assert!(ran.stdout.contains(message), "{}", ran.stdout);
    }
}

#[test]
fn compare_lists_error_limits_as_conditions() {
    let files = [RunFiles::new(), RunFiles::new()];
    let limits: [&[&str]; 2] = [&[], &["--max-error-rate 0.5 --max-consecutive-errors 9"]];
    for (files, limits) in files.iter().zip(limits) {
        let ran = files.run(&[&["--num-prompts 4 --output-len 4"], limits].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        files.result(&ran);
    }
    for name in ["run.json", "run.jsonl"] {
        let paths = files
            .each_ref()
            .map(|files| files.path(name).to_str().unwrap().to_owned());
        let ran = sobench(&["compare", &paths[0], &paths[1], "--format json"]);
        let page: Value = serde_json::from_str(&ran.stdout).unwrap();
        let text = page.to_string();
        for field in ["max_error_rate", "max_consecutive_errors"] {
            assert!(
                text.contains(&format!("\"field\":\"{field}\"")),
                "{name}: {text}"
            );
        }
    }
}

#[test]
fn start_time_in_a_log_changes_no_figure() {
    let log = std::fs::read_to_string(sobench_testkit::repository_path("fixtures/runs/v2.jsonl"))
        .unwrap();
    let start = log.find("\"started_unix_ns\":").unwrap() + "\"started_unix_ns\":".len();
    let end = start + log[start..].find([',', '}']).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    // A wall clock that was wrong or set during the run: instants of requests are relative to the
    // start of the run.
    let pages = ["0", &log[start..end], "9223372036854775807"].map(|started| {
        std::fs::write(&path, format!("{}{started}{}", &log[..start], &log[end..])).unwrap();
        let page = |format: &str| {
            let ran = sobench(&["report", path.to_str().unwrap(), "--format", format]);
            assert_eq!(ran.code, 0, "{}", ran.stderr);
            // Only the line with the date may differ.
            ran.stdout
                .lines()
                .filter(|line| !line.starts_with("sobench: "))
                .map(|line| format!("{line}\n"))
                .collect::<String>()
        };
        [page("text"), page("csv")]
    });
    assert!(pages.iter().all(|page| *page == pages[0]), "{pages:?}");
}
