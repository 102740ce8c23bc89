//! `--dataset requests`: recorded bodies are sent as they are, and judge their answers.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use sobench_testkit::scripted::{ScriptedServer, Then, models, whole};

use crate::support::{Folder, sobench, sobench_result};

const FIXTURE: &str = "--dataset requests --dataset-path fixtures/datasets/requests.jsonl";

/// A server that keeps the bodies of its requests, and answers each with this text.
pub(crate) fn recording_server(
    text: impl Fn(&str) -> &'static str + Send + Sync + 'static,
) -> (ScriptedServer, Arc<Mutex<Vec<String>>>) {
    use std::io::Write as _;
    let bodies: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&bodies);
    let server = ScriptedServer::new(move |request, stream| {
        let page = match request.is_model_list() {
            true => models(),
            false => {
                let body = String::from_utf8(request.body.clone()).unwrap();
                let answer = json!({"choices": [{"index": 0, "finish_reason": "stop",
                    "message": {"role": "assistant", "content": text(&body)}}]});
                if request.line.starts_with("POST ") {
                    kept.lock().unwrap().push(body);
                }
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
        let (server, sent) = recording_server(|_| "{}");
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
    let (server, sent) = recording_server(|_| "{}");
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
            "line 1: no request with the custom_id \"z\": the dataset is not the input of this batch",
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

/// The bodies that a file of recorded requests makes the program send, and its notes.
fn sent(file: &str, requests: usize, backend: &str, flags: &[&str]) -> (Vec<String>, String) {
    let (server, bodies) = recording_server(|_| "{}");
    let path = format!("fixtures/datasets/requests/{file}");
    let count = requests.to_string();
    let mut arguments = vec![
        "bench",
        "--dataset requests --skip-preflight --num-warmups 0 --max-concurrency 1 --disable-tqdm",
        "--model new --dataset-path",
        &path,
        "--num-prompts",
        &count,
        "--backend",
        backend,
        "--base-url",
        &server.base_url,
    ];
    arguments.extend(flags);
    let ran = sobench(&arguments);
    assert!(ran.code <= 1, "{file}: {}", ran.stderr);
    let mut bodies = bodies.lock().unwrap().clone();
    // A trial request comes first.
    bodies.drain(..bodies.len() - requests);
    (bodies, ran.stderr)
}

fn parsed(bodies: &[String]) -> Vec<Value> {
    let parse = |body: &String| serde_json::from_str(body).unwrap();
    bodies.iter().map(parse).collect()
}

#[test]
fn bodies_in_other_forms_keep_their_bytes() {
    let (bodies, notes) = sent("browser.har", 1, "openai-chat", &[]);
    let expected = r#"{ "model":"new", "messages" : [{"role":"user","content":"Hi \u00e9"}],"temperature":1.0,"response_format":{"type":"json_object"}}"#;
    assert_eq!(bodies, [expected]);
    let skipped = "not sent: 1 of the recorded requests (a HAR entry without the text of its body)";
    assert!(notes.contains(skipped), "{notes}");
    let (bodies, notes) = sent("recorded.jsonl", 2, "openai-chat", &[]);
    let body = |text: &str| {
        format!(
            r#"{{"model": "new", "messages": [{{"role": "user", "content": "{text}"}}], "max_tokens": 16}}"#
        )
    };
    assert_eq!(bodies, [body("Hello"), body("Hello again")]);
    let unused = "the recorded times are not used; --replay-speed 1 sends the requests";
    assert!(notes.contains(unused), "{notes}");
    let (bodies, _) = sent("verifiers.jsonl", 3, "openai-chat", &[]);
    assert_eq!(parsed(&bodies)[0]["messages"][0]["role"], "system");
    assert_eq!(
        bodies[1..],
        [
            r#"{"messages":[{"role":"user","content":"Name a town of Japan."}]}"#,
            r#"{"messages": [{"role": "user", "content": "Hello"}], "model": "new", "temperature": 1.0}"#
        ]
    );
}

#[test]
fn spans_become_chats() {
    let (bodies, notes) = sent("otlp.jsonl", 2, "openai-chat", &[]);
    let usage = json!({"include_usage": true});
    let colour = json!({"model": "new", "messages": [{"role": "user", "content": "A colour as JSON."}],
        "stream": true, "stream_options": usage});
    let function = json!({"name": "get_weather", "arguments": "{\"city\":\"Paris\"}"});
    let calls = json!([{"id": "call_1", "type": "function", "function": function}]);
    let parameters =
        json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let function = json!({"name": "get_weather", "parameters": parameters});
    let weather = json!({"model": "new", "messages": [
            {"role": "system", "content": "You help."},
            {"role": "user", "content": "Weather in Paris?"},
            {"role": "assistant", "content": "", "tool_calls": calls},
            {"role": "tool", "tool_call_id": "call_1", "content": "rainy"}],
        "tools": [{"type": "function", "function": function}],
        "max_tokens": 100, "temperature": 0.5, "stop": ["END"], "stream": true, "stream_options": usage});
    assert_eq!(parsed(&bodies), [colour, weather]);
    for note in [
        "not judged: 1 of the requests (spans have no JSON Schema)",
        "not sent: 1 of the recorded requests (a span without gen_ai.input.messages",
    ] {
        assert!(notes.contains(note), "{notes}");
    }
    let (bodies, _) = sent("spans.json", 1, "openai-chat", &["--keep-model"]);
    let hello = json!({"model": "m", "messages": [{"role": "user", "content": "Hello"}],
        "max_tokens": 16, "stream": true, "stream_options": usage});
    assert_eq!(parsed(&bodies), [hello]);
}

#[test]
fn logs_of_vllm_become_completions() {
    let (bodies, notes) = sent("vllm.log", 2, "vllm", &[]);
    let bodies = parsed(&bodies);
    let prompts = [
        "<|im_start|>user\nWrite a person as JSON, please. It's short.<|im_end|>\n<|im_start|>assistant\n",
        "Is it warm? Answer yes or no: ",
    ];
    let schema = json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}},
        "required": ["name"], "additionalProperties": false});
    let constraints = [json!({"json": schema}), json!({"choice": ["yes", "no"]})];
    for (index, body) in bodies.iter().enumerate() {
        assert_eq!(body["prompt"], prompts[index]);
        assert_eq!(body["structured_outputs"], constraints[index]);
        assert_eq!(body["max_tokens"], [80, 8][index]);
    }
    assert_eq!(bodies[0]["add_special_tokens"], false);
    assert_eq!(bodies[1].get("add_special_tokens"), None);
    assert_eq!(bodies[1]["stop"], json!(["\n"]));
    let note = "not sent: 1 of the recorded requests (the prompt is not in the log, which needs VLLM_LOGGING_LEVEL=DEBUG)";
    assert!(notes.contains(note), "{notes}");
    let (bodies, _) = sent("vllm-bodies.log", 1, "openai-chat", &[]);
    assert_eq!(
        bodies,
        [
            r#"{"messages":[{"role":"user","content":"Is it good?"}],"model":"new","structured_outputs":{"choice":["yes","no"]},"max_tokens":8}"#
        ]
    );
}

#[test]
fn traces_are_replayed_with_prompts_of_their_lengths() {
    let flags = ["--replay-speed", "100"];
    let (bodies, notes) = sent("trace.jsonl", 3, "openai", &flags);
    let bodies = parsed(&bodies);
    let limits: Vec<&Value> = bodies.iter().map(|body| &body["max_tokens"]).collect();
    // By time.
    assert_eq!(limits, [5, 1, 3]);
    let prompts: Vec<&str> = bodies
        .iter()
        .map(|body| body["prompt"].as_str().unwrap())
        .collect();
    let shared = |one: &str, other: &str| {
        let pairs = one.bytes().zip(other.bytes());
        pairs.take_while(|(one, other)| one == other).count()
    };
    // 1024 of 1100 and 1500 tokens are the same.
    assert!(shared(prompts[0], prompts[2]) > prompts[0].len() * 8 / 10);
    assert!(shared(prompts[0], prompts[1]) < 100);
    let note = "not judged: 3 of the requests (a trace has lengths only)";
    assert!(notes.contains(note), "{notes}");
    for (flags, message) in [
        (
            "--dataset requests --dataset-path fixtures/datasets/requests.jsonl --backend openai-chat",
            "--replay-speed 2, but not every request has a time: fixtures/datasets/requests.jsonl",
        ),
        (
            "--dataset json",
            "--replay-speed 2, but not every request has a time: shipped",
        ),
        (
            "--dataset requests --dataset-path fixtures/datasets/requests.jsonl --request-rate 1",
            "--replay-speed cannot be combined with another rate: 2",
        ),
    ] {
        let more = "--replay-speed 2 --num-prompts 2 --skip-preflight";
        for dry in ["--seed 0", "--dry-run"] {
            sobench(&["bench", flags, more, dry]).assert_fails(2, &[message, "hint: "]);
        }
    }
}

#[test]
fn errors_of_recorded_requests_name_the_line() {
    let folder = Folder::new();
    let utf16: Vec<u8> = "{\"a\":1}"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let cases: [(&[u8], &str); 6] = [
        (b"hello\nRequest\n", "line 1: not JSON, and no line of the file is of vLLM's log"),
        (b"\xef\xbb\xbf{\"messages\":[]}\r\n{\"messages\":\r\n", "line 2: not JSON"),
        (&utf16, "it is UTF-16"),
        (b"{\"log\":\n{\"entries\":[}", "line 2: not JSON"),
        (b"{\"log\":{}}", "line 1: not a HAR file: missing field `entries`"),
        (
            b"[{\"custom_id\":\"a\",\"body\":{\"input\":\"\"}},{\"custom_id\":\"a\",\"body\":{\"input\":\"\"}}]",
            "line 1, item 2: the custom_id is not unique: \"a\"",
        ),
    ];
    for (bytes, message) in cases {
        let path = folder.file("requests.jsonl", bytes);
        let ran = sobench(&[
            "bench",
            "--dry-run --dataset requests --dataset-path",
            &path,
        ]);
        ran.assert_fails(2, &[message, "hint: "]);
        assert_eq!(ran.stderr.matches("error: ").count(), 1, "{}", ran.stderr);
    }
}

#[test]
fn recorded_requests_are_converted_to_batch_input() {
    let folder = Folder::new();
    let output = folder.path("out.jsonl");
    let convert = |file: &str, flags: &[&str]| {
        let input = format!("fixtures/datasets/requests/{file}");
        let mut arguments = vec!["datasets", "convert", &input, &output];
        arguments.extend(flags);
        sobench(&arguments)
    };
    let lines = || -> Vec<Value> {
        let text = std::fs::read_to_string(&output).unwrap();
        let parse = |line| serde_json::from_str(line).unwrap();
        text.lines().map(parse).collect()
    };
    let ran = convert("browser.har", &[]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for line in [
        "entries of HAR files",
        "a HAR entry without the text of its body",
    ] {
        assert!(ran.stdout.contains(line), "{}", ran.stdout);
    }
    let text = std::fs::read_to_string(&output).unwrap();
    let expected = r#"{"method":"POST","custom_id":"request-1","url":"/v1/chat/completions","timestamp":1793882375.25,"body":{ "model":"m", "messages" : [{"role":"user","content":"Hi \u00e9"}],"temperature":1.0,"response_format":{"type":"json_object"}}}"#;
    assert_eq!(text.trim_end(), expected);
    for (file, count) in [
        ("otlp.jsonl", 2),
        ("vllm.log", 2),
        ("verifiers.jsonl", 3),
        ("trace.jsonl", 3),
    ] {
        let ran = convert(file, &[]);
        assert_eq!(
            (ran.code, lines().len()),
            (0, count),
            "{file}: {}",
            ran.stderr
        );
    }
    let ran = convert("recorded.jsonl", &["--redact=hash-names"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let text = std::fs::read_to_string(&output).unwrap();
    assert!(
        !text.contains("Hello") && !text.contains("sk-secret"),
        "{text}"
    );
    assert_eq!(lines()[1]["body"]["max_tokens"], 16);
    // What was written is read again.
    let ran = sobench(&[
        "bench",
        "--dry-run --dataset requests --num-prompts 2 --backend openai-chat --dataset-path",
        &output,
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    std::fs::write(&output, "mine").unwrap();
    convert("browser.har", &[]).assert_fails(
        2,
        &[
            "OUT would overwrite a file that sobench did not write",
            "--force",
        ],
    );
    sobench(&["datasets", "convert", &output, &output])
        .assert_fails(2, &["OUT would overwrite an input file"]);
    assert_eq!(convert("browser.har", &["--force"]).code, 0);
}

#[test]
fn an_unknown_custom_id_is_an_unreadable_row() {
    let folder = Folder::new();
    let output = folder.file(
        "out.jsonl",
        "{\"custom_id\": \"ticket-7\", \"text\": \"yes\"}\n{\"custom_id\": \"z\", \"text\": \"\"}\n",
    );
    let ran = sobench(&[
        "score",
        "--dataset requests --dataset-path fixtures/datasets/requests.jsonl --format jsonl",
        &output,
    ]);
    let message = "1 of 2 rows cannot be judged; the first is";
    assert!(
        ran.code == 2 && ran.stderr.contains(message),
        "{}",
        ran.stderr
    );
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(
        lines[0].contains("\"valid\":true") && lines[1].contains("\"reason\":\"unreadable\""),
        "{lines:?}"
    );
}

#[test]
fn samples_of_lm_eval_and_csv_are_scored() {
    let folder = Folder::new();
    let schema = folder.file("schema.json", r#"{"type": "integer"}"#);
    let sample = |id: usize, doc: Value, resps: Value| {
        json!({"doc_id": id, "doc": doc, "target": "x", "arguments": {"gen_args_0": {"arg_0": "Q", "arg_1": {}}},
            "resps": resps, "filtered_resps": ["x"], "filter": "none", "exact_match": 0.0})
    };
    let doc = json!({"unique_id": "a", "json_schema": "{\"type\": \"object\"}"});
    let samples = folder.lines(
        "samples_task.jsonl",
        &[
            sample(0, doc.clone(), json!([["{}"]])),
            sample(1, doc.clone(), json!([["7"]])),
            sample(2, doc, json!([[[-1.5, false]]])),
        ],
    );
    let rows = folder.file(
        "rows.csv",
        "id,text,regex,choice,correct\r\na,\"x\r\n\",x\\s+,,True\r\nb,no,,\"[\"\"yes\"\", \"\"no\"\"]\",\r\nc,no,,[yes,\r\n",
    );
    let plain = folder.file("plain.csv", "text,id\n7,a\nx,b\n");
    let valid = |arguments: &[&str]| -> Vec<Value> {
        let mut all = vec!["score", "--format jsonl"];
        all.extend(arguments);
        let ran = sobench(&all);
        let read = |line| serde_json::from_str::<Value>(line).unwrap()["valid"].take();
        ran.stdout.lines().map(read).collect()
    };
    let (yes, no, unknown) = (json!(true), json!(false), Value::Null);
    assert_eq!(
        valid(&[&samples]),
        [yes.clone(), no.clone(), unknown.clone()]
    );
    let by_schema = ["--json-schema-path", &schema];
    assert_eq!(
        valid(&[&by_schema[..], &[&samples]].concat()),
        [no.clone(), yes.clone(), unknown.clone()]
    );
    assert_eq!(valid(&[&rows]), [yes.clone(), yes.clone(), unknown]);
    assert_eq!(valid(&[&by_schema[..], &[&plain]].concat()), [yes, no]);
}
