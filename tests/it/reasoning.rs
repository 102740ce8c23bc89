//! Reasoning and answer are separated under both field names and have separate first-token times;
//! the verdict is about the answer.

use std::io::Write;

use serde_json::{Value, json};
use sobench_testkit::scripted::{Request, ScriptedServer, Then, chunk, models};

use crate::support::sobench_result;

/// The server's answers in turn: field name of the reasoning, reasoning, answer, finish reason.
const ANSWERS: [(&str, &str, &str, &str); 4] = [
    ("reasoning", "no, or yes", "yes", "stop"),
    ("reasoning_content", "yes", "maybe", "stop"),
    ("reasoning", "yes", "", "length"),
    ("reasoning_content", "", "no", "stop"),
];

fn event(delta: &Value, finish_reason: Option<&str>) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish_reason});
    format!(
        "data: {}\n\n",
        json!({"object": "chat.completion.chunk", "choices": [choice]})
    )
}

/// Sends each part as an HTTP chunk, so that each may have an instant of its own.
fn stream(number: usize, to: &mut impl Write) -> std::io::Result<()> {
    let (name, reasoning, answer, finish_reason) = ANSWERS[number % ANSWERS.len()];
    let mut parts = vec![event(&json!({"role": "assistant", "content": ""}), None)];
    parts.extend(
        (!reasoning.is_empty()).then(|| event(&json!({name: reasoning, "content": null}), None)),
    );
    parts.extend((!answer.is_empty()).then(|| event(&json!({"content": answer}), None)));
    parts.push(event(&json!({}), Some(finish_reason)));
    parts.push("data: [DONE]\n\n".to_owned());
    to.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
    )?;
    for part in parts {
        to.write_all(chunk(part.as_bytes()).as_ref())?;
        to.flush()?;
    }
    to.write_all(b"0\r\n\r\n")
}

fn reasoning_server() -> ScriptedServer {
    ScriptedServer::new(|request: &Request, to| {
        // The model list and the trial request come before the measured requests.
        let written = match request.number {
            _ if request.line.starts_with("GET ") => to.write_all(models().as_bytes()),
            number => stream(number % ANSWERS.len(), to),
        };
        if written.is_ok() {
            Then::Keep
        } else {
            Then::Close
        }
    })
}

#[test]
fn reasoning_is_timed_and_the_answer_is_judged() {
    let server = reasoning_server();
    let fixed = [
        "--backend",
        "openai-chat",
        "--base-url",
        &server.base_url,
        "--model",
        "m",
        "--save-detailed",
    ];
    let dataset = [
        "--dataset",
        "choice",
        "--choice",
        "yes,no",
        "--constraint-dialect",
        "structured-outputs",
    ];
    let traffic = [
        "--num-prompts",
        "8",
        "--max-concurrency",
        "1",
        "--skip-preflight",
    ];
    let (ran, result) = sobench_result(&[&fixed[..], &dataset, &traffic].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);

    let outputs = result["outputs"].as_array().unwrap();
    for output in outputs {
        let (reasoning, answer) = (
            output["reasoning"].as_str().unwrap_or_default(),
            output["generated"].as_str().unwrap(),
        );
        let is_sent = ANSWERS.iter().any(|(_, sent_reasoning, sent_answer, _)| {
            (*sent_reasoning, *sent_answer) == (reasoning, answer)
        });
        assert!(is_sent, "{output}");
        assert_eq!(
            output["correctness"],
            ["yes", "no"].contains(&answer),
            "{output}"
        );
        assert_eq!(
            output["ttft_reasoning_ms"].is_number(),
            !reasoning.is_empty(),
            "{output}"
        );
        assert_eq!(
            output["ttft_answer_ms"].is_number(),
            !reasoning.is_empty() && !answer.is_empty(),
            "{output}"
        );
        if let (Some(reasoning_ms), Some(answer_ms)) = (
            output["ttft_reasoning_ms"].as_f64(),
            output["ttft_answer_ms"].as_f64(),
        ) {
            assert!(reasoning_ms <= answer_ms, "{output}");
        }
    }
    let latency = &result["sobench"]["overall"]["latency"];
    let found = &latency["reasoning"];
    let counts = [
        &found["answers"],
        &found["without_answer"],
        &found["ttft_reasoning_ms"]["n"],
        &found["ttft_answer_ms"]["n"],
    ];
    assert_eq!(
        counts.map(Value::as_u64),
        [Some(6), Some(2), Some(6), Some(4)],
        "{found}"
    );
    assert_eq!(
        latency["ttft_ms"]["n"].as_u64(),
        Some(8),
        "TTFT counts reasoning too"
    );
    for text in [
        "\nReasoning\n",
        "TTFT of the answer (ms)",
        "answers with reasoning: 6, with reasoning only: 2",
    ] {
        assert!(ran.stdout.contains(text), "no {text:?} in\n{}", ran.stdout);
    }
}

#[test]
fn report_without_reasoning_has_no_reasoning_section() {
    let (ran, result) = sobench_result(&[
        "--dataset",
        "choice",
        "--num-prompts",
        "4",
        "--save-detailed",
    ]);
    assert!(!ran.stdout.contains("Reasoning"), "{}", ran.stdout);
    assert!(result["sobench"]["metrics"]["ttft_reasoning_ms"].is_null());
    assert_eq!(
        result["sobench"]["overall"]["latency"].get("reasoning"),
        None
    );
}
