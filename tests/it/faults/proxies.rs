//! Runs through HTTP proxies, and errors of unusable proxies. Only the proxies can resolve the
//! server's name.

use std::io::Write;
use std::net::TcpStream;

use sobench_testkit::scripted::{
    Request, ScriptedServer, Then, models, refusing_url, whole, with_tls_answering,
};

use super::run::ANSWER;
use crate::support::{Folder, Ran, program, ran};

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
fn run(base_url: &str, proxy: &str, flags: &[&str]) -> Ran {
    let fixed = [
        "--backend openai --dataset choice --skip-preflight --num-prompts 40 --max-concurrency 2",
        "--no-run-log --insecure --disable-tqdm --constraint-dialect structured-outputs --base-url",
        base_url,
    ];
    let mut command = program(&[&fixed, flags].concat());
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    command.env_remove("REQUEST_METHOD");
    ran(command.env("ALL_PROXY", proxy))
}

/// Runs successfully and returns the number of connections opened for requests.
#[track_caller]
fn check_run(base_url: &str, proxy: &str) -> u64 {
    let folder = Folder::new();
    let place = [
        "--save-result --result-filename r.json --result-dir",
        &folder.path(""),
    ];
    let ran = run(base_url, proxy, &place);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let own = folder.json("r.json")["sobench"].take();
    assert_eq!(own["outcomes"]["completed"], PLANNED, "{}", own["outcomes"]);
    own["client"]["connections_opened"].as_u64().unwrap()
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
            let ran = run(base_url, &proxy, flags);
            let through = format!("cannot connect through the proxy {proxy}: ");
            let through = if flags.is_empty() { "" } else { &through };
            ran.assert_exits(3, &[expected, hint, through]);
            assert!(!ran.has_error("s3cret"), "{}", ran.stderr);
            // The preflight requests report the same error in other terms.
            let ran = run(base_url, &proxy, &[]);
            let terms = ["NO_PROXY", "USER:PASSWORD"];
            assert!(
                terms.into_iter().any(|term| ran.has_error(term)),
                "{}",
                ran.stderr
            );
        }
    }
}
