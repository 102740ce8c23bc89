//! The messages endpoint over HTTP.

use serde_json::{Value, json};
use sobench_embedded::{EmbeddedServer, EmbeddedSettings, Fault};

use super::{Answer, Client, merged, read, start_with, stop};

async fn server(faults: &[&str]) -> EmbeddedServer {
    start_with(EmbeddedSettings {
        reasoning_tokens: 20,
        faults: faults
            .iter()
            .map(|fault| Fault::parse(fault).unwrap())
            .collect(),
        ..EmbeddedSettings::default()
    })
    .await
}

async fn post(client: &Client, body: &Value) -> Answer {
    let request = client.http.post(format!("{}/v1/messages", client.base));
    let request = request.header("anthropic-version", "2023-06-01");
    read(request.header("x-api-key", "any").body(body.to_string())).await
}

fn request(more: Value) -> Value {
    let body = json!({"model": "sobench-synthetic", "max_tokens": 400, "seed": 3,
        "thinking": {"type": "disabled"}, "messages": [{"role": "user", "content": "Go."}]});
    merged(&body, more)
}

fn schema() -> Value {
    json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 9}},
        "required": ["n"], "additionalProperties": false})
}

fn constrained() -> Value {
    request(json!({"output_config": {"format": {"type": "json_schema", "schema": schema()}}}))
}

fn tools() -> Value {
    json!([{"name": "f", "strict": true, "input_schema": schema()},
        {"name": "g", "strict": true, "input_schema": schema()}])
}

fn events(stream: &str) -> Vec<Value> {
    let event = |event: &str| {
        let (name, data) = event.split_once("\ndata: ").unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(name.strip_prefix("event: "), data["type"].as_str());
        data
    };
    stream.split_terminator("\n\n").map(event).collect()
}

/// The message of a stream, as the official client collects it.
fn collected(events: &[Value]) -> Value {
    let mut message = events[0]["message"].clone();
    let mut content: Vec<Value> = Vec::new();
    let mut input = String::new();
    for event in events {
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                assert_eq!(event["index"], content.len());
                content.push(event["content_block"].clone());
            }
            "content_block_delta" => {
                assert_eq!(event["index"], content.len() - 1);
                let block = content.last_mut().unwrap();
                let delta = event["delta"].as_object().unwrap();
                let (name, text) = delta.iter().nth(1).unwrap();
                let text = text.as_str().unwrap();
                match block[name].as_str().map(str::to_owned) {
                    Some(before) => block[name] = Value::from(before + text),
                    None => input.push_str(text),
                }
            }
            "content_block_stop" => {
                let block = content.last_mut().unwrap();
                if block["type"] == "tool_use" {
                    block["input"] = serde_json::from_str(&std::mem::take(&mut input)).unwrap();
                }
            }
            "message_delta" => {
                message["usage"] = event["usage"].clone();
                message = merged(&message, event["delta"].clone());
            }
            _ => {}
        }
    }
    message["content"] = content.into();
    message
}

/// The answer to a request, which is the same streamed and whole except for ids.
async fn message(client: &Client, body: &Value) -> Value {
    let whole = post(client, body).await;
    assert_eq!(whole.status, 200, "{}", whole.body);
    let whole: Value = serde_json::from_str(&whole.body).unwrap();
    let streamed = post(client, &merged(body, json!({"stream": true}))).await;
    assert_eq!(streamed.content_type, "text/event-stream; charset=utf-8");
    let streamed = events(&streamed.body);
    let kinds: Vec<&str> = streamed
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds[..3], ["message_start", "content_block_start", "ping"]);
    assert!(kinds.ends_with(&["content_block_stop", "message_delta", "message_stop"]));
    let without_ids = |message: &Value| {
        let mut message = message.clone();
        message["id"] = Value::Null;
        for block in message["content"].as_array_mut().unwrap() {
            block["id"] = Value::Null;
        }
        message
    };
    assert_eq!(without_ids(&collected(&streamed)), without_ids(&whole));
    whole
}

fn is_valid(value: &Value) -> bool {
    value["n"].as_u64().is_some_and(|n| (1..=9).contains(&n))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_have_thinking_text_and_usage() {
    let server = server(&[]).await;
    let client = Client::new(&server);
    let thinking = merged(&constrained(), json!({"thinking": {"type": "adaptive"}}));
    let answer = message(&client, &thinking).await;
    let kind = |index: usize| answer["content"][index]["type"].as_str();
    assert_eq!(
        [kind(0), kind(1), kind(2)],
        [Some("thinking"), Some("text"), None]
    );
    let text = answer["content"][1]["text"].as_str().unwrap();
    assert!(is_valid(&serde_json::from_str(text).unwrap()), "{text}");
    assert_eq!(answer["stop_reason"], "end_turn");
    let thought = &answer["usage"]["output_tokens_details"]["thinking_tokens"];
    assert!(thought.as_u64().unwrap() >= 15, "{answer}");
    let plain = message(&client, &constrained()).await;
    assert_eq!(plain["content"].as_array().unwrap().len(), 1, "{plain}");
    let cut = message(&client, &merged(&thinking, json!({"max_tokens": 5}))).await;
    assert_eq!(cut["stop_reason"], "max_tokens");
    let text = message(&client, &request(json!({}))).await;
    let text = text["content"][0]["text"].as_str().unwrap();
    let word = text.split_whitespace().nth(3).unwrap();
    let stopped = message(&client, &request(json!({"stop_sequences": [word]}))).await;
    assert_eq!(
        (&stopped["stop_reason"], &stopped["stop_sequence"]),
        (&json!("stop_sequence"), &json!(word))
    );
    stop(server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_follow_the_choice() {
    let server = server(&[]).await;
    let client = Client::new(&server);
    for (choice, numbers) in [
        (json!({"type": "auto"}), 0..=2),
        (json!({"type": "any"}), 1..=2),
        (
            json!({"type": "any", "disable_parallel_tool_use": true}),
            1..=1,
        ),
        (json!({"type": "tool", "name": "g"}), 1..=1),
        (json!({"type": "none"}), 0..=0),
    ] {
        for seed in 0..6 {
            let more = json!({"tools": tools(), "tool_choice": choice, "seed": seed});
            let answer = message(&client, &request(more)).await;
            let blocks = answer["content"].as_array().unwrap();
            let calls = blocks.iter().filter(|block| block["type"] == "tool_use");
            let calls: Vec<&Value> = calls.collect();
            assert!(numbers.contains(&calls.len()), "{choice}: {answer}");
            for call in &calls {
                assert!(is_valid(&call["input"]), "{answer}");
                assert!(call["id"].as_str().unwrap().starts_with("toolu_"));
                assert!(choice["type"] != "tool" || call["name"] == "g");
            }
            let reason = if calls.is_empty() {
                "end_turn"
            } else {
                "tool_use"
            };
            assert_eq!(answer["stop_reason"], reason);
        }
    }
    stop(server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_have_the_form_of_the_api() {
    let server = server(&[]).await;
    let client = Client::new(&server);
    let bad = json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}});
    let bad = json!({"format": {"type": "json_schema", "schema": bad}});
    let large = "x".repeat(5 << 20);
    for (answer, status, kind) in [
        (
            client.post("/v1/messages", constrained().to_string()).await,
            400,
            "invalid_request_error",
        ),
        (
            post(&client, &request(json!({"max_tokens": 0}))).await,
            400,
            "invalid_request_error",
        ),
        (
            post(&client, &request(json!({"output_config": bad}))).await,
            400,
            "invalid_request_error",
        ),
        (
            post(&client, &request(json!({"model": "other"}))).await,
            404,
            "not_found_error",
        ),
        (
            post(&client, &request(json!({"system": large}))).await,
            413,
            "request_too_large",
        ),
    ] {
        let error: Value = serde_json::from_str(&answer.body).unwrap();
        let found = (answer.status, &error["type"], &error["error"]["type"]);
        assert_eq!(found, (status, &json!("error"), &json!(kind)));
        assert!(!error["error"]["message"].as_str().unwrap().is_empty());
    }
    stop(server).await;
}

/// The streamed and the whole answer of a server with a fault.
async fn with_fault(fault: &str, body: Value) -> [Answer; 2] {
    let server = server(&[fault]).await;
    let client = Client::new(&server);
    let streamed = post(&client, &merged(&body, json!({"stream": true}))).await;
    let whole = post(&client, &body).await;
    stop(server).await;
    [streamed, whole]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_are_injected() {
    let [streamed, whole] = with_fault("ignore-constraint", constrained()).await;
    let whole: Value = serde_json::from_str(&whole.body).unwrap();
    for answer in [collected(&events(&streamed.body)), whole] {
        let text = answer["content"][0]["text"].as_str().unwrap();
        assert!(
            !serde_json::from_str(text).is_ok_and(|value| is_valid(&value)),
            "{text}"
        );
    }
    let [refused, _] = with_fault("error-429", constrained()).await;
    assert!(refused.status == 429 && refused.body.contains("rate_limit_error"));
    let [failed, whole] = with_fault("error-mid-stream", constrained()).await;
    let last = events(&failed.body).pop().unwrap();
    assert_eq!(
        (&last["type"], &last["error"]["type"]),
        (&json!("error"), &json!("api_error"))
    );
    assert!(
        whole.status == 500 && whole.body.contains("api_error"),
        "{}",
        whole.body
    );
    let [cut, _] = with_fault("truncate", request(json!({}))).await;
    assert!(!cut.body.contains("message_delta"), "{}", cut.body);
    let [endless, _] = with_fault("no-done", constrained()).await;
    assert_eq!(
        events(&endless.body).last().unwrap()["type"],
        "message_delta"
    );
    let [uncounted, whole] = with_fault("no-usage", constrained()).await;
    assert!(!uncounted.body.contains("usage") && !whole.body.contains("usage"));
    let calls = request(json!({"tools": tools(), "tool_choice": {"type": "any"}}));
    let [_, cut] = with_fault("cut-arguments", calls).await;
    assert!(cut.body.contains(r#""input":{}"#), "{}", cut.body);
}
