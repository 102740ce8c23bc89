//! Text Generation Inference's native `/generate_stream` and `/generate`: `{inputs, parameters:
//! {...}}`.
//!
//! Source: `router/src/lib.rs` and `server.rs` of TGI 2 and 3, not tested against a server. Every
//! event is one token; special tokens are not text. The last event has the whole answer
//! (`generated_text`) and `details`, with TGI's finish reason (`eos_token`, `stop_sequence`,
//! `length`); there is no `[DONE]`. Errors are `{error, error_type}`; the type determines the
//! status that TGI returns outside of streams. `ignore_eos_token`, which vLLM's script sends, is
//! not a parameter of TGI, so `--ignore-eos` is rejected.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::openai::COMPLETIONS;
use super::{ConstraintDialect, KindSpec, ServerKind};
use crate::body_layout::BodyLayout;
use crate::decode::Wire;
use crate::product::{InfoPage, ProductSpec, ServerInfo, text_member};
use crate::wire::{self, Delta, Text, TextIs, WireError};
use crate::{BodySettings, Sampling, Unsendable, body};
use sobench_core::case::Case;

pub(super) const SPEC: KindSpec = KindSpec {
    name: "tgi",
    path: "/generate_stream",
    whole_path: Some("/generate"),
    path_words: &["generate"],
    dialects: &[ConstraintDialect::TgiGrammar],
    auto_dialect: |_| ConstraintDialect::TgiGrammar,
    body: BodyLayout {
        nested_in: Some("parameters"),
        prompt: "inputs",
        length: "max_new_tokens",
        has_stream_field: false,
        has_stream_options: false,
        has_ignore_eos: false,
        sampling: &[
            "temperature",
            "top_p",
            "frequency_penalty",
            "repetition_penalty",
            "top_k",
            "seed",
        ],
        renamed: &[],
    },
    logprobs: Some(|n| json!({"parameters": {"top_n_tokens": n}})),
    names_model: false,
    product: Some(ProductSpec {
        pages: &[InfoPage {
            path: "/info",
            read: read_info,
        }],
        ..ProductSpec::new("tgi", "Text Generation Inference")
    }),
    encode,
    wire: Wire::sse(read),
    ..COMPLETIONS
};

fn read_info(page: &Value) -> Option<ServerInfo> {
    text_member(page, "router").filter(|router| router.starts_with("text-generation-router"))?;
    Some(ServerInfo {
        version: text_member(page, "version"),
        model: text_member(page, "model_id"),
        engine: None,
    })
}

/// TGI refuses a temperature of 0 and decodes greedily without one. A `top_p` or `top_k`, or a
/// temperature other than 1, enables sampling regardless of `do_sample` (`has_warpers` in
/// `utils/tokens.py`). So for a temperature of 0 none of them is sent, and for others `do_sample`
/// is set.
fn encode(kind: ServerKind, case: &Case, options: &BodySettings) -> Result<Bytes, Unsendable> {
    // Without `details`, a whole response has no finish reason and no token count.
    let mut parameters = json!({"max_new_tokens": case.output_len, "details": true});
    let mut options = options.clone();
    if let Some(temperature) = options.sampling.temperature {
        let is_greedy = temperature == 0.0;
        parameters["do_sample"] = json!(!is_greedy);
        if is_greedy {
            options.sampling = Sampling {
                temperature: None,
                top_p: None,
                top_k: None,
                ..options.sampling
            };
        }
    }
    let body = json!({"inputs": body::text(kind, case)?, "parameters": parameters});
    body::finish(kind, body, case, &options)
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    token: Option<Token<'a>>,
    generated_text: Option<Text<'a>>,
    details: Option<Details<'a>>,
    error: Option<&'a RawValue>,
    error_type: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Token<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
    special: Option<bool>,
}

#[derive(Deserialize)]
struct Details<'a> {
    #[serde(borrow)]
    finish_reason: Option<Text<'a>>,
    generated_tokens: Option<&'a RawValue>,
    input_length: Option<&'a RawValue>,
}

fn read(json: &str) -> serde_json::Result<Delta> {
    let chunk: Chunk<'_> = serde_json::from_str(json)?;
    let is_event = chunk.token.is_some();
    let mut delta = Delta {
        is_answer: chunk.generated_text.is_some(),
        ..Delta::default()
    };
    delta.error = chunk.error.map(|_| WireError {
        status: chunk.error_type.as_ref().and_then(status_of),
    });
    if let Some(token) = chunk.token.filter(|token| token.special != Some(true)) {
        wire::add(&mut delta.text, token.text);
    }
    delta.is_content = !delta.text.is_empty();
    if let Some(whole) = chunk.generated_text {
        delta.last_token = std::mem::replace(&mut delta.text, whole.0.into_owned());
        delta.text_is = TextIs::Whole;
        delta.is_content |= !is_event && !delta.text.is_empty();
        delta.is_last = true;
    }
    if let Some(details) = chunk.details {
        delta.usage = wire::usage(details.input_length, details.generated_tokens);
        delta.finish_reason = details.finish_reason.map(|reason| reason.0.into_owned());
    }
    Ok(delta)
}

/// The status that TGI's router returns for an error type.
fn status_of(error_type: &Text<'_>) -> Option<u16> {
    match &*error_type.0 {
        "validation" | "template_error" | "tool_error" => Some(422),
        "overloaded" => Some(429),
        "generation" => Some(424),
        "incomplete_generation" => Some(500),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_tokens_are_not_content() {
        for (json, text, is_content) in [
            (
                r#"{"token":{"text":"a","special":false},"generated_text":null,"details":null}"#,
                "a",
                true,
            ),
            (
                r#"{"token":{"text":"</s>","special":true},"generated_text":null,"details":null}"#,
                "",
                false,
            ),
            (
                r#"{"token":{"text":"</s>","special":true},"generated_text":"ab","details":null}"#,
                "ab",
                false,
            ),
            (
                r#"{"token":{"text":"b","special":false},"generated_text":"ab","details":null}"#,
                "ab",
                true,
            ),
            (r#"{"generated_text":"ab"}"#, "ab", true),
            (r#"{"generated_text":""}"#, "", false),
        ] {
            let delta = read(json).unwrap();
            assert_eq!(
                (&*delta.text, delta.is_content),
                (text, is_content),
                "{json}"
            );
        }
    }
}
