//! The server as one that is started for others: addresses, options that make no sense, and vLLM's
//! smaller routes.

use serde_json::{Value, json};
use sobench_embedded::{EmbeddedOptions, EmbeddedServer, GuidedFields};
use sobench_engine::EngineName;

use super::{Client, merged, shared, started, stopped, text};

#[test]
fn options_that_make_no_sense_are_usage_errors() {
    let base = EmbeddedOptions::default();
    for (options, words) in [
        (
            EmbeddedOptions {
                ttft_ms: -1.0,
                ..base.clone()
            },
            "-1 ms",
        ),
        (
            EmbeddedOptions {
                step_ms: f64::NAN,
                ..base.clone()
            },
            "NaN ms",
        ),
        (
            EmbeddedOptions {
                max_batch: 0,
                ..base.clone()
            },
            "so many sequences: 0",
        ),
        (
            EmbeddedOptions {
                max_batch: 1 << 20,
                ..base.clone()
            },
            "1048576",
        ),
        (
            EmbeddedOptions {
                compile_timeout_s: 0.0,
                ..base.clone()
            },
            "limit of a compile: 0 s",
        ),
        (
            EmbeddedOptions {
                compile_timeout_s: f64::NAN,
                ..base
            },
            "limit of a compile: NaN s",
        ),
    ] {
        let error = EmbeddedServer::start(options).err().unwrap();
        assert!(
            error.what.contains(words) && error.hint.is_some() && error.exit_code() == 2,
            "{error}"
        );
    }
}

#[test]
fn a_port_in_use_is_named_with_a_hint() {
    let address = shared().address();
    let error = EmbeddedServer::start(EmbeddedOptions {
        bind: Some(address),
        ..EmbeddedOptions::default()
    })
    .err()
    .unwrap();
    assert_eq!(
        (error.what, error.hint.is_some()),
        (format!("address is in use: {address}"), true)
    );
}

#[tokio::test]
async fn an_address_can_be_asked_for() {
    let server = started(EmbeddedOptions {
        bind: Some("0.0.0.0:0".parse().unwrap()),
        ..EmbeddedOptions::default()
    })
    .await;
    assert!(
        server.address().ip().is_unspecified()
            && server.base_url().starts_with("http://127.0.0.1:")
    );
    assert_eq!(Client::of(&server).get("/health").await.status, 200);
    stopped(server).await;
}

#[tokio::test]
async fn vllm_s_smaller_routes_answer() {
    let client = Client::of(shared());
    assert_eq!(
        (
            client.get("/ping").await.status,
            client.post("/ping", "").await.status
        ),
        (200, 200)
    );
    let asked =
        json!({"model": "sobench-synthetic", "prompt": "Hello 🦀", "add_special_tokens": false})
            .to_string();
    let tokens: Value = serde_json::from_str(&client.post("/tokenize", asked).await.body).unwrap();
    assert_eq!(
        tokens["count"].as_u64(),
        Some(tokens["tokens"].as_array().unwrap().len() as u64)
    );
    assert_eq!(
        (&tokens["max_model_len"], &tokens["token_strs"]),
        (&json!(32_768), &Value::Null)
    );
    let back = client
        .post(
            "/detokenize",
            json!({"tokens": tokens["tokens"]}).to_string(),
        )
        .await;
    assert_eq!(
        serde_json::from_str::<Value>(&back.body).unwrap(),
        json!({"prompt": "Hello 🦀"})
    );
    for (path, body, status) in [
        ("/tokenize", json!({"model": "gpt", "prompt": "x"}), 404),
        ("/tokenize", json!({}), 400),
        ("/detokenize", json!({"tokens": [u64::MAX]}), 400),
        ("/detokenize", json!([]), 400),
    ] {
        let answer = client.post(path, body.to_string()).await;
        assert!(
            answer.status == status && answer.body.starts_with("{\"error\":"),
            "{path} {body}: {}",
            answer.body
        );
    }
    let version: Value = serde_json::from_str(&client.get("/version").await.body).unwrap();
    assert!(
        version["settings"].is_object() && version["faults"] == json!([]),
        "{version}"
    );
}

#[tokio::test]
async fn guided_fields_can_be_dropped_as_newer_servers_do() {
    let server = started(EmbeddedOptions {
        guided_fields: GuidedFields::Ignore,
        ..EmbeddedOptions::default()
    })
    .await;
    let client = Client::of(&server);
    let asked = json!({"prompt": "Tell me a story.", "max_tokens": 12, "guided_choice": ["xyzzy"], "ignore_eos": true});
    assert!(!text(&client.complete(&asked).await).contains("xyzzy"));
    assert_eq!(server.stats().masks, 0);
    stopped(server).await;
}

#[tokio::test]
async fn a_stop_string_ends_an_answer_and_fields_that_nobody_reads_are_counted() {
    let server = started(EmbeddedOptions {
        engine: EngineName::Auto,
        ..EmbeddedOptions::default()
    })
    .await;
    let client = Client::of(&server);
    let asked = json!({
        "prompt": "p", "max_tokens": 20, "structured_outputs": {"regex": "one\\.two\\.three"}, "stop": [".t"], "n": 1,
        "logprobs": null, "user": "me", "skip_special_tokens": true,
    });
    for (extra, expected, reason) in [
        (json!({}), "one", json!(".t")),
        (
            json!({"include_stop_str_in_output": true}),
            "one.t",
            json!(".t"),
        ),
        (json!({"stop": "x"}), "one.two.three", Value::Null),
        (
            json!({"stop": null, "min_tokens": 2}),
            "one.two.three",
            Value::Null,
        ),
    ] {
        let fields = merged(&asked, extra);
        let whole = client.complete(&fields).await;
        let choice = &whole["choices"][0];
        assert_eq!(
            (
                text(&whole).as_str(),
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
            merged(&asked, json!({"min_tokens": 21})).to_string(),
        )
        .await;
    assert!(
        refused.status == 400 && refused.body.contains("min_tokens"),
        "{}",
        refused.body
    );
    let stats = server.stats();
    assert_eq!(
        stats.unread_fields,
        [
            ("skip_special_tokens".to_owned(), 9),
            ("user".to_owned(), 9)
        ]
    );
    assert_eq!(
        stats.routes,
        [("xgrammar".to_owned(), 1)],
        "one constraint was compiled, by the engine that auto chose"
    );
    stopped(server).await;
}
