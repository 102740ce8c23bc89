//! `sobench wire` on recorded streams.

use serde_json::{Value, json};
use sobench_testkit::repository_path;

use crate::support::{Folder, sobench};

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
        ran.stdout
            .contains("(3 chunks): 8 clients read it in 5 ways"),
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
        ran.stdout.contains("all 8 clients read the same"),
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
        let expected = format!("error: no stream of chat completions: {file}\nhint: ");
        assert!(
            ran.code == 2 && ran.stderr.starts_with(&expected),
            "{text}: {}",
            ran.stderr
        );
    }
    let ran = sobench(&["wire", &folder.path("none")]);
    assert_eq!(ran.code, 2);
}
