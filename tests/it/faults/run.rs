//! Runs that meet dying servers and tired machines: each fault with what the user sees and the exit
//! code.

use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use sobench_testkit::scripted::{Request, Scripted, Then, models, whole};

use crate::support::{Ran, check_result, sobench};

pub(super) const ANSWER: &str =
    "data: {\"choices\":[{\"text\":\"Positive\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

fn answer() -> String {
    whole("200 OK", "text/event-stream", ANSWER)
}

/// A server that answers questions about itself, and the first `answered` requests (the trial among
/// them); to the others it does as `fault` says.
pub(super) fn failing_after(
    answered: usize,
    fault: impl Fn(&mut TcpStream) -> Then + Send + Sync + 'static,
) -> Scripted {
    let asked = AtomicUsize::new(0);
    Scripted::new(move |request, stream| match about_itself(request) {
        Some(said) => keep(stream, &said),
        None if asked.fetch_add(1, Ordering::SeqCst) < answered => keep(stream, &answer()),
        None => fault(stream),
    })
}

fn keep(stream: &mut TcpStream, bytes: &str) -> Then {
    // A client that has gone away is not the server's matter.
    if stream.write_all(bytes.as_bytes()).is_ok() {
        Then::Keep
    } else {
        Then::Close
    }
}

fn about_itself(request: &Request) -> Option<String> {
    if request.asks_for_models() {
        return Some(models());
    }
    request
        .line
        .starts_with("GET ")
        .then(|| whole("404 Not Found", "text/plain", ""))
}

/// A run with every file that it can write, in a folder of its own.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn flags(&self) -> Vec<String> {
        let named =
            |flag: &str, name: &str| [flag.to_owned(), self.at(name).to_str().unwrap().to_owned()];
        let files = [
            ("--html", "run.html"),
            ("--csv", "run.csv"),
            ("--markdown", "run.md"),
            ("--junit", "run.xml"),
        ];
        let flags = [
            "--save-result",
            "--disable-tqdm",
            "--skip-preflight",
            "--dataset",
            "choice",
            "--result-filename",
            "run.json",
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
        all.extend(flags.iter().map(|flag| (*flag).to_owned()));
        sobench(&all)
    }

    /// The result, which keeps its contract, with all other files beside it; and `report` says what
    /// the run said.
    fn result(&self, ran: &Ran) -> Value {
        for name in ["run.html", "run.csv", "run.md", "run.xml"] {
            assert!(
                std::fs::metadata(self.at(name)).is_ok_and(|file| file.len() > 100),
                "{name}: {}",
                ran.stderr
            );
        }
        let again = sobench(&["report", self.at("run.jsonl").to_str().unwrap()]);
        assert_eq!(
            (again.code, &again.stdout),
            (0, &ran.stdout),
            "{}",
            again.stderr
        );
        let result: Value =
            serde_json::from_str(&std::fs::read_to_string(self.at("run.json")).unwrap()).unwrap();
        assert_eq!(check_result(&result), Ok(()));
        result
    }
}

/// How many requests ended in these ways; of all that were planned, each in one.
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
        "every request is accounted for"
    );
    assert_eq!(result["num_prompts"].as_u64(), Some(planned));
}

/// A head that breaks off: the request has come, and the server dies of it.
fn die(stream: &mut TcpStream) -> Then {
    keep(stream, "HTTP/1.1 200 OK\r\n");
    Then::Close
}

/// Text without the line ends that wrapping put in.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_server_that_is_gone_for_good_ends_the_run_with_a_full_report() {
    for (limit, request, errors, why) in [
        (
            "--max-consecutive-errors 5",
            12,
            5,
            "5 errors one after the other, 5 in all of 13 requests",
        ),
        (
            "--max-error-rate 0.3",
            19,
            12,
            "60.0 % errors, 12 in all of 20 requests",
        ),
    ] {
        // Eight of the run's own requests and the trial.
        let server = failing_after(9, die);
        let files = Files::new();
        let limits: Vec<&str> = limit.split(' ').collect();
        let load = [
            "--base-url",
            &server.base_url,
            "--num-prompts",
            "40",
            "--max-concurrency",
            "1",
        ];
        let ran = files.run(&[&load[..], &limits].concat());
        assert_eq!(ran.code, 3, "{}", ran.stderr);
        let said = format!("{limit} stopped the run at request {request} (choice-{request})");
        assert!(
            ran.stderr.contains(&format!("error: {said}")) && ran.stderr.contains(why),
            "{}",
            ran.stderr
        );
        assert!(
            ran.stderr
                .contains(&format!("{errors} times transport: connection closed")),
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
            page.contains(&format!("partial: {said}")) && page.contains("the run was to give up"),
            "{}",
            ran.stdout
        );
        assert!(
            page.contains("nobody was there to answer from"),
            "{}",
            ran.stdout
        );
        // What was sent came to the server: nothing was sent after the breaker fired.
        let generating = server
            .requests()
            .iter()
            .filter(|request| request.line.starts_with("POST"))
            .count() as u64;
        assert_eq!(generating, 1 + 8 + errors);
    }
}

#[test]
fn a_run_that_gives_up_at_its_very_last_request_is_whole() {
    let server = failing_after(9, die);
    let files = Files::new();
    let load = [
        "--base-url",
        &server.base_url,
        "--num-prompts",
        "13",
        "--max-concurrency",
        "1",
    ];
    let ran = files.run(&[&load[..], &["--max-consecutive-errors", "5"]].concat());
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    let said = "--max-consecutive-errors 5 stopped the run at request 12 (choice-12)";
    assert!(
        ran.stderr.contains(said) && ran.stderr.contains("hint: nothing was left to be sent"),
        "{}",
        ran.stderr
    );
    let result = files.result(&ran);
    check_outcomes(&result, 13, &[("completed", 8), ("transport", 5)]);
    assert_eq!(result["sobench"]["partial"], Value::Bool(false));
    let page = unwrapped(&ran.stdout);
    assert!(
        page.contains(said) && !page.to_lowercase().contains("partial"),
        "{}",
        ran.stdout
    );
}

#[test]
fn no_part_of_a_key_is_shown_where_words_are_cut() {
    const KEY: &str = "sk-of-ours-0123456789abcdef";
    // So long that the key stands where what is quoted of an error ends.
    let body = format!("{} {KEY} is refused", "x".repeat(128));
    let server = failing_after(1, move |stream| {
        keep(stream, &whole("401 Unauthorized", "text/plain", &body))
    });
    let files = Files::new();
    let header = format!("Authorization=Bearer {KEY}");
    let load = [
        "--base-url",
        &server.base_url,
        "--num-prompts",
        "12",
        "--max-concurrency",
        "1",
        "--header",
        &header,
    ];
    let ran = files.run(&[&load[..], &["--max-consecutive-errors", "3"]].concat());
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("3 times rejected: HTTP 401: xxx") && ran.stderr.contains("x ***"),
        "{}",
        ran.stderr
    );
    let written = std::fs::read_dir(files.at(""))
        .unwrap()
        .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    for text in written.chain([ran.stdout, ran.stderr]) {
        assert!(!text.contains("sk-of"), "{text}");
    }
}

#[test]
fn every_kind_of_error_counts_and_a_wrong_answer_does_not() {
    let says = |said: String| move |stream: &mut TcpStream| keep(stream, &said);
    let stream = |events: &str| whole("200 OK", "text/event-stream", events);
    let wrong = "data: {\"choices\":[{\"text\":\"Neutral\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    for (outcome, said) in [
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
        let server = failing_after(1, says(said));
        let files = Files::new();
        let load = [
            "--base-url",
            &server.base_url,
            "--num-prompts",
            "12",
            "--max-concurrency",
            "1",
        ];
        let ran = files.run(&[&load[..], &["--max-consecutive-errors", "4"]].concat());
        let result = files.result(&ran);
        match outcome {
            Some(outcome) => {
                assert_eq!(ran.code, 3, "{}", ran.stderr);
                assert!(
                    ran.stderr.contains(&format!("4 times {outcome}")),
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
fn warm_ups_are_not_counted() {
    // The trial, four warm-ups that fail, and the run.
    let asked = AtomicUsize::new(0);
    let server = Scripted::new(move |request, stream| match about_itself(request) {
        Some(said) => keep(stream, &said),
        None if (1..5).contains(&asked.fetch_add(1, Ordering::SeqCst)) => keep(
            stream,
            &whole("500 Internal Server Error", "text/plain", "warming up"),
        ),
        None => keep(stream, &answer()),
    });
    let files = Files::new();
    let load = [
        "--base-url",
        &server.base_url,
        "--num-prompts",
        "10",
        "--num-warmups",
        "4",
        "--max-concurrency",
        "1",
    ];
    let ran = files.run(
        &[
            &load[..],
            &["--max-consecutive-errors", "1", "--max-error-rate", "0"],
        ]
        .concat(),
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    check_outcomes(&files.result(&ran), 10, &[("completed", 10)]);
    assert!(
        unwrapped(&ran.stdout).contains("4 of 4 warm-ups got no answer"),
        "{}",
        ran.stdout
    );
}

#[test]
fn of_several_servers_one_is_given_up_and_the_other_goes_on() {
    for order in ["interleaved", "blocks"] {
        let (dying, healthy) = (failing_after(4, die), failing_after(usize::MAX, die));
        let targets = [
            format!("dying={}", dying.base_url),
            format!("healthy={}", healthy.base_url),
        ];
        let flags = [
            "--target",
            &targets[0],
            "--target",
            &targets[1],
            "--dataset",
            "choice",
            "--num-prompts",
            "30",
        ];
        let more = [
            "--max-concurrency",
            "1",
            "--skip-preflight",
            "--no-control-arm",
            "--disable-tqdm",
            "--matrix-order",
            order,
        ];
        let ran = sobench(&[&flags[..], &more, &["--max-consecutive-errors", "3"]].concat());
        assert_eq!(ran.code, 3, "{}", ran.stderr);
        let page = unwrapped(&ran.stdout);
        assert!(
            page.contains("--max-consecutive-errors 3 stopped the run at request 5 (choice-5)"),
            "{order}: {}",
            ran.stdout
        );
        assert!(
            ran.stderr.contains("not everything could be run"),
            "{}",
            ran.stderr
        );
        assert!(!page.contains("PARTIAL"), "{order}: {}", ran.stdout);
        let answered = healthy
            .requests()
            .iter()
            .filter(|request| request.line.starts_with("POST"))
            .count();
        assert_eq!(answered, 31, "the whole run, with its trial");
    }
}

#[test]
fn limits_on_errors_are_checked_and_shown_before_anything_is_sent() {
    for (flags, words) in [
        (
            ["--max-error-rate", "1"],
            "--max-error-rate is not a share of errors: 1",
        ),
        (
            ["--max-error-rate", "-0.1"],
            "--max-error-rate is not a share of errors: -0.1",
        ),
        (
            ["--max-error-rate", "NaN"],
            "--max-error-rate is not a share of errors: NaN",
        ),
        (
            ["--max-consecutive-errors", "0"],
            "--max-consecutive-errors is 0",
        ),
    ] {
        let ran = sobench(&flags);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
        assert!(
            ran.stderr.contains(words) && ran.stderr.contains("hint: "),
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
        "--dry-run",
        "--num-prompts",
        "2",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for words in [
        "a run gives up above a share of errors of 0.25, once 20 of its requests have ended (--max-error-rate)",
        "a run gives up at 40 errors in a row (--max-consecutive-errors)",
    ] {
        assert!(ran.stdout.contains(words), "{}", ran.stdout);
    }
}

#[test]
fn limits_on_errors_are_among_what_differs_between_runs() {
    let files = [Files::new(), Files::new()];
    let limits: [&[&str]; 2] = [
        &[],
        &["--max-error-rate", "0.5", "--max-consecutive-errors", "9"],
    ];
    for (files, limits) in files.iter().zip(limits) {
        let ran = files.run(&[&["--num-prompts", "4", "--output-len", "4"], limits].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        files.result(&ran);
    }
    for name in ["run.json", "run.jsonl"] {
        let paths = files
            .each_ref()
            .map(|files| files.at(name).to_str().unwrap().to_owned());
        let ran = sobench(&["compare", &paths[0], &paths[1], "--format", "json"]);
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
fn clock_times_in_a_log_change_no_figure() {
    let log =
        std::fs::read_to_string(sobench_testkit::in_package("fixtures/runs/v2.jsonl")).unwrap();
    let begin = log.find("\"started_unix_ns\":").unwrap() + "\"started_unix_ns\":".len();
    let end = begin + log[begin..].find([',', '}']).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    // The wall clock stood elsewhere when the run began, or was set while it ran: all instants of
    // requests count from its begin.
    let pages = ["0", &log[begin..end], "9223372036854775807"].map(|started| {
        std::fs::write(&path, format!("{}{started}{}", &log[..begin], &log[end..])).unwrap();
        let page = |format: &str| {
            let ran = sobench(&["report", path.to_str().unwrap(), "--format", format]);
            assert_eq!(ran.code, 0, "{}", ran.stderr);
            // When it was is what the clock said, and all that it tells.
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
