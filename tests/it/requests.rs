//! `--dataset requests`: recorded bodies are sent as they are, and judge their answers.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use sobench_testkit::scripted::{ScriptedServer, Then, models, whole};

use crate::support::{Folder, sobench, sobench_result};

const FIXTURE: &str = "--dataset requests --dataset-path fixtures/datasets/requests.jsonl";

/// A server that keeps the bodies of its requests.
fn recording_server() -> (ScriptedServer, Arc<Mutex<Vec<String>>>) {
    use std::io::Write as _;
    let bodies: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&bodies);
    let server = ScriptedServer::new(move |request, stream| {
        let page = match request.is_model_list() {
            true => models(),
            false => {
                let body = String::from_utf8(request.body.clone()).unwrap();
                if request.line.starts_with("POST ") {
                    kept.lock().unwrap().push(body);
                }
                let answer = json!({"choices": [{"index": 0, "finish_reason": "stop",
                    "message": {"role": "assistant", "content": "{}"}}]});
                whole("200 OK", "application/json", &answer.to_string())
            }
        };
        match stream.write_all(page.as_bytes()) {
            Ok(()) => Then::Keep,
            Err(_) => Then::Close,
        }
    });
    (server, bodies)
}

/// 200 bodies of 12 shapes: spaces, escapes, orders, numbers and unknown members.
fn bodies() -> Vec<String> {
    let shapes = [
        r#"{"model":"old","messages":[{"role":"user","content":"N"}]}"#,
        r#"{ "messages" : [ {"content":"N","role":"user"} ] , "model" : "old" }"#,
        r#"{"model":"old","temperature":1.0,"top_p":1e0,"messages":[{"role":"user","content":"N \u00e9\/"}]}"#,
        r#"{"messages":[{"role":"user","content":[{"type":"text","text":"N"}]}],"model":"old","seed":00}"#,
        r#"{"model":"old","messages":[{"role":"user","content":"N"}],"response_format":{"type":"json_object"},"max_tokens":9}"#,
        r#"{"model":"old","messages":[{"role":"user","content":"N"}],"response_format":{"json_schema":{"schema":{"type":"object"},"name":"n"},"type":"json_schema"}}"#,
        r#"{"model":"old","messages":[{"role":"user","content":"N"}],"structured_outputs":{"json":{"b":1.50,"a":2}},"x_unknown":{"model":"old"}}"#,
        r#"{"model":"old","messages":[{"role":"user","content":"N"}],"guided_json":"{\"type\": \"object\"}"}"#,
        r#"{"model":"old","messages":[{"role":"user","content":"N"}],"tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"tool_choice":"auto","parallel_tool_calls":false}"#,
        r#"{"model":"old","messages":[{"role":"system","content":"s"},{"role":"user","content":"N"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"1"}],"tools":[{"type":"function","function":{"name":"f"}}]}"#,
        r#"{"stream_options":null,"model":"old","messages":[{"role":"user","content":"N"}],"stop":["\n"],"logit_bias":{"50256":-100}}"#,
        r#"{"model":"old","messages":[{"role":"user","content":"N"}],"stream":false,"n":1,"user":"ü"}"#,
    ];
    let shapes = shapes
        .iter()
        .map(|shape| shape.replace("\"seed\":00", "\"seed\":0"));
    let shapes: Vec<String> = shapes.collect();
    (0..200)
        .map(|number| {
            let body = shapes[number % shapes.len()].replace("\"N", &format!("\"{number}"));
            match number % 3 {
                0 => json!({"custom_id": number.to_string(), "method": "POST", "url": "/v1/chat/completions"})
                    .to_string()
                    .replacen('}', &format!(",\"body\":{body}}}"), 1),
                _ => body,
            }
        })
        .collect()
}

/// The body of a line.
fn body_of(line: &str) -> &str {
    line.split_once("\"body\":")
        .map_or(line, |(_, rest)| &rest[..rest.len() - 1])
}

#[test]
fn bodies_are_those_of_the_file_but_for_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("requests.jsonl");
    let lines = bodies();
    std::fs::write(&path, lines.join("\n")).unwrap();
    for (flag, model) in [("--disable-tqdm", "new"), ("--keep-model", "old")] {
        let (server, sent) = recording_server();
        let url = server.base_url.clone();
        let ran = sobench(&[
            "bench",
            FIXTURE.split_once(" --dataset-path").unwrap().0,
            "--dataset-path",
            path.to_str().unwrap(),
            "--backend openai-chat --model new --num-prompts 200 --skip-preflight",
            "--num-warmups 0 --max-concurrency 1 --base-url",
            &url,
            flag,
        ]);
        assert!(ran.code <= 1, "{}", ran.stderr);
        let sent = sent.lock().unwrap();
        let mut sent: Vec<&str> = sent.iter().map(String::as_str).collect();
        // A trial request comes first.
        sent.drain(..sent.len() - lines.len());
        for (sent, line) in sent.iter().zip(&lines) {
            let expected = body_of(line).replacen("\"old\"", &format!("\"{model}\""), 1);
            assert_eq!(*sent, expected);
        }
    }
}

#[test]
fn answers_are_judged_by_their_bodies() {
    let (ran, result) = sobench_result(&[
        FIXTURE,
        "--backend openai-chat --num-prompts 7 --save-detailed --skip-preflight",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let outputs = result["outputs"].as_array().unwrap();
    let verdicts: Vec<&Value> = outputs
        .iter()
        .map(|output| &output["verdict"]["verdict"])
        .collect();
    assert_eq!(
        verdicts,
        [
            "valid",
            "valid",
            "valid",
            "valid",
            "valid",
            "valid",
            "not_scored"
        ],
        "{outputs:?}"
    );
}

#[test]
fn the_control_arm_has_no_constraint() {
    let ran = sobench(&[
        "bench",
        FIXTURE,
        "--backend openai-chat --num-prompts 6 --guided-decoding-ratio 0 --dry-run",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(!ran.stdout.contains("response_format"), "{}", ran.stdout);
}

#[test]
fn later_members_replace_earlier_ones() {
    let folder = Folder::new();
    let own = r#"{"model":"old","messages":[],"temperature":1.0}"#;
    let none = r#"{"model":"old","messages":[]}"#;
    let path = folder.file("requests.jsonl", format!("{own}\n{none}\n"));
    let (server, sent) = recording_server();
    let ran = sobench(&[
        "bench",
        "--dataset requests --backend openai-chat --model new --num-prompts 2 --skip-preflight",
        "--num-warmups 0 --max-concurrency 1 --temperature 0.5 --base-url",
        &server.base_url,
        "--dataset-path",
        &path,
        "--extra-body",
        r#"{"temperature":0.25}"#,
    ]);
    assert!(ran.code <= 1, "{}", ran.stderr);
    let expected = r#"{"model":"new","messages":[],"temperature":0.25}"#;
    let sent = sent.lock().unwrap();
    assert!(
        sent.len() >= 2 && sent.iter().all(|body| body == expected),
        "{sent:?}"
    );
}

#[test]
fn the_endpoint_is_that_of_the_backend() {
    for (backend, message) in [
        (
            "openai",
            "the openai backend takes bodies with \"prompt\", which this one lacks: case \"requests-0\"",
        ),
        ("openai-responses", "takes bodies with \"input\""),
    ] {
        sobench(&[
            FIXTURE,
            "--num-prompts 1 --skip-preflight --backend",
            backend,
        ])
        .assert_fails(2, &[message, "openai-chat or anthropic for messages"]);
    }
}

#[test]
fn outputs_of_batches_are_scored_by_their_input() {
    let folder = Folder::new();
    let line = |id: &str, more: Value| {
        let mut body = json!({"model": "m", "messages": []});
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({"custom_id": id, "method": "POST", "url": "/v1/chat/completions", "body": body})
    };
    let tool =
        json!({"type": "function", "function": {"name": "f", "parameters": {"required": ["a"]}}});
    let input = [
        line("a", json!({"response_format": {"type": "json_object"}})),
        line("b", json!({"structured_outputs": {"regex": "[0-9]+"}})),
        line("c", json!({"tools": [tool], "tool_choice": "required"})),
        line("d", json!({})),
        line("e", json!({"guided_choice": ["x"]})),
    ];
    let answer = |id: &str, message: Value, reason: &str| {
        let body = json!({"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": reason}]});
        json!({"custom_id": id, "response": {"status_code": 200, "body": body}, "error": null})
    };
    let text = |text: &str| json!({"role": "assistant", "content": text});
    let call = json!({"role": "assistant", "content": null, "tool_calls":
        [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]});
    let output = [
        json!({"custom_id": "e", "response": null, "error": {"code": "expired"}}),
        answer("c", call, "tool_calls"),
        answer("b", text("12"), "stop"),
        answer("a", text("{"), "length"),
        answer("d", text("hello"), "stop"),
    ];
    let lines = |values: &[Value]| {
        values
            .iter()
            .map(|value| format!("{value}\n"))
            .collect::<String>()
    };
    let (input, output) = (
        folder.file("in.jsonl", lines(&input)),
        folder.file("out.jsonl", lines(&output)),
    );
    let ran = sobench(&[
        "score",
        "--dataset requests --format jsonl --dataset-path",
        &input,
        &output,
    ]);
    let found: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let reasons: Vec<(&str, &Value, &Value)> = found
        .iter()
        .map(|line| {
            (
                line["custom_id"].as_str().unwrap(),
                &line["valid"],
                &line["reason"],
            )
        })
        .collect();
    assert_eq!(
        format!("{reasons:?}"),
        r#"[("e", Null, String("failed")), ("c", Bool(false), String("invalid_arguments")), ("b", Bool(true), Null), ("a", Bool(false), String("truncated")), ("d", Null, String("no_constraint"))]"#,
        "{}",
        ran.stderr
    );
    let other = folder.file("other.jsonl", lines(&[answer("z", text(""), "stop")]));
    sobench(&["score", "--dataset requests --dataset-path", &input, &other]).assert_fails(
        2,
        &[
            "line 1: no request with the custom_id \"z\"",
            "give the input of this batch",
        ],
    );
}

#[test]
fn answers_in_order_are_scored_by_one_schema() {
    let folder = Folder::new();
    let schema = folder.file("schema.json", r#"{"type": "integer"}"#);
    let answers = folder.file(
        "answers.jsonl",
        "{\"id\": \"a\", \"text\": \"1\"}\n{\"object\": \"text_completion\", \"choices\": [{\"index\": 0, \"text\": \"x\"}]}\n",
    );
    let ran = sobench(&[
        "score",
        "--format jsonl --json-schema-path",
        &schema,
        &answers,
    ]);
    let valid: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["valid"].take())
        .collect();
    assert_eq!(valid, [true, false], "{}", ran.stderr);
}
