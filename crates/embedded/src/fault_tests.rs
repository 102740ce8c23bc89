//! Tests of injected faults over HTTP.

use std::error::Error as _;
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use sobench_core::error::Result as OurResult;
use sobench_engine::vocabulary::shared;

const ANSWER: &str = "a choice of several words that takes more tokens than five";

fn request_body(stream: bool) -> Value {
    json!({"prompt": "Pick.", "max_tokens": 64, "stream": stream, "structured_outputs": {"choice": [ANSWER]}})
}

struct Client {
    server: EmbeddedServer,
    http: reqwest::Client,
}

struct Answer {
    status: u16,
    body: String,
}

async fn with_faults(faults: &[&str]) -> Client {
    with_options(faults, EmbeddedSettings::default()).await
}

async fn with_options(faults: &[&str], options: EmbeddedSettings) -> Client {
    static ENGINE: OnceLock<Arc<dyn Engine>> = OnceLock::new();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let faults: OurResult<Vec<Fault>> = faults.iter().map(|fault| Fault::parse(fault)).collect();
    let options = EmbeddedSettings {
        faults: faults.unwrap(),
        ..options
    };
    let start = move || {
        let open = || {
            engine::open_unguarded(EngineName::Guidance, &shared(), &EnginePolicy::default())
                .unwrap()
        };
        let engine = Arc::clone(ENGINE.get_or_init(open));
        let (batching, listener) = (batching(&options).unwrap(), listening::bind(None).unwrap());
        EmbeddedServer::run(options, batching, listener, shared(), engine).unwrap()
    };
    let server = tokio::task::spawn_blocking(start).await.unwrap();
    Client {
        server,
        http: reqwest::Client::builder().no_proxy().build().unwrap(),
    }
}

impl Client {
    fn request(&self, body: &Value) -> reqwest::RequestBuilder {
        self.http
            .post(format!("{}/v1/completions", self.server.base_url()))
            .body(body.to_string())
    }

    async fn post(&self, body: &Value) -> Answer {
        let response = self.request(body).send().await.unwrap();
        Answer {
            status: response.status().as_u16(),
            body: response.text().await.unwrap(),
        }
    }

    /// Stops the server outside the async threads.
    async fn stop(self) {
        tokio::task::spawn_blocking(move || drop(self))
            .await
            .unwrap();
    }
}

/// Waits until the condition holds, for at most a minute.
async fn until(condition: &str, holds: impl Fn() -> bool) {
    let polls = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    assert!(
        tokio::time::timeout(Duration::from_secs(60), polls)
            .await
            .is_ok(),
        "timed out: {condition}"
    );
}

/// The answers of a server with this fault to a request with and one without a stream.
async fn both(fault: &str) -> (Answer, Answer) {
    let client = with_faults(&[fault]).await;
    let stream = client.post(&request_body(true)).await;
    let complete = client.post(&request_body(false)).await;
    let name = fault.split(':').next().unwrap().to_owned();
    // The fault no-done applies to streams only.
    let injected = if name == "no-done" { 1 } else { 2 };
    assert_eq!(client.server.stats().faults, [(name, injected)]);
    client.stop().await;
    (stream, complete)
}

/// The texts of a stream's events. Skips events that are not JSON.
fn texts(body: &str) -> String {
    let events = body
        .split("\n\n")
        .filter_map(|event| serde_json::from_str::<Value>(event.strip_prefix("data: ")?).ok());
    events
        .filter_map(|event| event["choices"][0]["text"].as_str().map(str::to_owned))
        .collect()
}

fn complete_text(answer: &Answer) -> String {
    let answer: Value = serde_json::from_str(&answer.body).unwrap();
    answer["choices"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn injected_statuses() {
    for (fault, status, message) in [
        ("error-429", 429, "RateLimitError"),
        ("error-500", 500, "InternalServerError"),
    ] {
        let (stream, complete) = both(fault).await;
        for answer in [stream, complete] {
            assert_eq!(answer.status, status, "{fault}");
            assert!(
                answer.body.contains(message) && answer.body.contains("planted fault"),
                "{fault}: {}",
                answer.body
            );
        }
    }
    let client = with_faults(&["error-429"]).await;
    let response = client.request(&request_body(true)).send().await.unwrap();
    assert_eq!(response.headers()["retry-after"], "1");
    client.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ignored_constraint_looks_like_success() {
    let (stream, complete) = both("ignore-constraint").await;
    assert_eq!((stream.status, complete.status), (200, 200));
    assert!(stream.body.ends_with("data: [DONE]\n\n"));
    assert!(
        texts(&stream.body) != ANSWER && complete_text(&complete) != ANSWER,
        "{}",
        complete.body
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_streams() {
    let (cut, complete) = both("truncate").await;
    assert!(
        ANSWER.starts_with(&texts(&cut.body)) && !texts(&cut.body).is_empty(),
        "{}",
        cut.body
    );
    assert!(
        !cut.body.contains("[DONE]") && !cut.body.contains("\"finish_reason\":\"stop\""),
        "{}",
        cut.body
    );
    assert!(serde_json::from_str::<Value>(&complete.body).is_err());

    let (failed, complete) = both("error-mid-stream").await;
    assert!(
        ANSWER.starts_with(&texts(&failed.body)) && texts(&failed.body).len() < ANSWER.len(),
        "{}",
        failed.body
    );
    assert!(
        failed.body.contains("data: {\"error\":{") && failed.body.ends_with("data: [DONE]\n\n"),
        "{}",
        failed.body
    );
    assert_eq!(complete.status, 500);

    let (no_done, complete) = both("no-done").await;
    assert!(
        texts(&no_done.body) == ANSWER && !no_done.body.contains("[DONE]"),
        "{}",
        no_done.body
    );
    assert_eq!(complete_text(&complete), ANSWER);

    let (empty, complete) = both("empty").await;
    assert_eq!(
        (
            texts(&empty.body).as_str(),
            complete_text(&complete).as_str()
        ),
        ("", "")
    );
    assert!(empty.body.contains("\"finish_reason\":\"stop\""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn altered_answers() {
    let (fenced, complete) = both("extra-text").await;
    let expected = format!("Here is the JSON:\n```json\n{ANSWER}\n```");
    assert_eq!(
        (texts(&fenced.body), complete_text(&complete)),
        (expected.clone(), expected)
    );

    let (other, complete) = both("wrong-model").await;
    assert!(
        other.body.contains("\"model\":\"sobench-synthetic-other\"")
            && complete.body.contains("synthetic-other")
    );

    let client = with_faults(&["no-usage"]).await;
    let mut with_usage = request_body(true);
    with_usage["stream_options"] = json!({"include_usage": true});
    let stream = client.post(&with_usage).await;
    assert!(
        !stream.body.contains("usage") && texts(&stream.body) == ANSWER,
        "{}",
        stream.body
    );
    let complete = client.post(&request_body(false)).await;
    assert!(
        complete.status == 200 && !complete.body.contains("usage"),
        "{}",
        complete.body
    );
    client.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn injected_resets_abort_the_connection() {
    let client = with_faults(&["reset"]).await;
    for stream in [true, false] {
        let request = client.request(&request_body(stream));
        let mut response = request.send().await.unwrap();
        assert_eq!(response.status().as_u16(), 200);
        let mut read = 0;
        let error = loop {
            match response.chunk().await {
                Ok(Some(chunk)) => read += chunk.len(),
                Ok(None) => panic!("the answer ended without a reset"),
                Err(error) => break error,
            }
        };
        assert!(read > 0, "no data before the reset");
        let causes = std::iter::successors(error.source(), |cause| (*cause).source());
        let kinds: Vec<_> = causes
            .filter_map(|cause| Some(cause.downcast_ref::<io::Error>()?.kind()))
            .collect();
        assert!(kinds.contains(&io::ErrorKind::ConnectionReset), "{error:?}");
    }
    client.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_injected_faults_are_counted() {
    let once = |names: &[&str]| {
        names
            .iter()
            .map(|name| ((*name).to_owned(), 1))
            .collect::<Vec<_>>()
    };
    for (faults, body, counted) in [
        (
            &["truncate", "no-done", "error-500", "ignore-constraint"][..],
            request_body(true),
            once(&["error-500"]),
        ),
        (
            &["error-500", "hang", "error-429", "slow-header:1"],
            json!({"prompt": 1.5}),
            once(&[]),
        ),
        (
            &["truncate", "no-done", "no-usage", "extra-text"],
            request_body(true),
            once(&["extra-text", "truncate"]),
        ),
        (
            &["empty", "ignore-constraint", "no-usage"],
            request_body(true),
            once(&["empty"]),
        ),
        (
            &["ignore-constraint", "wrong-model", "wrong-model@100%"],
            json!({"prompt": "p"}),
            once(&["wrong-model"]),
        ),
    ] {
        let client = with_faults(faults).await;
        client.post(&body).await;
        let mut seen = client.server.stats().faults;
        seen.sort();
        assert_eq!(seen, counted, "{faults:?}");
        client.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pauses_and_hangs() {
    for fault in ["stall:20", "slow-header:20"] {
        let (stream, complete) = both(fault).await;
        assert_eq!(
            (
                texts(&stream.body).as_str(),
                complete_text(&complete).as_str()
            ),
            (ANSWER, ANSWER),
            "{fault}"
        );
    }
    let client = with_faults(&["hang"]).await;
    let request = client.request(&request_body(true));
    let error = request
        .timeout(Duration::from_secs(2))
        .send()
        .await
        .unwrap_err();
    assert!(error.is_timeout(), "{error}");
    assert_eq!(
        (client.server.stats().running, client.server.stats().tokens),
        (0, 0),
        "a hanging request is not in the batch"
    );
    client.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_counted_by_their_outcome_for_the_client() {
    let none = AnswerCounts::default();
    for (fault, expected) in [
        ("truncate", AnswerCounts { broken: 2, ..none }),
        (
            "error-mid-stream",
            AnswerCounts {
                broken: 1,
                refused: 1,
                ..none
            },
        ),
        ("error-429", AnswerCounts { refused: 2, ..none }),
        ("no-done", AnswerCounts { whole: 2, ..none }),
        ("reset", AnswerCounts { broken: 2, ..none }),
        ("hang", AnswerCounts { gone: 2, ..none }),
    ] {
        let client = with_faults(&[fault]).await;
        for (before, stream) in [(0, true), (1, false)] {
            let answer = async {
                if let Ok(response) = client.request(&request_body(stream)).send().await {
                    let _ = response.bytes().await;
                }
            };
            let hangs = || {
                client
                    .server
                    .stats()
                    .faults
                    .iter()
                    .any(|(name, count)| name == "hang" && *count > before)
            };
            tokio::select! {
                () = answer => assert_ne!(fault, "hang", "it ended"),
                // The client disconnects while the request hangs.
                () = until("the request hangs", hangs), if fault == "hang" => {}
            }
        }
        // The client may see the end before the server has recorded the outcome.
        let total =
            |counts: AnswerCounts| counts.whole + counts.refused + counts.broken + counts.gone;
        until("both requests have ended", || {
            total(client.server.stats().answers) == 2
        })
        .await;
        assert_eq!(client.server.stats().answers, expected, "{fault}");
        client.stop().await;
    }
}

/// A request with a long answer, whose client goes away after the first data.
async fn abandon(client: &Client) {
    let body = json!({"prompt": "p", "max_tokens": 100_000, "stream": true, "ignore_eos": true});
    let mut response = client.request(&body).send().await.unwrap();
    assert!(response.chunk().await.unwrap().is_some());
}

fn one_slot() -> EmbeddedSettings {
    EmbeddedSettings {
        max_batch: 1,
        speed: Speed {
            step_ms: Some(1.0),
            ..Speed::default()
        },
        ..EmbeddedSettings::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_goes_away_frees_its_slot() {
    let client = with_options(&[], one_slot()).await;
    abandon(&client).await;
    // The answer needs the only slot.
    let answer = client.post(&request_body(false)).await;
    assert_eq!(complete_text(&answer), ANSWER);
    let stats = client.server.stats();
    assert_eq!(
        (stats.running, stats.ended.gone, stats.ended.stop),
        (0, 1, 1)
    );
    client.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_died_answers_with_errors() {
    let client = with_options(&["die-on-cancel"], one_slot()).await;
    let health = || {
        client
            .http
            .get(format!("{}/health", client.server.base_url()))
            .send()
    };
    assert_eq!(health().await.unwrap().status().as_u16(), 200);
    abandon(&client).await;
    let injected = [("die-on-cancel".to_owned(), 1)];
    until("the server dies", || {
        client.server.stats().faults == injected && client.server.app.is_dead()
    })
    .await;
    assert_eq!(client.post(&request_body(false)).await.status, 500);
    let stream = client.post(&request_body(true)).await;
    assert!(stream.body.contains("died"), "{}", stream.body);
    assert_eq!(health().await.unwrap().status().as_u16(), 503);
    client.stop().await;
}

/// A request whose constraint has about this number of bytes, and differs from others by `number`.
fn sized_body(number: u32, bytes: usize) -> Value {
    let choice = format!("{number} {}", "x".repeat(bytes));
    json!({"prompt": "p", "max_tokens": 4, "structured_outputs": {"choice": [choice]}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compile_leaks_once_for_each_constraint() {
    let client = with_faults(&["leak-per-schema:4096"]).await;
    for number in [1, 2, 1, 3] {
        assert_eq!(client.post(&sized_body(number, 1)).await.status, 200);
    }
    let stats = client.server.stats();
    assert_eq!(stats.faults, [("leak-per-schema".to_owned(), 3)]);
    assert_eq!(stats.compile_time.count(), 3);
    assert_eq!(stats.time_to_first_token.count(), 4);
    client.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_constraint_ends_the_server() {
    let client = with_faults(&["die-on-large:1000"]).await;
    assert_eq!(client.post(&sized_body(1, 100)).await.status, 200);
    assert!(client.request(&sized_body(2, 2000)).send().await.is_err());
    let Client { server, http } = client;
    let url = format!("{}/health", server.base_url());
    let wait = tokio::task::spawn_blocking(move || server.wait(std::future::pending()));
    let error = wait.await.unwrap().unwrap_err();
    assert_eq!(
        error.what,
        "the embedded server died: an injected fault, die-on-large"
    );
    assert!(http.get(url).send().await.unwrap_err().is_connect());
}
