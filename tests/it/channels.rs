//! Timing by channel: reasoning, content and tool calls.

use std::io::Write;
use std::net::TcpStream;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};
use sobench_testkit::scripted::{STREAM_HEAD, ScriptedServer, Then, chunk, models};

use crate::support::{check_result, sobench_result};

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
fn server(steps: Vec<Step>, finish_reason: &'static str) -> ScriptedServer {
    ScriptedServer::new(move |request, to| {
        let written = match request.line.starts_with("GET ") {
            true => to.write_all(models().as_bytes()),
            false => stream(to, &steps, finish_reason),
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

#[test]
fn each_channel_has_its_latencies() {
    let steps = vec![
        (20, json!({"reasoning": "let"})),
        (30, json!({"reasoning": " me see"})),
        (200, json!({"content": "Posi"})),
        (60, json!({"content": "tive"})),
        (300, call(&json!({"name": "f", "arguments": ""}))),
        (40, call(&json!({"arguments": "{}"}))),
    ];
    let thinking = server(steps, "tool_calls");
    let flags = "--backend openai-chat --constraint-dialect structured-outputs --skip-preflight";
    let run = [
        flags,
        "--dataset choice --num-prompts 4 --base-url",
        &thinking.base_url,
    ];
    let (ran, result) = sobench_result(&run);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    check_result(&result).unwrap();
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
}
