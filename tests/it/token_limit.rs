//! Servers that read the token limit of chat completions from `max_tokens` only, or not at all.

use std::io::Write as _;

use serde_json::{Value, json};
use sobench_testkit::scripted::{STREAM_HEAD, ScriptedServer, Then, chunk, whole};

use crate::support::{Ran, check_result, sobench_result};

/// Tokens of an answer without a limit.
const UNLIMITED: u64 = 30;

/// A chat server with a model of this owner, which answers `a a a ...` up to the limit that `limit`
/// finds in a request, or refuses the request.
fn server(
    owner: &'static str,
    limit: impl Fn(&Value) -> Result<Option<u64>, &'static str> + Send + Sync + 'static,
) -> ScriptedServer {
    ScriptedServer::new(move |request, stream| {
        let bytes = if request.is_model_list() {
            let list = json!({"data": [{"id": "tiny", "owned_by": owner}]});
            whole("200 OK", "application/json", &list.to_string()).into_bytes()
        } else if request.line.starts_with("GET ") {
            whole("404 Not Found", "text/plain", "").into_bytes()
        } else {
            match limit(&serde_json::from_slice(&request.body).unwrap()) {
                Err(message) => {
                    let error = json!({"error": {"message": message}}).to_string();
                    whole("400 Bad Request", "application/json", &error).into_bytes()
                }
                Ok(limit) => answer(limit.unwrap_or(UNLIMITED).min(UNLIMITED)),
            }
        };
        stream.write_all(&bytes).unwrap();
        Then::Keep
    })
}

fn answer(tokens: u64) -> Vec<u8> {
    let event = |value: Value| format!("data: {value}\n\n");
    let delta = event(json!({"choices": [{"index": 0, "delta": {"content": "a "}}]}));
    let reason = if tokens < UNLIMITED { "length" } else { "stop" };
    let end = event(json!({
        "choices": [{"index": 0, "delta": {}, "finish_reason": reason}],
        "usage": {"prompt_tokens": 5, "completion_tokens": tokens},
    }));
    let events = delta.repeat(tokens as usize) + &end + "data: [DONE]\n\n";
    [
        STREAM_HEAD.as_bytes(),
        &chunk(events.as_bytes()),
        &chunk(b""),
    ]
    .concat()
}

/// Sends three requests with a limit of 8, and the number of requests that had each field.
fn run(server: &ScriptedServer) -> (Ran, Value, [usize; 2]) {
    let (ran, result) = sobench_result(&[
        "--backend openai-chat --base-url",
        &server.base_url,
        "--constraint-dialect response-format --skip-preflight --dataset json",
        "--num-prompts 3 --output-len 8",
    ]);
    assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
    check_result(&result).unwrap_or_else(|error| panic!("{error}"));
    let requests = server.requests();
    let sent = |field: &str| {
        let bodies = requests
            .iter()
            .filter(|request| !request.body.is_empty())
            .map(|request| serde_json::from_slice::<Value>(&request.body).unwrap());
        bodies.filter(|body| body.get(field).is_some()).count()
    };
    let sent = ["max_completion_tokens", "max_tokens"].map(sent);
    (ran, result, sent)
}

/// Checks that one notice of the run is about the token limit, and that it is this one.
#[track_caller]
fn check_notice(result: &Value, notice: &str) {
    let notices = result["sobench"]["notices"].as_array().unwrap().iter();
    let found: Vec<&str> = notices
        .filter_map(Value::as_str)
        .filter(|text| text.contains("max_completion_tokens"))
        .collect();
    assert_eq!(found, [notice]);
}

fn max_tokens(body: &Value) -> Option<u64> {
    body["max_tokens"].as_u64()
}

#[test]
fn a_server_that_reads_only_max_tokens_is_found_in_the_trial() {
    let server = server("someone", |body| Ok(max_tokens(body)));
    let (_, result, sent) = run(&server);
    assert_eq!(sent, [1, 4]);
    check_notice(
        &result,
        "the token limit is sent as max_tokens: the server ignored max_completion_tokens (the trial answer has 30 tokens, the limit is 8)",
    );
    assert_eq!(result["total_output_tokens"], 24);
}

#[test]
fn a_known_owner_is_sent_max_tokens_from_the_start() {
    for (owner, name) in [("library", "Ollama"), ("me", "llama-cpp-python")] {
        let server = server(owner, |body| Ok(max_tokens(body)));
        let (_, result, sent) = run(&server);
        assert_eq!(sent, [0, 4], "{owner}");
        check_notice(
            &result,
            &format!(
                "the token limit is sent as max_tokens: {name} does not read max_completion_tokens"
            ),
        );
        assert_eq!(result["total_output_tokens"], 24);
    }
}

#[test]
fn a_server_that_refuses_the_newer_field_is_sent_the_older_one() {
    let server = server("someone", |body| match body.get("max_completion_tokens") {
        Some(_) => Err("max_completion_tokens: extra inputs are not permitted"),
        None => Ok(max_tokens(body)),
    });
    let (_, result, sent) = run(&server);
    assert_eq!(sent[1], 4);
    check_notice(
        &result,
        "the token limit is sent as max_tokens: the server refuses max_completion_tokens",
    );
    assert_eq!(result["total_output_tokens"], 24);
}

/// The notice is of the answers, and so of the report.
const IGNORED: &str = "the server ignored the token limit max_completion_tokens: 3 answers have more tokens than their request \
    allows (the longest has 30, its limit is 8)";

#[test]
fn a_server_that_reads_neither_field_ignored_the_limit() {
    // Requests to vLLM are those of its own client.
    for (owner, expected) in [("someone", [4, 1]), ("vllm", [4, 0])] {
        let server = server(owner, |_| Ok(None));
        let (ran, result, sent) = run(&server);
        assert_eq!(sent, expected);
        assert_eq!(ran.page().matches(IGNORED).count(), 1, "{}", ran.stdout);
        assert_eq!(result["total_output_tokens"], 90, "its counts are right");
    }
}
