//! `sobench wire` on recorded streams.

use serde_json::{Value, json};
use sobench_testkit::scripted::{ScriptedServer, models, whole};
use sobench_testkit::{contract, repository_path};

use crate::support::{Folder, sobench};

const WIRE_CONTRACT: &str = include_str!("../../schemas/contracts/wire.schema.json");

/// Two calls on one index.
fn shared_index() -> String {
    let call = |id: &str, number: u8| {
        let function = json!({"name": "f", "arguments": format!("{{\"x\": {number}}}")});
        json!({"role": "assistant", "tool_calls": [{"index": 0, "id": id, "type": "function", "function": function}]})
    };
    let chunk = |delta: Value, reason: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        let chunk = json!({"object": "chat.completion.chunk", "choices": [choice]});
        format!("data: {chunk}\n\n")
    };
    let calls = chunk(call("a", 1), Value::Null) + &chunk(call("b", 2), Value::Null);
    calls + &chunk(json!({}), json!("tool_calls")) + "data: [DONE]\n\n"
}

#[test]
fn clients_that_read_otherwise_are_shown() {
    let folder = Folder::new();
    let stream = folder.file("shared.sse", shared_index());
    let ran = sobench(&["wire", &stream]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.stdout.contains("clients read it in 6 ways"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout.contains(r#"ff({"x": 1}{"x": 2}) [ab]"#),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout.contains(r#"f({"x":1}) [a] f({"x":2}) [b]"#),
        "{}",
        ran.stdout
    );
    let entry = json!({"response": {"content": {"text": shared_index()}}});
    let har = json!({"log": {"entries": [{"response": {"content": {}}}, entry]}});
    let har = folder.file("traffic.har", har.to_string());
    let ran = sobench(&["wire", &har]);
    assert!(
        ran.stdout.contains("traffic.har, entry 1 (3 chunks)"),
        "{}",
        ran.stdout
    );
    let whole = repository_path("fixtures/streams/vllm-chat-tool-call.sse");
    let ran = sobench(&["wire", whole.to_str().unwrap()]);
    assert_eq!(ran.code, 0);
    assert!(
        ran.page()
            .contains("clients read the same; no departure from the API"),
        "{}",
        ran.stdout
    );
}

#[test]
fn what_is_no_recording_is_one_error_with_a_hint() {
    let folder = Folder::new();
    for text in [
        "",
        "{}",
        "hello\n",
        "data: {\"choices\": 1}\n\n",
        "data: {\"cho",
    ] {
        let file = folder.file("x.sse", text);
        let ran = sobench(&["wire", &file]);
        let expected = format!(
            "error: no answer of chat completions, completions, responses or messages: {file}\nhint: "
        );
        assert!(
            ran.code == 2 && ran.stderr.starts_with(&expected),
            "{text}: {}",
            ran.stderr
        );
    }
    let ran = sobench(&["wire", &folder.path("none")]);
    assert_eq!(ran.code, 2);
}

#[test]
fn departures_are_shown_with_who_forbids_them() {
    let path = repository_path("fixtures/streams/lmdeploy-chat.sse");
    let ran = sobench(&["wire", path.to_str().unwrap()]);
    // All clients read the same, but the schema forbids it.
    assert_eq!(ran.code, 1);
    for text in [
        "clients read the same; 1 departure from the API",
        "null_member",
        "schema",
    ] {
        assert!(ran.page().contains(text), "{}", ran.stdout);
    }
    let folder = Folder::new();
    let body = folder.file(
        "body.json",
        "{\n \"choices\": [{\"message\": {\"content\": \"a\"}}]}",
    );
    let ran = sobench(&["wire", &body, "--format", "json"]);
    assert_eq!(ran.code, 1);
    let found: Value = serde_json::from_str(&ran.stdout).unwrap();
    contract::check(WIRE_CONTRACT, &found).unwrap();
    let departure = &found["answers"][0]["departures"][0];
    assert_eq!(
        *departure,
        json!({"name": "missing_member", "forbidden_by": "schema",
            "example": "choices[].finish_reason, choices[].index, choices[].logprobs, choices[].message.refusal, \
                choices[].message.role, created, id, model, object"})
    );
    assert_eq!(found["answers"][0]["clients"], json!([]));
    let shared = folder.file("shared.sse", shared_index());
    let ran = sobench(&["wire", &shared, "--format", "json"]);
    let found: Value = serde_json::from_str(&ran.stdout).unwrap();
    contract::check(WIRE_CONTRACT, &found).unwrap();
    let clients = found["answers"][0]["clients"].as_array().unwrap();
    let litellm = clients
        .iter()
        .find(|client| client["client"] == "litellm")
        .unwrap();
    assert_eq!(litellm["calls"][0]["id"], "b");
}

/// Bodies that the API forbids, on the embedded server and on one that answers everything.
#[test]
fn requests_that_must_fail_are_tested() {
    let flags = ["preflight", "--backend", "openai-chat", "--kind", "wire"];
    let ran = sobench(&flags);
    assert_eq!(ran.code, 0, "{}", ran.stdout);
    let answer = "13 of 13 requests that must fail are refused with 400 and a message; 4 of 4 tests of \
                  prompts and second turns are fine";
    assert!(ran.page().contains(answer), "{}", ran.stdout);
    let server = ScriptedServer::answering(|request| match serde_json::from_slice(&request.body) {
        _ if request.is_model_list() => models(),
        Ok(body) => whole("200 OK", "application/json", &same_answer(&body)),
        Err(_) => whole("404 Not Found", "text/plain", ""),
    });
    let ran = sobench(
        &[
            &flags[..],
            &["--base-url", &server.base_url, "--format", "json"],
        ]
        .concat(),
    );
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let found: Value = serde_json::from_str(&ran.stdout).unwrap();
    let verdicts = |part: &str| -> Vec<String> {
        let results = found["wire"][part].as_array().unwrap().iter();
        results
            .map(|result| result["verdict"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(verdicts("negative"), vec!["accepted_silently"; 13]);
    assert_eq!(
        verdicts("prompts"),
        ["fine", "tools_dropped", "result_dropped", "caches_answers"]
    );
}

/// The same answer to each token limit, with the same counts.
fn same_answer(body: &Value) -> String {
    let limit = body["max_tokens"].to_string();
    let message = json!({"role": "assistant", "content": format!("Warm {limit}")});
    let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
    let usage = json!({"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11});
    json!({"choices": [choice], "usage": usage}).to_string()
}
