//! Answers that depart from the API are judged as the API's rule joins them, and their departures
//! are counted and shown.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sobench_testkit::scripted::{ScriptedServer, models, whole};

use crate::support::{check_result, sobench, sobench_result};

const OSLO: &str = r#"{"city":"Oslo"}"#;
const ROME: &str = r#"{"city":"Rome"}"#;

/// What the server does by its prompt, the fault or verdict, the departures, and words of the
/// report.
const ROWS: [(&str, &str, &[&str], &str); 18] = [
    ("plain", "valid", &[], ""),
    (
        "shared",
        "invalid_arguments",
        &["shared_index"],
        r#"get_weather({"city":"Oslo"}{"city":"Rome"})"#,
    ),
    ("ids", "valid", &["changing_id"], "abc"),
    (
        "names",
        "valid",
        &["repeated_id", "repeated_name"],
        "get_weatherget_weather",
    ),
    ("split", "valid", &["split_name"], ""),
    (
        "no index",
        "valid",
        &["missing_index"],
        "they raise an error",
    ),
    (
        "gap",
        "valid",
        &["unordered_index"],
        "index 1 after 0 calls",
    ),
    ("no function", "valid", &["missing_function"], ""),
    ("custom", "valid", &["wrong_call_type"], ""),
    (
        "object",
        "arguments_not_text",
        &["object_arguments"],
        "are not a string",
    ),
    (
        "null",
        "invalid_arguments",
        &["null_arguments"],
        "empty arguments of",
    ),
    ("empty", "invalid_arguments", &[], "empty arguments of"),
    (
        "reason",
        "wrong_finish_reason",
        &["unknown_finish_reason"],
        "stop_163586",
    ),
    ("filter", "valid", &["content_filter"], ""),
    ("late", "valid", &["text_after_finish"], ""),
    ("choice", "valid", &["second_choice"], ""),
    (
        "cut character",
        "valid",
        &["replacement_character"],
        "a\u{FFFD}b",
    ),
    (
        "loop",
        "truncated",
        &["repeated_calls"],
        "9 calls, 8 of them repeats of the first",
    ),
];

fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"index": 0, "id": id, "type": "function",
        "function": {"name": name, "arguments": arguments}})
}

/// The chunks of a streamed answer, each a delta and a finish reason.
fn chunks(prompt: &str) -> Vec<(Value, Option<&'static str>)> {
    let delta = |calls: Value| (json!({ "tool_calls": calls }), None);
    let weather = call("a", "get_weather", OSLO);
    let with = |member: &str, value: Value| {
        let mut call = weather.clone();
        call[member] = value;
        delta(json!([call]))
    };
    let function = |arguments: Value| json!({"name": "get_weather", "arguments": arguments});
    let text = |text: &str| (json!({ "content": text }), None);
    let end = |reason| (json!({}), Some(reason));
    let done = || end("tool_calls");
    let pieces = |calls: [Value; 3]| {
        let deltas = calls.map(|call| delta(json!([call])));
        [deltas.to_vec(), vec![done()]].concat()
    };
    match prompt {
        "shared" => vec![
            delta(json!([weather])),
            delta(json!([call("b", "get_weather", ROME)])),
            done(),
        ],
        "ids" => pieces([
            call("a", "get_weather", ""),
            call("b", "", r#"{"city":"#),
            call("c", "", r#""Oslo"}"#),
        ]),
        "names" => pieces([
            call("a", "get_weather", ""),
            call("a", "get_weather", OSLO),
            call("", "", ""),
        ]),
        "split" => pieces([
            call("a", "get_", ""),
            call("", "weather", ""),
            call("", "", OSLO),
        ]),
        "no index" => vec![with("index", Value::Null), done()],
        "gap" => vec![with("index", json!(1)), done()],
        "no function" => vec![
            delta(json!([{"index": 0, "id": "a", "type": "function"}])),
            delta(json!([call("", "get_weather", OSLO)])),
            done(),
        ],
        "custom" => vec![with("type", json!("custom")), done()],
        "object" => vec![with("function", function(json!({"city": "Oslo"}))), done()],
        "null" => vec![with("function", function(Value::Null)), done()],
        "empty" => vec![delta(json!([call("a", "get_weather", "")])), done()],
        "reason" => vec![delta(json!([weather])), end("stop_163586")],
        "filter" => vec![text("Warm"), end("content_filter")],
        "late" => vec![text("Warm"), end("stop"), text(" and dry")],
        "choice" => vec![text("Warm"), end("stop")],
        "cut character" => vec![text("a\u{FFFD}"), text("b"), end("stop")],
        "loop" => {
            let calls = (0..9).map(|index| {
                let mut call = call(&format!("c{index}"), "get_weather", OSLO);
                call["index"] = json!(index);
                delta(json!([call]))
            });
            calls.chain([end("length")]).collect()
        }
        _ => vec![delta(json!([weather])), done()],
    }
}

fn stream(prompt: &str) -> String {
    let event = |index: u64, delta: &Value, reason: Option<&str>| {
        let choice = json!({"index": index, "delta": delta, "finish_reason": reason});
        format!("data: {}\n\n", json!({ "choices": [choice] }))
    };
    let mut events: Vec<String> = chunks(prompt)
        .iter()
        .map(|(delta, reason)| event(0, delta, *reason))
        .collect();
    if prompt == "choice" {
        events.insert(0, event(1, &json!({"content": "x"}), None));
    }
    events.concat() + "data: [DONE]\n\n"
}

/// A server that answers by the last message, and the whole answer of the prompt `shared`.
fn server() -> ScriptedServer {
    ScriptedServer::answering(|request| {
        if request.is_model_list() {
            return models();
        }
        let Ok(body) = serde_json::from_slice::<Value>(&request.body) else {
            return whole("404 Not Found", "text/plain", "");
        };
        if body["stream"] == true {
            let prompt = body["messages"][0]["content"].as_str().unwrap_or_default();
            return whole("200 OK", "text/event-stream", &stream(prompt));
        }
        let calls = [
            call("a", "get_weather", OSLO),
            call("b", "get_weather", ROME),
        ];
        let message = json!({"role": "assistant", "tool_calls": calls});
        let body = json!({"choices": [{"message": message, "finish_reason": "tool_calls"}]});
        whole("200 OK", "application/json", &body.to_string())
    })
}

fn flags(server: &ScriptedServer, path: &str, count: usize) -> Vec<String> {
    format!(
        "--backend openai-chat --base-url {} --model tiny --dataset custom --dataset-path {path} \
         --num-prompts {count} --max-concurrency 1 --num-warmups 0 --skip-preflight",
        server.base_url
    )
    .split(' ')
    .map(str::to_owned)
    .collect()
}

fn rows(prompts: &[&str]) -> String {
    let tool = json!({"type": "function", "function": {"name": "get_weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}});
    prompts
        .iter()
        .map(|prompt| format!("{}\n", json!({"prompt": prompt, "tools": [tool]})))
        .collect()
}

#[test]
fn departures_are_named_and_answers_are_judged_by_index() {
    let server = server();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    std::fs::write(&path, rows(&ROWS.map(|row| row.0))).unwrap();
    let log = folder.path().join("run.jsonl");
    let mut arguments = flags(&server, path.to_str().unwrap(), ROWS.len());
    arguments.extend(["--save-detailed", "--run-log", log.to_str().unwrap()].map(str::to_owned));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (ran, result) = sobench_result(&arguments);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    check_result(&result).unwrap();
    let outputs = result["outputs"].as_array().unwrap();
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for ((prompt, verdict, departures, words), output) in ROWS.iter().zip(outputs) {
        let found = &output["verdict"];
        let name = [
            &found["reason"]["fault"],
            &found["reason"]["reason"],
            &found["verdict"],
        ];
        let name = name.iter().find_map(|name| name.as_str());
        assert_eq!(name, Some(*verdict), "{prompt}: {output}");
        for departure in *departures {
            *counts.entry(departure).or_default() += 1;
        }
        let squeezed = |text: &str| text.split_whitespace().collect::<String>();
        // Cells wrap, and other cells stand beside them.
        let all = squeezed(&result["sobench"].to_string().replace('\\', ""));
        assert!(all.contains(&squeezed(words)), "{prompt}: {all}");
    }
    let by_name = result["sobench"]["departures"]["by_name"]
        .as_array()
        .unwrap();
    let found: BTreeMap<&str, u64> = by_name
        .iter()
        .map(|count| {
            (
                count["name"].as_str().unwrap(),
                count["answers"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(found, counts);
    assert!(
        ran.stdout.contains("Departures from the API"),
        "{}",
        ran.stdout
    );
    // The log has them, too.
    let again = sobench(&["report", log.to_str().unwrap(), "--detail", "summary"]);
    let shown = "Departures from the API\n  1 shared_index, first in ";
    assert!(again.stdout.contains(shown), "{}", again.stdout);
    let read = r#"clients read one call with the arguments of all: get_weather({"city":"Oslo"}{"#;
    assert!(again.stdout.contains(read), "{}", again.stdout);
    for format in ["markdown", "html"] {
        let page = sobench(&["report", log.to_str().unwrap(), "--format", format]);
        let text = page.stdout.replace('\\', "");
        assert!(text.contains("shared_index"), "{format}: {text}");
    }
}

/// The text `{"city":"Oslo"}` in three deltas of `/v1/responses`, of which the second is lost.
fn contradicting_stream() -> String {
    let delta = |number: u64, text: &str| json!({"type": "response.output_text.delta", "sequence_number": number, "delta": text});
    let message = json!({"type": "message", "content": [{"type": "output_text", "text": OSLO}]});
    let last = json!({"type": "response.completed", "sequence_number": 3,
        "response": {"status": "completed", "output": [message]}});
    [delta(0, r#"{"city"#), delta(2, r#"slo"}"#), last]
        .map(|event| format!("data: {event}\n\n"))
        .concat()
}

#[test]
fn the_headline_names_streams_that_contradict_themselves() {
    let server = ScriptedServer::answering(|request| {
        if request.is_model_list() {
            return models();
        }
        if request.body.is_empty() {
            return whole("404 Not Found", "text/plain", "");
        }
        whole("200 OK", "text/event-stream", &contradicting_stream())
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    let row = json!({"prompt": "Say it", "json": {"type": "object"}}).to_string() + "\n";
    std::fs::write(&path, row.repeat(4)).unwrap();
    let mut arguments = flags(&server, path.to_str().unwrap(), 4);
    arguments[1] = "openai-responses".to_owned();
    arguments.extend(["--no-run-log", "--disable-tqdm"].map(str::to_owned));
    let ran = sobench(&arguments);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let page = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "none of 4 constrained answers follows its constraint: the streams contradict themselves \
         (events are missing, by their numbers); they may have broken the answers, and not the engine",
        "4 lost_events, first in custom-0: events are missing, by their numbers: first: number 1",
        "4 other_final_text, first in custom-0: the final text differs from the deltas",
        r#""{\"cityslo\"}" in the deltas, "{\"city\":\"Oslo\"}" in the final text"#,
        "clients read the deltas, or the final text; the deltas are judged",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
fn stream_parity_is_broken_by_calls_that_share_an_index() {
    let server = server();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    std::fs::write(&path, rows(&["shared"])).unwrap();
    let mut arguments = flags(&server, path.to_str().unwrap(), 1);
    arguments.push("--stream-parity=1".to_owned());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (ran, result) = sobench_result(&arguments);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let parity = &result["sobench"]["stream_parity"];
    assert_eq!(
        [&parity["different"], &parity["by_part"][0]["part"]],
        [&json!(1), &json!("number_of_calls")],
        "{parity}"
    );
}
