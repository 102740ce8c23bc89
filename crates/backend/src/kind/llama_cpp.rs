//! llama.cpp server's own `/completion`: `{prompt, n_predict, ...}`.
//!
//! Source: exchanges recorded from the llama-server of 2026; what older ones did is from their
//! sources. There is no `[DONE]`: the event with `stop: true` is the last. Finish reasons are
//! written in OpenAI's words, by which everything downstream counts: `stop_type` `limit` is
//! `length`, `eos` and `word` are `stop`; older servers said so in three booleans.
//! `tokens_evaluated` is the whole prompt, the cached part included. An error after the stream
//! began is an event with an `error` member; older servers sent it in an SSE field named `error`,
//! which is no data and shows as a stream that ends too early.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::openai::COMPLETIONS;
use super::{ConstraintDialect, KindSpec, ServerKind};
use crate::decode::Wire;
use crate::product::{Info, InfoPage, ProductSpec, text_member};
use crate::shape::Shape;
use crate::wire::{self, Delta, Text, WireError};
use crate::{RequestOptions, Unsendable, body};
use sobench_core::case::Case;
use sobench_core::constraint::GrammarSpelling;

pub(super) const SPEC: KindSpec = KindSpec {
    name: "llama.cpp",
    path: "/completion",
    dialects: &[ConstraintDialect::LlamaCpp],
    auto_dialect: |_| ConstraintDialect::LlamaCpp,
    grammar_spelling: Some(GrammarSpelling::Portable),
    body: Shape {
        length: "n_predict",
        asks_usage: false,
        renamed: &[("repetition_penalty", "repeat_penalty")],
        ..Shape::COMPLETIONS
    },
    logprobs: Some(|n| json!({"n_probs": n})),
    product: Some(ProductSpec {
        owned_by: Some("llamacpp"),
        server_header: Some("llama.cpp"),
        pages: &[InfoPage {
            path: "/props",
            read: read_props,
        }],
        engine: Some("llama.cpp's own grammars"),
        ignores_vllm_fields: true,
        ..ProductSpec::new("llama_cpp", "llama.cpp")
    }),
    encode,
    wire: Wire::sse(read),
    ..COMPLETIONS
};

fn read_props(page: &Value) -> Option<Info> {
    page.get("default_generation_settings")?;
    Some(Info {
        version: text_member(page, "build_info"),
        model: text_member(page, "model_alias"),
        engine: None,
    })
}

/// The model's name chooses one of several where the server routes, and is ignored elsewhere.
fn encode(kind: ServerKind, case: &Case, options: &RequestOptions) -> Result<Bytes, Unsendable> {
    let prompt = body::text(kind, case)?;
    let body =
        json!({"model": options.model_of(case), "prompt": prompt, "n_predict": case.output_len});
    body::finish(kind, body, case, options)
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    content: Option<Text<'a>>,
    stop: Option<bool>,
    stop_type: Option<Text<'a>>,
    stopped_eos: Option<bool>,
    stopped_word: Option<bool>,
    stopped_limit: Option<bool>,
    tokens_evaluated: Option<&'a RawValue>,
    tokens_predicted: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

fn read(json: &str) -> serde_json::Result<Delta> {
    let chunk: Chunk<'_> = serde_json::from_str(json)?;
    let mut delta = Delta {
        is_answer: chunk.content.is_some(),
        is_last: chunk.stop == Some(true),
        ..Delta::default()
    };
    delta.error = chunk.error.map(|error| WireError {
        status: wire::nested_status(error),
    });
    if delta.is_last {
        let is = |flag: Option<bool>| flag == Some(true);
        delta.finish_reason = match chunk.stop_type.as_ref().map(|reason| &*reason.0) {
            Some("limit") => Some("length".to_owned()),
            Some("eos" | "word") => Some("stop".to_owned()),
            Some("none") => None,
            Some(other) => Some(other.to_owned()),
            None if is(chunk.stopped_limit) => Some("length".to_owned()),
            None if is(chunk.stopped_eos) || is(chunk.stopped_word) => Some("stop".to_owned()),
            None => None,
        };
    }
    delta.usage = wire::usage(chunk.tokens_evaluated, chunk.tokens_predicted);
    wire::add(&mut delta.text, chunk.content);
    delta.is_content = !delta.text.is_empty();
    Ok(delta)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_it_stopped_in_the_words_of_old_and_new() {
        for (members, reason) in [
            (r#""stop_type":"eos""#, Some("stop")),
            (r#""stop_type":"word""#, Some("stop")),
            (r#""stop_type":"limit""#, Some("length")),
            (r#""stop_type":"none""#, None),
            (
                r#""stopped_eos":false,"stopped_word":false,"stopped_limit":true"#,
                Some("length"),
            ),
            (
                r#""stopped_eos":true,"stopped_word":false,"stopped_limit":false"#,
                Some("stop"),
            ),
            (r#""truncated":false"#, None),
        ] {
            let delta = read(&format!(r#"{{"content":"","stop":true,{members}}}"#)).unwrap();
            assert_eq!(
                (delta.finish_reason.as_deref(), delta.is_last),
                (reason, true),
                "{members}"
            );
            let delta = read(&format!(r#"{{"content":"a","stop":false,{members}}}"#)).unwrap();
            assert_eq!(
                (delta.finish_reason, delta.is_last, delta.is_content),
                (None, false, true),
                "{members}"
            );
        }
    }
}
