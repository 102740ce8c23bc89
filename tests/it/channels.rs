//! Timing by channel, a server that withholds the arguments of tool calls, and reasoning of a run.

use std::io::Write;
use std::net::TcpStream;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};
use sobench_testkit::scripted::{STREAM_HEAD, ScriptedServer, Then, chunk, models};

use crate::support::{Ran, check_result, sobench, sobench_result};

/// Arguments of a call, longer than the minimum for a buffered one.
const ARGUMENTS: &str =
    r#"{"city":"Paris","country":"France","unit":"celsius","days":7,"hourly":true,"wind":false}"#;

/// A delta, and the pause before it in milliseconds.
type Step = (u64, Value);

fn event(delta: &Value, finish_reason: Option<&str>) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish_reason});
    format!("data: {}\n\n", json!({"choices": [choice]}))
}

fn stream(to: &mut TcpStream, steps: &[Step], finish_reason: &str) -> std::io::Result<()> {
    to.write_all(STREAM_HEAD.as_bytes())?;
    // Deltas without a pause between them are sent at once.
    let mut events = String::new();
    for (pause_ms, delta) in steps {
        if *pause_ms > 0 && !events.is_empty() {
            to.write_all(&chunk(events.as_bytes()))?;
            events.clear();
        }
        sleep(Duration::from_millis(*pause_ms));
        events.push_str(&event(delta, None));
    }
    events.push_str(&event(&json!({}), Some(finish_reason)));
    events.push_str("data: [DONE]\n\n");
    to.write_all(&chunk(events.as_bytes()))?;
    to.write_all(&chunk(b""))
}

/// A chat server that streams these steps, with their finish reason.
fn server(
    steps: impl Fn(&Value) -> (Vec<Step>, &'static str) + Send + Sync + 'static,
) -> ScriptedServer {
    ScriptedServer::new(move |request, to| {
        let written = if request.line.starts_with("GET ") {
            to.write_all(models().as_bytes())
        } else {
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            let (steps, finish_reason) = steps(&body);
            stream(to, &steps, finish_reason)
        };
        if written.is_ok() {
            Then::Keep
        } else {
            Then::Close
        }
    })
}

fn call(function: &Value) -> Value {
    json!({"tool_calls": [{"index": 0, "function": function}]})
}

/// The name of a call, and its arguments in pieces, each after a pause.
fn call_steps(first_ms: u64, each_ms: u64) -> Vec<Step> {
    let name = (20, call(&json!({"name": "get_weather", "arguments": ""})));
    let pieces = ARGUMENTS.as_bytes().chunks(10).enumerate();
    let arguments = pieces.map(|(index, piece)| {
        let piece = std::str::from_utf8(piece).unwrap();
        let pause_ms = if index == 0 { first_ms } else { each_ms };
        (pause_ms, call(&json!({"arguments": piece})))
    });
    [name].into_iter().chain(arguments).collect()
}

fn run(server: &ScriptedServer, flags: &[&str]) -> (Ran, Value) {
    let fixed = [
        "--backend",
        "openai-chat",
        "--base-url",
        &server.base_url,
        "--constraint-dialect",
        "structured-outputs",
        "--skip-preflight",
        "--dataset",
        "choice",
    ];
    let (ran, result) = sobench_result(&[&fixed[..], flags].concat());
    assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
    check_result(&result).unwrap_or_else(|error| panic!("{error}"));
    (ran, result)
}

fn unwrapped(ran: &Ran) -> String {
    ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
}

const BUFFERS: &str = "the server buffers tool calls";

#[test]
fn a_server_that_buffers_arguments_is_named() {
    let buffering = server(|_| (call_steps(1900, 0), "tool_calls"));
    let (ran, result) = run(&buffering, &["--num-prompts", "6"]);
    let page = unwrapped(&ran);
    assert!(
        page.contains(
            "the server buffers tool calls: arguments of 6 of 6 long answers came in the last 100 ms, after"
        ),
        "{}",
        ran.stdout
    );
    let metrics = &result["sobench"]["metrics"];
    let mean = |name: &str| metrics[name]["mean"].as_f64().unwrap();
    assert!(mean("dead_air_ms") >= 500.0, "{metrics}");
    assert!(mean("ttft_arguments_ms") >= mean("ttft_call_ms") + 500.0);
    assert_eq!(metrics["late_arguments_percent"], 100.0);
    assert_eq!(metrics["itl_content_ms"], Value::Null);
    for text in ["Timing by channel", "ITL of the tool calls", "Dead air"] {
        assert!(page.contains(text), "{text}\n{}", ran.stdout);
    }
}

#[test]
fn servers_that_stream_or_answer_at_once_are_not_named() {
    for (first_ms, each_ms) in [(150, 150), (0, 0)] {
        let server = server(move |_| (call_steps(first_ms, each_ms), "tool_calls"));
        let (ran, _) = run(&server, &["--num-prompts", "6"]);
        assert!(
            !unwrapped(&ran).contains(BUFFERS),
            "{first_ms} {each_ms}\n{}",
            ran.stdout
        );
    }
}

#[test]
fn each_channel_has_its_latencies() {
    let thinking = server(|_| {
        let steps = vec![
            (20, json!({"reasoning": "let"})),
            (30, json!({"reasoning": " me see"})),
            (200, json!({"content": "Posi"})),
            (60, json!({"content": "tive"})),
            (300, call(&json!({"name": "f", "arguments": ""}))),
            (40, call(&json!({"arguments": "{}"}))),
        ];
        (steps, "tool_calls")
    });
    let (ran, result) = run(&thinking, &["--num-prompts", "4"]);
    let metrics = &result["sobench"]["metrics"];
    let mean = |name: &str| metrics[name]["mean"].as_f64().unwrap();
    assert!(mean("ttft_content_ms") >= mean("ttft_reasoning_ms") + 100.0);
    assert!(mean("ttft_call_ms") >= mean("ttft_content_ms") + 150.0);
    for name in [
        "itl_reasoning_ms",
        "itl_content_ms",
        "itl_call_ms",
        "dead_air_ms",
    ] {
        assert_eq!(metrics[name]["n"], 4, "{name}");
        assert!(mean(name) > 0.0, "{name} {metrics}");
    }
    assert!(mean("dead_air_ms") >= 150.0, "{metrics}");
    assert_eq!(metrics["late_reasoning_percent"], 0.0);
    assert!(
        unwrapped(&ran).contains("Timing by channel"),
        "{}",
        ran.stdout
    );
}

#[test]
fn reasoning_that_a_constraint_suppresses_is_a_rate() {
    let server = server(|body| {
        let steps = if body.get("structured_outputs").is_some() {
            vec![(0, json!({"content": "Positive"}))]
        } else {
            vec![
                (0, json!({"reasoning": "it is warm"})),
                (0, json!({"content": "so</think>Positive"})),
            ]
        };
        (steps, "stop")
    });
    let flags = ["--num-prompts", "40", "--guided-decoding-ratio", "0.5"];
    let (ran, result) = run(&server, &flags);
    let own = &result["sobench"];
    let suppressed = &own["metrics"]["thinking_suppressed_rate"];
    assert_eq!(
        (&suppressed["hits"], &suppressed["of"]),
        (&json!(20), &json!(20))
    );
    let control = &own["reasoning"]["arms"][1];
    assert_eq!(control["arm"], "control");
    assert_eq!(control["end_marker"]["hits"], 20, "{control}");
    assert!(own["reasoning"]["tokens"]["difference"].as_f64().unwrap() < 0.0);
    let page = unwrapped(&ran);
    for text in ["thinking suppressed", "mean reasoning tokens of answers"] {
        assert!(page.contains(text), "{text}\n{}", ran.stdout);
    }
}

#[test]
fn answers_lost_in_the_reasoning_are_rates() {
    let server = server(|body| {
        let prompt = body["messages"][0]["content"].as_str().unwrap();
        if prompt.len() % 2 == 0 {
            (
                vec![(0, json!({"reasoning": "let me think about"}))],
                "length",
            )
        } else {
            (vec![(0, json!({"reasoning": "so: {\"a\":1}"}))], "stop")
        }
    });
    let (_, result) = run(&server, &["--num-prompts", "12", "--prompt-variants", "6"]);
    let metrics = &result["sobench"]["metrics"];
    let hits = |name: &str| metrics[name]["hits"].as_u64().unwrap();
    assert_eq!(
        hits("thinking_budget_rate") + hits("json_in_reasoning_rate"),
        12,
        "{metrics}"
    );
    assert_eq!(metrics["thinking_suppressed_rate"], Value::Null);
}

#[test]
fn a_plain_run_has_no_channels() {
    let ran = sobench(&[
        "--dataset",
        "choice",
        "--num-prompts",
        "20",
        "--no-run-log",
        "--detail",
        "full",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let page = unwrapped(&ran);
    for text in ["Timing by channel", "Reasoning", "parity", "Dead air"] {
        assert!(!page.contains(text), "{text}\n{}", ran.stdout);
    }
}
