//! Requests about the server: models, version, readiness.

use std::io::Write;
use std::time::Duration;

use sobench_backend::ServerKind;
use sobench_client::{ApiKey, Client, list_models, server_version, wait_ready};
use sobench_core::error::ErrorKind;
use sobench_testkit::scripted::{ScriptedServer, Then, whole};

use super::{FOREVER, SHORT, options};

fn client(base_url: &str) -> Client {
    let mut options = options(base_url, ServerKind::Vllm);
    options.limits.ready_poll = Duration::from_millis(1);
    options.endpoint.api_key = Some(ApiKey::new("k3y"));
    Client::new(options).unwrap()
}

#[tokio::test]
async fn models_are_listed_with_their_metadata() {
    let list = r#"{"object":"list","data":[{"id":"tiny","owned_by":"vllm","root":"/m","parent":null,"max_model_len":4096},{"id":"b"}]}"#;
    let server = ScriptedServer::with_response(whole("200 OK", "application/json", list));
    let found = list_models(&client(&format!("{}/v1/", server.base_url)))
        .await
        .unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(
        (
            found[0].id.as_str(),
            found[0].root.as_deref(),
            found[0].max_model_len
        ),
        ("tiny", Some("/m"), Some(4096))
    );
    assert_eq!(
        (found[0].owned_by.as_deref(), found[1].owned_by.as_deref()),
        (Some("vllm"), None)
    );
    let requests = server.requests();
    assert_eq!(
        (
            requests[0].line.as_str(),
            requests[0].header("authorization")
        ),
        ("GET /v1/models HTTP/1.1", Some("Bearer k3y"))
    );
}

async fn check_refusal(answer: String, expected: &str, hint: &str) {
    let server = ScriptedServer::with_response(answer);
    let error = list_models(&client(&server.base_url)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Environment);
    assert!(error.what.contains(expected), "{}", error.what);
    assert!(
        error.hint.as_deref().unwrap_or_default().contains(hint),
        "{error}"
    );
}

#[tokio::test]
async fn errors_quote_the_server_and_come_with_a_hint() {
    check_refusal(
        whole("401 Unauthorized", "text/plain", "bad key"),
        "/v1/models returned 401: bad key",
        "OPENAI_API_KEY",
    )
    .await;
    check_refusal(
        whole("500 Oops", "text/plain", ""),
        "returned 500: (no body)",
        "--model",
    )
    .await;
    check_refusal(
        "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n??".to_owned(),
        "compressed response although identity was requested, content-encoding: gzip",
        "turn off compression",
    )
    .await;
    check_refusal(
        whole("200 OK", "text/html", "<h1>"),
        "did not return a list of models",
        "--model",
    )
    .await;
    check_refusal(
        whole("200 OK", "application/json", r#"{"data":[]}"#),
        "lists no models",
        "--model",
    )
    .await;
    check_refusal(String::new(), "no response from", "--base-url").await;
}

#[tokio::test]
async fn a_version_is_optional() {
    for (answer, expected) in [
        (
            whole("200 OK", "application/json", r#"{"version":"0.32.0"}"#),
            Some("0.32.0"),
        ),
        (
            whole(
                "404 Not Found",
                "application/json",
                r#"{"version":"0.32.0"}"#,
            ),
            None,
        ),
        (whole("200 OK", "text/html", "<h1>"), None),
        (String::new(), None),
    ] {
        let server = ScriptedServer::with_response(answer);
        assert_eq!(
            server_version(&client(&format!("{}/v1", server.base_url)))
                .await
                .as_deref(),
            expected
        );
        assert_eq!(server.requests()[0].line, "GET /version HTTP/1.1");
    }
}

#[tokio::test]
async fn waiting_ends_when_the_server_is_up() {
    let server = ScriptedServer::new(|request, stream| {
        let status = if request.number < 3 {
            "503 Loading"
        } else {
            "404 Not Found"
        };
        stream
            .write_all(whole(status, "text/plain", "x").as_bytes())
            .unwrap();
        Then::Keep
    });
    wait_ready(&client(&server.base_url), FOREVER)
        .await
        .unwrap();
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn waiting_ends_with_the_last_response() {
    let server = ScriptedServer::with_response(whole("503 Loading", "text/plain", "Loading model"));
    let error = wait_ready(&client(&server.base_url), SHORT)
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Environment);
    assert!(error.what.ends_with("503: Loading model"), "{}", error.what);
    wait_ready(&client("http://127.0.0.1:9"), Duration::ZERO)
        .await
        .unwrap();
}
