//! Tests of the limits of scripted servers. Those of the embedded server are tested in
//! `served_limits`: its CPU time has to be that of a process of its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sobench_backend::{ConstraintDialect, ServerKind};
use sobench_client::{Client, ClientSettings, Endpoint};
use sobench_core::constraint::GrammarDialect;
use sobench_core::error::Result;
use sobench_embedded::SYNTHETIC_MODEL;
use sobench_preflight::{Extent, PreflightSettings};
use sobench_shutdown::Shutdown;
use sobench_testkit::scripted::{
    STREAM_HEAD, ScriptedServer, Then, chunk, models, refusing_url, wait_until_closed, whole,
};
use sobench_tools::limits::probe::Subject;
use sobench_tools::limits::{End, Ladder, LadderKind, ServerLimits, Verdict, test_limits};

/// Long enough for every step without a planted fault.
const LONG: Duration = Duration::from_secs(60);

async fn try_limits(
    base_url: &str,
    ladders: &[LadderKind],
    timeout: Duration,
) -> Result<ServerLimits> {
    let options = PreflightSettings {
        model: SYNTHETIC_MODEL.to_owned(),
        dialects: vec![ConstraintDialect::StructuredOutputs],
        notation: GrammarDialect::Lark,
        backend: ServerKind::Vllm,
        kinds: Vec::new(),
        seed: 1,
        output_len: 64,
        stream: true,
        guided_decoding_backend: None,
        extra_body: None,
        timeout: LONG,
        all_dialects: true,
        extent: Extent::Whole,
        max_tokens_only: false,
        templated_prompt: None,
        tool_questions: Vec::new(),
    };
    let client = Client::new(ClientSettings::with_defaults(Endpoint {
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

fn largest(ladder: &Ladder) -> u64 {
    ladder.largest().map_or(0, |step| step.size)
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
    let timeout = Duration::from_secs(1);
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
