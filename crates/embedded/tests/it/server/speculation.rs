//! Tests of speculative decoding and of preemption: the answers do not change.

use futures_util::future::join_all;
use serde_json::{Value, json};
use sobench_embedded::{EmbeddedServer, EmbeddedSettings};
use sobench_engine::EngineName;

use super::engines::{open_with, workloads};
use super::{Client, merged, profile, start_with, stop, text};

/// Answers per workload.
const ANSWERS: u64 = 8;

fn speculating(speculate: usize) -> EmbeddedSettings {
    EmbeddedSettings {
        speculate,
        ..EmbeddedSettings::default()
    }
}

/// Status, text, finish reason and tokens of the answers to one request with several seeds, sent
/// together.
async fn answers(server: &EmbeddedServer, body: &Value) -> Vec<(u16, String)> {
    let client = Client::new(server);
    let send = |seed| {
        let body = merged(body, json!({ "seed": seed })).to_string();
        let client = client.clone();
        async move {
            let answer = client.post("/v1/completions", body).await;
            let parsed: Value = serde_json::from_str(&answer.body).unwrap();
            if answer.status != 200 {
                return (answer.status, parsed["error"]["message"].to_string());
            }
            let choice = &parsed["choices"][0];
            let seen = json!([choice["text"], choice["finish_reason"], parsed["usage"]]);
            (answer.status, seen.to_string())
        }
    };
    join_all((0..ANSWERS).map(send)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drafts_change_no_answer_of_any_engine() {
    for engine in EngineName::ALL {
        let open = move |speculate| open_with(engine, speculating(speculate));
        let servers = tokio::task::spawn_blocking(move || Some((open(0)?, open(4)?)));
        let Some((plain, drafting)) = servers.await.unwrap() else {
            continue;
        };
        for workload in workloads() {
            let body = json!({
                "prompt": workload.prompt,
                "max_tokens": 256,
                "structured_outputs": workload.member,
            });
            assert_eq!(
                answers(&plain, &body).await,
                answers(&drafting, &body).await,
                "{engine:?} {}",
                workload.name
            );
        }
        let (plain_stats, stats) = (plain.stats(), drafting.stats());
        let drafts = &stats.drafts;
        assert!(
            drafts.accepted > 0 && drafts.masked_out > 0 && drafts.drafted > drafts.accepted,
            "{engine:?} {drafts:?}"
        );
        assert_eq!(
            drafts.accepted_by_position.iter().sum::<u64>(),
            drafts.accepted
        );
        assert_eq!(stats.tokens, plain_stats.tokens, "{engine:?}");
        assert_eq!(plain_stats.drafts.drafted, 0);
        stop(plain).await;
        stop(drafting).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drafts_change_no_unconstrained_answer() {
    let (plain, drafting) = (
        start_with(speculating(0)).await,
        start_with(speculating(3)).await,
    );
    let prompt = "the state of the server and the state of the client and the state of";
    for options in [
        json!({"max_tokens": 100}),
        json!({"max_tokens": 60, "ignore_eos": true}),
        json!({"max_tokens": 80, "min_tokens": 40}),
        json!({"max_tokens": 100, "stop": ["e"]}),
        json!({"max_tokens": 60, "temperature": 0}),
        json!({"max_tokens": 60, "ignore_eos": true, "structured_outputs": {"json": profile()}}),
    ] {
        let body = merged(&json!({ "prompt": prompt }), options);
        let expected = answers(&plain, &body).await;
        assert_eq!(expected, answers(&drafting, &body).await, "{body}");
    }
    assert!(drafting.stats().drafts.accepted > 0);
    let metrics = Client::new(&drafting).get("/metrics").await.body;
    assert!(
        metrics.contains("vllm:spec_decode_num_accepted_tokens_per_pos_total"),
        "{metrics}"
    );
    stop(plain).await;
    stop(drafting).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_tokens_arrive_in_one_event() {
    let server = start_with(speculating(4)).await;
    let client = Client::new(&server);
    let choice = "one two three four five six seven eight nine ten";
    let body = json!({
        "prompt": format!("Repeat: {choice}"),
        "max_tokens": 64,
        "stream": true,
        "structured_outputs": {"choice": [choice]},
    });
    let events = client.stream("/v1/completions", &body).await;
    let texts: Vec<String> = events.iter().map(text).collect();
    assert_eq!(texts.concat(), choice);
    let stats = server.stats();
    assert!(
        stats.steps < stats.tokens && (texts.len() as u64) < stats.tokens,
        "{stats:?} {texts:?}"
    );
    stop(server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_must_fit_into_the_cache() {
    let server = start_with(EmbeddedSettings {
        kv_tokens: Some(64),
        ..EmbeddedSettings::default()
    })
    .await;
    let client = Client::new(&server);
    let refused = client
        .post(
            "/v1/completions",
            json!({"prompt": "Hello", "max_tokens": 64}).to_string(),
        )
        .await;
    assert_eq!(refused.status, 400);
    assert_eq!(
        refused.body,
        "{\"error\":{\"message\":\"the context is 64 tokens; the prompt has 1 and 64 were requested for the answer\",\"type\":\"BadRequestError\",\"param\":\"max_tokens\",\"code\":400}}"
    );
    let models: Value = serde_json::from_str(&client.get("/v1/models").await.body).unwrap();
    assert_eq!(models["data"][0]["max_model_len"], 64);
    client
        .complete(&json!({"prompt": "Hello", "max_tokens": 32}))
        .await;
    stop(server).await;
}
