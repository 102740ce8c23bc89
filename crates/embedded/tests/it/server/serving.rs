//! Tests of options, addresses, and vLLM's auxiliary routes.

use serde_json::{Value, json};
use sobench_core::speed::Speed;
use sobench_embedded::{EmbeddedServer, EmbeddedSettings, GuidedFields};

use super::{Client, merged, shared, start_with, stop, text};

#[test]
fn invalid_options_are_usage_errors() {
    let base = EmbeddedSettings::default();
    for (options, message) in [
        (
            EmbeddedSettings {
                speed: Speed {
                    ttft_ms: Some(-1.0),
                    ..Speed::default()
                },
                ..base.clone()
            },
            "TTFT -1 ms",
        ),
        (
            EmbeddedSettings {
                speed: Speed {
                    step_ms: Some(f64::NAN),
                    ..Speed::default()
                },
                ..base
            },
            "step NaN ms",
        ),
    ] {
        let error = EmbeddedServer::start(options).err().unwrap();
        assert!(
            error.what.contains(message) && error.hint.is_some() && error.exit_code() == 2,
            "{error}"
        );
    }
}

#[test]
fn a_port_in_use_is_reported_with_a_hint() {
    let address = shared().address();
    let error = EmbeddedServer::start(EmbeddedSettings {
        bind: Some(address),
        ..EmbeddedSettings::default()
    })
    .err()
    .unwrap();
    assert_eq!(
        (error.what, error.hint.is_some()),
        (format!("address is in use: {address}"), true)
    );
}

#[tokio::test]
async fn the_address_is_configurable() {
    let server = start_with(EmbeddedSettings {
        bind: Some("0.0.0.0:0".parse().unwrap()),
        ..EmbeddedSettings::default()
    })
    .await;
    assert!(
        server.address().ip().is_unspecified()
            && server.base_url().starts_with("http://127.0.0.1:")
    );
    assert_eq!(Client::new(&server).get("/health").await.status, 200);
    stop(server).await;
}

#[tokio::test]
async fn auxiliary_routes_of_vllm_work() {
    let client = Client::new(shared());
    let request =
        json!({"model": "sobench-synthetic", "prompt": "Hello 🦀", "add_special_tokens": false})
            .to_string();
    let tokens: Value =
        serde_json::from_str(&client.post("/tokenize", request).await.body).unwrap();
    assert_eq!(
        tokens["count"].as_u64(),
        Some(tokens["tokens"].as_array().unwrap().len() as u64)
    );
    assert_eq!(tokens["max_model_len"], 131_072);
    for (body, status) in [
        (
            json!({"messages": [{"role": "user", "content": "Hi"}]}),
            200,
        ),
        (json!({"model": "gpt", "prompt": "x"}), 404),
        (json!({}), 400),
    ] {
        let answer = client.post("/tokenize", body.to_string()).await;
        assert!(
            answer.status == status && (status == 200 || answer.body.starts_with("{\"error\":")),
            "{body}: {}",
            answer.body
        );
    }
    let version: Value = serde_json::from_str(&client.get("/version").await.body).unwrap();
    assert!(version["settings"].is_object(), "{version}");
}

#[tokio::test]
async fn guided_fields_can_be_ignored() {
    let server = start_with(EmbeddedSettings {
        guided_fields: GuidedFields::Ignore,
        ..EmbeddedSettings::default()
    })
    .await;
    let client = Client::new(&server);
    let request = json!({"prompt": "Tell me a story.", "max_tokens": 12, "guided_choice": ["xyzzy"], "ignore_eos": true});
    assert!(!text(&client.complete(&request).await).contains("xyzzy"));
    assert_eq!(server.stats().masks, 0);
    stop(server).await;
}

#[tokio::test]
async fn stop_strings_end_answers() {
    let client = Client::new(shared());
    let request = json!({
        "prompt": "p", "max_tokens": 20, "structured_outputs": {"regex": "one\\.two\\.three"}, "stop": [".t"], "n": 1,
        "logprobs": null, "user": "me", "skip_special_tokens": true,
    });
    for (extra, expected, reason) in [
        (json!({}), "one", json!(".t")),
        (json!({"stop": "x"}), "one.two.three", Value::Null),
        (
            json!({"stop": null, "min_tokens": 2}),
            "one.two.three",
            Value::Null,
        ),
    ] {
        let fields = merged(&request, extra);
        let complete = client.complete(&fields).await;
        let choice = &complete["choices"][0];
        assert_eq!(
            (
                text(&complete).as_str(),
                &choice["finish_reason"],
                &choice["stop_reason"]
            ),
            (expected, &json!("stop"), &reason)
        );
        let events = client
            .stream("/v1/completions", &merged(&fields, json!({"stream": true})))
            .await;
        assert_eq!(events.iter().map(text).collect::<String>(), expected);
        assert_eq!(events.last().unwrap()["choices"][0]["stop_reason"], reason);
    }
    let refused = client
        .post(
            "/v1/completions",
            merged(&request, json!({"min_tokens": 21})).to_string(),
        )
        .await;
    assert!(
        refused.status == 400 && refused.body.contains("min_tokens"),
        "{}",
        refused.body
    );
}
