//! Reasoning over HTTP: with constraints, tools and neither, and its faults.

use serde_json::{Value, json};
use sobench_core::verdict::Verdict;
use sobench_embedded::{EmbeddedSettings, Fault, ReasoningStyle};

use super::calls::{Received, chat, judge};
use super::{Client, merged, start_with, stop};

const TOKENS: u32 = 40;

fn options(style: ReasoningStyle, faults: &[&str]) -> EmbeddedSettings {
    EmbeddedSettings {
        reasoning_tokens: TOKENS,
        reasoning_style: style,
        faults: faults
            .iter()
            .map(|fault| Fault::parse(fault).unwrap())
            .collect(),
        ..EmbeddedSettings::default()
    }
}

/// The only answer that the constraint allows.
const ANSWER: &str = "the only choice of all";

fn request(stream: bool, seed: u32) -> Value {
    json!({
        "messages": [{"role": "user", "content": "Pick."}], "max_completion_tokens": 400, "seed": seed,
        "stream": stream, "structured_outputs": {"choice": [ANSWER]},
    })
}

fn tools() -> Value {
    json!({"tools": [{"type": "function", "function": {"name": "ping", "strict": true, "parameters":
        {"type": "object", "properties": {"host": {"enum": ["a", "b"]}}, "required": ["host"]}}}],
        "tool_choice": "required", "structured_outputs": null})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_constraint_applies_after_the_reasoning() {
    for style in ReasoningStyle::ALL {
        let server = start_with(options(style, &[])).await;
        let client = Client::new(&server);
        for stream in [false, true] {
            for seed in 0..4 {
                let constrained = request(stream, seed);
                let Received {
                    answer,
                    finish_reason,
                    ..
                } = chat(&client, &constrained).await;
                assert_eq!(
                    (answer.content.as_str(), finish_reason.as_str()),
                    (ANSWER, "stop"),
                    "{style}: {answer:?}"
                );
                assert!(
                    answer.reasoning.len() > 40 && !answer.reasoning.contains('<'),
                    "{style}: {answer:?}"
                );
                let called = merged(&constrained, tools());
                let received = chat(&client, &called).await;
                assert_eq!(judge(&called, &received), Verdict::Valid, "{style}");
                assert!(received.answer.reasoning.len() > 40, "{style}");
                let free = merged(&constrained, json!({"structured_outputs": null}));
                let received = chat(&client, &free).await;
                assert!(received.answer.reasoning.len() > 40, "{style}");
            }
        }
        stop(server).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_switch_reasoning_off() {
    let server = start_with(options(ReasoningStyle::Qwen3, &[])).await;
    let client = Client::new(&server);
    for (off, counted) in [
        (
            json!({"chat_template_kwargs": {"enable_thinking": false}}),
            false,
        ),
        (json!({"chat_template_kwargs": {"thinking": false}}), false),
        (json!({"reasoning_effort": "none"}), false),
        (json!({"include_reasoning": false}), true),
        (json!({"reasoning_effort": "high"}), true),
    ] {
        let body = merged(&request(false, 1), off);
        let answer = client.post("/v1/chat/completions", body.to_string()).await;
        let answer: Value = serde_json::from_str(&answer.body).unwrap();
        let message = &answer["choices"][0]["message"];
        assert_eq!(message["content"], ANSWER, "{body}");
        let is_sent = body["reasoning_effort"] == "high";
        assert_eq!(message.get("reasoning").is_some(), is_sent, "{answer}");
        let usage = &answer["usage"];
        let tokens = usage["completion_tokens_details"]["reasoning_tokens"]
            .as_u64()
            .unwrap();
        assert_eq!(tokens >= 30, counted, "{answer}");
        assert!(
            usage["completion_tokens"].as_u64().unwrap() > tokens,
            "{answer}"
        );
    }
    let effort = merged(&request(false, 1), json!({"reasoning_effort": "much"}));
    let answer = client
        .post("/v1/chat/completions", effort.to_string())
        .await;
    assert_eq!(answer.status, 400);
    stop(server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn completions_have_no_reasoning() {
    let server = start_with(options(ReasoningStyle::Qwen3, &[])).await;
    let client = Client::new(&server);
    let body =
        json!({"prompt": "Pick.", "max_tokens": 64, "structured_outputs": {"choice": [ANSWER]}});
    assert_eq!(client.complete(&body).await["choices"][0]["text"], ANSWER);
    stop(server).await;
}

/// Whether an answer shows the fault.
fn shows(fault: &str, received: &Received) -> bool {
    let (reasoning, content) = (
        received.answer.reasoning.as_str(),
        received.answer.content.as_str(),
    );
    match fault {
        "suppress-thinking" => reasoning.is_empty() && content == ANSWER,
        "constrain-thinking" => reasoning == ANSWER && content == ANSWER,
        "constraint-early" => reasoning.ends_with(&ANSWER[..2]) && content == &ANSWER[2..],
        "constraint-late" => content.ends_with(ANSWER) && content.len() > ANSWER.len(),
        "answer-in-reasoning" => reasoning == ANSWER && content.is_empty(),
        "leak-end-marker" => content == format!("</think>\n\n{ANSWER}"),
        "endless-thinking" => {
            content.is_empty() && received.finish_reason == "length" && reasoning.len() > 400
        }
        _ => false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_fault_of_reasoning_is_injected_and_seen() {
    for fault in [
        "suppress-thinking",
        "constrain-thinking",
        "constraint-early",
        "constraint-late",
        "answer-in-reasoning",
        "leak-end-marker",
        "endless-thinking",
    ] {
        let planted = format!("{fault}@4of8");
        let server = start_with(options(ReasoningStyle::Qwen3, &[&planted])).await;
        let client = Client::new(&server);
        let mut seen = Vec::new();
        for seed in 0..12 {
            let received = chat(&client, &request(seed % 2 == 0, seed)).await;
            let is_seen = shows(fault, &received);
            assert!(
                is_seen
                    || received.answer.content == ANSWER && received.answer.reasoning.len() > 40,
                "{fault}: {:?}",
                received.answer
            );
            seen.push(is_seen);
        }
        let count = |part: &[bool]| part.iter().filter(|is_seen| **is_seen).count();
        assert_eq!((count(&seen[..8]), count(&seen[8..])), (4, 0), "{fault}");
        let stats = server.stats();
        assert_eq!(stats.faults, [(fault.to_owned(), 4)]);
        assert_eq!(stats.fault_eligible, [(fault.to_owned(), 12)]);
        stop(server).await;
    }
}
