//! Tests of the queue, the cache and the statistics, and that answers do not depend on the batch.

use serde_json::{Value, json};
use sobench_core::speed::{Speed, SpeedProfile};
use sobench_embedded::{EmbeddedSettings, ServerStats};

use super::{Client, REQUESTS, merged, profile, run, shared, start_with, stop, text};

async fn stats(client: &Client) -> Value {
    serde_json::from_str(&client.get("/sobench/stats").await.body).unwrap()
}

fn batched(max_batch: usize) -> EmbeddedSettings {
    EmbeddedSettings {
        max_batch,
        seed: 3,
        ..EmbeddedSettings::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_do_not_depend_on_the_batch() {
    let body = json!({"prompt": "A brief user profile.", "max_tokens": 48, "structured_outputs": {"json": profile()}});
    let (alone, together) = (start_with(batched(1)).await, start_with(batched(32)).await);
    let answers = run(&alone, body.clone()).await;
    assert_eq!(answers, run(&together, body).await);
    let check = |stats: &ServerStats, most: usize| {
        assert!((1..=most).contains(&stats.largest_batch), "{stats:?}");
        assert_eq!(stats.ended.stop + stats.ended.length, REQUESTS as u64);
        assert_eq!(
            (stats.masks, stats.running, stats.waiting),
            (stats.tokens, 0, 0),
            "every token had a mask"
        );
    };
    check(&alone.stats(), 1);
    check(&together.stats(), 32);
    assert_eq!(
        alone.stats().steps,
        alone.stats().tokens,
        "a batch of one makes one token per step"
    );
    assert_eq!(alone.stats().tokens, together.stats().tokens);
    stop(alone).await;
    stop(together).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statistics_count_compiles_and_cache_hits() {
    let server = start_with(EmbeddedSettings::default()).await;
    let client = Client::new(&server);
    let fresh = stats(&client).await;
    assert_eq!(
        (&fresh["mask_ns"], &fresh["steps"], &fresh["max_batch"]),
        (&Value::Null, &json!(0), &json!(256))
    );
    let request = json!({"prompt": "Hello there", "max_tokens": 8});
    let mut tokens = 0;
    for constraint in ["[ab]{2}", "[ab]{2}", "[cd]{2}", "[ab]{2}"] {
        let answer = client
            .complete(&merged(
                &request,
                json!({"structured_outputs": {"regex": constraint}}),
            ))
            .await;
        tokens += answer["usage"]["completion_tokens"].as_u64().unwrap();
    }
    client.complete(&request).await;
    let refused = json!({"prompt": "p", "structured_outputs": {"regex": "["}}).to_string();
    assert_eq!(
        client.post("/v1/completions", refused.clone()).await.status,
        400
    );
    assert_eq!(client.post("/v1/completions", refused).await.status, 400);
    let seen = stats(&client).await;
    assert_eq!(
        (&seen["cache_misses"], &seen["cache_hits"]),
        (&json!(3), &json!(3)),
        "a refusal is cached too"
    );
    assert_eq!(
        (&seen["masks"], &seen["prompt_tokens"]),
        (&json!(tokens), &json!(10))
    );
    let times = &seen["mask_ns"];
    let [sum, p50, p99, max] =
        ["sum", "p50", "p99", "max"].map(|name| times[name].as_u64().unwrap());
    assert!(p50 > 0 && p50 <= p99 && p99 <= max && max <= sum, "{times}");
    assert_eq!(
        (&seen["engine"], &seen["engine_version"]),
        (&json!("guidance"), &json!(server.engine_label()))
    );
    assert_eq!(
        [
            &seen["compile_time"]["count"],
            &seen["time_to_first_token"]["count"]
        ],
        [&json!(3), &json!(5)]
    );
    let (mut in_process, mut seen) = (serde_json::to_value(server.stats()).unwrap(), seen);
    // Memory and CPU time change all the time.
    for stats in [&mut in_process, &mut seen] {
        let process = stats.as_object_mut().unwrap().remove("process").unwrap();
        assert!(process["start_time_s"].as_u64().unwrap() > 1_700_000_000);
    }
    assert_eq!(in_process, seen);
    let metrics = client.get("/metrics").await;
    assert!(
        metrics
            .content_type
            .starts_with("text/plain; version=0.0.4"),
        "{}",
        metrics.content_type
    );
    let line = format!("sobench:masks_total{{model_name=\"sobench-synthetic\"}} {tokens}\n");
    assert!(metrics.body.contains(&line), "{}", metrics.body);
    stop(server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn simulated_times_do_not_change_answers() {
    let body = json!({"prompt": "A brief user profile.", "max_tokens": 12, "seed": 4, "structured_outputs": {"json": profile()}});
    let expected = text(&Client::new(shared()).complete(&body).await);
    let timed = |speed| EmbeddedSettings {
        speed,
        ..EmbeddedSettings::default()
    };
    for options in [
        timed(SpeedProfile::H100For8b.into()),
        timed(Speed {
            step_ms: Some(1.5),
            ..Speed::default()
        }),
        timed(Speed {
            ttft_ms: Some(3.0),
            itl_ms: Some(0.5),
            ..Speed::default()
        }),
        EmbeddedSettings {
            max_batch: 1,
            ..timed(Speed {
                itl_ms: Some(0.5),
                step_ms: Some(0.25),
                ..Speed::default()
            })
        },
    ] {
        let server = start_with(options).await;
        assert_eq!(text(&Client::new(&server).complete(&body).await), expected);
        stop(server).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_speed_is_on_the_page_of_the_version() {
    let speed = Speed {
        ttft_ms: Some(3.0),
        ..SpeedProfile::H100For8b.into()
    };
    let server = start_with(EmbeddedSettings {
        speed,
        ..EmbeddedSettings::default()
    })
    .await;
    let client = Client::new(&server);
    let version: Value = serde_json::from_str(&client.get("/version").await.body).unwrap();
    let expected = json!({"profile": "8b-h100", "ttft_ms": 3.0, "itl_ms": null, "step_ms": null});
    assert_eq!(version["speed"], expected);
    stop(server).await;
}
