//! Tests of the limits of servers: each planted fault is named, and none on a server without one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sobench_backend::ConstraintDialect;
use sobench_client::{Client, ClientOptions, Endpoint};
use sobench_core::constraint::GrammarDialect;
use sobench_core::error::Result;
use sobench_embedded::{EmbeddedOptions, EmbeddedServer, Fault, SYNTHETIC_MODEL};
use sobench_preflight::Options;
use sobench_preflight::limits::probe::Subject;
use sobench_preflight::limits::{
    End, Ladder, LadderKind, ServerLimits, StepOutcome, Verdict, test_limits,
};
use sobench_shutdown::Shutdown;
use sobench_testkit::scripted::{
    STREAM_HEAD, ScriptedServer, Then, chunk, models, refusing_url, wait_until_closed, whole,
};

use crate::preflight::options;

/// Long enough for every step without a planted fault.
const LONG: Duration = Duration::from_secs(60);

async fn try_limits(
    base_url: &str,
    ladders: &[LadderKind],
    timeout: Duration,
) -> Result<ServerLimits> {
    let options = Options {
        model: SYNTHETIC_MODEL.to_owned(),
        dialects: vec![ConstraintDialect::StructuredOutputs],
        notation: GrammarDialect::Lark,
        ..options()
    };
    let client = Client::new(ClientOptions::with_defaults(Endpoint {
        base_url: base_url.to_owned(),
        path: options.backend.default_path().to_owned(),
        ..Endpoint::default()
    }))?;
    let subject = Subject {
        client: &client,
        options: &options,
        label: None,
    };
    test_limits(subject, ladders, timeout, &Shutdown::new(), |_, _| {}).await
}

/// The limits of an embedded server with these faults.
async fn limits(faults: &[&str], ladders: &[LadderKind], timeout: Duration) -> ServerLimits {
    let faults: Result<Vec<Fault>> = faults.iter().map(|fault| Fault::parse(fault)).collect();
    let options = EmbeddedOptions {
        faults: faults.unwrap(),
        ..EmbeddedOptions::default()
    };
    let start = move || EmbeddedServer::start(options).unwrap();
    let server = tokio::task::spawn_blocking(start).await.unwrap();
    let found = try_limits(server.base_url(), ladders, timeout).await;
    tokio::task::spawn_blocking(move || drop(server))
        .await
        .unwrap();
    found.unwrap_or_else(|error| panic!("{error}"))
}

fn largest(ladder: &Ladder) -> u64 {
    ladder.largest().map_or(0, |step| step.size)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_faults_gets_no_bad_verdict() {
    let ladders = [
        LadderKind::NestingDepth,
        LadderKind::OneOfWidth,
        LadderKind::MaxItems,
        LadderKind::RegexRepeats,
        LadderKind::Tools,
    ];
    let found = limits(&[], &ladders, LONG).await;
    assert_eq!(found.bad_ladders().count(), 0, "{found:?}");
    let [nesting, width, items, repeats, tools] = &found.ladders[..] else {
        panic!("{found:?}")
    };
    assert_eq!((largest(nesting), nesting.end), (16, End::Refused));
    assert_eq!(nesting.verdicts, [Verdict::FailsFast]);
    let refused = nesting.steps.last().unwrap();
    assert_eq!((refused.size, refused.status), (32, Some(400)));
    assert!(
        refused.message.contains("JSON nesting of 65"),
        "{refused:?}"
    );
    assert!(largest(width) >= 1000, "{width:?}");
    for ladder in [items, repeats] {
        assert_eq!((largest(ladder), ladder.end), (1_000_000, End::LargestSize));
    }
    assert_eq!(tools.end, End::NotCarried);
    assert_eq!(tools.verdicts, [Verdict::NotCarried]);
    assert!(
        tools.reason.as_ref().unwrap().contains("tools"),
        "{tools:?}"
    );
    let beside = items.steps[0].neighbours.unwrap();
    assert_eq!((beside.requests > 0, beside.failed), (true, 0));
    if cfg!(target_os = "linux") {
        assert!(items.steps[0].memory_before_bytes.unwrap() > 1 << 20);
    }
}

/// 110 ms a KiB: 1.2 s for an enum of 1,000 values, and 3.6 s for 3,000.
const SLOW: &str = "slow-compile:110";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_compile_alone_is_slow() {
    let timeout = Duration::from_secs(3);
    let found = limits(&[SLOW], &[LadderKind::EnumSize], timeout).await;
    let ladder = &found.ladders[0];
    assert_eq!((largest(ladder), ladder.end), (1000, End::TimedOut));
    let cancelled = ladder.cancelled.unwrap();
    assert_eq!(cancelled.size, 3000);
    assert!(
        cancelled.recovered_ms.is_some() && !cancelled.is_working,
        "{cancelled:?}"
    );
    assert_eq!(ladder.verdicts, [Verdict::Slow]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compile_that_blocks_other_requests_is_named() {
    let faults = [SLOW, "stall-neighbours"];
    let timeout = Duration::from_secs(3);
    let found = limits(&faults, &[LadderKind::EnumSize], timeout).await;
    let ladder = &found.ladders[0];
    assert!(
        ladder.verdicts.contains(&Verdict::StallsOthers),
        "{ladder:?}"
    );
    let stalling = ladder.steps.iter().find(|step| step.stalls_others);
    assert_eq!(stalling.map(|step| step.size), Some(1000));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compile_that_goes_on_after_its_request_is_named() {
    let faults = [SLOW, "zombie-compile"];
    let timeout = Duration::from_secs(3);
    let found = limits(&faults, &[LadderKind::EnumSize], timeout).await;
    let ladder = &found.ladders[0];
    assert_eq!(ladder.verdicts, [Verdict::KeepsCompiling, Verdict::Slow]);
    let cancelled = ladder.cancelled.unwrap();
    assert!(
        cancelled.is_working && cancelled.recovered_ms.is_some(),
        "{cancelled:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_is_named_and_tested_no_more() {
    let ladders = [LadderKind::EnumSize, LadderKind::MaxItems];
    let found = limits(&["die-on-large:5000"], &ladders, LONG).await;
    let [died, after] = &found.ladders[..] else {
        panic!("{found:?}")
    };
    assert_eq!((largest(died), died.end), (300, End::Died));
    assert_eq!(died.verdicts, [Verdict::Dies]);
    assert_eq!(died.steps.last().unwrap().outcome, StepOutcome::Lost);
    assert_eq!((after.end, after.steps.len()), (End::NotTested, 0));
    let reason = after.reason.as_ref().unwrap();
    assert!(
        reason.contains("accepts no connections") && reason.contains("size 1000"),
        "{reason}"
    );
}

/// A server that answers each request for an answer with the event that `answer` makes from its
/// body, or with nothing.
fn answering_server(
    answer: impl Fn(&[u8]) -> Option<String> + Send + Sync + 'static,
) -> ScriptedServer {
    ScriptedServer::new(move |request, stream| {
        use std::io::Write as _;
        let answer = if request.is_model_list() {
            models().into_bytes()
        } else if request.line.starts_with("GET ") {
            whole("404 Not Found", "text/plain", "no such page").into_bytes()
        } else {
            let Some(event) = answer(&request.body) else {
                wait_until_closed(stream);
                return Then::Close;
            };
            let text = format!("data: {event}\n\ndata: [DONE]\n\n");
            [STREAM_HEAD.as_bytes(), &chunk(text.as_bytes()), &chunk(b"")].concat()
        };
        match stream.write_all(&answer) {
            Ok(()) => Then::Keep,
            Err(_) => Then::Close,
        }
    })
}

const EVENT: &str = r#"{"choices": [{"index": 0, "text": "a", "finish_reason": "stop"}]}"#;

/// A server that answers nothing with a constraint after a large one.
fn hanging_server() -> ScriptedServer {
    let hangs = AtomicBool::new(false);
    answering_server(move |body| {
        let is_constrained = String::from_utf8_lossy(body).contains("structured_outputs");
        hangs.fetch_or(body.len() > 10_000, Ordering::SeqCst);
        (!is_constrained || !hangs.load(Ordering::SeqCst)).then(|| EVENT.to_owned())
    })
}

/// As llama.cpp does, whose answer has the grammar of the request in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_event_is_not_an_error_of_the_server() {
    let server = answering_server(|body| {
        let factor = if body.len() > 10_000 { 5 << 20 } else { 1 };
        let grammar = "g".repeat(factor);
        Some(EVENT.replace(
            "\"index\"",
            &format!("\"grammar\": \"{grammar}\", \"index\""),
        ))
    });
    let found = try_limits(&server.base_url, &[LadderKind::EnumSize], LONG)
        .await
        .unwrap();
    let ladder = &found.ladders[0];
    assert!(
        ladder.end != End::ServerError && largest(ladder) >= 1000,
        "{ladder:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_come_back_hangs() {
    let server = hanging_server();
    let ladders = [LadderKind::EnumSize, LadderKind::MaxItems];
    let timeout = Duration::from_secs(2);
    let found = try_limits(&server.base_url, &ladders, timeout)
        .await
        .unwrap();
    let [hung, after] = &found.ladders[..] else {
        panic!("{found:?}")
    };
    assert_eq!((largest(hung), hung.end), (300, End::TimedOut));
    assert!(hung.verdicts.starts_with(&[Verdict::Hangs]), "{hung:?}");
    assert_eq!(hung.cancelled.unwrap().answered_ms, None);
    let reason = after.reason.as_ref().unwrap();
    assert!(reason.contains("answers no small constraint"), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_answers_is_an_error() {
    let unreachable = try_limits(&refusing_url(), &LadderKind::ALL, LONG).await;
    let error = unreachable.unwrap_err();
    assert!(
        error
            .what
            .contains("no answer to a small request without a constraint")
            && error.exit_code() == 3
            && error.hint.is_some(),
        "{error}"
    );
    let refusing = ScriptedServer::answering(|_| whole("400 Bad Request", "text/plain", "no"));
    let error = try_limits(&refusing.base_url, &LadderKind::ALL, LONG)
        .await
        .unwrap_err();
    assert!(error.what.ends_with(": no"), "{error}");
}
