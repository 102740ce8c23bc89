//! Faults on the wire, request by request, through the program: every planned request ends in the
//! outcome that it should, the report says what happened, the exit code is that of a run which
//! brought something. One table drives it.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use serde_json::Value;
use sobench_testkit::scripted::{
    Request, STREAM_HEAD, Scripted, Then, chunk, models, nobody, until_closed, whole, with_tls,
};

use crate::support::{cache, check_result};

const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
const A: &str = "data: {\"choices\":[{\"index\":0,\"text\":\"a\"}]}\n\n";
const B: &str = "data: {\"choices\":[{\"index\":0,\"text\":\"b\"}]}\n\n";
const STOP: &str =
    "data: {\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"stop\"}]}\n\n";
const LENGTH: &str =
    "data: {\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"length\"}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";

/// Requests of a run. Every other one meets the fault.
const PLANNED: usize = 4;

/// Bytes of the line that is too long, and of the body that is.
const HUGE: usize = 100_000_000;

/// What a server does with the connection of a request that meets the fault.
type Fault = fn(&mut TcpStream) -> std::io::Result<()>;

/// A fault, and what the user sees of it.
struct Row {
    name: &'static str,
    fault: Fault,
    flags: &'static [&'static str],
    /// How such a request ends.
    outcome: &'static str,
    /// What the report says, white space aside.
    says: &'static [&'static str],
}

fn say(stream: &mut TcpStream, parts: &[&str]) -> std::io::Result<()> {
    stream.write_all(parts.concat().as_bytes())
}

fn stall(stream: &mut TcpStream, parts: &[&str]) -> std::io::Result<()> {
    say(stream, parts)?;
    until_closed(stream);
    Ok(())
}

/// Says the same until the client has had enough, now and then.
fn repeat(stream: &mut TcpStream, part: &str) -> std::io::Result<()> {
    say(stream, &[HEAD])?;
    loop {
        say(stream, &[part])?;
        sleep(Duration::from_millis(5));
    }
}

/// Ends the connection by a reset, when whoever holds it lets go of it.
fn reset(stream: &mut TcpStream) -> std::io::Result<()> {
    let at_once = nix::libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    Ok(setsockopt(&*stream, sockopt::Linger, &at_once)?)
}

fn huge(stream: &mut TcpStream, head: &str) -> std::io::Result<()> {
    say(stream, &[head])?;
    let part = [b'x'; 1 << 16];
    (0..HUGE / part.len()).try_for_each(|_| stream.write_all(&part))
}

/// An answer of two tokens that counts itself so.
fn counting(stream: &mut TcpStream, usage: &str) -> std::io::Result<()> {
    say(
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

/// Limits that stalled requests run into. The good requests beside them have to end within them on
/// a busy machine, too.
const SHORT: &[&str] = &["--request-timeout", "3"];
const IDLE: &[&str] = &["--idle-timeout", "3"];
const SENSELESS: &[&str] = &[
    "server's that cannot be right",
    "which is in no figure",
    "server 2, tokenizer 2",
];

const fn row(
    name: &'static str,
    fault: Fault,
    flags: &'static [&'static str],
    outcome: &'static str,
    says: &'static [&'static str],
) -> Row {
    Row {
        name,
        fault,
        flags,
        outcome,
        says,
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
        &["no end within 3000 ms (--request-timeout), cut before headers"],
    ),
    // Stalls.
    row(
        "no-headers",
        |s| stall(s, &[]),
        IDLE,
        "timed_out",
        &["no byte of an answer for 3000 ms (--idle-timeout), stalled before headers"],
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
        &["no end within 3000 ms", "cut mid-stream"],
    ),
    row(
        "pings-for-ever",
        |s| repeat(s, ": ping\n\n"),
        SHORT,
        "timed_out",
        &["no end within 3000 ms", "cut before the first token"],
    ),
    // Statuses.
    row(
        "429",
        |s| {
            say(
                s,
                &["HTTP/1.1 429 Slow\r\nretry-after: 7\r\ncontent-length: 4\r\n\r\nslow"],
            )
        },
        &[],
        "rejected",
        &[
            "HTTP 429, retry-after: 7: slow",
            "refused with 429: 2; the server asked for pauses of up to 7 s; sobench does not retry",
            "lower --request-rate or --max-concurrency",
        ],
    ),
    row(
        "4xx-json",
        |s| {
            say(
                s,
                &[&whole("400 Bad", "application/json", r#"{"error":"no"}"#)],
            )
        },
        &[],
        "rejected",
        &[r#"HTTP 400: {"error":"no"}"#],
    ),
    row(
        "4xx-empty",
        |s| say(s, &[&whole("403 No", "text/plain", "")]),
        &[],
        "rejected",
        &["HTTP 403:"],
    ),
    row(
        "5xx-html",
        |s| say(s, &[&whole("502 Bad", "text/html", "<h1>nginx</h1>")]),
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
            say(
                s,
                &[
                    "HTTP/1.1 307 Moved\r\nlocation: https://elsewhere.invalid/v1\r\ncontent-length: 0\r\n\r\n",
                ],
            )
        },
        &[],
        "server_error",
        &[
            "HTTP 307, location: https://elsewhere.invalid/v1: no redirect is followed, give that server as --base-url",
        ],
    ),
    // Bodies.
    row(
        "type",
        |s| say(s, &[&whole("200 OK", "text/html", "<h1>")]),
        &[],
        "stream_error",
        &["\"text/html\" came where text/event-stream was asked for"],
    ),
    row(
        "chunks",
        |s| say(s, &[STREAM_HEAD, "ff\r\ndata: {"]),
        &[],
        "transport",
        &["connection closed before message completed"],
    ),
    row(
        "length",
        |s| {
            say(
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
        |s| say(s, &["SSH-2.0-OpenSSH\r\n\r\n"]),
        &[],
        "transport",
        &["no HTTP answer"],
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
        &["invalid utf-8"],
    ),
    row(
        "line",
        |s| huge(s, &format!("{HEAD}data: ")),
        &[],
        "stream_error",
        &["an event larger than 4194304 bytes"],
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
        &["a body larger than 67108864 bytes"],
    ),
    // Events.
    row(
        "two-ends",
        |s| say(s, &[HEAD, A, STOP, LENGTH, DONE]),
        &[],
        "stream_error",
        &["two finish reasons: \"stop\", then \"length\""],
    ),
    row(
        "done-first",
        |s| say(s, &[HEAD, DONE, A, STOP]),
        &[],
        "stream_error",
        &["ended with neither content nor a finish reason"],
    ),
    row(
        "usage-list",
        |s| counting(s, "[1,2]"),
        &[],
        "completed",
        SENSELESS,
    ),
    row(
        "usage-text",
        |s| counting(s, r#"{"completion_tokens":"two"}"#),
        &[],
        "completed",
        SENSELESS,
    ),
    row(
        "usage-negative",
        |s| counting(s, r#"{"completion_tokens":-2}"#),
        &[],
        "completed",
        SENSELESS,
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
        SENSELESS,
    ),
    row(
        "usage-float",
        |s| counting(s, r#"{"prompt_tokens":1e300,"completion_tokens":2.5}"#),
        &[],
        "completed",
        SENSELESS,
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
        SENSELESS,
    ),
    row(
        "usage-too-few",
        |s| counting(s, r#"{"prompt_tokens":3,"completion_tokens":1}"#),
        &[],
        "completed",
        SENSELESS,
    ),
];

/// A server whose first answer, that of the trial, and every other one after it are good.
fn serving(fault: Fault) -> Scripted {
    let posts = Arc::new(AtomicUsize::new(0));
    Scripted::new(move |request: &Request, stream: &mut TcpStream| {
        if request.asks_for_models() {
            // A client that has gone away is not the server's matter, here and below.
            let _ = say(stream, &[&models()]);
            return Then::Keep;
        }
        if !request.line.starts_with("POST ") {
            let _ = say(stream, &[&whole("404 Not Found", "text/plain", "")]);
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

/// Runs the program where no proxy of the machine is in the way.
fn run(base_url: &str, folder: &str, planned: usize, flags: &[&str]) -> Output {
    let planned = planned.to_string();
    Command::new(env!("CARGO_BIN_EXE_sobench"))
        .args([
            "--base-url",
            base_url,
            "--backend",
            "openai",
            "--dataset",
            "regex",
            "--regex",
            "ab",
            "--skip-preflight",
        ])
        .args([
            "--constraint-dialect",
            "structured-outputs",
            "--disable-tqdm",
            "--num-prompts",
            &planned,
        ])
        .args([
            "--save-detailed",
            "--result-dir",
            folder,
            "--result-filename",
            "r.json",
            "--run-log",
        ])
        .arg(format!("{folder}/run.jsonl"))
        .args(flags)
        .env_remove("OPENAI_API_KEY")
        .env("NO_PROXY", "*")
        .env("XDG_CACHE_HOME", cache())
        .output()
        .expect("the program was built")
}

/// One space where there was white space, so that the width of a table's column is no matter.
fn flat(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.replace('|', " ")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

fn check(row: &Row) {
    let server = serving(row.fault);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let output = run(&server.base_url, path, PLANNED, row.flags);
    let (stdout, stderr) = (flat(&output.stdout), flat(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{}: {stderr}", row.name);
    assert!(!stderr.contains("panicked"), "{}: {stderr}", row.name);
    let file: Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("r.json")).unwrap()).unwrap();
    assert_eq!(check_result(&file), Ok(()), "{}", row.name);
    let outcomes = file["sobench"]["outcomes"].as_object().unwrap();
    let count = |name: &str| outcomes[name].as_u64().unwrap() as usize;
    let faulty = if row.outcome == "completed" {
        PLANNED
    } else {
        PLANNED / 2
    };
    assert_eq!(count(row.outcome), faulty, "{}: {outcomes:?}", row.name);
    assert_eq!(
        outcomes
            .values()
            .map(|count| count.as_u64().unwrap() as usize)
            .sum::<usize>(),
        PLANNED,
        "{}",
        row.name
    );
    for words in row.says {
        assert!(
            stdout.contains(words),
            "{}: {words:?} is not in\n{stdout}",
            row.name
        );
    }
    // No count that makes no sense is in a total. The tokenizer has one token for what the server
    // says are two.
    let answers = count("completed");
    let by_tokenizer = answers - PLANNED / 2;
    let total = |name: &str| file[name].as_u64().unwrap() as usize;
    assert_eq!(
        total("total_output_tokens"),
        2 * answers - by_tokenizer,
        "{}",
        row.name
    );
    assert!(total("total_input_tokens") < 100 * answers, "{}", row.name);
    // Nothing is sent twice: the trial, and what was planned.
    let posts = server
        .requests()
        .iter()
        .filter(|request| request.line.starts_with("POST "))
        .count();
    assert_eq!(posts, 1 + PLANNED, "{}", row.name);
    // The log says the same.
    let again = Command::new(env!("CARGO_BIN_EXE_sobench"))
        .args(["report", &format!("{path}/run.jsonl")])
        .output()
        .unwrap();
    assert_eq!(
        (again.status.code(), flat(&again.stdout)),
        (Some(0), stdout),
        "{}",
        row.name
    );
}

/// A few at a time, as each row is mostly waiting.
#[test]
fn every_fault_has_an_outcome_and_words() {
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
fn memory_stays_bounded_while_lines_of_100_mb_come() {
    const LIMIT_MIB: f64 = 200.0;
    let server = serving(|stream| huge(stream, &format!("{HEAD}data: ")));
    let folder = tempfile::tempdir().unwrap();
    let output = run(&server.base_url, folder.path().to_str().unwrap(), 16, &[]);
    assert_eq!(output.status.code(), Some(0));
    let file: Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("r.json")).unwrap()).unwrap();
    assert_eq!(file["sobench"]["outcomes"]["stream_error"], 8);
    let peak_mib = file["sobench"]["client"]["peak_memory_mib"].as_f64();
    assert!(
        peak_mib.map_or(!cfg!(target_os = "linux"), |peak| peak < LIMIT_MIB),
        "{peak_mib:?}"
    );
}

/// Where nothing can be measured: the error says why, its hint what to do, and the exit code that
/// the run never was.
#[test]
fn what_keeps_a_run_from_beginning_says_what_to_do() {
    let moved = "HTTP/1.1 308 Moved\r\nlocation: https://elsewhere.invalid/v1/models\r\ncontent-length: 0\r\n\r\n";
    let moved = Scripted::saying(moved);
    let page = Scripted::saying(whole("200 OK", "text/html", "<h1>"));
    let busy = Scripted::answering(|request| {
        let body = "HTTP/1.1 429 Slow\r\nretry-after: 9\r\ncontent-length: 4\r\n\r\nslow";
        if request.asks_for_models() {
            models()
        } else {
            body.to_owned()
        }
    });
    let posts_move = Scripted::answering(|request| {
        let body = "HTTP/1.1 301 Moved\r\nlocation: https://elsewhere.invalid/\r\ncontent-length: 0\r\n\r\n";
        if request.asks_for_models() {
            models()
        } else {
            body.to_owned()
        }
    });
    let ssh = Scripted::saying("SSH-2.0-OpenSSH\r\n\r\n");
    let secure = with_tls(models());
    for (name, base_url, says, hint) in [
        (
            "refused",
            nobody(),
            "no answer from http://127.0.0.1",
            "is the server up?",
        ),
        (
            "no such host",
            "http://sobench.invalid:8000".to_owned(),
            "no address is known for the host",
            "DNS",
        ),
        (
            "a certificate of nobody",
            secure.clone(),
            "invalid peer certificate",
            "--insecure takes it unchecked",
        ),
        (
            "TLS where none is expected",
            secure.replace("https:", "http:"),
            "no answer from",
            "hint:",
        ),
        (
            "no TLS where it is expected",
            page.base_url.replace("http:", "https:"),
            "no answer from",
            "hint:",
        ),
        (
            "no HTTP",
            ssh.base_url.clone(),
            "no answer from",
            "https://?",
        ),
        (
            "moved",
            moved.base_url.clone(),
            "308, and points to: https://elsewhere.invalid/v1/models",
            "give that server as --base-url",
        ),
        (
            "moved behind the models",
            posts_move.base_url.clone(),
            "HTTP 301, location: https://elsewhere.invalid/",
            "as --base-url",
        ),
        (
            "another page",
            page.base_url.clone(),
            "did not list models",
            "--model",
        ),
        ("too busy", busy.base_url.clone(), "429", "--request-rate"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let output = run(&base_url, folder.path().to_str().unwrap(), PLANNED, &[]);
        let stderr = flat(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{name}: {stderr}");
        assert!(
            stderr.contains(says) && stderr.contains(hint) && !stderr.contains("panicked"),
            "{name}: {stderr}"
        );
        assert!(output.stdout.is_empty(), "{name}: nothing was measured");
    }
}

/// The trial run, with which every run begins, meets the limits as well.
#[test]
fn a_server_that_stalls_at_once_is_told_from_one_that_is_not_there() {
    let server = Scripted::new(|request, stream| {
        let _ = match () {
            () if request.asks_for_models() => say(stream, &[&models()]),
            // What the server is: each of these questions has a limit of its own.
            () if request.line.starts_with("GET ") => {
                say(stream, &[&whole("404 Not Found", "text/plain", "")])
            }
            () => stall(stream, &[HEAD]),
        };
        Then::Keep
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    for (flags, says) in [
        (
            &["--idle-timeout", "2"][..],
            "no byte of an answer for 2000 ms (--idle-timeout), stalled before the first token",
        ),
        (
            &["--request-timeout", "2"],
            "no end within 2000 ms (--request-timeout), cut before the first token",
        ),
    ] {
        let output = run(&server.base_url, path, PLANNED, flags);
        let stderr = flat(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{stderr}");
        assert!(
            stderr.contains(says) && stderr.contains(&format!("hint: raise {}", flags[0])),
            "{stderr}"
        );
    }
    for flags in [
        &["--idle-timeout", "-1"][..],
        &["--idle-timeout", "7", "--request-timeout", "6"],
        &["--idle-timeout", "1", "--disable-stream"],
    ] {
        let output = run(&server.base_url, path, PLANNED, flags);
        assert_eq!(output.status.code(), Some(2), "{flags:?} makes no sense");
    }
}

/// A key goes to the server that was named and to nobody else.
#[test]
fn no_redirect_takes_the_key_along() {
    let elsewhere = Scripted::answering(|_| models());
    let there = elsewhere.base_url.clone();
    let server = Scripted::answering(move |request| match request.asks_for_models() {
        true => models(),
        false => format!(
            "HTTP/1.1 307 Moved\r\nlocation: {there}/v1/completions\r\ncontent-length: 0\r\n\r\n"
        ),
    });
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--header", "Authorization=Bearer s3cret-key-of-ours"];
    let output = run(
        &server.base_url,
        folder.path().to_str().unwrap(),
        PLANNED,
        &flags,
    );
    assert_eq!(output.status.code(), Some(3));
    assert!(
        server
            .requests()
            .iter()
            .all(|request| request.header("authorization") == Some("Bearer s3cret-key-of-ours"))
    );
    assert_eq!(
        elsewhere.connections.load(Ordering::SeqCst),
        0,
        "nobody asked there"
    );
}
