//! Table of protocol faults: each planned request ends in the expected outcome, the report shows
//! the fault, and the exit code is 0.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use sobench_testkit::scripted::{
    Request, STREAM_HEAD, ScriptedServer, Then, chunk, models, refusing_url, wait_until_closed,
    whole, with_tls,
};

use crate::support::{Folder, Ran, check_result, program, ran, sobench, unwrapped};

const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
const A: &str = "data: {\"choices\":[{\"index\":0,\"text\":\"a\"}]}\n\n";
const B: &str = "data: {\"choices\":[{\"index\":0,\"text\":\"b\"}]}\n\n";
const STOP: &str =
    "data: {\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"stop\"}]}\n\n";
const LENGTH: &str =
    "data: {\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"length\"}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";

const ERROR_500: &str = "data: {\"error\":{\"message\":\"CUDA out of memory\",\"code\":500}}\n\n";
const HALF_SURROGATE: &str = "data: {\"choices\":[{\"index\":0,\"text\":\"\\ud83d\"}]}\n\n";
const GZIP: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\n\u{1f}\u{8}..";
const COMPRESSED: &str =
    "compressed response although identity was requested, content-encoding: gzip";

/// Requests of a run. Every second one meets the fault.
const PLANNED: usize = 4;

/// Bytes of the oversized line and the oversized body.
const HUGE: usize = 100_000_000;

/// What the server does with the connection of a request that meets the fault.
type Fault = fn(&mut TcpStream) -> std::io::Result<()>;

/// A fault and its effects.
struct Row {
    name: &'static str,
    fault: Fault,
    flags: &'static [&'static str],
    /// Outcome of the request.
    outcome: &'static str,
    /// Texts of the report, ignoring white space.
    expected: &'static [&'static str],
}

fn send(stream: &mut TcpStream, parts: &[&str]) -> std::io::Result<()> {
    stream.write_all(parts.concat().as_bytes())
}

fn stall(stream: &mut TcpStream, parts: &[&str]) -> std::io::Result<()> {
    send(stream, parts)?;
    wait_until_closed(stream);
    Ok(())
}

/// Repeats a part until the client closes the connection.
fn repeat(stream: &mut TcpStream, part: &str) -> std::io::Result<()> {
    send(stream, &[HEAD])?;
    loop {
        send(stream, &[part])?;
        sleep(Duration::from_millis(5));
    }
}

/// Closes the connection by a reset when the stream is dropped.
fn reset(stream: &mut TcpStream) -> std::io::Result<()> {
    let at_once = nix::libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    Ok(setsockopt(&*stream, sockopt::Linger, &at_once)?)
}

fn huge(stream: &mut TcpStream, head: &str) -> std::io::Result<()> {
    send(stream, &[head])?;
    let part = [b'x'; 1 << 16];
    (0..HUGE / part.len()).try_for_each(|_| stream.write_all(&part))
}

/// An answer of two tokens with the given usage.
fn counting(stream: &mut TcpStream, usage: &str) -> std::io::Result<()> {
    send(
        stream,
        &[
            HEAD,
            A,
            B,
            STOP,
            "data: {\"choices\":[],\"usage\":",
            usage,
            "}\n\n",
            DONE,
        ],
    )
}

/// Timeouts for stalled requests. Good requests have to meet them too, even on a busy machine.
const SHORT: &[&str] = &["--request-timeout 2"];
const IDLE: &[&str] = &["--idle-timeout 2"];
const IMPLAUSIBLE: &[&str] = &[
    "an implausible token count from the server",
    "these counts are ignored",
    "server 2, tokenizer 0, tokenizer of another model 2",
];

const fn row(
    name: &'static str,
    fault: Fault,
    flags: &'static [&'static str],
    outcome: &'static str,
    expected: &'static [&'static str],
) -> Row {
    Row {
        name,
        fault,
        flags,
        outcome,
        expected,
    }
}

const ROWS: &[Row] = &[
    // Connections.
    row(
        "closed",
        |_| Ok(()),
        &[],
        "transport",
        &["connection closed before message completed"],
    ),
    row("reset", reset, &[], "transport", &["connection reset"]),
    row(
        "half-closed",
        |s| s.shutdown(Shutdown::Write).and_then(|()| stall(s, &[])),
        &[],
        "transport",
        &["connection closed"],
    ),
    row(
        "hanging",
        |s| stall(s, &[]),
        SHORT,
        "timed_out",
        &["no end of the response within 2000 ms (--request-timeout), cut before headers"],
    ),
    // Stalls.
    row(
        "no-headers",
        |s| stall(s, &[]),
        IDLE,
        "timed_out",
        &["no byte of the response for 2000 ms (--idle-timeout), stalled before headers"],
    ),
    row(
        "no-token",
        |s| stall(s, &[HEAD]),
        IDLE,
        "timed_out",
        &["stalled before the first token"],
    ),
    row(
        "mid-stream",
        |s| stall(s, &[HEAD, A]),
        IDLE,
        "timed_out",
        &["stalled mid-stream"],
    ),
    row(
        "tokens-for-ever",
        |s| repeat(s, A),
        SHORT,
        "timed_out",
        &["no end of the response within 2000 ms", "cut mid-stream"],
    ),
    row(
        "pings-for-ever",
        |s| repeat(s, ": ping\n\n"),
        SHORT,
        "timed_out",
        &[
            "no end of the response within 2000 ms",
            "cut before the first token",
        ],
    ),
    // Statuses.
    row(
        "429",
        |s| {
            send(
                s,
                &["HTTP/1.1 429 Slow\r\nretry-after: 7\r\ncontent-length: 4\r\n\r\nslow"],
            )
        },
        &[],
        "rejected",
        &[
            "HTTP 429, retry-after: 7: slow",
            "rejected with status 429: 2; the server requested pauses of up to 7 s; sobench does not retry",
            "lower --request-rate or --max-concurrency",
        ],
    ),
    row(
        "4xx-json",
        |s| {
            send(
                s,
                &[&whole("400 Bad", "application/json", r#"{"error":"no"}"#)],
            )
        },
        &[],
        "rejected",
        &["HTTP 400: no"],
    ),
    row(
        "4xx-empty",
        |s| send(s, &[&whole("403 No", "text/plain", "")]),
        &[],
        "rejected",
        &["HTTP 403:"],
    ),
    row(
        "5xx-html",
        |s| send(s, &[&whole("502 Bad", "text/html", "<h1>nginx</h1>")]),
        &[],
        "server_error",
        &["HTTP 502: <h1>nginx</h1>"],
    ),
    row(
        "5xx-huge",
        |s| huge(s, "HTTP/1.1 500 Oops\r\n\r\n"),
        &[],
        "server_error",
        &["HTTP 500: xxx"],
    ),
    row(
        "503-hanging",
        |s| stall(s, &["HTTP/1.1 503 Full\r\ncontent-length: 9\r\n\r\nfu"]),
        IDLE,
        "server_error",
        &["HTTP 503: fu"],
    ),
    row(
        "redirect",
        |s| {
            send(
                s,
                &[
                    "HTTP/1.1 307 Moved\r\nlocation: https://elsewhere.invalid/v1\r\ncontent-length: 0\r\n\r\n",
                ],
            )
        },
        &[],
        "server_error",
        &[
            "HTTP 307, location: https://elsewhere.invalid/v1: redirects are not followed, set --base-url to that server",
        ],
    ),
    row(
        "204",
        |s| send(s, &["HTTP/1.1 204 No Content\r\n\r\n"]),
        &[],
        "server_error",
        &["HTTP 204: (no body)"],
    ),
    // Bodies.
    row(
        "type",
        |s| send(s, &[&whole("200 OK", "text/html", "<h1>")]),
        &[],
        "stream_error",
        &["expected text/event-stream, got \"text/html\""],
    ),
    row(
        "chunks",
        |s| send(s, &[STREAM_HEAD, "ff\r\ndata: {"]),
        &[],
        "transport",
        &["connection closed before message completed"],
    ),
    row(
        "length",
        |s| {
            send(
                s,
                &[
                    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 999\r\n\r\n",
                    A,
                ],
            )
        },
        &[],
        "transport",
        &["closed"],
    ),
    row(
        "no-http",
        |s| send(s, &["SSH-2.0-OpenSSH\r\n\r\n"]),
        &[],
        "transport",
        &["not an HTTP response"],
    ),
    row(
        "utf-8",
        |s| {
            s.write_all(
                &[
                    STREAM_HEAD.as_bytes(),
                    &chunk(b"data: {\"choices\":[{\"text\":\"\xFF\"}]}\n\n"),
                ]
                .concat(),
            )
        },
        &[],
        "stream_error",
        &["a response that is not UTF-8"],
    ),
    row(
        "line",
        |s| huge(s, &format!("{HEAD}data: ")),
        &[],
        "stream_error",
        &["the event exceeds 4194304 bytes"],
    ),
    row(
        "body",
        |s| {
            huge(
                s,
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n",
            )
        },
        &[],
        "transport",
        &["the response body exceeds 67108864 bytes"],
    ),
    row(
        "gzip",
        |s| send(s, &[GZIP]),
        &[],
        "stream_error",
        &[COMPRESSED],
    ),
    // Events.
    row(
        "error-500",
        |s| send(s, &[HEAD, A, ERROR_500, DONE]),
        &[],
        "server_error",
        &["error from the server in a response with status 200: CUDA out of memory"],
    ),
    row(
        "half-surrogate",
        |s| send(s, &[HEAD, HALF_SURROGATE, STOP, DONE]),
        &[],
        "stream_error",
        &["half of a surrogate pair in a JSON string: {"],
    ),
    row(
        "two-ends",
        |s| send(s, &[HEAD, A, STOP, LENGTH, DONE]),
        &[],
        "stream_error",
        &["two finish reasons: \"stop\", then \"length\""],
    ),
    row(
        "done-first",
        |s| send(s, &[HEAD, DONE, A, STOP]),
        &[],
        "stream_error",
        &["the stream ended with neither content nor a finish reason"],
    ),
    row(
        "usage-list",
        |s| counting(s, "[1,2]"),
        &[],
        "completed",
        IMPLAUSIBLE,
    ),
    row(
        "usage-text",
        |s| counting(s, r#"{"completion_tokens":"two"}"#),
        &[],
        "completed",
        IMPLAUSIBLE,
    ),
    row(
        "usage-negative",
        |s| counting(s, r#"{"completion_tokens":-2}"#),
        &[],
        "completed",
        IMPLAUSIBLE,
    ),
    row(
        "usage-huge",
        |s| {
            counting(
                s,
                r#"{"prompt_tokens":9223372036854775808,"completion_tokens":18446744073709551615}"#,
            )
        },
        &[],
        "completed",
        IMPLAUSIBLE,
    ),
    row(
        "usage-float",
        |s| counting(s, r#"{"prompt_tokens":1e300,"completion_tokens":2.5}"#),
        &[],
        "completed",
        IMPLAUSIBLE,
    ),
    row(
        "usage-too-many",
        |s| {
            counting(
                s,
                r#"{"prompt_tokens":3,"completion_tokens":1000000000000}"#,
            )
        },
        &[],
        "completed",
        IMPLAUSIBLE,
    ),
    row(
        "usage-too-few",
        |s| counting(s, r#"{"prompt_tokens":3,"completion_tokens":0}"#),
        &[],
        "completed",
        IMPLAUSIBLE,
    ),
];

/// A server that answers the trial and every second request after it correctly.
fn serving(fault: Fault) -> ScriptedServer {
    let posts = Arc::new(AtomicUsize::new(0));
    ScriptedServer::new(move |request: &Request, stream: &mut TcpStream| {
        if request.is_model_list() {
            // The client may have closed the connection, here and below.
            let _ = send(stream, &[&models()]);
            return Then::Keep;
        }
        if !request.line.starts_with("POST ") {
            let _ = send(stream, &[&whole("404 Not Found", "text/plain", "")]);
            return Then::Keep;
        }
        let _ = match posts.fetch_add(1, Ordering::SeqCst) {
            0 => counting(stream, r#"{"prompt_tokens":3,"completion_tokens":2}"#),
            post if post % 2 == 1 => {
                counting(stream, r#"{"prompt_tokens":3,"completion_tokens":2}"#)
            }
            _ => fault(stream),
        };
        Then::Close
    })
}

/// Runs the program without a proxy; its result and its log are in a folder.
fn run(base_url: &str, folder: &Folder, planned: usize, flags: &[&str]) -> Ran {
    let planned = format!("--num-prompts {planned}");
    let fixed = [
        "--backend openai --dataset regex --regex ab --skip-preflight --detail full",
        "--constraint-dialect structured-outputs --disable-tqdm --save-detailed",
        "--result-filename r.json --result-dir",
        &folder.path(""),
        "--run-log",
        &folder.path("run.jsonl"),
        &planned,
        "--base-url",
        base_url,
    ];
    ran(program(&[&fixed, flags].concat()).env("NO_PROXY", "*"))
}

/// Collapses white space and lines of tables, so that column widths do not matter.
fn flat(page: &str) -> String {
    unwrapped(&page.replace('|', " "))
}

fn check(row: &Row) {
    let server = serving(row.fault);
    let folder = Folder::new();
    let ran = run(&server.base_url, &folder, PLANNED, row.flags);
    assert_eq!(ran.code, 0, "{}: {}", row.name, ran.stderr);
    let file = folder.json("r.json");
    assert_eq!(check_result(&file), Ok(()), "{}", row.name);
    let outcomes = file["sobench"]["outcomes"].as_object().unwrap();
    let count = |name: &str| outcomes[name].as_u64().unwrap() as usize;
    let faulty = if row.outcome == "completed" {
        PLANNED
    } else {
        PLANNED / 2
    };
    assert_eq!(count(row.outcome), faulty, "{}: {outcomes:?}", row.name);
    let all: usize = outcomes.keys().map(|name| count(name)).sum();
    assert_eq!(all, PLANNED, "{}", row.name);
    let page = flat(&ran.stdout);
    for text in row.expected {
        assert!(
            page.contains(text),
            "{}: {text:?} is not in\n{page}",
            row.name
        );
    }
    // Implausible counts are in no total. The tokenizer counts one token where the server counts
    // two.
    let answers = count("completed");
    let tokens = 2 * answers - (answers - PLANNED / 2);
    let total = |name: &str| file[name].as_u64().unwrap() as usize;
    assert_eq!(total("total_output_tokens"), tokens, "{}", row.name);
    assert!(total("total_input_tokens") < 100 * answers, "{}", row.name);
    // Nothing is sent twice: the trial and the planned requests.
    let requests = server.requests().into_iter();
    let posts = requests.filter(|request| request.line.starts_with("POST "));
    assert_eq!(posts.count(), 1 + PLANNED, "{}", row.name);
    // The run log gives the same report.
    let again = sobench(&["report", &folder.path("run.jsonl"), "--detail full"]);
    assert_eq!((again.code, flat(&again.stdout)), (0, page), "{}", row.name);
}

/// Several rows at once, because each mostly waits.
#[test]
fn faults_have_their_outcome_and_report_text() {
    const AT_A_TIME: usize = 4;
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(row) = ROWS.get(next.fetch_add(1, Ordering::SeqCst)) {
                    check(row);
                }
            });
        }
    });
}

#[test]
fn memory_is_bounded_with_lines_of_100_mb() {
    const LIMIT_MIB: f64 = 200.0;
    let server = serving(|stream| huge(stream, &format!("{HEAD}data: ")));
    let folder = Folder::new();
    assert_eq!(run(&server.base_url, &folder, 16, &[]).code, 0);
    let file = folder.json("r.json");
    assert_eq!(file["sobench"]["outcomes"]["stream_error"], 8);
    let peak_mib = file["sobench"]["client"]["peak_memory_mib"].as_f64();
    assert!(
        peak_mib.map_or(!cfg!(target_os = "linux"), |peak| peak < LIMIT_MIB),
        "{peak_mib:?}"
    );
}

/// Failures before the run: exit code 3, an error with the cause and a hint.
#[test]
fn failures_before_the_run_have_a_hint() {
    let moved = "HTTP/1.1 308 Moved\r\nlocation: https://elsewhere.invalid/v1/models\r\ncontent-length: 0\r\n\r\n";
    let moved = ScriptedServer::with_response(moved);
    let page = ScriptedServer::with_response(whole("200 OK", "text/html", "<h1>"));
    let posts_move = ScriptedServer::answering(|request| {
        let body = "HTTP/1.1 301 Moved\r\nlocation: https://elsewhere.invalid/\r\ncontent-length: 0\r\n\r\n";
        if request.is_model_list() {
            models()
        } else {
            body.to_owned()
        }
    });
    let ssh = ScriptedServer::with_response("SSH-2.0-OpenSSH\r\n\r\n");
    let secure = with_tls(models());
    for (name, base_url, expected, hint) in [
        (
            "refused",
            refusing_url(),
            "no response from http://127.0.0.1",
            "start the server",
        ),
        (
            "no such host",
            "http://sobench.invalid:8000".to_owned(),
            "cannot resolve the host",
            "DNS",
        ),
        (
            "an untrusted certificate",
            secure.clone(),
            "invalid peer certificate",
            "--insecure to skip verification",
        ),
        (
            "plain HTTP to a TLS port",
            secure.replace("https:", "http:"),
            "no response from",
            "hint:",
        ),
        (
            "TLS to a plain HTTP port",
            page.base_url.replace("http:", "https:"),
            "no response from",
            "hint:",
        ),
        (
            "no HTTP",
            ssh.base_url.clone(),
            "no response from",
            "should start with https://",
        ),
        (
            "moved",
            moved.base_url.clone(),
            "308 and redirects to: https://elsewhere.invalid/v1/models",
            "give the target as --base-url",
        ),
        (
            "only completions moved",
            posts_move.base_url.clone(),
            "HTTP 301, location: https://elsewhere.invalid/",
            "as --base-url",
        ),
        (
            "another page",
            page.base_url.clone(),
            "did not return a list of models",
            "--model",
        ),
    ] {
        let ran = run(&base_url, &Folder::new(), PLANNED, &[]);
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (3, ""),
            "{name}: {}",
            ran.stderr
        );
        ran.assert_fails(3, &[expected, hint]);
    }
}

/// The same for faults of the trial request's response.
#[test]
fn faults_of_the_trial_request_have_a_hint() {
    let faults: [(&str, Fault, &str, &str); 8] = [
        (
            "gzip",
            |s| send(s, &[GZIP]),
            COMPRESSED,
            "turn off compression at the server",
        ),
        (
            "an error event",
            |s| send(s, &[HEAD, A, ERROR_500, DONE]),
            "error from the server in a response with status 200: CUDA out of memory",
            "the server failed on the first request: check its log",
        ),
        (
            "an error event without a status",
            |s| send(s, &[HEAD, "event: error\ndata: out of memory\n\n"]),
            "error from the server in a response with status 200: out of memory",
            "the server failed on the first request: check its log",
        ),
        (
            "half a surrogate",
            |s| send(s, &[HEAD, HALF_SURROGATE, STOP, DONE]),
            "half of a surrogate pair",
            "the server splits a character",
        ),
        (
            "two finish reasons",
            |s| send(s, &[HEAD, A, STOP, LENGTH, DONE]),
            "two finish reasons: \"stop\", then \"length\"",
            "the server ends one answer twice",
        ),
        (
            "no end",
            |s| send(s, &[HEAD, A]),
            "the stream ended without a terminal event",
            "ended the stream early: check their logs",
        ),
        (
            "204",
            |s| send(s, &["HTTP/1.1 204 No Content\r\n\r\n"]),
            "HTTP 204: (no body)",
            "sent no answer: check --endpoint and --backend",
        ),
        (
            "a redirect",
            |s| {
                send(
                    s,
                    &[
                        "HTTP/1.1 307 Moved\r\nlocation: http://b.invalid/v1\r\ncontent-length: 0\r\n\r\n",
                    ],
                )
            },
            "HTTP 307, location: http://b.invalid/v1: redirects are not followed, set --base-url to that server",
            "give the address of the redirect as --base-url",
        ),
    ];
    for (name, fault, expected, hint) in faults {
        let server = ScriptedServer::new(move |request, stream| {
            // The client may have closed the connection.
            let _ = match request.line.starts_with("POST ") {
                true => fault(stream),
                false if request.is_model_list() => send(stream, &[&models()]),
                false => send(stream, &[&whole("404 Not Found", "text/plain", "")]),
            };
            Then::Close
        });
        let ran = run(&server.base_url, &Folder::new(), PLANNED, &[]);
        ran.assert_exits(3, &[expected, hint]);
        // A wrong address is no outcome of a request.
        assert_eq!(ran.stdout.is_empty(), name == "a redirect", "{name}");
    }
}

/// The trial request obeys the timeouts too.
#[test]
fn timeout_of_the_trial_request_is_reported() {
    let server = ScriptedServer::new(|request, stream| {
        let _ = match () {
            () if request.is_model_list() => send(stream, &[&models()]),
            // Each of these metadata requests has a timeout of its own.
            () if request.line.starts_with("GET ") => {
                send(stream, &[&whole("404 Not Found", "text/plain", "")])
            }
            () => stall(stream, &[HEAD]),
        };
        Then::Keep
    });
    for (flag, expected) in [
        (
            "--idle-timeout",
            "no byte of the response for 1000 ms (--idle-timeout), stalled before the first token",
        ),
        (
            "--request-timeout",
            "no end of the response within 1000 ms (--request-timeout), cut before the first token",
        ),
    ] {
        let ran = run(&server.base_url, &Folder::new(), PLANNED, &[flag, "1"]);
        ran.assert_exits(3, &[expected, &format!("\nhint: raise {flag}")]);
    }
    for flags in [
        "--idle-timeout -1",
        "--idle-timeout 7 --request-timeout 6",
        "--idle-timeout 1 --disable-stream",
    ] {
        run(&server.base_url, &Folder::new(), PLANNED, &[flags]).assert_fails(2, &[]);
    }
}

/// The key is sent only to the given server.
#[test]
fn redirects_do_not_receive_the_api_key() {
    let target = ScriptedServer::answering(|_| models());
    let target_url = target.base_url.clone();
    let server = ScriptedServer::answering(move |request| match request.is_model_list() {
        true => models(),
        false => format!(
            "HTTP/1.1 307 Moved\r\nlocation: {target_url}/v1/completions\r\ncontent-length: 0\r\n\r\n"
        ),
    });
    let flags = ["--header", "Authorization=Bearer s3cret-key-of-ours"];
    let ran = run(&server.base_url, &Folder::new(), PLANNED, &flags);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(
        server
            .requests()
            .iter()
            .all(|request| request.header("authorization") == Some("Bearer s3cret-key-of-ours"))
    );
    assert_eq!(
        target.connections.load(Ordering::SeqCst),
        0,
        "no request was sent there"
    );
}
