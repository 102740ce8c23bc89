//! Planned cancellations: the client closes the connection, and the request has an outcome of its
//! own.

use std::io::Write;
use std::time::Duration;

use sobench_client::{Client, repeat, run, warm_up};
use sobench_core::case::Case;
use sobench_core::load::CancelAfter;
use sobench_core::observation::{Observation, Outcome};
use sobench_core::run_event::{AnswerForm, RunEvent};
use sobench_core::schedule::Schedule;
use sobench_core::shard::Shard;
use sobench_shutdown::Shutdown;
use sobench_testkit::scripted::{
    STREAM_HEAD, ScriptedServer, Then, chunk, wait_until_closed, whole,
};

use super::faults::{CONTENT, DONE, KIND, STOP};
use super::{check_order, options, request, shared};

fn abandoned(after: CancelAfter) -> Case {
    Case {
        cancel_after: Some(after),
        ..super::case("t-0")
    }
}

/// A server that sends these parts of a stream and then waits until the client closes the
/// connection.
fn endless(parts: &'static [&'static str]) -> ScriptedServer {
    ScriptedServer::new(move |_, stream| {
        stream.write_all(STREAM_HEAD.as_bytes()).unwrap();
        for part in parts {
            stream.write_all(&chunk(part.as_bytes())).unwrap();
        }
        wait_until_closed(stream);
        Then::Close
    })
}

/// A server that answers completely, and keeps the connection.
fn complete() -> ScriptedServer {
    ScriptedServer::new(|_, stream| {
        let body = [CONTENT, STOP, DONE].concat();
        stream
            .write_all(whole("200 OK", "text/event-stream", &body).as_bytes())
            .unwrap();
        Then::Keep
    })
}

async fn run_one(server: &ScriptedServer, case: Case, stream: bool) -> Observation {
    let client = Client::new(options(&server.base_url, KIND)).unwrap();
    let mut seen = Vec::new();
    let on_event = |event: RunEvent| {
        if let RunEvent::Ended(observation) = event {
            seen.push(*observation);
        }
    };
    let schedule = Schedule::new(vec![Duration::ZERO]);
    run(
        &client,
        shared(KIND),
        &request(stream),
        &[case],
        &schedule,
        Shutdown::new().into(),
        on_event,
    )
    .await
    .unwrap();
    let observation = seen.pop().unwrap();
    check_order(&observation);
    observation
}

#[tokio::test]
async fn the_connection_is_closed_after_the_first_token() {
    // The server's thread ends only if the client closes the connection.
    let server = endless(&[": comment\n\n", CONTENT]);
    let seen = run_one(&server, abandoned(CancelAfter::FirstToken), true).await;
    assert_eq!(seen.outcome, Outcome::Abandoned);
    assert_eq!(
        (&*seen.answer.text(), seen.timing.chunks_ns.len()),
        ("hi", 1)
    );
    assert!(seen.timing.end_ns.is_some());
}

#[tokio::test]
async fn the_connection_is_closed_after_a_time() {
    let server = endless(&[]);
    let after = CancelAfter::Seconds(0.01);
    let seen = run_one(&server, abandoned(after), true).await;
    assert_eq!(seen.outcome, Outcome::Abandoned);
    assert_eq!(seen.timing.chunks_ns.len(), 0);
    assert_eq!(
        run_one(&server, abandoned(after), false).await.outcome,
        Outcome::Abandoned
    );
}

#[tokio::test]
async fn a_request_that_ends_before_is_an_ordinary_result() {
    let server = complete();
    for after in [CancelAfter::FirstToken, CancelAfter::Seconds(3600.0)] {
        let seen = run_one(&server, abandoned(after), true).await;
        assert_eq!(
            (&seen.outcome, &*seen.answer.text()),
            (&Outcome::Completed, "hi")
        );
    }
    let refusing = ScriptedServer::with_response(whole("400 Bad Request", "text/plain", "no"));
    let seen = run_one(&refusing, abandoned(CancelAfter::Seconds(3600.0)), true).await;
    assert_eq!(seen.outcome.name(), "rejected");
}

#[tokio::test]
async fn warm_ups_and_repeated_requests_are_not_abandoned() {
    let server = ScriptedServer::new(|_, stream| {
        let parts = [CONTENT, STOP, DONE].map(|part| chunk(part.as_bytes()));
        stream.write_all(STREAM_HEAD.as_bytes()).unwrap();
        for part in parts {
            stream.write_all(&part).unwrap();
            stream.flush().unwrap();
        }
        stream.write_all(b"0\r\n\r\n").unwrap();
        Then::Keep
    });
    let client = Client::new(options(&server.base_url, KIND)).unwrap();
    let cases = [abandoned(CancelAfter::Seconds(1e-9))];
    let shutdown = Shutdown::new();
    let warm = warm_up(
        &client,
        shared(KIND),
        &request(true),
        &cases,
        Shard::WHOLE,
        &shutdown,
    )
    .await
    .unwrap();
    assert_eq!(warm[0].outcome, Outcome::Completed);
    let mut again = Vec::new();
    let form = AnswerForm::Streamed;
    let keep = |observation: Observation| again.push(observation.outcome);
    repeat(
        &client,
        shared(KIND),
        &request(true),
        &cases,
        form,
        &shutdown,
        keep,
    )
    .await
    .unwrap();
    assert_eq!(again, [Outcome::Completed]);
}
