//! The responses endpoint over HTTP.

use serde_json::{Value, json};
use sobench_embedded::{EmbeddedServer, EmbeddedSettings};

use super::{Client, merged, start_with, stop};

async fn server() -> EmbeddedServer {
    start_with(EmbeddedSettings {
        reasoning_tokens: 20,
        ..EmbeddedSettings::default()
    })
    .await
}

/// The response of a request, which is the same streamed and whole except for ids and times.
async fn response(client: &Client, body: &Value) -> Value {
    let whole = client.post("/v1/responses", body.to_string()).await;
    assert_eq!(whole.status, 200, "{}", whole.body);
    let whole: Value = serde_json::from_str(&whole.body).unwrap();
    let streamed = merged(body, json!({"stream": true}));
    let streamed = client.post("/v1/responses", streamed.to_string()).await;
    assert_eq!(streamed.content_type, "text/event-stream; charset=utf-8");
    let events: Vec<Value> = streamed
        .body
        .split_terminator("\n\n")
        .map(|event| {
            let (_, data) = event.split_once("\ndata: ").unwrap();
            serde_json::from_str(data).unwrap()
        })
        .collect();
    let deltas: String = events
        .iter()
        .filter(|event| event["type"] == "response.output_text.delta")
        .map(|event| event["delta"].as_str().unwrap())
        .collect();
    let last = &events.last().unwrap()["response"];
    let texts = |response: &Value| -> Vec<Value> {
        let mut items = response["output"].as_array().unwrap().clone();
        for item in &mut items {
            for name in ["id", "call_id"] {
                item.as_object_mut().unwrap().remove(name);
            }
        }
        items
    };
    assert_eq!(texts(last), texts(&whole));
    assert_eq!(last["usage"], whole["usage"]);
    let content = |item: &Value| {
        item["content"][0]["text"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let messages = texts(&whole)
        .iter()
        .filter(|item| item["type"] == "message")
        .map(content)
        .collect::<String>();
    assert_eq!(deltas, messages);
    whole
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_have_reasoning_text_and_usage() {
    let server = server().await;
    let client = Client::new(&server);
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "maximum": 9, "minimum": 1}},
        "required": ["n"], "additionalProperties": false});
    let body = json!({"input": "A number.", "seed": 3, "max_output_tokens": 300,
        "text": {"format": {"type": "json_schema", "name": "x", "schema": schema}}});
    let response = response(&client, &body).await;
    let output = response["output"].as_array().unwrap();
    let kinds: Vec<&str> = output
        .iter()
        .map(|item| item["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["reasoning", "message"]);
    let answer: Value =
        serde_json::from_str(output[1]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert!((1..=9).contains(&answer["n"].as_u64().unwrap()));
    assert_eq!(response["status"], "completed");
    let details = &response["usage"]["output_tokens_details"];
    assert!(details["reasoning_tokens"].as_u64().unwrap() >= 15);
    let cut = merged(&body, json!({"max_output_tokens": 5}));
    let cut = self::response(&client, &cut).await;
    assert_eq!(
        (&cut["status"], &cut["incomplete_details"]["reason"]),
        (&json!("incomplete"), &json!("max_output_tokens"))
    );
    stop(server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_items() {
    let server = server().await;
    let client = Client::new(&server);
    let body = json!({
        "instructions": "Call a tool.", "input": [{"role": "user", "content": "Go."}], "seed": 5,
        "reasoning": {"effort": "none"}, "tool_choice": {"type": "custom", "name": "code"},
        "tools": [
            {"type": "function", "name": "ping", "parameters": {"type": "object",
                "properties": {"host": {"enum": ["a", "b"]}}, "required": ["host"], "additionalProperties": false}},
            {"type": "custom", "name": "code", "format": {"type": "grammar", "syntax": "regex", "definition": "[A-Z]{4}"}},
        ],
    });
    let custom = response(&client, &body).await;
    let item = &custom["output"][0];
    assert_eq!(
        (&item["type"], &item["name"]),
        (&json!("custom_tool_call"), &json!("code"))
    );
    let input = item["input"].as_str().unwrap();
    assert!(
        input.len() == 4 && input.bytes().all(|byte| byte.is_ascii_uppercase()),
        "{input}"
    );
    let body = merged(
        &body,
        json!({"tool_choice": {"type": "function", "name": "ping"}}),
    );
    let function = response(&client, &body).await;
    let item = &function["output"][0];
    assert_eq!(
        (&item["type"], &item["name"]),
        (&json!("function_call"), &json!("ping"))
    );
    let arguments: Value = serde_json::from_str(item["arguments"].as_str().unwrap()).unwrap();
    assert!(["a", "b"].contains(&arguments["host"].as_str().unwrap()));
    assert!(!item["call_id"].as_str().unwrap().is_empty());
    stop(server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_requests_name_the_field() {
    let server = server().await;
    let client = Client::new(&server);
    for (body, field) in [
        (json!({}), "input"),
        (json!({"input": "x", "background": true}), "background"),
        (
            json!({"input": "x", "tool_choice": "required"}),
            "tool_choice",
        ),
    ] {
        let answer = client.post("/v1/responses", body.to_string()).await;
        let error: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(
            (answer.status, error["error"]["param"].as_str()),
            (400, Some(field))
        );
    }
    stop(server).await;
}
