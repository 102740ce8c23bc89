//! Failed connections and timeouts: the message states the limit, the stage of the exchange and a
//! hint.

use std::io::{Read, Write};
use std::net::TcpListener;

use futures_util::future::join_all;
use sobench_client::ClientSettings;
use sobench_core::observation::{Advice, Observation, Outcome, Stage, TimeLimit, TransportCause};
use sobench_testkit::scripted::{
    STREAM_HEAD, ScriptedServer, Then, chunk, wait_until_closed, whole, with_tls,
};

use super::faults::{CONTENT, DONE, KIND, STOP};
use super::{FOREVER, SHORT, check_order, observe, options};

/// A server that sends these bytes and then stalls, with the connection open.
fn stalling(bytes: impl Into<Vec<u8>>) -> ScriptedServer {
    let bytes = bytes.into();
    ScriptedServer::new(move |_, stream| {
        stream.write_all(&bytes).unwrap();
        wait_until_closed(stream);
        Then::Close
    })
}

async fn observed(base_url: &str, limit: impl Fn(&mut ClientSettings)) -> Observation {
    let mut options = options(base_url, KIND);
    limit(&mut options);
    let observation = observe(options, KIND, true).await;
    check_order(&observation);
    observation
}

fn idle(options: &mut ClientSettings) {
    options.idle_timeout = Some(SHORT);
}

fn in_all(options: &mut ClientSettings) {
    (options.request_timeout, options.idle_timeout) = (Some(SHORT), Some(FOREVER));
}

#[tokio::test]
async fn stalls_report_the_timeout_and_the_stage() {
    let streaming = [STREAM_HEAD.as_bytes(), &chunk(CONTENT.as_bytes())].concat();
    let role = [
        STREAM_HEAD.as_bytes(),
        &chunk(b"data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n"),
    ]
    .concat();
    let half = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{";
    let servers = [
        (b"".to_vec(), Stage::BeforeHeaders),
        (b"HTTP/1.1 200 OK\r\n".to_vec(), Stage::BeforeHeaders),
        (STREAM_HEAD.into(), Stage::BeforeFirstToken),
        (role, Stage::BeforeFirstToken),
        (streaming, Stage::MidStream),
        (half.into(), Stage::MidBody),
    ]
    .map(|(bytes, stage)| (stalling(bytes), stage));
    let limits = [
        (TimeLimit::Idle, idle as fn(&mut ClientSettings)),
        (TimeLimit::Request, in_all),
    ];
    // In parallel, as each takes as long as its timeout.
    let exchanges = servers.iter().flat_map(|(server, stage)| {
        limits.map(|(limit, set)| async move {
            let outcome = observed(&server.base_url, set).await.outcome;
            assert_eq!(
                outcome,
                Outcome::TimedOut {
                    limit_ms: 2000,
                    limit,
                    stage: Some(*stage)
                }
            );
        })
    });
    join_all(exchanges).await;
}

#[tokio::test]
async fn an_error_status_counts_even_if_its_body_is_incomplete() {
    let server = stalling("HTTP/1.1 503 Full\r\nretry-after: 3\r\ncontent-length: 99\r\n\r\nno ro");
    let expected = Outcome::ServerError {
        status: 503,
        body: "no ro".to_owned(),
        advice: Some(Advice::RetryAfter("3".to_owned())),
    };
    let limits = [idle as fn(&mut ClientSettings), in_all];
    for observation in join_all(limits.map(|set| observed(&server.base_url, set))).await {
        assert_eq!(observation.outcome, expected);
    }
}

#[tokio::test]
async fn a_stream_that_never_ends_is_bounded_by_its_bytes() {
    for endless in [CONTENT, ": ping\n\n", "data:\n\n", "\n"] {
        let server = ScriptedServer::new(move |_, stream| {
            let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
            let many = endless.repeat(1000);
            let mut written = stream.write_all(head);
            while written.is_ok() {
                written = stream.write_all(many.as_bytes());
            }
            Then::Close
        });
        let observation = observed(&server.base_url, |options| {
            options.limits.max_body_bytes = 1 << 20;
        })
        .await;
        let Outcome::Transport { cause, message } = &observation.outcome else {
            panic!("{:?}", observation.outcome)
        };
        assert_eq!(
            (*cause, message.as_str()),
            (
                TransportCause::BodyTooLarge,
                "the response body exceeds 1048576 bytes"
            )
        );
        assert_eq!(
            observation.answer.text().is_empty(),
            endless != CONTENT,
            "what came is kept"
        );
    }
}

#[track_caller]
fn check_unconnected(observation: &Observation, expected_parts: &[&str]) {
    let Outcome::Transport {
        cause: TransportCause::Connect,
        message,
    } = &observation.outcome
    else {
        panic!("{:?}", observation.outcome)
    };
    assert!(
        expected_parts.iter().all(|part| message.contains(part)),
        "{message}"
    );
}

#[tokio::test]
async fn hanging_connections_end_by_a_reported_timeout() {
    let connecting = |limit| Outcome::TimedOut {
        limit_ms: 2000,
        limit,
        stage: Some(Stage::Connecting),
    };
    let short = |options: &mut ClientSettings| options.limits.connect_timeout = SHORT;
    // Accepted, but no byte of a handshake.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let base_url = format!("https://{}", silent.local_addr().unwrap());
    let (unconnected, quiet, late) = tokio::join!(
        observed(&base_url, short),
        observed(&base_url, idle),
        observed(&base_url, in_all)
    );
    check_unconnected(
        &unconnected,
        &[
            "no TLS handshake within the connect timeout of 2 s",
            "connect timeout",
        ],
    );
    assert_eq!(
        (quiet.outcome, late.outcome),
        (connecting(TimeLimit::Idle), connecting(TimeLimit::Request))
    );
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn dropped_connection_attempts_end_by_a_reported_timeout() {
    let (base_url, _waiting, _listener) = sobench_testkit::scripted::unresponsive_url();
    let short = |options: &mut ClientSettings| options.limits.connect_timeout = SHORT;
    let (unconnected, quiet) = tokio::join!(observed(&base_url, short), observed(&base_url, idle));
    check_unconnected(
        &unconnected,
        &[
            "no TCP connection within the connect timeout of 2 s",
            "connect timeout",
        ],
    );
    let expected = Outcome::TimedOut {
        limit_ms: 2000,
        limit: TimeLimit::Idle,
        stage: Some(Stage::Connecting),
    };
    assert_eq!(quiet.outcome, expected);
}

#[tokio::test]
async fn tls_failures_come_with_a_hint() {
    let answer = whole(
        "200 OK",
        "text/event-stream",
        &[CONTENT, STOP, DONE].concat(),
    );
    let unset = |_: &mut ClientSettings| {};
    // Plain HTTP where TLS is expected, and the other way round.
    let plain = TcpListener::bind("127.0.0.1:0").unwrap();
    let base_url = format!("https://{}", plain.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = plain.accept().unwrap();
        // Reads the client's bytes first: unread bytes would make the kernel send a reset.
        assert!(stream.read(&mut [0; 8192]).unwrap() > 0);
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .unwrap();
        wait_until_closed(&mut stream);
    });
    check_unconnected(
        &observed(&base_url, unset).await,
        &["does not speak TLS", "http://"],
    );
    let secure = with_tls(answer);
    let Outcome::Transport { message, .. } =
        observed(&secure.replace("https://", "http://"), unset)
            .await
            .outcome
    else {
        panic!("not refused")
    };
    assert_eq!(
        message,
        "got a TLS alert instead of an HTTP response: check whether the URL should start with https://"
    );
    // A self-signed certificate, refused and then accepted with `insecure`.
    check_unconnected(
        &observed(&secure, unset).await,
        &["certificate", "--insecure"],
    );
    let observation = observed(&secure, |options| options.endpoint.insecure = true).await;
    assert_eq!(
        (observation.outcome, &*observation.answer.text()),
        (Outcome::Completed, "hi")
    );
}
