//! Whole runs: order, cap, headers and shutdown. No test asserts durations.

use std::io::Write;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use sobench_backend::ServerKind;
use sobench_client::{ApiKey, Client, ClientSettings, run, send_one};
use sobench_core::case::Case;
use sobench_core::error::ErrorKind;
use sobench_core::observation::{Observation, Outcome};
use sobench_core::run_event::RunEvent;
use sobench_core::schedule::Schedule;
use sobench_shutdown::{Shutdown, Stage};
use sobench_testkit::scripted::{ScriptedServer, Then, wait_until_closed, whole};

use super::{FOREVER, case, check_order, options, request, shared};

const KIND: ServerKind = ServerKind::Openai;
const ANSWER: &str = "data: {\"choices\":[{\"index\":0,\"text\":\"hi\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

fn cases(count: usize) -> Vec<Case> {
    (0..count)
        .map(|index| case(&format!("t-{index}")))
        .collect()
}

fn answering() -> ScriptedServer {
    ScriptedServer::new(|_, stream| {
        stream
            .write_all(whole("200 OK", "text/event-stream", ANSWER).as_bytes())
            .unwrap();
        Then::Keep
    })
}

/// The observations of a run, in the order of its cases, and the run's duration in nanoseconds.
async fn run_all(
    options: ClientSettings,
    due: &[Duration],
    shutdown: Shutdown,
) -> (Vec<Observation>, u64) {
    let client = Client::new(options).unwrap();
    let (mut starts, mut sent, mut observations) = (0, vec![], vec![]);
    let on_event = |event: RunEvent| match event {
        RunEvent::Started { .. } => starts += 1,
        RunEvent::Sent { index } => sent.push(index),
        RunEvent::ErrorLimitReached(reason) => panic!("{reason:?}"),
        RunEvent::Repeated(repeat) => panic!("{repeat:?}"),
        RunEvent::ServerSampled { sample, .. } => panic!("{sample:?}"),
        RunEvent::Ended(observation) => observations.push(*observation),
    };
    let schedule = Schedule::new(due.to_vec());
    let ran = run(
        &client,
        shared(KIND),
        &request(true),
        &cases(due.len()),
        &schedule,
        shutdown.into(),
        on_event,
    )
    .await
    .unwrap();
    observations.sort_by_key(|observation| observation.case_index);
    let ended: Vec<_> = observations
        .iter()
        .map(|observation| observation.case_index)
        .collect();
    assert_eq!(
        ended,
        (0..due.len()).collect::<Vec<_>>(),
        "every case ends once"
    );
    assert_eq!((starts, ran.cases), (1, due.len()));
    for (index, observation) in observations.iter().enumerate() {
        assert_eq!(
            observation.timing.due_ns,
            u64::try_from(due[index].as_nanos()).unwrap()
        );
        assert_eq!(observation.timing.sent_ns.is_some(), sent.contains(&index));
        check_order(observation);
    }
    (observations, ran.duration_ns)
}

fn ends(observations: &[Observation]) -> Vec<&'static str> {
    observations
        .iter()
        .map(|observation| observation.outcome.name())
        .collect()
}

#[tokio::test]
async fn requests_carry_body_headers_and_ids() {
    let server = answering();
    let mut options = options(&server.base_url, KIND);
    options.request_id_prefix = Some("bench-".to_owned());
    options.endpoint.api_key = Some(ApiKey::new("k3y"));
    options.endpoint.headers = vec![("X-Team".to_owned(), "inference".to_owned())];
    let (observations, duration_ns) = run_all(options, &[Duration::ZERO; 5], Shutdown::new()).await;
    assert_eq!(ends(&observations), ["completed"; 5]);
    assert_eq!(
        Some(duration_ns),
        observations
            .iter()
            .filter_map(|seen| seen.timing.end_ns)
            .max()
    );
    let mut ids = vec![];
    for request_received in server.requests() {
        assert_eq!(request_received.line, "POST /v1/completions HTTP/1.1");
        assert_eq!(request_received.header("authorization"), Some("Bearer k3y"));
        assert_eq!(request_received.header("x-team"), Some("inference"));
        assert_eq!(
            request_received.header("content-type"),
            Some("application/json")
        );
        assert!(
            request_received
                .body
                .starts_with(br#"{"model":"m","prompt":"Say it","max_tokens":16,"stream":true"#)
        );
        ids.push(request_received.header("x-request-id").unwrap().to_owned());
    }
    ids.sort();
    assert_eq!(ids, ["bench-0", "bench-1", "bench-2", "bench-3", "bench-4"]);
}

#[tokio::test]
async fn cases_are_sent_in_due_order() {
    let server = answering();
    let mut options = options(&server.base_url, KIND);
    options.max_concurrency = Some(1);
    options.request_id_prefix = Some(String::new());
    let due = [30, 10, 20, 10].map(Duration::from_millis);
    run_all(options, &due, Shutdown::new()).await;
    let ids: Vec<_> = server
        .requests()
        .iter()
        .map(|request_received| request_received.header("x-request-id").unwrap().to_owned())
        .collect();
    assert_eq!(ids, ["1", "3", "2", "0"]);
}

/// The maximum number of concurrent requests, by the client's instants.
fn most_at_once(observations: &[Observation]) -> usize {
    let timings = observations.iter().map(|observation| &observation.timing);
    let mut edges: Vec<_> = timings
        .flat_map(|timing| [(timing.sent_ns.unwrap(), 1), (timing.end_ns.unwrap(), -1)])
        .collect();
    edges.sort_unstable();
    let mut now = 0_i64;
    usize::try_from(
        edges
            .into_iter()
            .map(|(_, step)| {
                now += step;
                now
            })
            .max()
            .unwrap(),
    )
    .unwrap()
}

#[tokio::test]
async fn the_cap_is_reached_and_never_exceeded() {
    const CAP: usize = 3;
    // Each request waits at the server until the cap is reached; with fewer, the test would hang.
    let together = Barrier::new(CAP);
    let (now, most) = (Mutex::new(0), Arc::new(Mutex::new(0)));
    let seen = Arc::clone(&most);
    let server = ScriptedServer::new(move |_, stream| {
        {
            let (mut now, mut most) = (now.lock().unwrap(), seen.lock().unwrap());
            *now += 1;
            *most = (*now).max(*most);
        }
        together.wait();
        *now.lock().unwrap() -= 1;
        stream
            .write_all(whole("200 OK", "text/event-stream", ANSWER).as_bytes())
            .unwrap();
        Then::Keep
    });
    let mut options = options(&server.base_url, KIND);
    options.max_concurrency = Some(CAP);
    let (observations, _) = run_all(options, &[Duration::ZERO; 4 * CAP], Shutdown::new()).await;
    assert_eq!(ends(&observations), ["completed"; 4 * CAP]);
    assert_eq!(*most.lock().unwrap(), CAP);
    assert_eq!(most_at_once(&observations), CAP);
}

#[tokio::test]
async fn connections_are_reused() {
    let server = answering();
    let mut options = options(&server.base_url, KIND);
    options.max_concurrency = Some(1);
    run_all(options, &[Duration::ZERO; 20], Shutdown::new()).await;
    let connections = server.connections.load(Ordering::SeqCst);
    assert!(
        connections < 20,
        "{connections} connections for 20 requests in turn"
    );
}

#[tokio::test]
async fn after_the_first_signal_no_request_is_sent_and_those_in_flight_end() {
    let shutdown = Shutdown::new();
    let token = shutdown.clone();
    let server = ScriptedServer::new(move |_, stream| {
        assert_eq!(token.request(), Stage::Draining);
        stream
            .write_all(whole("200 OK", "text/event-stream", ANSWER).as_bytes())
            .unwrap();
        Then::Keep
    });
    let mut options = options(&server.base_url, KIND);
    options.max_concurrency = Some(1);
    options.limits.drain_timeout = FOREVER;
    let (observations, _) = run_all(
        options,
        &[Duration::ZERO, Duration::ZERO, FOREVER],
        shutdown,
    )
    .await;
    assert_eq!(ends(&observations), ["completed", "cancelled", "cancelled"]);
    assert_eq!(server.requests().len(), 1);
    assert_eq!(observations[2].timing.sent_ns, None);
}

/// Two requests hang; `signals` shutdown requests follow when both have arrived.
async fn check_cut(signals: usize, drain_timeout: Duration) {
    let shutdown = Shutdown::new();
    let token = shutdown.clone();
    let both = Barrier::new(2);
    let server = ScriptedServer::new(move |_, stream| {
        if both.wait().is_leader() {
            for _ in 0..signals {
                token.request();
            }
        }
        wait_until_closed(stream);
        Then::Close
    });
    let mut options = options(&server.base_url, KIND);
    options.limits.drain_timeout = drain_timeout;
    let (observations, _) = run_all(
        options,
        &[Duration::ZERO, Duration::ZERO, FOREVER],
        shutdown,
    )
    .await;
    assert_eq!(ends(&observations), ["cancelled"; 3]);
    let sent: Vec<_> = observations
        .iter()
        .map(|observation| observation.timing.sent_ns.is_some())
        .collect();
    assert_eq!(sent, [true, true, false]);
}

#[tokio::test]
async fn requests_in_flight_are_aborted_at_the_second_signal_or_after_the_drain_timeout() {
    check_cut(2, FOREVER).await;
    check_cut(1, Duration::from_secs(1)).await;
}

#[tokio::test]
async fn unsendable_requests_are_reported_before_the_run() {
    let server = answering();
    let client = Client::new(options(&server.base_url, KIND)).unwrap();
    let mut bad = request(true);
    bad.sampling.temperature = Some(f64::INFINITY);
    let due = [Duration::ZERO; 2];
    let error = run(
        &client,
        shared(KIND),
        &bad,
        &cases(2),
        &Schedule::new(due.to_vec()),
        Shutdown::new().into(),
        |_| {},
    )
    .await
    .unwrap_err();
    assert_eq!(
        error.what,
        "temperature is not a finite number: inf: case \"t-0\""
    );
    let error = run(
        &client,
        shared(KIND),
        &request(true),
        &cases(3),
        &Schedule::new(due.to_vec()),
        Shutdown::new().into(),
        |_| {},
    )
    .await
    .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Internal);
    assert!(
        send_one(
            &client,
            shared(KIND),
            &bad,
            &case("x"),
            "trial",
            &Shutdown::new()
        )
        .await
        .is_err()
    );
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn the_trial_uses_the_same_path_with_its_own_id() {
    let server = answering();
    let mut options = options(&server.base_url, KIND);
    options.request_id_prefix = Some("bench-".to_owned());
    let client = Client::new(options).unwrap();
    let observation = send_one(
        &client,
        shared(KIND),
        &request(true),
        &case("x"),
        "trial",
        &Shutdown::new(),
    )
    .await
    .unwrap();
    assert_eq!(
        (observation.outcome, &*observation.answer.text()),
        (Outcome::Completed, "hi")
    );
    assert_eq!(
        server.requests()[0].header("x-request-id"),
        Some("bench-trial")
    );
}

#[test]
fn invalid_options_are_refused() {
    let mut none = options("http://127.0.0.1:9", KIND);
    none.max_concurrency = Some(0);
    assert_eq!(Client::new(none).unwrap_err().kind, ErrorKind::Usage);
    assert_eq!(
        Client::new(options("127.0.0.1:9", KIND)).unwrap_err().what,
        "not an HTTP URL: 127.0.0.1:9"
    );
    let mut unprintable = options("http://127.0.0.1:9", KIND);
    unprintable.request_id_prefix = Some("a\nb".to_owned());
    assert_eq!(Client::new(unprintable).unwrap_err().kind, ErrorKind::Usage);
    let secret = options("https://h", KIND);
    let shown = format!("{:?}", Client::new(secret).unwrap());
    assert_eq!(
        shown,
        "Client { url: \"https://h/v1/completions\", options: ClientSettings { endpoint: Endpoint { base_url: \"https://h\", path: \"/v1/completions\", headers: [], kind: Vllm, api_key: None, insecure: false }, max_concurrency: None, request_timeout: None, idle_timeout: None, request_id_prefix: None, session_header: None, part: Shard { number: 1, of: 1 }, keeps_frames: false, limits: Limits { max_body_bytes: 67108864, max_event_bytes: 4194304, max_error_body_bytes: 65536, refusal_timeout: 10s, connect_timeout: 30s, drain_timeout: 30s, linger: 250ms, probe_timeout: 10s, ready_poll: 1s } }, .. }"
    );
}
