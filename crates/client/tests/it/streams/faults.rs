//! Every failure of an exchange has its own outcome, and no request is sent twice.

use std::io::Write;
use std::net::{Shutdown as Side, TcpListener};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use sobench_backend::{
    Adapter, BodySettings, Decoded, Decoder, ReadSummary, ServerKind, Unsendable,
};
use sobench_client::{Client, send_one};
use sobench_core::case::Case;
use sobench_core::observation::{Advice, Observation, Outcome, TransportCause};
use sobench_shutdown::Shutdown;
use sobench_testkit::scripted::{
    STREAM_HEAD, ScriptedServer, Then, chunk, refusing_url, wait_until_closed, whole,
};

use super::{FOREVER, SHORT, case, check_order, observe, options, request, shared};

pub(super) const KIND: ServerKind = ServerKind::Openai;
pub(super) const CONTENT: &str = "data: {\"choices\":[{\"index\":0,\"text\":\"hi\"}]}\n\n";
pub(super) const STOP: &str =
    "data: {\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"stop\"}]}\n\n";
pub(super) const DONE: &str = "data: [DONE]\n\n";

pub(super) async fn observed(server: &ScriptedServer) -> Observation {
    let observation = observe(options(&server.base_url, KIND), KIND, true).await;
    check_order(&observation);
    assert_eq!(
        server.requests().len(),
        1,
        "a request was sent twice: {:?}",
        observation.outcome
    );
    observation
}

pub(super) async fn outcome_of(bytes: impl Into<Vec<u8>>) -> Outcome {
    observed(&ScriptedServer::with_response(bytes))
        .await
        .outcome
}

#[tokio::test]
async fn statuses_other_than_200() {
    let error = r#"{"error":{"message":"no such model","code":404}}"#;
    for (answer, expected) in [
        (
            whole("400 Bad Request", "application/json", "no"),
            Outcome::Rejected {
                status: 400,
                body: "no".to_owned(),
                advice: None,
            },
        ),
        (
            whole("404 Not Found", "application/json", error),
            Outcome::Rejected {
                status: 404,
                body: error.to_owned(),
                advice: None,
            },
        ),
        (
            whole("429 Too Many", "text/plain", ""),
            Outcome::Rejected {
                status: 429,
                body: String::new(),
                advice: None,
            },
        ),
        (
            whole("500 Oops", "text/html", "<h1>Internal</h1>"),
            Outcome::ServerError {
                status: 500,
                body: "<h1>Internal</h1>".to_owned(),
                advice: None,
            },
        ),
        (
            "HTTP/1.1 429 Slow\r\nretry-after: 7\r\ncontent-length: 4\r\n\r\nslow".to_owned(),
            Outcome::Rejected {
                status: 429,
                body: "slow".to_owned(),
                advice: Some(Advice::RetryAfter("7".to_owned())),
            },
        ),
        (
            whole("204 No Content", "text/plain", ""),
            Outcome::ServerError {
                status: 204,
                body: String::new(),
                advice: None,
            },
        ),
        (
            "HTTP/1.1 307 Moved\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n".to_owned(),
            Outcome::ServerError {
                status: 307,
                body: String::new(),
                advice: Some(Advice::Location("/elsewhere".to_owned())),
            },
        ),
    ] {
        assert_eq!(outcome_of(answer).await, expected);
    }
}

#[tokio::test]
async fn an_error_body_is_cut_with_a_note_and_may_be_incomplete() {
    let server =
        ScriptedServer::with_response(whole("400 Bad Request", "text/plain", &"x".repeat(100)));
    let mut options = options(&server.base_url, KIND);
    options.limits.max_error_body_bytes = 10;
    let Outcome::Rejected { body, .. } = observe(options, KIND, true).await.outcome else {
        panic!("not rejected")
    };
    assert_eq!(body, "xxxxxxxxxx... (cut at 10 bytes)");
    let broken = "HTTP/1.1 400 Bad Request\r\ncontent-length: 100\r\n\r\nhalf";
    assert_eq!(
        outcome_of(broken).await,
        Outcome::Rejected {
            status: 400,
            body: "half".to_owned(),
            advice: None
        }
    );
}

#[tokio::test]
async fn whole_responses_instead_of_a_stream() {
    let answer = r#"{"choices":[{"index":0,"text":"hi","finish_reason":"stop"}],"usage":{"prompt_tokens":2,"completion_tokens":1}}"#;
    let observation = observed(&ScriptedServer::with_response(whole(
        "200 OK",
        "application/json",
        answer,
    )))
    .await;
    assert_eq!(
        (&observation.outcome, &*observation.answer.text()),
        (&Outcome::Completed, "hi")
    );
    assert_eq!(
        (
            observation.timing.streamed,
            observation.timing.chunks_ns.len()
        ),
        (false, 1)
    );
    assert_eq!(
        observation.timing.chunks_ns.last(),
        observation.timing.end_ns.as_ref()
    );
    for (answer, name) in [
        (
            whole("200 OK", "text/html", "<h1>Welcome</h1>"),
            "stream_error",
        ),
        (
            whole("200 OK", "application/json", r#"{"object":"list"}"#),
            "stream_error",
        ),
        (
            whole(
                "200 OK",
                "application/json",
                r#"{"error":{"message":"no","code":400}}"#,
            ),
            "rejected",
        ),
        (
            format!("HTTP/1.1 200 OK\r\n\r\n{CONTENT}{STOP}{DONE}"),
            "stream_error",
        ),
    ] {
        assert_eq!(outcome_of(answer).await.name(), name);
    }
}

#[tokio::test]
async fn whole_responses_that_were_requested() {
    let answer = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"{}","reasoning":"why"},"finish_reason":"length"}]}"#;
    let server = ScriptedServer::with_response(whole("200 OK", "application/json", answer));
    let observation = observe(options(&server.base_url, KIND), KIND, false).await;
    check_order(&observation);
    assert_eq!(
        (&observation.outcome, &*observation.answer.text()),
        (&Outcome::Truncated, "{}")
    );
    assert_eq!(
        (
            observation.answer.reasoning.as_str(),
            observation.timing.chunks_ns.len()
        ),
        ("why", 1)
    );
    assert!(!observation.timing.streamed);
    let body = String::from_utf8(server.requests()[0].body.clone()).unwrap();
    assert!(
        body.contains(r#""stream":false"#) && !body.contains("stream_options"),
        "{body}"
    );
}

#[tokio::test]
async fn an_unused_port_is_a_connect_failure() {
    let observation = observe(options(&refusing_url(), KIND), KIND, true).await;
    check_order(&observation);
    let Outcome::Transport { cause, message } = observation.outcome else {
        panic!("{:?}", observation.outcome)
    };
    assert_eq!(cause, TransportCause::Connect);
    assert_eq!(message, "cannot connect: Connection refused (os error 111)");
}

#[track_caller]
pub(super) fn check_cause(outcome: &Outcome, expected: TransportCause) {
    let Outcome::Transport { cause, message } = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(*cause, expected, "{message}");
}

#[tokio::test]
async fn connections_that_end_early() {
    // Closed without a byte.
    check_cause(&outcome_of("").await, TransportCause::Closed);
    // llama-cpp-python, when a grammar crashes it: a head, but neither a chunk nor the end of the
    // chunks.
    check_cause(&outcome_of(STREAM_HEAD).await, TransportCause::Closed);
    let part = [STREAM_HEAD.as_bytes(), &chunk(CONTENT.as_bytes())].concat();
    let observation = observed(&ScriptedServer::with_response(part.clone())).await;
    check_cause(&observation.outcome, TransportCause::Closed);
    assert_eq!(
        (
            &*observation.answer.text(),
            observation.timing.chunks_ns.len()
        ),
        ("hi", 1),
        "received content is kept"
    );
    assert!(observation.timing.streamed);
    // Closed with half a chunk.
    check_cause(
        &outcome_of([&part, b"ff\r\ndata: {".as_slice()].concat()).await,
        TransportCause::Closed,
    );
    // Not HTTP at all.
    check_cause(
        &outcome_of("SSH-2.0-OpenSSH_9.6\r\n").await,
        TransportCause::Other,
    );
    // The answer is complete; only the end of the chunks is missing.
    let answer = [
        STREAM_HEAD.as_bytes(),
        &chunk([CONTENT, STOP, DONE].concat().as_bytes()),
    ]
    .concat();
    assert_eq!(outcome_of(answer).await, Outcome::Completed);
}

#[tokio::test]
async fn a_connection_that_is_reset() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base_url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        // Waits for the request and closes without reading it, so that the kernel sends a reset.
        let _ = stream.peek(&mut [0; 1]);
    });
    let observation = observe(options(&base_url, KIND), KIND, true).await;
    check_cause(&observation.outcome, TransportCause::Reset);
}

/// Sends one request to a server that answers and shuts down one side of the connection.
async fn after_shutdown_of(
    answer: impl Into<Vec<u8>>,
    side: Side,
    idle_timeout: Duration,
) -> Observation {
    let bytes = answer.into();
    // Keeps connections open until the test ends, because a server that has shut down reading
    // cannot wait for the client to close.
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&kept);
    let server = ScriptedServer::new(move |_, stream| {
        stream.write_all(&bytes).unwrap();
        stream.shutdown(side).unwrap();
        keep.lock().unwrap().push(stream.try_clone().unwrap());
        Then::Close
    });
    let mut options = options(&server.base_url, KIND);
    options.idle_timeout = Some(idle_timeout);
    let observation = observe(options, KIND, true).await;
    check_order(&observation);
    observation
}

#[tokio::test]
async fn connections_that_are_half_closed() {
    let part = [STREAM_HEAD.as_bytes(), &chunk(CONTENT.as_bytes())].concat();
    // The server has sent everything: nothing, or half an answer.
    check_cause(
        &after_shutdown_of("", Side::Write, FOREVER).await.outcome,
        TransportCause::Closed,
    );
    let observation = after_shutdown_of(part.clone(), Side::Write, FOREVER).await;
    check_cause(&observation.outcome, TransportCause::Closed);
    assert_eq!(observation.answer.text(), "hi");
    // The server has stopped reading, which is not visible to the client; its data is received, and
    // then it stalls.
    let observation = after_shutdown_of(part, Side::Read, SHORT).await;
    assert_eq!(
        (observation.outcome.name(), &*observation.answer.text()),
        ("timed_out", "hi")
    );
    let whole = [
        STREAM_HEAD.as_bytes(),
        &chunk([CONTENT, STOP, DONE].concat().as_bytes()),
    ]
    .concat();
    assert_eq!(
        after_shutdown_of(whole, Side::Read, FOREVER).await.outcome,
        Outcome::Completed
    );
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let elsewhere = ScriptedServer::with_response("");
    let answer = format!(
        "HTTP/1.1 307 Moved\r\nlocation: {}/v1\r\ncontent-length: 0\r\n\r\n",
        elsewhere.base_url
    );
    let outcome = outcome_of(answer).await;
    let advice = Some(Advice::Location(format!("{}/v1", elsewhere.base_url)));
    assert_eq!(
        outcome,
        Outcome::ServerError {
            status: 307,
            body: String::new(),
            advice
        }
    );
    assert_eq!(
        elsewhere.connections.load(Ordering::SeqCst),
        0,
        "no request was sent there"
    );
}

#[tokio::test]
async fn wrong_content_lengths() {
    let stream = [CONTENT, STOP, DONE].concat();
    let head = |kind: &str, length: usize| {
        format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n")
    };
    let of_stream = |length| format!("{}{stream}", head("text/event-stream", length));
    // Longer than the body: the end is missing, which does not matter if the answer was complete.
    assert_eq!(
        outcome_of(of_stream(stream.len() + 9)).await,
        Outcome::Completed
    );
    let half = format!("{}{CONTENT}", head("text/event-stream", 999));
    check_cause(&outcome_of(half).await, TransportCause::Closed);
    // Shorter: the bytes after it are not part of the response.
    let cut = outcome_of(of_stream(CONTENT.len())).await;
    assert_eq!(cut.name(), "stream_error", "{cut:?}");
    let body = r#"{"choices":[{"index":0,"text":"hi","finish_reason":"stop"}]}"#;
    assert_eq!(
        outcome_of(format!(
            "{}{body}",
            head("application/json", body.len() - 3)
        ))
        .await
        .name(),
        "stream_error"
    );
    check_cause(
        &outcome_of(format!(
            "{}{body}",
            head("application/json", body.len() + 3)
        ))
        .await,
        TransportCause::Closed,
    );
    let two = format!("HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\n{body}");
    check_cause(&outcome_of(two).await, TransportCause::Other);
}

#[tokio::test]
async fn bytes_that_are_not_utf_8() {
    let event = |text: &[u8]| {
        [
            b"data: {\"choices\":[{\"index\":0,\"text\":\"",
            text,
            b"\"}]}\n\n",
        ]
        .concat()
    };
    let chunked = |pieces: &[&[u8]]| {
        let chunks: Vec<u8> = pieces.iter().flat_map(|piece| chunk(piece)).collect();
        [STREAM_HEAD.as_bytes(), &chunks, b"0\r\n\r\n"].concat()
    };
    let end = [STOP, DONE].concat();
    // A character split across two chunks.
    let accent = event("é".as_bytes());
    let middle = accent.iter().position(|byte| *byte == 0xA9).unwrap();
    let server = ScriptedServer::with_response(chunked(&[
        &accent[..middle],
        &accent[middle..],
        end.as_bytes(),
    ]));
    let observation = observed(&server).await;
    assert_eq!(
        (observation.outcome, &*observation.answer.text()),
        (Outcome::Completed, "é")
    );
    // Half a character is invalid: immediately, after an event of the same shape, split in between,
    // and in a whole response.
    let bad = event(b"\xC3");
    let whole = br#"{"choices":[{"index":0,"text":"*","finish_reason":"stop"}]}"#
        .map(|byte| if byte == b'*' { 0xFF } else { byte });
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        whole.len()
    );
    let middle = bad.iter().position(|byte| *byte == 0xC3).unwrap() + 1;
    for answer in [
        chunked(&[&bad, end.as_bytes()]),
        chunked(&[&event(b"a"), &event(b"b"), &bad, end.as_bytes()]),
        chunked(&[&bad[..middle], &bad[middle..], end.as_bytes()]),
        [head.as_bytes(), &whole].concat(),
    ] {
        let Outcome::StreamError { message } = outcome_of(answer).await else {
            panic!("not refused")
        };
        assert!(message.contains("not UTF-8"), "{message}");
    }
}

#[tokio::test]
async fn the_content_type_of_an_unexpected_response_is_reported() {
    let Outcome::StreamError { message } =
        outcome_of(whole("200 OK", "text/html", "<h1>Welcome</h1>")).await
    else {
        panic!()
    };
    assert!(
        message.starts_with("expected text/event-stream, got \"text/html\": unreadable body"),
        "{message}"
    );
}

/// Bytes of a gzip header, which are no UTF-8.
const GZIP: &[u8] = &[0x1F, 0x8B, 0x08, 0x00, 0xFF, 0xC0];

#[tokio::test]
async fn identity_is_requested_and_a_content_coding_is_named() {
    let respond = |status: &str, kind: &str, coding: &str| {
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nContent-Encoding: {coding}\r\ncontent-length: {}\r\n\r\n",
            GZIP.len()
        );
        [head.as_bytes(), GZIP].concat()
    };
    for (kind, coding) in [
        ("text/event-stream", "gzip"),
        ("text/event-stream", "Deflate, br"),
        ("application/json", "x-gzip"),
    ] {
        let server = ScriptedServer::with_response(respond("200 OK", kind, coding));
        let outcome = observed(&server).await.outcome;
        let message = format!(
            "compressed response although identity was requested, content-encoding: {coding}"
        );
        assert_eq!(outcome, Outcome::StreamError { message });
        assert_eq!(
            server.requests()[0].header("accept-encoding"),
            Some("identity")
        );
    }
    assert_eq!(
        outcome_of(respond("503 Full", "application/json", "gzip")).await,
        Outcome::ServerError {
            status: 503,
            body: "compressed response although identity was requested, content-encoding: gzip"
                .to_owned(),
            advice: None,
        }
    );
    // `identity` is no coding.
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: Identity\r\nconnection: close\r\n\r\n{CONTENT}{STOP}{DONE}"
    );
    assert_eq!(outcome_of(answer).await, Outcome::Completed);
}

#[tokio::test]
async fn errors_inside_a_stream_are_the_errors_of_their_status() {
    let server_error = |body: &str| Outcome::ServerError {
        status: 500,
        body: body.to_owned(),
        advice: Some(Advice::InStream),
    };
    let wrapped =
        r#"{"error":{"message":"CUDA out of memory","type":"InternalServerError","code":500}}"#;
    let bare = r#"{"message":"CUDA out of memory","code":500}"#;
    let without_status = r#"{"message":"CUDA out of memory"}"#;
    let in_stream = |body: &str| Outcome::StreamError {
        message: format!("error from the server in a response with status 200: {body}"),
    };
    for (events, expected) in [
        (format!("data: {wrapped}\n\n{DONE}"), server_error(wrapped)),
        (
            format!("{CONTENT}data: {wrapped}\n\n{DONE}"),
            server_error(wrapped),
        ),
        (
            format!("event: error\ndata: {bare}\n\n{DONE}"),
            server_error(bare),
        ),
        (format!("data: {bare}\n\n{DONE}"), server_error(bare)),
        (
            format!("event: error\ndata: {without_status}\n\n"),
            in_stream("CUDA out of memory"),
        ),
        (
            "event: error\ndata: out of memory\n\n".to_owned(),
            in_stream("out of memory"),
        ),
    ] {
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{events}"
        );
        assert_eq!(outcome_of(answer).await, expected, "{events}");
    }
}

#[tokio::test]
async fn half_of_a_surrogate_pair_is_named() {
    for text in ["a\\ud83d", "\\ude00b", "\\ud83d\\n"] {
        let event = format!("{{\"choices\":[{{\"index\":0,\"text\":\"{text}\"}}]}}");
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\ndata: {event}\n\n{STOP}{DONE}"
        );
        let message = format!("half of a surrogate pair in a JSON string: {event}");
        assert_eq!(outcome_of(answer).await, Outcome::StreamError { message });
    }
}

#[tokio::test]
async fn bodies_and_events_have_limits() {
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{}{STOP}{DONE}",
        CONTENT.repeat(20)
    );
    let server = ScriptedServer::with_response(answer);
    let mut small = options(&server.base_url, KIND);
    small.limits.max_body_bytes = 100;
    check_cause(
        &observe(small, KIND, true).await.outcome,
        TransportCause::BodyTooLarge,
    );
    let mut small = options(&server.base_url, KIND);
    small.limits.max_event_bytes = 20;
    let message = "the event exceeds 20 bytes".to_owned();
    assert_eq!(
        observe(small, KIND, true).await.outcome,
        Outcome::StreamError { message }
    );
    assert_eq!(
        observe(options(&server.base_url, KIND), KIND, true)
            .await
            .answer
            .text(),
        "hi".repeat(20)
    );
}

/// An adapter whose decoders request a shutdown twice when they receive the first bytes.
struct Stopping {
    inner: Arc<dyn Adapter>,
    shutdown: Shutdown,
}

struct StoppingDecoder {
    inner: Box<dyn Decoder>,
    shutdown: Shutdown,
}

impl Adapter for Stopping {
    fn kind(&self) -> ServerKind {
        self.inner.kind()
    }

    fn encode(&self, case: &Case, options: &BodySettings) -> Result<Bytes, Unsendable> {
        self.inner.encode(case, options)
    }

    fn decoder(&self, stream: bool, max_event_bytes: usize) -> Box<dyn Decoder> {
        Box::new(StoppingDecoder {
            inner: self.inner.decoder(stream, max_event_bytes),
            shutdown: self.shutdown.clone(),
        })
    }
}

impl Decoder for StoppingDecoder {
    fn push(&mut self, bytes: &[u8]) -> ReadSummary {
        let fed = self.inner.push(bytes);
        self.shutdown.request();
        self.shutdown.request();
        fed
    }

    fn finish(&mut self) -> ReadSummary {
        self.inner.finish()
    }

    fn into_decoded(self: Box<Self>) -> Decoded {
        self.inner.into_decoded()
    }
}

#[tokio::test]
async fn content_before_a_cancel_is_kept() {
    let server = ScriptedServer::new(|_, stream| {
        stream
            .write_all(&[STREAM_HEAD.as_bytes(), &chunk(CONTENT.as_bytes())].concat())
            .unwrap();
        wait_until_closed(stream);
        Then::Close
    });
    let shutdown = Shutdown::new();
    let adapter = Arc::new(Stopping {
        inner: shared(KIND),
        shutdown: shutdown.clone(),
    });
    let client = Client::new(options(&server.base_url, KIND)).unwrap();
    let observation = send_one(
        &client,
        adapter,
        &request(true),
        &case("t-0"),
        "trial",
        &shutdown,
    )
    .await
    .unwrap();
    check_order(&observation);
    assert_eq!(
        (&observation.outcome, &*observation.answer.text()),
        (&Outcome::Cancelled, "hi")
    );
    assert_eq!(observation.timing.chunks_ns.len(), 1);
}

#[tokio::test]
async fn a_stream_that_continues_after_done_only_closes_the_connection() {
    let server = ScriptedServer::new(|_, stream| {
        stream
            .write_all(
                &[
                    STREAM_HEAD.as_bytes(),
                    &chunk([CONTENT, STOP, DONE].concat().as_bytes()),
                ]
                .concat(),
            )
            .unwrap();
        wait_until_closed(stream);
        Then::Close
    });
    let mut options = options(&server.base_url, KIND);
    options.limits.linger = Duration::from_secs(1);
    let observation = observe(options, KIND, true).await;
    check_order(&observation);
    assert_eq!(
        (observation.outcome, &*observation.answer.text()),
        (Outcome::Completed, "hi")
    );
}
