//! End-to-end tests of HTTP exchanges against scripted servers: every recorded response format,
//! every split of its bytes, and every failure.

mod broken;
mod cancellation;
mod departures;
mod faults;
mod fixtures;
mod limits;
mod openai_join;
mod probes;
mod runs;

use std::sync::Arc;
use std::time::Duration;

use sobench_backend::{
    Adapter, BodySettings, ConstraintDialect, Input, Sampling, ServerKind, adapter,
};
use sobench_client::{Client, ClientSettings, Endpoint, send_one};
use sobench_core::case::{Case, Prompt};
use sobench_core::observation::Observation;
use sobench_shutdown::Shutdown;

fn case(id: &str) -> Case {
    Case::new(id, Prompt::Text("Say it".into()), None, 16)
}

fn request(stream: bool) -> BodySettings {
    BodySettings {
        model: "m".to_owned(),
        stream,
        sampling: Sampling::default(),
        ignore_eos: false,
        dialect: ConstraintDialect::StructuredOutputs,
        guided_decoding_backend: None,
        thinking: None,
        max_tokens_only: false,
        extra_body: None,
    }
}

fn options(base_url: &str, kind: ServerKind) -> ClientSettings {
    let endpoint = Endpoint {
        base_url: base_url.to_owned(),
        path: kind.default_path().to_owned(),
        headers: vec![],
        api_key: None,
        ..Endpoint::default()
    };
    ClientSettings::with_defaults(endpoint)
}

fn shared(kind: ServerKind) -> Arc<dyn Adapter> {
    adapter(kind).into()
}

/// Sends one request and returns its observation.
async fn observe(options: ClientSettings, kind: ServerKind, stream: bool) -> Observation {
    let client = Client::new(options).unwrap();
    let mut case = case("t-0");
    if kind.input() == Input::Audio {
        case.prompt = Prompt::Audio(Arc::new(sobench_core::audio::Clip::new("a.wav", "sound")));
    }
    send_one(
        &client,
        shared(kind),
        &request(stream),
        &case,
        "trial",
        &Shutdown::new(),
    )
    .await
    .unwrap()
}

/// Checks that the instants are in order.
#[track_caller]
fn check_order(observation: &Observation) {
    let timing = &observation.timing;
    let sent = timing.sent_ns.into_iter();
    let instants: Vec<u64> = sent
        .chain(timing.headers_ns)
        .chain(timing.chunks_ns.iter().copied())
        .chain(timing.end_ns)
        .collect();
    assert!(instants.is_sorted(), "{timing:?}");
    assert!(
        instants.first().is_none_or(|sent| timing.due_ns <= *sent),
        "{timing:?}"
    );
    assert_eq!(timing.sent_ns.is_some(), timing.end_ns.is_some());
}

/// A timeout that a test waits for, long enough for a busy machine.
const SHORT: Duration = Duration::from_secs(2);

/// A timeout that never expires in a passing test.
const FOREVER: Duration = Duration::from_secs(600);
