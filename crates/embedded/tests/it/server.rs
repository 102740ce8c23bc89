//! Tests of the embedded server over HTTP: formats, errors, determinism, and correct answers under
//! masks.

mod batching;
mod calls;
mod engines;
mod knowledge;
mod messages;
mod reasoning;
mod responses;
mod serving;
mod speculation;

use std::sync::{Arc, OnceLock};

use futures_util::future::join_all;
use serde_json::{Value, json};
use sobench_backend::ServerKind;
use sobench_backend::identify::{Server, identify};
use sobench_embedded::{EmbeddedServer, EmbeddedSettings};

/// Requests per workload.
const REQUESTS: usize = 50;

fn start(seed: u64) -> EmbeddedServer {
    // Fails if another test of this binary has installed it already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    EmbeddedServer::start(EmbeddedSettings {
        seed,
        ..EmbeddedSettings::default()
    })
    .unwrap()
}

/// Starts a server outside the async threads.
async fn start_with(options: EmbeddedSettings) -> EmbeddedServer {
    let _ = rustls::crypto::ring::default_provider().install_default();
    tokio::task::spawn_blocking(move || EmbeddedServer::start(options).unwrap())
        .await
        .unwrap()
}

/// Stops a server outside the async threads.
async fn stop(server: EmbeddedServer) {
    tokio::task::spawn_blocking(move || drop(server))
        .await
        .unwrap();
}

/// One server for all tests that do not depend on its history.
fn shared() -> &'static EmbeddedServer {
    static SHARED: OnceLock<EmbeddedServer> = OnceLock::new();
    SHARED.get_or_init(|| start(0))
}

#[derive(Clone)]
struct Client {
    http: reqwest::Client,
    base: Arc<str>,
}

struct Answer {
    status: u16,
    content_type: String,
    body: String,
}

impl Client {
    fn new(server: &EmbeddedServer) -> Self {
        Self {
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
            base: server.base_url().into(),
        }
    }

    async fn get(&self, path: &str) -> Answer {
        read(self.http.get(format!("{}{path}", self.base))).await
    }

    async fn post(&self, path: &str, body: impl Into<reqwest::Body>) -> Answer {
        read(
            self.http
                .post(format!("{}{path}", self.base))
                .header("content-type", "application/json")
                .body(body),
        )
        .await
    }

    async fn complete(&self, fields: &Value) -> Value {
        let answer = self.post("/v1/completions", fields.to_string()).await;
        assert_eq!(
            (answer.status, answer.content_type.as_str()),
            (200, "application/json"),
            "{}",
            answer.body
        );
        serde_json::from_str(&answer.body).unwrap()
    }

    /// The events of a stream without the closing `[DONE]`.
    async fn stream(&self, path: &str, fields: &Value) -> Vec<Value> {
        let answer = self.post(path, fields.to_string()).await;
        assert_eq!(
            (answer.status, answer.content_type.as_str()),
            (200, "text/event-stream; charset=utf-8"),
            "{}",
            answer.body
        );
        let events = answer
            .body
            .strip_suffix("data: [DONE]\n\n")
            .expect("a stream ends with [DONE]");
        let event =
            |event: &str| serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap();
        events.split_terminator("\n\n").map(event).collect()
    }
}

async fn read(request: reqwest::RequestBuilder) -> Answer {
    let response = request.send().await.unwrap();
    let content_type = response
        .headers()
        .get("content-type")
        .map(|value| value.to_str().unwrap().to_owned());
    Answer {
        status: response.status().as_u16(),
        content_type: content_type.unwrap_or_default(),
        body: String::from_utf8(response.bytes().await.unwrap().to_vec()).unwrap(),
    }
}

fn profile() -> Value {
    json!({
        "type": "object",
        "properties": {"name": {"type": "string"}, "email": {"type": "string"}, "city": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "email"],
    })
}

fn merged(base: &Value, extra: Value) -> Value {
    let mut merged = base.clone();
    if let (Value::Object(members), Value::Object(extra)) = (&mut merged, extra) {
        members.extend(extra);
    }
    merged
}

fn text(answer: &Value) -> String {
    answer["choices"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn server_identifies_itself() {
    let (server, client) = (shared(), Client::new(shared()));
    assert_eq!(client.get("/health").await.status, 200);
    let version: Value = serde_json::from_str(&client.get("/version").await.body).unwrap();
    assert!(
        version["version"]
            .as_str()
            .unwrap()
            .starts_with("sobench-embedded "),
        "{version}"
    );
    assert_eq!(
        identify(ServerKind::Vllm, version["version"].as_str(), None),
        Server::Embedded
    );
    assert_eq!(version["engine_version"], server.engine_label());
    let models: Value = serde_json::from_str(&client.get("/v1/models").await.body).unwrap();
    assert_eq!(
        (&models["object"], &models["data"][0]["id"]),
        (&json!("list"), &json!("sobench-synthetic"))
    );
    let answer = client
        .complete(&json!({"prompt": "Hello", "max_tokens": 3}))
        .await;
    assert!(
        answer["system_fingerprint"]
            .as_str()
            .unwrap()
            .contains("synthetic"),
        "{answer}"
    );
    assert_eq!(
        (&answer["model"], &answer["object"]),
        (&json!("sobench-synthetic"), &json!("text_completion"))
    );
    assert!(answer["id"].as_str().unwrap().starts_with("cmpl-"));
}

#[tokio::test]
async fn streamed_chunks_join_to_the_complete_answer() {
    let client = Client::new(shared());
    let constraint =
        json!({"structured_outputs": {"json": profile()}, "max_tokens": 128, "seed": 3});
    let streamed = json!({"stream": true, "stream_options": {"include_usage": true}});
    for (path, request, object, id) in [
        (
            "/v1/completions",
            json!({"prompt": "A user profile as JSON."}),
            "text_completion",
            "cmpl-",
        ),
        (
            "/v1/chat/completions",
            json!({"messages": [{"role": "user", "content": "A profile."}]}),
            "chat.completion.chunk",
            "chatcmpl-",
        ),
    ] {
        let chat = path.contains("chat");
        let whole = client
            .post(path, merged(&request, constraint.clone()).to_string())
            .await;
        let whole: Value = serde_json::from_str(&whole.body).unwrap();
        let mut events = client
            .stream(
                path,
                &merged(&merged(&request, constraint.clone()), streamed.clone()),
            )
            .await;
        assert!(events.iter().all(
            |event| event["object"] == object && event["id"].as_str().unwrap().starts_with(id)
        ));
        if chat {
            assert_eq!(
                events.remove(0)["choices"][0]["delta"],
                json!({"role": "assistant", "content": ""})
            );
        }
        let usage = events.pop().unwrap();
        assert_eq!(
            (&usage["choices"], &usage["usage"]),
            (&json!([]), &whole["usage"])
        );
        assert!(events.iter().all(|event| event.get("usage").is_none()));
        let piece = |event: &Value| {
            let choice = &event["choices"][0];
            if chat {
                choice["delta"]["content"].clone()
            } else {
                choice["text"].clone()
            }
        };
        let joined: String = events
            .iter()
            .map(|event| piece(event).as_str().unwrap().to_owned())
            .collect();
        let expected = if chat {
            &whole["choices"][0]["message"]["content"]
        } else {
            &whole["choices"][0]["text"]
        };
        assert_eq!(&json!(joined), expected);
        let finished = events.pop().unwrap();
        assert_eq!(
            (piece(&finished), &finished["choices"][0]["finish_reason"]),
            (json!(""), &json!("stop"))
        );
        assert!(
            events
                .iter()
                .all(|event| event["choices"][0]["finish_reason"].is_null() && piece(event) != "")
        );
        assert_eq!(
            usage["usage"]["completion_tokens"],
            events.len() + 1,
            "the end token is counted"
        );
        let (usage, int) = (&whole["usage"], |value: &Value| value.as_u64().unwrap());
        assert_eq!(
            int(&usage["total_tokens"]),
            int(&usage["prompt_tokens"]) + int(&usage["completion_tokens"])
        );
    }
}

#[tokio::test]
async fn usage_is_sent_as_requested() {
    let client = Client::new(shared());
    let request =
        json!({"prompt": "Hello there", "max_tokens": 4, "stream": true, "ignore_eos": true});
    let plain = client.stream("/v1/completions", &request).await;
    assert!(
        plain
            .iter()
            .all(|event| event.get("usage").is_none() && event["choices"][0].is_object())
    );
    let options =
        json!({"stream_options": {"include_usage": true, "continuous_usage_stats": true}});
    let events = client
        .stream("/v1/completions", &merged(&request, options))
        .await;
    let counts: Vec<u64> = events
        .iter()
        .map(|event| event["usage"]["completion_tokens"].as_u64().unwrap())
        .collect();
    assert!(
        counts.is_sorted() && counts.last() == Some(&4),
        "{counts:?}"
    );
    assert!(
        events
            .iter()
            .all(|event| event["usage"]["prompt_tokens"] == 2)
    );
}

#[tokio::test]
async fn answers_end_at_their_limits() {
    let client = Client::new(shared());
    let choice = json!({"prompt": "Pick.", "structured_outputs": {"choice": ["a rather long choice of words"]}});
    let cut = client
        .complete(&merged(&choice, json!({"max_tokens": 2})))
        .await;
    assert_eq!(
        (
            &cut["choices"][0]["finish_reason"],
            &cut["usage"]["completion_tokens"]
        ),
        (&json!("length"), &json!(2))
    );
    let default = client
        .complete(&json!({"prompt": "Tell me a short story.", "ignore_eos": true}))
        .await;
    assert_eq!(
        (
            &default["choices"][0]["finish_reason"],
            &default["usage"]["completion_tokens"]
        ),
        (&json!("length"), &json!(16))
    );
    let continued = client
        .complete(&merged(
            &choice,
            json!({"max_tokens": 40, "ignore_eos": true}),
        ))
        .await;
    assert_eq!(
        (
            &continued["choices"][0]["finish_reason"],
            &continued["usage"]["completion_tokens"]
        ),
        (&json!("length"), &json!(40))
    );
    assert!(
        text(&continued).starts_with("a rather long choice of words")
            && text(&continued).len() > 40,
        "{continued}"
    );
}

#[tokio::test]
async fn chunks_have_complete_characters() {
    let client = Client::new(shared());
    let answer = "日本語 🦀 ẞß 𒀀";
    let request = json!({"prompt": "Pick.", "max_tokens": 64, "stream": true, "structured_outputs": {"choice": [answer]},
        "stream_options": {"include_usage": true}});
    let mut events = client.stream("/v1/completions", &request).await;
    let tokens = events.pop().unwrap()["usage"]["completion_tokens"]
        .as_u64()
        .unwrap();
    assert_eq!(events.iter().map(text).collect::<String>(), answer);
    assert!(
        (events.len() as u64) < tokens,
        "{} chunks for {tokens} tokens",
        events.len()
    );
}

#[tokio::test]
async fn errors_have_openais_format_and_the_engines_message() {
    let client = Client::new(shared());
    let constrained =
        |value: Value| json!({"prompt": "p", "stream": true, "structured_outputs": value});
    for (path, body, status, kind, message) in [
        (
            "/v1/completions",
            json!({"prompt": "p", "model": "gpt"}),
            404,
            "NotFoundError",
            "gpt",
        ),
        (
            "/v1/completions",
            json!({"prompt": ["a", "b"]}),
            400,
            "BadRequestError",
            "prompt",
        ),
        (
            "/v1/completions",
            json!({"prompt": "p", "n": 2}),
            400,
            "BadRequestError",
            "implement n",
        ),
        (
            "/v1/completions",
            json!({"prompt": "p", "max_tokens": 140_000}),
            400,
            "BadRequestError",
            "131072",
        ),
        (
            "/v1/completions",
            json!({"prompt": "p", "guided_regex": "a", "guided_decoding_backend": "outlines"}),
            400,
            "BadRequestError",
            "outlines",
        ),
        (
            "/v1/chat/completions",
            json!({"prompt": "p"}),
            400,
            "BadRequestError",
            "messages",
        ),
        (
            "/v1/completions",
            constrained(json!({"json": {}, "regex": "a"})),
            400,
            "BadRequestError",
            "only one constraint",
        ),
        (
            "/v1/completions",
            constrained(json!({"json": {"type": "string", "not": {"const": "x"}}})),
            400,
            "BadRequestError",
            "Unimplemented keys: [\"not\"]",
        ),
        (
            "/v1/completions",
            constrained(json!({"json": "{\"type\": \"strnig\"}"})),
            400,
            "BadRequestError",
            "Invalid type: strnig",
        ),
        (
            "/v1/completions",
            constrained(json!({"regex": "[a-"})),
            400,
            "BadRequestError",
            "unclosed character class",
        ),
        (
            "/v1/completions",
            constrained(json!({"grammar": "start: nothing"})),
            400,
            "BadRequestError",
            "nothing",
        ),
        (
            "/v1/completions",
            constrained(json!({"grammar": "root ::= \"a\""})),
            400,
            "BadRequestError",
            "EBNF",
        ),
        (
            "/v1/completions",
            constrained(json!({"choice": []})),
            400,
            "BadRequestError",
            "choice",
        ),
        (
            "/v1/completions",
            constrained(json!({"structural_tag": {}})),
            400,
            "BadRequestError",
            "structural tag",
        ),
        (
            "/v1/embeddings",
            json!({}),
            404,
            "NotFoundError",
            "Not Found",
        ),
        ("/health", json!({}), 405, "MethodNotAllowedError", "Method"),
    ] {
        let answer = client.post(path, body.to_string()).await;
        assert_eq!(
            (answer.status, answer.content_type.as_str()),
            (status, "application/json"),
            "{body}: {}",
            answer.body
        );
        let error: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(
            (&error["error"]["type"], &error["error"]["code"]),
            (&json!(kind), &json!(status)),
            "{body}"
        );
        assert!(
            error["error"]["message"]
                .as_str()
                .unwrap()
                .contains(message),
            "{body}: {error}"
        );
        assert!(error["error"].get("param").is_some());
    }
    let broken = client.post("/v1/completions", "{\"prompt\": ").await;
    assert_eq!(broken.status, 400, "{}", broken.body);
    let deep = format!(
        "{{\"prompt\": \"p\", \"guided_json\": {}{}}}",
        "{\"not\":".repeat(10_000),
        "}".repeat(10_000)
    );
    assert_eq!(client.post("/v1/completions", deep).await.status, 400);
    let large = client
        .post("/v1/completions", vec![b' '; (4 << 20) + 1])
        .await;
    assert!(
        large.status == 413 && large.body.contains("PayloadTooLargeError"),
        "{}",
        large.body
    );
}

#[tokio::test]
async fn every_notation_of_a_constraint_is_applied() {
    let client = Client::new(shared());
    let schema = json!({"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"], "additionalProperties": false});
    let is_expected = |text: &str| {
        serde_json::from_str::<Value>(text).is_ok_and(|value| value == json!({"a": 1}))
    };
    for fields in [
        json!({"structured_outputs": {"json": schema}}),
        json!({"structured_outputs": {"json": schema.to_string()}}),
        json!({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": true}}}),
        json!({"guided_json": schema, "guided_decoding_backend": "guidance"}),
        json!({"structured_outputs": {"regex": "\\{\"a\":1\\}"}}),
        json!({"guided_choice": ["{\"a\":1}"], "guided_decoding_backend": "auto"}),
        json!({"guided_grammar": "start: \"{\\\"a\\\":\" \"1}\""}),
    ] {
        let answer = client
            .complete(&merged(
                &json!({"prompt": "p", "max_tokens": 64, "temperature": 0.0}),
                fields.clone(),
            ))
            .await;
        assert!(is_expected(&text(&answer)), "{fields}: {answer}");
    }
    let object = client
        .complete(
            &json!({"prompt": "p", "max_tokens": 128, "response_format": {"type": "json_object"}}),
        )
        .await;
    assert!(
        serde_json::from_str::<Value>(&text(&object))
            .unwrap()
            .is_object()
    );
}

async fn run(server: &EmbeddedServer, body: Value) -> Vec<String> {
    let client = Client::new(server);
    let answers = (0..REQUESTS).map(|_| {
        let (client, body) = (client.clone(), body.clone());
        tokio::spawn(async move { text(&client.complete(&body).await) })
    });
    let mut texts: Vec<String> = join_all(answers)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    texts.sort();
    texts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_runs_give_the_same_answers() {
    let body = json!({"prompt": "A brief user profile.", "max_tokens": 64, "structured_outputs": {"json": profile()}});
    let servers = tokio::task::spawn_blocking(|| (start(5), start(5), start(6)))
        .await
        .unwrap();
    let (first, second, other) = (
        run(&servers.0, body.clone()).await,
        run(&servers.1, body.clone()).await,
        run(&servers.2, body.clone()).await,
    );
    assert_eq!(first, second);
    assert_ne!(first, other);
    let mut distinct = first.clone();
    distinct.dedup();
    assert!(
        distinct.len() > REQUESTS / 2,
        "equal requests get different answers"
    );
    let seeded = merged(&body, json!({"seed": 1}));
    assert_eq!(
        run(&servers.0, seeded.clone()).await,
        vec![text(&Client::new(&servers.1).complete(&seeded).await); REQUESTS]
    );
    let base = servers.0.base_url().to_owned();
    tokio::task::spawn_blocking(|| drop(servers)).await.unwrap();
    let gone = reqwest::Client::builder()
        .no_proxy()
        .build()
        .unwrap()
        .get(base)
        .send()
        .await;
    assert!(
        gone.unwrap_err().is_connect(),
        "a dropped server accepts no connections"
    );
}
