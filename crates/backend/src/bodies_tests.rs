//! Snapshot tests of the request bodies of every server kind, for every constraint and dialect, and
//! tests of whole responses of every kind.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::json;

use super::{BodySettings, ConstraintDialect, Decoded, Input, JSON, Sampling, ServerKind, adapter};
use sobench_core::audio::Clip;
use sobench_core::case::{Arm, Case, Message, Prompt};
use sobench_core::constraint::{AlwaysTrue, Constraint, GrammarDialect};
use sobench_core::observation::Outcome;
use sobench_core::tools::ToolSet;

fn case(kind: ServerKind, constraint: Option<Constraint>, arm: Arm) -> Case {
    let messages = || [Message::new("user", "Say it")].into();
    let documents = || ["first".into(), "second".into()].into();
    let prompt = match kind.input() {
        Input::Messages => Prompt::Messages(messages()),
        Input::Text => Prompt::Text("Say it".into()),
        Input::Audio => Prompt::Audio(Arc::new(Clip::new("a.wav", "<sound>"))),
        Input::Ranking => Prompt::Ranking {
            query: "Say it".into(),
            documents: documents(),
        },
    };
    Case {
        arm,
        ..Case::new("t-0", prompt, constraint.map(Arc::new), 16)
    }
}

fn options(dialect: ConstraintDialect) -> BodySettings {
    BodySettings {
        model: "m".to_owned(),
        stream: true,
        sampling: Sampling::default(),
        ignore_eos: false,
        dialect,
        guided_decoding_backend: None,
        thinking: None,
        max_tokens_only: false,
        extra_body: None,
    }
}

/// The body, or the error.
fn line(kind: ServerKind, case: &Case, options: &BodySettings) -> String {
    match adapter(kind).encode(case, options) {
        Ok(body) if adapter(kind).content_type() != JSON => {
            format!(
                "{}\n  {}",
                adapter(kind).content_type(),
                String::from_utf8(body.to_vec())
                    .unwrap()
                    .replace("\r\n", "\n  ")
            )
        }
        Ok(body) => {
            assert!(
                serde_json::from_slice::<serde_json::Value>(&body)
                    .unwrap()
                    .is_object()
            );
            String::from_utf8(body.to_vec()).unwrap()
        }
        Err(unsendable) => format!("refused: {}", unsendable.what),
    }
}

fn tools() -> ToolSet {
    let set = json!({
        "tools": [
            {"type": "function", "function": {
                "name": "get_weather",
                "description": "Weather of a city",
                "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
                "strict": true,
            }},
            {"type": "custom", "custom": {
                "name": "time",
                "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": "\\d+"}},
            }},
        ],
        "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
        "parallel_tool_calls": false,
    });
    serde_json::from_value(set).unwrap()
}

fn page(kind: ServerKind) -> String {
    let constraints = [
        Constraint::JsonSchema(Arc::new(
            json!({"type": "object", "properties": {"a": {"type": "integer"}}}),
        )),
        Constraint::JsonObject(AlwaysTrue),
        Constraint::Regex(r"[A-Z]{2}\d".into()),
        Constraint::Choice(vec!["yes".to_owned(), "no.".to_owned()].into()),
        Constraint::Grammar {
            dialect: GrammarDialect::Ebnf,
            text: "root ::= \"a\"".into(),
        },
        Constraint::StructuralTag(Arc::new(json!({"format": {"type": "any_text"}}))),
    ];
    let mut page = format!("{}\n", kind.path(true));
    // A kind without dialects shows the error for a constraint.
    let none = [ConstraintDialect::ResponseFormat];
    let dialects = if kind.dialects().is_empty() {
        &none
    } else {
        kind.dialects()
    };
    for dialect in dialects {
        for constraint in &constraints {
            let name = constraint.kind();
            let case = case(kind, Some(constraint.clone()), Arm::Constrained);
            writeln!(
                page,
                "{dialect} {name}\n  {}",
                line(kind, &case, &options(*dialect))
            )
            .unwrap();
        }
    }
    let tools = || Some(Constraint::Tools(Arc::new(tools())));
    for (name, arm) in [("tools", Arm::Constrained), ("control tools", Arm::Control)] {
        let line = line(kind, &case(kind, tools(), arm), &options(dialects[0]));
        writeln!(page, "{name}\n  {line}").unwrap();
    }
    let control = case(kind, Some(constraints[0].clone()), Arm::Control);
    writeln!(
        page,
        "control\n  {}",
        line(kind, &control, &options(dialects[0]))
    )
    .unwrap();
    let whole = BodySettings {
        stream: false,
        sampling: match kind.generates() {
            true => Sampling {
                temperature: Some(0.5),
                top_p: Some(0.9),
                top_k: Some(40),
                frequency_penalty: kind
                    .spec()
                    .body
                    .sampling_field("frequency_penalty")
                    .map(|_| 0.1),
                ..Sampling::default()
            },
            false => Sampling::default(),
        },
        ..options(dialects[0])
    };
    writeln!(
        page,
        "whole {}\n  {}",
        kind.path(false),
        line(kind, &case(kind, None, Arm::Free), &whole)
    )
    .unwrap();
    if kind.sends_max_completion_tokens() {
        let older = BodySettings {
            max_tokens_only: true,
            ..options(dialects[0])
        };
        let body = line(kind, &case(kind, None, Arm::Free), &older);
        writeln!(page, "max_tokens only\n  {body}").unwrap();
    }
    page
}

#[test]
fn bodies_of_every_kind() {
    for kind in ServerKind::ALL {
        insta::assert_snapshot!(kind.name(), page(kind));
    }
}

/// A whole response: its body, its finish reason, and its prompt and answer token counts.
type WholeResponse = (String, Option<&'static str>, (Option<u64>, Option<u64>));

/// A whole response with the answer `{"a": 1}` in the kind's format.
fn whole_response(kind: ServerKind) -> WholeResponse {
    let text = r#""{\"a\": 1}""#;
    let usage = r#""usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}"#;
    let (body, finish_reason) = match kind {
        ServerKind::Vllm
        | ServerKind::Openai
        | ServerKind::Aphrodite
        | ServerKind::Scalellm
        | ServerKind::DeepspeedMii => (
            format!(
                r#"{{"choices":[{{"index":0,"text":{text},"finish_reason":"stop"}}],{usage}}}"#
            ),
            Some("stop"),
        ),
        ServerKind::OpenaiChat | ServerKind::TrtllmServe | ServerKind::Lmdeploy => {
            let message = format!(r#"{{"role":"assistant","content":{text}}}"#);
            (
                format!(
                    r#"{{"choices":[{{"index":0,"message":{message},"finish_reason":"stop"}}],{usage}}}"#
                ),
                Some("stop"),
            )
        }
        ServerKind::OpenaiResponses => {
            let item = format!(
                r#"{{"type":"message","content":[{{"type":"output_text","text":{text}}}]}}"#
            );
            let usage = r#""usage":{"input_tokens":3,"output_tokens":4}"#;
            (
                format!(r#"{{"status":"completed","error":null,"output":[{item}],{usage}}}"#),
                Some("stop"),
            )
        }
        ServerKind::Anthropic => {
            let usage = r#""usage":{"input_tokens":3,"output_tokens":4}"#;
            let content = format!(r#"[{{"type":"text","text":{text}}}]"#);
            (
                format!(
                    r#"{{"type":"message","content":{content},"stop_reason":"end_turn",{usage}}}"#
                ),
                Some("stop"),
            )
        }
        ServerKind::Sglang => {
            let meta = r#"{"finish_reason":{"type":"stop","matched":2},"prompt_tokens":3,"completion_tokens":4}"#;
            (
                format!(r#"{{"text":{text},"output_ids":[5,6,7,2],"meta_info":{meta}}}"#),
                Some("stop"),
            )
        }
        ServerKind::LlamaCpp => {
            let counts = r#""tokens_predicted":4,"tokens_evaluated":3"#;
            (
                format!(r#"{{"content":{text},"stop":true,"stop_type":"eos",{counts}}}"#),
                Some("stop"),
            )
        }
        ServerKind::Tgi => {
            let details =
                r#"{"finish_reason":"eos_token","generated_tokens":4,"prefill":[],"tokens":[]}"#;
            let body = format!(r#"{{"generated_text":{text},"details":{details}}}"#);
            return (body, Some("eos_token"), (None, Some(4)));
        }
        ServerKind::TensorrtLlm => {
            return (
                format!(r#"{{"model_name":"ensemble","text_output":{text}}}"#),
                None,
                (None, None),
            );
        }
        ServerKind::Ollama => {
            let counts = r#""prompt_eval_count":3,"eval_count":4"#;
            let message = format!(r#"{{"role":"assistant","content":{text}}}"#);
            (
                format!(r#"{{"message":{message},"done":true,"done_reason":"stop",{counts}}}"#),
                Some("stop"),
            )
        }
        ServerKind::OpenaiAudio => {
            let usage =
                r#""usage":{"type":"tokens","input_tokens":3,"output_tokens":4,"total_tokens":7}"#;
            (format!(r#"{{"text":{text},{usage}}}"#), None)
        }
        ServerKind::OpenaiEmbeddings => {
            return without_text(include_str!(
                "../../../fixtures/bodies/vllm-embeddings.json"
            ));
        }
        ServerKind::VllmPooling => {
            return without_text(include_str!("../../../fixtures/bodies/vllm-pooling.json"));
        }
        ServerKind::VllmRerank => {
            return without_text(include_str!("../../../fixtures/bodies/vllm-rerank.json"));
        }
    };
    (body, finish_reason, (Some(3), Some(4)))
}

/// A whole response without text, to a prompt of three tokens.
fn without_text(body: &str) -> WholeResponse {
    (body.to_owned(), None, (Some(3), None))
}

#[test]
fn other_whole_responses() {
    for (kind, body, text, counts) in [
        (
            ServerKind::OpenaiEmbeddings,
            include_str!("../../../fixtures/bodies/openai-embeddings-base64.json"),
            "",
            Some(3),
        ),
        (
            ServerKind::VllmRerank,
            include_str!("../../../fixtures/bodies/vllm-rerank-total.json"),
            "",
            Some(3),
        ),
        (
            ServerKind::OpenaiAudio,
            include_str!("../../../fixtures/bodies/vllm-transcription.json"),
            r#" {"a": 1}"#,
            None,
        ),
    ] {
        let answer = whole(kind, body);
        assert_eq!(
            (&*answer.answer.text(), answer.outcome()),
            (text, Outcome::Completed),
            "{kind}"
        );
        assert_eq!(
            answer.usage.and_then(|usage| usage.prompt_tokens),
            counts,
            "{kind}"
        );
    }
}

#[test]
fn whole_responses_of_every_kind() {
    for kind in ServerKind::ALL {
        let (body, finish_reason, counts) = whole_response(kind);
        let answer = whole(kind, &body);
        let text = if kind.generates() { r#"{"a": 1}"# } else { "" };
        assert_eq!(
            (&*answer.answer.text(), answer.outcome()),
            (text, Outcome::Completed),
            "{kind}"
        );
        assert!(answer.has_content, "{kind}");
        assert_eq!(answer.finish_reason.as_deref(), finish_reason, "{kind}");
        let usage = answer.usage.map_or((None, None), |usage| {
            (usage.prompt_tokens, usage.completion_tokens)
        });
        assert_eq!(usage, counts, "{kind}");
    }
}

#[test]
fn invalid_responses_of_every_kind_have_an_outcome() {
    for kind in ServerKind::ALL {
        for (body, outcome) in [
            (r#"{"error":{"message":"no","code":400}}"#, "rejected"),
            (r#"{"error":{"message":"no","code":503}}"#, "server_error"),
            (r#"{"error":"no"}"#, "stream_error"),
            (r#"{"object":"list","data":[]}"#, "stream_error"),
            ("{}", "stream_error"),
            ("[1]", "stream_error"),
            ("null", "stream_error"),
            ("<html>", "stream_error"),
            ("\u{0}", "stream_error"),
            ("", "stream_error"),
        ] {
            let answer = whole(kind, body);
            // TGI's errors are strings with a separate type, so an object has no status.
            let outcome = if kind == ServerKind::Tgi {
                "stream_error"
            } else {
                outcome
            };
            assert_eq!(answer.outcome().name(), outcome, "{kind}: {body}");
            assert!(!answer.has_content, "{kind}: {body}");
        }
    }
}

fn whole(kind: ServerKind, body: &str) -> Decoded {
    let mut decoder = adapter(kind).decoder(false, 0);
    let (head, tail) = body.as_bytes().split_at(body.len() / 2);
    decoder.push(head);
    decoder.push(tail);
    assert!(decoder.finish().ended);
    decoder.into_decoded()
}
