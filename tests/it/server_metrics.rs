//! The server's metrics page during a run: a faithful page, bad pages, and restarts.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use sobench_runlog::RunLog;
use sobench_testkit::scripted::{Request, ScriptedServer, Then, models, wait_until_closed, whole};

use crate::runlog::check_lines;
use crate::support::{Folder, Ran, check_result, sobench, sobench_result};

const RUN: [&str; 1] = ["--dataset choice --num-prompts 4 --skip-preflight --max-concurrency 1"];

/// A server whose metrics page is written by `page`, which is given the number of the reading.
fn server(page: impl Fn(usize, &mut TcpStream) -> Then + Send + Sync + 'static) -> ScriptedServer {
    let event = r#"data: {"choices":[{"index":0,"text":"Positive","finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}"#;
    let stream = whole(
        "200 OK",
        "text/event-stream",
        &format!("{event}\n\ndata: [DONE]\n\n"),
    );
    let readings = AtomicUsize::new(0);
    ScriptedServer::new(move |request, connection| {
        let answer = match request.line.as_str() {
            _ if request.is_model_list() => models(),
            "GET /metrics HTTP/1.1" => {
                return page(readings.fetch_add(1, Ordering::SeqCst), connection);
            }
            line if line.starts_with("GET") => whole("404 Not Found", "text/plain", ""),
            _ => stream.clone(),
        };
        match connection.write_all(answer.as_bytes()) {
            Ok(()) => Then::Keep,
            Err(_) => Then::Close,
        }
    })
}

/// A server with a page of text for each reading.
fn text_server(page: impl Fn(usize) -> String + Send + Sync + 'static) -> ScriptedServer {
    server(move |reading, connection| {
        let page = whole("200 OK", "text/plain", &page(reading));
        connection.write_all(page.as_bytes()).unwrap();
        Then::Keep
    })
}

fn run(server: &ScriptedServer, more: &[&str]) -> (Ran, Value) {
    let (ran, result) =
        sobench_result(&[&RUN[..], &["--base-url", &server.base_url], more].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(check_result(&result), Ok(()));
    (ran, result)
}

/// What a request is for: its id without the number, or its path.
fn purpose(request: &Request) -> &str {
    let path = request.line.split(' ').nth(1).unwrap();
    let id = request.header("x-request-id").unwrap_or(path);
    id.trim_end_matches(|last: char| last == '-' || last.is_ascii_digit())
}

#[test]
fn checks_beside_a_run_end_in_the_opposite_order() {
    let server = text_server(|_| "vllm:num_requests_running 1\n".to_owned());
    let checks =
        "--profile --num-warmups 1 --cancel-rate 0.5 --stream-parity --request-id-prefix it-";
    run(&server, &[checks]);
    let requests = server.requests();
    let mut seen: Vec<&str> = requests.iter().map(purpose).collect();
    // The page is also read while requests are measured.
    seen.retain(|purpose| *purpose != "it");
    assert_eq!(requests.len() - seen.len(), 4);
    seen.dedup();
    let trial = seen.iter().position(|purpose| *purpose == "it-trial");
    assert_eq!(
        seen[trial.unwrap()..],
        [
            "it-trial",
            "it-warmup",
            "/start_profile",
            "it-recovery-before",
            "/metrics",
            "/stop_profile",
            "it-whole",
            "it-streamed-again",
            "it-recovery-after"
        ]
    );
}

/// The notices about the server's page or its restarts.
fn notices(result: &Value) -> Vec<&str> {
    let all = result["sobench"]["notices"].as_array().unwrap().iter();
    all.filter_map(Value::as_str)
        .filter(|notice| notice.contains("metrics page") || notice.contains("restarted"))
        .collect()
}

/// Checks that there is one notice about the page or restarts, with this text.
#[track_caller]
fn check_notice(result: &Value, expected: &str) {
    let found = notices(result);
    assert_eq!(
        (found.len(), found[0].matches(expected).count()),
        (1, 1),
        "{found:?}"
    );
}

#[test]
fn both_sides_are_reported_and_read_back_from_the_log() {
    let folder = Folder::new();
    let log = folder.path("run.jsonl");
    let log = log.as_str();
    let (ran, result) = sobench_result(&[
        "--num-prompts 30 --run-log",
        log,
        "--server-metric sobench:masks_total --require server.preemptions<=0 --require server.restarts<=0",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(check_result(&result), Ok(()));
    let server = &result["sobench"]["server_metrics"];
    assert_eq!(server["source"]["server"], "embedded");
    let generated = result["total_output_tokens"].as_f64();
    assert!(generated > Some(0.0));
    assert_eq!(server["counts"]["generated_tokens"].as_f64(), generated);
    // On a busy machine the time to first token differs too.
    let differences = server["differences"].as_array().unwrap();
    let on_tokens = |difference: &Value| difference.as_str().unwrap().contains("tokens");
    assert!(!differences.iter().any(on_tokens), "{server}");
    let metric = &result["sobench"]["metrics"]["server.generated_tokens"];
    assert_eq!(metric.as_f64(), generated);
    let masks = &server["named"]["sobench:masks_total"];
    assert!(masks["last"].as_f64() > masks["first"].as_f64(), "{server}");

    check_lines(std::path::Path::new(log));
    let read = RunLog::read(log.as_ref()).unwrap();
    assert!(read.server.len() >= 2);
    assert!(read.server[0].offset_ns < 0 && read.server[0].source.is_some());
    let mut later = read.server[1..].iter();
    assert!(later.all(|sample| sample.source.is_none()));
    let again = sobench(&["report", log, "--format json"]);
    let again: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(again["sobench"]["server_metrics"], *server);
}

#[test]
fn page_is_off_at_another_address_or_refused_with_a_hint() {
    let (_, result) = sobench_result(&["--num-prompts 4 --server-metrics off"]);
    assert_eq!(result["sobench"].get("server_metrics"), None);
    assert_eq!(
        result["sobench"]["record"]["settings"]["server_metrics"],
        json!({"page": "off"})
    );
    let secret = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&secret);
    let other = ScriptedServer::answering(move |request| {
        let sent = request.header("x-key").is_some() || request.header("authorization").is_some();
        seen.fetch_add(usize::from(sent), Ordering::SeqCst);
        whole("200 OK", "text/plain", "sglang:num_running_reqs 3\n")
    });
    let own = text_server(|_| "vllm:num_requests_running 1\n".to_owned());
    let url = format!("{}/other", other.base_url);
    let (ran, result) = run(
        &own,
        &[
            "--server-metrics",
            &url,
            "--header x-key=12345678 --server-metric nosuch",
        ],
    );
    let server = &result["sobench"]["server_metrics"];
    assert_eq!(server["source"]["server"], "sglang");
    assert_eq!(server["gauges"]["running"]["last"], 3.0);
    ran.assert_exits(0, &["--server-metric nosuch: ", "has no series"]);
    assert_eq!(
        secret.load(Ordering::SeqCst),
        0,
        "headers are for the own server"
    );
    for (flags, problem) in [
        (&["--server-metrics on"][..], "not auto, off or an http"),
        (&["--server-metric", "a b"], "not the name of a series"),
        (
            &["--server-metrics off --server-metric a"],
            "--server-metric a needs a metrics page",
        ),
        (
            &["--server-metrics off --require server.preemptions<=0"],
            "--require server.preemptions<=0 needs a metrics page",
        ),
    ] {
        let ran = sobench(&[&["--num-prompts 1"], flags].concat());
        ran.assert_fails(2, &[problem]);
    }
}

#[test]
fn bad_pages_are_one_notice_and_the_run_goes_on() {
    let html = server(|_, connection| {
        let page = whole("200 OK", "text/html", "<html>x 1</html>");
        connection.write_all(page.as_bytes()).unwrap();
        Then::Keep
    });
    let large = server(|_, connection| {
        let _ = connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 104857600\r\n\r\n");
        let line = b"vllm:num_requests_running 1\n".repeat(4096);
        // Until the client closes the connection.
        while connection.write_all(&line).is_ok() {}
        Then::Close
    });
    let hanging = server(|_, connection| {
        let _ = connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nvllm:");
        wait_until_closed(connection);
        Then::Close
    });
    let nan =
        text_server(|_| "vllm:num_requests_running NaN\nvllm:num_preemptions_total 2\n".into());
    for (server, expected) in [
        (&html, "the page is HTML"),
        (&large, "exceeds 8388608 bytes"),
        (&hanging, "no whole page within 2 s"),
        (&nan, "1 value is NaN, infinite or negative"),
    ] {
        let (ran, result) = run(server, &[]);
        check_notice(&result, expected);
        assert_eq!(ran.stderr.matches(expected).count(), 1, "{}", ran.stderr);
        assert_eq!(result["completed"], 4);
    }
    // A page that the user names is read again. The warning before the run is not repeated after it.
    let url = format!("{}/metrics", html.base_url);
    let (ran, result) = run(&html, &["--server-metrics", &url]);
    check_notice(&result, "could not be read");
    assert_eq!(
        ran.stderr.matches("the page is HTML").count(),
        1,
        "{}",
        ran.stderr
    );
}

#[test]
fn server_without_a_page_has_no_notice() {
    let missing = server(|_, connection| {
        let page = whole("404 Not Found", "text/plain", "");
        connection.write_all(page.as_bytes()).unwrap();
        Then::Keep
    });
    let (_, result) = run(&missing, &[]);
    assert_eq!(notices(&result), Vec::<&str>::new());
    assert_eq!(result["sobench"].get("server_metrics"), None);
    assert_eq!(
        result["sobench"]["metrics"]["server.preemptions"],
        Value::Null
    );
}

#[test]
fn restart_is_noticed_and_counters_count_on() {
    let restarted = text_server(|reading| match reading {
        0 => "vllm:num_preemptions_total 10\nvllm:generation_tokens_total 900\n".to_owned(),
        _ => "vllm:num_preemptions_total 3\nvllm:generation_tokens_total 4\n".to_owned(),
    });
    let (_, result) = run(&restarted, &[]);
    check_notice(&result, "restarted during the run, 1 time");
    let metrics = &result["sobench"]["metrics"];
    assert_eq!(metrics["server.restarts"], 1.0);
    assert_eq!(metrics["server.preemptions"], 3.0);
}

#[test]
fn other_clients_tokens_and_requests_are_pointed_out() {
    let busy = text_server(|reading| {
        let count = 1000 * reading;
        format!(
            "vllm:generation_tokens_total {count}\nvllm:time_to_first_token_seconds_count {count}\n\
             vllm:time_to_first_token_seconds_sum {count}\n"
        )
    });
    let (_, result) = run(&busy, &[]);
    let differences = result["sobench"]["server_metrics"]["differences"].to_string();
    for own in ["tokens, the answers have 4", "requests, the client of 4"] {
        assert_eq!(differences.matches(own).count(), 1, "{own}: {differences}");
    }
}
