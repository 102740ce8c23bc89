//! Failing servers and error limits: output, files and exit codes.

use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use sobench_testkit::scripted::{Request, ScriptedServer, Then, models, whole};

use crate::support::{Folder, Ran, check_result, sobench};

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
struct RunFiles(Folder);

impl RunFiles {
    fn new() -> Self {
        Self(Folder::new())
    }

    /// A run of `choice` against a server, one request after the other.
    fn run(&self, server: &ScriptedServer, flags: &[&str]) -> Ran {
        let fixed = [
            "--dataset choice --save-result --disable-tqdm --skip-preflight --max-concurrency 1",
            "--result-filename run.json --detail full --result-dir",
            &self.0.path(""),
            "--save",
            &self.0.path("run.html"),
            "--save",
            &self.0.path("run.csv"),
            "--save",
            &self.0.path("run.md"),
            "--save",
            &self.0.path("run.xml"),
            "--base-url",
            &server.base_url,
        ];
        sobench(&[&fixed, flags].concat())
    }

    /// Checks that all files exist and that `report` repeats the output of the run, and returns the
    /// result, validated against its contract. Each planned request has one of these outcomes.
    #[track_caller]
    fn result(&self, ran: &Ran, outcomes: &[(&str, u64)]) -> Value {
        for name in ["run.html", "run.csv", "run.md", "run.xml"] {
            assert!(self.0.read(name).len() > 100, "{name}");
        }
        let again = sobench(&["report", &self.0.path("run.jsonl"), "--detail full"]);
        assert_eq!(
            (again.code, &again.stdout),
            (0, &ran.stdout),
            "{}",
            again.stderr
        );
        let result = self.0.json("run.json");
        assert_eq!(check_result(&result), Ok(()));
        let found = result["sobench"]["outcomes"].as_object().unwrap().iter();
        let found = found.map(|(name, count)| (name.as_str(), count.as_u64().unwrap()));
        assert_eq!(
            found.filter(|(_, count)| *count > 0).collect::<Vec<_>>(),
            outcomes
        );
        let planned: u64 = outcomes.iter().map(|(_, count)| count).sum();
        assert_eq!(result["num_prompts"], planned);
        result
    }
}

/// Closes the connection after an incomplete response head.
fn break_off(stream: &mut TcpStream) -> Then {
    keep(stream, "HTTP/1.1 200 OK\r\n");
    Then::Close
}

#[test]
fn error_limits_stop_the_run_with_a_complete_report() {
    for (limit, key, request, errors, why) in [
        (
            "--max-consecutive-errors 5",
            "max_consecutive_errors",
            12,
            5,
            "5 consecutive errors; 5 errors in 13 finished requests",
        ),
        (
            "--max-error-rate 0.3",
            "max_error_rate",
            19,
            12,
            "60.0 % errors; 12 errors in 20 finished requests",
        ),
    ] {
        // The trial and eight requests of the run.
        let server = failing_after(9, break_off);
        let files = RunFiles::new();
        let ran = files.run(&server, &["--num-prompts 40", limit]);
        let message = format!("{limit} stopped the run at request {request} (choice-{request})");
        let cause = format!("({errors} times): transport: connection closed");
        ran.assert_exits(3, &[&format!("error: {message}"), why, &cause]);
        let outcomes = [
            ("completed", 8),
            ("transport", errors),
            ("cancelled", 32 - errors),
        ];
        let result = files.result(&ran, &outcomes);
        assert_eq!(result["sobench"]["partial"], true);
        let value = limit.rsplit(' ').next().unwrap();
        assert_eq!(result["sobench"]["load"][key].to_string(), value);
        let page = ran.page();
        for text in [
            &format!("partial: {message}"),
            "error limits: the run stops",
            "server outages from",
        ] {
            assert_eq!(page.matches(text).count(), 1, "{text}: {page}");
        }
        // Nothing is sent after the error limit stopped the run.
        let requests = server.requests().into_iter();
        let generating = requests.filter(|request| request.line.starts_with("POST"));
        assert_eq!(generating.count() as u64, 1 + 8 + errors);
    }
}

#[test]
fn error_limit_at_the_last_request_is_not_partial() {
    let server = failing_after(9, break_off);
    let files = RunFiles::new();
    let ran = files.run(&server, &["--num-prompts 13 --max-consecutive-errors 5"]);
    let message = "--max-consecutive-errors 5 stopped the run at request 12 (choice-12)";
    ran.assert_exits(3, &[message, "\nhint: all requests had been sent"]);
    let result = files.result(&ran, &[("completed", 8), ("transport", 5)]);
    assert_eq!(result["sobench"]["partial"], false);
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
    let flags = [
        "--num-prompts 12 --max-consecutive-errors 3 --header",
        &header,
    ];
    let ran = files.run(&server, &flags);
    ran.assert_exits(3, &["(3 times): rejected: HTTP 401: xxx", "x ***"]);
    let written = std::fs::read_dir(files.0.path(""))
        .unwrap()
        .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    for text in written.chain([ran.stdout, ran.stderr]) {
        assert!(!text.contains("sk-of"), "{text}");
    }
}

#[test]
fn error_limits_count_every_error_but_not_invalid_answers() {
    let stream = |events: &str| whole("200 OK", "text/event-stream", events);
    let wrong = "data: {\"choices\":[{\"text\":\"Neutral\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    for (outcome, response) in [
        ("rejected", whole("400 Bad Request", "text/plain", "no")),
        (
            "rejected",
            whole("429 Too Many Requests", "text/html", "<p>later"),
        ),
        (
            "server_error",
            whole("503 Service Unavailable", "text/plain", ""),
        ),
        (
            "stream_error",
            stream("data: {\"choices\":[{\"text\":\"Po\"}]}\n\n"),
        ),
        ("transport", "SSH-2.0-OpenSSH\r\n".to_owned()),
        ("completed", stream(wrong)),
    ] {
        let server = failing_after(1, move |stream| keep(stream, &response));
        let files = RunFiles::new();
        let ran = files.run(&server, &["--num-prompts 12 --max-consecutive-errors 4"]);
        if outcome == "completed" {
            assert_eq!(ran.code, 0, "{}", ran.stderr);
            files.result(&ran, &[("completed", 12)]);
        } else {
            ran.assert_exits(3, &[&format!("(4 times): {outcome}")]);
            files.result(&ran, &[(outcome, 4), ("cancelled", 8)]);
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
    let limits = "--max-consecutive-errors 1 --max-error-rate 0";
    let ran = files.run(&server, &["--num-prompts 10 --num-warmups 4", limits]);
    let result = files.result(&ran, &[("completed", 10)]);
    let notices = result["sobench"]["notices"].to_string();
    assert!(
        notices.contains("4 of 4 warm-up requests failed"),
        "{notices}"
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}

#[test]
fn error_limit_stops_only_the_failing_server() {
    for order in ["interleaved", "blocks"] {
        let dying = failing_after(4, break_off);
        let healthy = failing_after(usize::MAX, break_off);
        let (first, second) = (&dying.base_url, &healthy.base_url);
        let ran = sobench(&[
            &format!("--target dying={first} --target healthy={second} --matrix-order {order}"),
            "--dataset choice --num-prompts 30 --max-concurrency 1 --skip-preflight",
            "--no-control-arm --disable-tqdm --max-consecutive-errors 3",
        ]);
        ran.assert_exits(3, &["some runs failed"]);
        let page = ran.page();
        let message = "--max-consecutive-errors 3 stopped the run at request 5 (choice-5)";
        assert!(
            page.contains(message) && !page.contains("PARTIAL"),
            "{order}: {page}"
        );
        let requests = healthy.requests().into_iter();
        let answered = requests.filter(|request| request.line.starts_with("POST"));
        assert_eq!(
            answered.count(),
            31,
            "the complete run with its trial request"
        );
    }
}

#[test]
fn error_limits_are_shown_before_the_run() {
    let folder = Folder::new();
    let file = folder.file(
        "f.toml",
        "max-error-rate = 0.25\nmax_consecutive_errors = 40\n",
    );
    let ran = sobench(&["--dry-run --num-prompts 2 --config", &file]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let page = ran.page();
    for message in [
        "a run gives up above an error rate of 0.25, once 20 of its requests have finished (--max-error-rate)",
        "a run gives up at 40 consecutive errors (--max-consecutive-errors)",
    ] {
        assert_eq!(page.matches(message).count(), 1, "{message}: {page}");
    }
}

#[test]
fn start_time_in_a_log_changes_no_figure() {
    let log = std::fs::read_to_string(sobench_testkit::repository_path("fixtures/runs/v2.jsonl"))
        .unwrap();
    let start = log.find("\"started_unix_ns\":").unwrap() + "\"started_unix_ns\":".len();
    let end = start + log[start..].find([',', '}']).unwrap();
    let folder = Folder::new();
    // A wall clock that was wrong or set during the run: instants of requests are relative to the
    // start of the run.
    let pages = ["0", &log[start..end], "9223372036854775807"].map(|started| {
        let log = format!("{}{started}{}", &log[..start], &log[end..]);
        let path = folder.file("run.jsonl", log);
        let page = |format: &str| {
            let ran = sobench(&["report", &path, "--format", format]);
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
