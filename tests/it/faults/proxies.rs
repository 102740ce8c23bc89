//! Runs through HTTP proxies, and errors of unusable proxies. Only the proxies can resolve the
//! server's name.

use std::io::Write;
use std::net::TcpStream;
use std::process::{Command, Output};

use serde_json::Value;
use sobench_testkit::scripted::{
    Request, ScriptedServer, Then, models, refusing_url, whole, with_tls_answering,
};

use super::run::ANSWER;
use crate::support::cache;

const PLANNED: usize = 40;

/// Base64 of `user:pass`.
const PASSWORD: &str = "Basic dXNlcjpwYXNz";

/// The server's response to a request line.
fn answer(line: &str) -> String {
    if line.contains("/v1/models ") {
        models()
    } else if line.starts_with("POST ") {
        whole("200 OK", "text/event-stream", ANSWER)
    } else {
        whole("404 Not Found", "text/plain", "")
    }
}

/// Runs the program with this proxy for every server.
fn run(base_url: &str, proxy: &str, flags: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sobench"));
    for name in [
        "HTTP_PROXY",
        "http_proxy",
        "HTTPS_PROXY",
        "https_proxy",
        "NO_PROXY",
        "no_proxy",
        "REQUEST_METHOD",
        "OPENAI_API_KEY",
    ] {
        command.env_remove(name);
    }
    command
        .args([
            "--base-url",
            base_url,
            "--backend openai --dataset choice --skip-preflight",
        ])
        .args([
            "--num-prompts",
            &PLANNED.to_string(),
            "--max-concurrency 2 --no-run-log --insecure",
        ])
        .args(["--disable-tqdm --constraint-dialect structured-outputs"])
        .args(flags)
        .env("ALL_PROXY", proxy)
        .env("XDG_CACHE_HOME", cache())
        .output()
        .expect("the program was built")
}

/// Runs successfully and returns the number of connections opened for requests.
#[track_caller]
fn check_run(base_url: &str, proxy: &str) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let output = run(
        base_url,
        proxy,
        &[
            "--save-result --result-dir",
            folder.path().to_str().unwrap(),
            "--result-filename r.json",
        ],
    );
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let file: Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("r.json")).unwrap()).unwrap();
    assert_eq!(
        file["sobench"]["outcomes"]["completed"], PLANNED,
        "{}",
        file["sobench"]["outcomes"]
    );
    file["sobench"]["client"]["connections_opened"]
        .as_u64()
        .unwrap()
}

#[test]
fn requests_to_http_servers_are_sent_to_the_proxy() {
    let proxy = ScriptedServer::answering(|request| answer(&request.line));
    let address = proxy.base_url.replace("http://", "http://user:pass@");
    let opened = check_run("http://server.test:8000", &address);
    assert!(
        (1..=PLANNED as u64 / 2).contains(&opened),
        "connections are reused: {opened}"
    );
    let requests = proxy.requests();
    let posts: Vec<&Request> = requests
        .iter()
        .filter(|request| request.line.starts_with("POST "))
        .collect();
    // The trial request and the planned requests.
    assert_eq!(posts.len(), 1 + PLANNED);
    assert!(
        posts
            .iter()
            .all(|post| post.line == "POST http://server.test:8000/v1/completions HTTP/1.1"),
        "{posts:?}"
    );
    assert!(
        posts
            .iter()
            .all(|post| post.header("host") == Some("server.test:8000")),
        "{posts:?}"
    );
    assert!(
        requests
            .iter()
            .all(|request| request.header("proxy-authorization") == Some(PASSWORD)),
        "{requests:?}"
    );
}

#[test]
fn requests_to_https_servers_go_through_a_tunnel() {
    let server = with_tls_answering(|head| {
        answer(head)
            .replacen("\r\n", "\r\nconnection: close\r\n", 1)
            .into_bytes()
    });
    let there = server.replace("https://", "");
    let proxy = ScriptedServer::new(move |_, stream| {
        stream
            .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
            .unwrap();
        let mut server = TcpStream::connect(&there).unwrap();
        let (mut from_client, mut to_server) =
            (stream.try_clone().unwrap(), server.try_clone().unwrap());
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut from_client, &mut to_server);
            let _ = to_server.shutdown(std::net::Shutdown::Write);
        });
        let _ = std::io::copy(&mut server, stream);
        Then::Close
    });
    let opened = check_run(
        "https://server.test/v1",
        &proxy.base_url.replace("http://", "http://user:pass@"),
    );
    assert!(
        opened > PLANNED as u64,
        "the server closes each connection: {opened}"
    );
    let requests = proxy.requests();
    assert!(requests.len() > PLANNED, "{requests:?}");
    for request in requests {
        assert_eq!(
            (request.line.as_str(), request.header("host")),
            ("CONNECT server.test:443 HTTP/1.1", Some("server.test:443"))
        );
        assert_eq!(request.header("proxy-authorization"), Some(PASSWORD));
    }
}

/// The proxy itself uses TLS; the second run has TLS within TLS.
#[test]
fn tls_connection_to_the_proxy() {
    let close = |head: &str| {
        answer(head)
            .replacen("\r\n", "\r\nconnection: close\r\n", 1)
            .into_bytes()
    };
    for (base_url, line) in [
        (
            "http://server.test",
            "POST http://server.test/v1/completions ",
        ),
        ("https://server.test", "POST /v1/completions "),
    ] {
        let proxy = with_tls_answering(move |head| {
            assert!(
                !head.starts_with("POST ") || head.starts_with(line),
                "{head}"
            );
            close(head)
        });
        check_run(base_url, &proxy);
    }
}

#[test]
fn unusable_proxy_fails_before_the_run() {
    // The model list is requested by a different client than the one that sends the requests; a
    // model name skips it.
    let named = ["--model tiny --ready-check-timeout-sec 0"];
    let refusing = ScriptedServer::with_response("HTTP/1.1 407 Login\r\ncontent-length: 0\r\n\r\n");
    let socks = "socks5://user:s3cret@127.0.0.1:1080".to_owned();
    for (proxy, flags, expected, hint) in [
        (
            socks,
            &[][..],
            "error: only HTTP proxies are supported: socks5://127.0.0.1:1080",
            "NO_PROXY",
        ),
        (
            refusing_url(),
            &named,
            "Connection refused",
            "follow the advice in the error above",
        ),
        (
            refusing.base_url.clone(),
            &named,
            "the proxy returned 407: give the proxy's user and password",
            "follow the advice in the error above",
        ),
    ] {
        for base_url in ["http://server.test", "https://server.test"] {
            let output = run(base_url, &proxy, flags);
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(3), "{stderr}");
            assert!(
                stderr.contains(expected) && stderr.contains(hint),
                "{base_url}: {stderr}"
            );
            assert!(
                flags.is_empty()
                    || stderr.contains(&format!("cannot connect through the proxy {proxy}: ")),
                "{stderr}"
            );
            assert!(!stderr.contains("s3cret"), "{stderr}");
            // The preflight requests report the same error in other terms.
            let stderr = String::from_utf8(run(base_url, &proxy, &[]).stderr).unwrap();
            assert!(
                stderr.contains("NO_PROXY")
                    || stderr.contains("407") && stderr.contains("USER:PASSWORD"),
                "{stderr}"
            );
        }
    }
}
