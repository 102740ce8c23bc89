//! Answers that depart from the API are judged as the API's rule joins them, and their departures
//! are counted and shown.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sobench_testkit::scripted::{ScriptedServer, models, whole};

use crate::support::{Folder, custom_result, sobench, verdicts};

const OSLO: &str = r#"{"city":"Oslo"}"#;
const ROME: &str = r#"{"city":"Rome"}"#;

/// What the server does by its prompt, the verdict, and the departures.
const ROWS: [(&str, &str, &[&str]); 18] = [
    ("plain", "valid", &[]),
    ("shared", "invalid_arguments", &["shared_index"]),
    ("ids", "valid", &["changing_id"]),
    ("names", "valid", &["repeated_id", "repeated_name"]),
    ("split", "valid", &["split_name"]),
    ("no index", "valid", &["missing_index"]),
    ("gap", "valid", &["unordered_index"]),
    ("no function", "valid", &["missing_function"]),
    ("custom", "valid", &["wrong_call_type"]),
    ("object", "arguments_not_text", &["object_arguments"]),
    ("null", "invalid_arguments", &["null_arguments"]),
    ("empty", "invalid_arguments", &[]),
    ("reason", "wrong_finish_reason", &["unknown_finish_reason"]),
    ("filter", "valid", &["content_filter"]),
    (
        "late",
        "valid",
        &["text_after_finish", "frame_after_finish"],
    ),
    ("choice", "valid", &["second_choice"]),
    ("cut character", "valid", &["replacement_character"]),
    ("loop", "truncated", &["repeated_calls"]),
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
        event(&json!({"index": index, "delta": delta, "finish_reason": reason}))
    };
    let role = json!({"role": "assistant", "content": ""});
    let mut events = vec![event(0, &role, None)];
    if prompt == "choice" {
        events.push(event(
            1,
            &json!({"role": "assistant", "content": "x"}),
            None,
        ));
    }
    let chunks = chunks(prompt);
    events.extend(
        chunks
            .iter()
            .map(|(delta, reason)| event(0, delta, *reason)),
    );
    events.concat() + "data: [DONE]\n\n"
}

/// A chunk with one choice.
fn event(choice: &Value) -> String {
    let chunk = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "tiny",
        "choices": [choice]});
    format!("data: {chunk}\n\n")
}

/// A server that answers each generating request with this stream for its body.
fn streaming(stream: impl Fn(&Value) -> String + Send + Sync + 'static) -> ScriptedServer {
    ScriptedServer::answering(move |request| match serde_json::from_slice(&request.body) {
        _ if request.is_model_list() => models(),
        Ok(body) => whole("200 OK", "text/event-stream", &stream(&body)),
        Err(_) => whole("404 Not Found", "text/plain", ""),
    })
}

/// The departures of a result, with their number of answers.
fn departures(result: &Value) -> BTreeMap<&str, u64> {
    let by_name = result["sobench"]["departures"]["by_name"]
        .as_array()
        .unwrap()
        .iter();
    let count = |count: &Value| count["answers"].as_u64().unwrap();
    by_name
        .map(|found| (found["name"].as_str().unwrap(), count(found)))
        .collect()
}

/// A request with a tool.
fn row(prompt: &str) -> Value {
    let parameters =
        json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let function = json!({"name": "get_weather", "parameters": parameters});
    json!({"prompt": prompt, "tools": [{"type": "function", "function": function}]})
}

#[test]
fn departures_are_named_and_answers_are_judged_by_index() {
    let server = streaming(|body| stream(body["messages"][0]["content"].as_str().unwrap()));
    let rows = ROWS.map(|(prompt, ..)| row(prompt));
    let folder = Folder::new();
    let log = folder.path("run.jsonl");
    let flags = [
        "--backend openai-chat --model tiny --skip-preflight --run-log",
        &log,
    ];
    let (_, result) = custom_result(&server.base_url, &rows, &flags);
    assert_eq!(verdicts(&result), ROWS.map(|(_, verdict, _)| verdict));
    let all = ROWS.iter().flat_map(|(.., departures)| *departures);
    let expected: BTreeMap<&str, u64> = all.map(|name| (*name, 1)).collect();
    assert_eq!(departures(&result), expected);
    // The log has them, too.
    let again = sobench(&["report", &log, "--format json"]);
    let again: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(departures(&again), expected);
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
fn streams_that_contradict_themselves_are_named() {
    let server = streaming(|_| contradicting_stream());
    let rows = vec![json!({"prompt": "Say it", "json": {"type": "object"}}); 4];
    let flags = ["--backend openai-responses --model tiny --skip-preflight --wire=off"];
    let (ran, result) = custom_result(&server.base_url, &rows, &flags);
    assert_eq!(
        departures(&result),
        BTreeMap::from([("lost_events", 4), ("other_final_text", 4)])
    );
    let headline = "none of 4 constrained answers follows its constraint: the streams contradict themselves \
                    (events are missing, by their numbers); they may have broken the answers, and not the engine";
    assert!(ran.page().contains(headline), "{}", ran.stdout);
}

/// What clients read of two calls on one index is judged, too: of four answers, one has such calls.
#[test]
fn what_clients_read_is_judged() {
    let server = streaming(|body| stream(body["messages"][0]["content"].as_str().unwrap()));
    let rows = ["plain", "shared", "plain", "plain"].map(row);
    let folder = Folder::new();
    let log = folder.path("run.jsonl");
    let flags = [
        "--backend openai-chat --model tiny --skip-preflight --run-log",
        &log,
    ];
    let (ran, result) = custom_result(&server.base_url, &rows, &flags);
    let table = &result["sobench"]["clients"];
    assert_eq!(table["answers"], 4, "{table}");
    assert_eq!(table["differing"], 1);
    assert_eq!(table["valid_percent"], 75.0);
    let clients = table["clients"].as_array().unwrap().iter();
    let valid: BTreeMap<&str, f64> = clients
        .map(|client| {
            let name = client["client"].as_str().unwrap();
            (name, client["valid_percent"].as_f64().unwrap())
        })
        .collect();
    assert_eq!(valid.len(), sobench_wire::CLIENTS.len());
    assert_eq!((valid["langchain"], valid["ai-sdk"]), (100.0, 100.0));
    assert_eq!((valid["openai-python"], valid["litellm"]), (75.0, 75.0));
    assert!(ran.page().contains("What clients read"), "{}", ran.page());
    let summary = sobench(&["report", &log]).page();
    let line = "clients read 1 of 4 answers differently: of what ai-sdk reads, 100.00 % is valid, of what sobench judges 75.00 %";
    assert!(summary.contains(line), "{summary}");
    // The frames of that answer are in the log, and nothing else.
    let shown = sobench(&["wire", &log]);
    assert_eq!(shown.code, 1);
    for text in [
        "3 answers that all clients read alike, without departures",
        "clients read it in 6 ways; no departure from the API",
        "langchain, ai-sdk",
    ] {
        assert!(shown.page().contains(text), "{}", shown.stdout);
    }
    let without = [
        "--backend openai-chat --model tiny --skip-preflight --wire=off --run-log",
        &log,
    ];
    let (_, result) = custom_result(&server.base_url, &rows, &without);
    assert!(result["sobench"]["clients"].is_null());
    let shown = sobench(&["wire", &log]);
    assert_eq!(shown.code, 2);
    assert!(shown.stderr.contains("--wire=off"), "{}", shown.stderr);
}

/// A body where a stream was requested is checked, too.
#[test]
fn whole_answers_to_streamed_requests_are_checked() {
    let body = json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": "a"},
        "finish_reason": "stop"}]});
    let server = ScriptedServer::answering(move |request| match request.is_model_list() {
        true => models(),
        false => whole("200 OK", "application/json", &body.to_string()),
    });
    let flags = ["--backend openai-chat --model tiny --skip-preflight"];
    let (_, result) = custom_result(&server.base_url, &[row("plain")], &flags);
    assert_eq!(departures(&result)["missing_member"], 1);
}
