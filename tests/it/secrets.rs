//! Keys and passwords stay out of everything that leaves the program, also if the server quotes
//! them.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use sobench_testkit::scripted::{Request, ScriptedServer, models, whole};

use crate::support::{Ran, ran};

const KEY: &str = "sk-proj-0123456789abcdefWXYZ";
const SECRETS: [&str; 6] = [
    KEY,
    "url-key-0123456789",
    "body-key-0123456789",
    "header-key-0123456789",
    "pass%40word-0123",
    // Of `me:pass@word-0123`, as the server gets it.
    "bWU6cGFzc0B3b3JkLTAxMjM=",
];

/// What a server may know of a request, the shortened key included.
fn quotation(request: &Request) -> String {
    format!(
        "Incorrect API key provided: sk-pr***********WXYZ. {} {:?} {} https://me:pass%40word-0123@h",
        request.line,
        request.headers,
        String::from_utf8_lossy(&request.body)
    )
}

/// A server that quotes the request in errors of this status, and in answers with 200.
fn quoting(status: &'static str) -> ScriptedServer {
    ScriptedServer::answering(move |request| {
        let text = quotation(request);
        if request.is_model_list() {
            return models();
        }
        if request.line.starts_with("GET ") {
            return whole("404 Not Found", "text/plain", &text);
        }
        let body = match status {
            "200 OK" => {
                let choice = json!({"index": 0, "text": text, "finish_reason": text});
                let event = json!({"id": text, "choices": [choice], "usage": {"prompt_tokens": 3, "completion_tokens": 1}});
                return whole(
                    status,
                    "text/event-stream",
                    &format!("data: {event}\n\ndata: [DONE]\n\n"),
                );
            }
            _ => json!({"error": {"message": text, "code": text}}).to_string(),
        };
        whole(status, "application/json", &body)
    })
}

fn run(arguments: &[String], folder: &Path) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sobench"));
    command.args(arguments).current_dir(folder);
    ran(command.env("OPENAI_API_KEY", KEY))
}

/// The secrets in a text, and the start of the shortened key.
fn found(text: &str) -> Vec<&'static str> {
    let all = SECRETS.into_iter().chain(["sk-pr", "word-0123"]);
    all.filter(|secret| text.contains(secret)).collect()
}

fn assert_clean(ran: &Ran, folder: &Path, what: &str) {
    for (name, text) in [("stdout", &ran.stdout), ("stderr", &ran.stderr)] {
        assert!(
            found(text).is_empty(),
            "{what}: {name}: {:?}\n{text}",
            found(text)
        );
    }
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        assert!(
            found(&text).is_empty(),
            "{what}: {}: {:?}",
            path.display(),
            found(&text)
        );
    }
}

/// Flags with secrets.
fn target(server: &ScriptedServer) -> Vec<String> {
    let base_url = server.base_url.replace("://", "://me:pass%40word-0123@");
    let flags = [
        "--base-url",
        &base_url,
        "--endpoint",
        "/v1/completions?api_key=url-key-0123456789",
        "--extra-body",
        r#"{"nested": {"auth_token": "body-key-0123456789"}}"#,
        "--header",
        "X-Team-Secret=header-key-0123456789",
    ];
    flags.map(str::to_owned).into()
}

fn typed(words: &str, more: &[String]) -> Vec<String> {
    let words = words.split_whitespace().map(str::to_owned);
    words.chain(more.iter().cloned()).collect()
}

#[test]
fn quoted_secrets_are_in_no_output() {
    const OUTPUTS: &str = "--dataset json --num-prompts 4 --detail full --save r.html --save r.md --save r.csv --save r.xml \
        --save-detailed --result-filename r.json --save-failures --plot-timeline --run-log r.jsonl";
    for status in ["401 Unauthorized", "400 Bad Request", "500 Oops", "200 OK"] {
        for command in [
            OUTPUTS,
            &format!("{OUTPUTS} --skip-preflight --max-consecutive-errors 2"),
            "--dataset json --num-prompts 4 --repeat 2 --save c.json --save c.html --save c.md --run-log logs-{repeat}.jsonl",
            "--dataset json --num-prompts 4 --dry-run",
            "preflight --save p.json --detail full --backend vllm",
            "preflight --features --save p.json --keyword enum --samples 1",
        ] {
            let server = quoting(status);
            let folder = tempfile::tempdir().unwrap();
            let ran = run(&typed(command, &target(&server)), folder.path());
            let what = format!("{status}: {command}");
            assert_clean(&ran, folder.path(), &what);
            assert!(
                command.contains("dry-run")
                    || server
                        .requests()
                        .iter()
                        .any(|request| quotation(request).contains(KEY)),
                "{what}: the key is sent"
            );
            if command.ends_with("--dry-run") {
                assert!(
                    ran.stdout.contains("api_key=***")
                        && ran.stdout.contains(r#""auth_token": "***""#),
                    "{}",
                    ran.stdout
                );
            } else if status.starts_with("401") {
                assert!(
                    ran.stderr.contains("Incorrect API key provided: ***. "),
                    "{what}: {}",
                    ran.stderr
                );
            }
        }
    }
}

#[test]
fn secrets_in_wrong_flags_are_not_quoted() {
    let folder = tempfile::tempdir().unwrap();
    for (flags, expected) in [
        (
            [
                "--base-url=http://127.0.0.1:1",
                "--header=Authorization: Bearer header-key-0123456789",
            ],
            "--header is not KEY=VALUE: Authorization: Bearer ***",
        ),
        (
            ["--extra-body", r#"{"api_key": "body-key-0123456789""#],
            r#"{"api_key": "***""#,
        ),
        (
            ["--base-url", "me:pass%40word-0123@host"],
            "--base-url is not an http or https URL: ***@host",
        ),
        (
            ["--launch", "server --api-key url-key-0123456789"],
            "--api-key ***",
        ),
    ] {
        let ran = run(&flags.map(str::to_owned), folder.path());
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
        assert_clean(&ran, folder.path(), expected);
    }
}
