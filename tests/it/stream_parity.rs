//! `--stream-parity`: servers whose whole answers differ from the streamed ones are named, and those
//! that are not deterministic are not.

use std::collections::BTreeMap;
use std::sync::Mutex;

use serde_json::{Value, json};
use sobench_testkit::scripted::{ScriptedServer, models, whole};

use crate::support::custom_result;

/// A tool call: id, name, arguments.
type Call = [&'static str; 3];

/// An answer of the server.
#[derive(Clone, Default)]
struct Answer {
    reasoning: &'static str,
    content: &'static str,
    calls: Vec<Call>,
}

/// How often a prompt came, and the form that it requests.
struct Asked {
    /// The prompt of the row.
    prompt: String,
    is_streamed: bool,
    /// How many streamed requests with this prompt came before, the trial excluded.
    streamed_before: usize,
}

fn call_json(index: usize, [id, name, arguments]: &Call) -> Value {
    json!({"index": index, "id": id, "type": "function",
        "function": {"name": name, "arguments": arguments}})
}

fn response(answer: &Answer, is_streamed: bool) -> String {
    let finish_reason = if answer.calls.is_empty() {
        "stop"
    } else {
        "tool_calls"
    };
    let calls = || answer.calls.iter().enumerate();
    if !is_streamed {
        let calls: Vec<Value> = calls()
            .map(|(index, call)| call_json(index, call))
            .collect();
        let message = json!({"role": "assistant", "reasoning": answer.reasoning,
            "content": answer.content, "tool_calls": calls});
        let choice = json!({"index": 0, "message": message, "finish_reason": finish_reason});
        let body = json!({"choices": [choice]}).to_string();
        return whole("200 OK", "application/json", &body);
    }
    let event = |delta: &Value, reason: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        format!("data: {}\n\n", json!({"choices": [choice]}))
    };
    let mut events = Vec::new();
    // Reasoning and content in pieces of two bytes.
    for (member, text) in [("reasoning", answer.reasoning), ("content", answer.content)] {
        for piece in text.as_bytes().chunks(2) {
            let piece = std::str::from_utf8(piece).unwrap();
            events.push(event(&json!({member: piece}), None));
        }
    }
    for (index, [id, name, arguments]) in calls() {
        let (first, second) = arguments.split_at(arguments.len() / 2);
        let first = call_json(index, &[id, name, first]);
        let second = json!({"index": index, "function": {"arguments": second}});
        events.push(event(&json!({"tool_calls": [first]}), None));
        events.push(event(&json!({"tool_calls": [second]}), None));
    }
    events.push(event(&json!({}), Some(finish_reason)));
    let body = format!("{}data: [DONE]\n\n", events.concat());
    whole("200 OK", "text/event-stream", &body)
}

fn server(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> ScriptedServer {
    let streamed = Mutex::new(BTreeMap::<String, usize>::new());
    ScriptedServer::answering(move |request| {
        if request.line.starts_with("GET ") {
            return models();
        }
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let prompt = body["messages"][0]["content"].as_str().unwrap().to_owned();
        let is_streamed = body["stream"] == true;
        assert_eq!(body["temperature"], 0.0, "{body}");
        assert_eq!(body["seed"], 7, "{body}");
        assert_eq!(body["stream_options"].is_object(), is_streamed, "{body}");
        let is_trial = request
            .header("x-request-id")
            .is_some_and(|id| id.contains("trial"));
        let mut streamed = streamed.lock().unwrap();
        let count = streamed.entry(prompt.clone()).or_default();
        let asked = Asked {
            streamed_before: *count,
            prompt,
            is_streamed,
        };
        *count += usize::from(is_streamed && !is_trial);
        response(&answer(&asked), is_streamed)
    })
}

/// Runs a row for each prompt.
fn run(server: &ScriptedServer, prompts: &[&str], flags: &str) -> Value {
    let rows: Vec<Value> = prompts
        .iter()
        .map(|prompt| json!({"prompt": prompt}))
        .collect();
    let fixed = "--backend openai-chat --request-id-prefix p- --seed 7";
    custom_result(&server.base_url, &rows, &[fixed, flags]).1
}

const PARIS: Call = ["a", "get_weather", r#"{"city":"Paris"}"#];
const ROME: Call = ["b", "get_weather", r#"{"city":"Rome"}"#];

/// The answer to a prompt, streamed or whole.
fn faulty(asked: &Asked) -> Answer {
    let whole = !asked.is_streamed;
    match asked.prompt.as_str() {
        "equal" => Answer {
            reasoning: "let me see",
            content: "It is warm.",
            calls: vec![[if whole { "x" } else { "y" }, PARIS[1], PARIS[2]]],
        },
        "whole drops a call" => Answer {
            calls: if whole {
                vec![PARIS]
            } else {
                vec![PARIS, ROME]
            },
            ..Answer::default()
        },
        "stream loses a byte" => Answer {
            content: if whole { "It is warm." } else { "It is wrm." },
            ..Answer::default()
        },
        "white space" => Answer {
            calls: vec![[
                "a",
                "get_weather",
                if whole {
                    r#"{"city": "Paris"}"#
                } else {
                    PARIS[2]
                },
            ]],
            ..Answer::default()
        },
        "other answer each time" => Answer {
            content: match (whole, asked.streamed_before) {
                (true, _) => "two",
                (false, 0) => "one",
                (false, _) => "three",
            },
            ..Answer::default()
        },
        "stream wrong once" => Answer {
            content: if asked.is_streamed && asked.streamed_before == 0 {
                "on"
            } else {
                "one"
            },
            ..Answer::default()
        },
        other => panic!("{other}"),
    }
}

#[test]
fn differences_are_named_with_their_first_byte() {
    let server = server(faulty);
    let prompts = [
        "equal",
        "whole drops a call",
        "stream loses a byte",
        "white space",
        "other answer each time",
        "stream wrong once",
    ];
    let result = run(&server, &prompts, "--stream-parity");
    let parity = &result["sobench"]["stream_parity"];
    let counts = [
        "requests",
        "equal",
        "different",
        "not_deterministic",
        "repeat_equals_whole",
    ]
    .map(|name| parity[name].as_u64().unwrap());
    assert_eq!(counts, [6, 1, 3, 2, 1], "{parity}");
    let rate = &result["sobench"]["metrics"]["stream_parity_rate"];
    assert_eq!((&rate["hits"], &rate["of"]), (&json!(1), &json!(4)));
    let of_requests: Vec<_> = result["outputs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|output| {
            let parity = &output["parity"];
            let first = &parity["differences"][0];
            (
                parity["result"].as_str().unwrap(),
                first["part"].as_str().unwrap_or_default(),
                first["byte"].as_u64(),
            )
        })
        .collect();
    assert_eq!(
        of_requests,
        [
            ("equal", "", None),
            ("different", "number_of_calls", None),
            ("different", "content", Some(7)),
            ("different", "arguments_spelling", Some(8)),
            ("not_deterministic", "content", Some(0)),
            ("not_deterministic", "content", Some(2)),
        ]
    );
    // A streamed trial and six streamed requests; six whole ones; five that differ again.
    let forms: Vec<bool> = server
        .requests()
        .iter()
        .filter(|request| request.line.starts_with("POST "))
        .map(|request| {
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            body["stream"] == true
        })
        .collect();
    let expected = [vec![true; 7], vec![false; 6], vec![true; 5]].concat();
    assert_eq!(forms, expected);
    // Whole answers are in no figure of the run.
    assert_eq!(result["completed"], 6);
    assert_eq!(result["sobench"]["metrics"]["ttft_ms"]["n"], 6);
}

#[test]
fn a_share_of_equal_answers_sends_nothing_twice_more() {
    let server = server(|_| {
        faulty(&Asked {
            prompt: "equal".to_owned(),
            is_streamed: true,
            streamed_before: 0,
        })
    });
    let result = run(
        &server,
        &["a", "b", "c", "d"],
        "--stream-parity=0.5 --continuous-usage",
    );
    let parity = &result["sobench"]["stream_parity"];
    let found = [&parity["requests"], &parity["equal"], &parity["by_part"]];
    assert_eq!(found, [&json!(2), &json!(2), &json!([])]);
    let requests = server.requests().into_iter();
    let generating = requests.filter(|request| request.line.starts_with("POST "));
    assert_eq!(generating.count(), 1 + 4 + 2);
}
