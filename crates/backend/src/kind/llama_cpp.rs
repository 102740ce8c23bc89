//! llama.cpp server's native `/completion`: `{prompt, n_predict, ...}`.
//!
//! Source: exchanges recorded from the llama-server of 2026, and the source code of older versions.
//! There is no `[DONE]`: the event with `stop: true` is the last. Finish reasons are converted to
//! OpenAI's: `stop_type` `limit` is `length`, `eos` and `word` are `stop`; older servers send three
//! booleans instead. `tokens_evaluated` is the whole prompt, including the cached part. An error
//! after the start of the stream is an event with an `error` member; older servers send it in an
//! SSE field named `error`, which is not data, so the stream appears to end early.

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
use crate::{BodySettings, Unsendable, body};
use sobench_core::case::Case;
use sobench_core::constraint::GrammarSpelling;
use sobench_core::departure::Departure;

pub(super) const SPEC: KindSpec = KindSpec {
    name: "llama.cpp",
    path: "/completion",
    dialects: &[ConstraintDialect::LlamaCpp],
    auto_dialect: |_| ConstraintDialect::LlamaCpp,
    grammar_spelling: Some(GrammarSpelling::Portable),
    body: BodyLayout {
        length: "n_predict",
        has_stream_options: false,
        renamed: &[("repetition_penalty", "repeat_penalty")],
        ..BodyLayout::COMPLETIONS
    },
    logprobs: Some(|n| json!({"n_probs": n})),
    product: Some(ProductSpec {
        owned_by: Some("llamacpp"),
        server_header: Some("llama.cpp"),
        pages: &[InfoPage {
            path: "/props",
            read: read_props,
        }],
        engine: Some("llama.cpp grammars"),
        ignores_vllm_fields: true,
        ..ProductSpec::new("llama_cpp", "llama.cpp")
    }),
    encode,
    wire: Wire::sse(read),
    ..COMPLETIONS
};

fn read_props(page: &Value) -> Option<ServerInfo> {
    page.get("default_generation_settings")?;
    Some(ServerInfo {
        version: text_member(page, "build_info"),
        model: text_member(page, "model_alias"),
        engine: None,
    })
}

/// The model's name selects a model if the server is a router, and is ignored otherwise.
fn encode(kind: ServerKind, case: &Case, options: &BodySettings) -> Result<Bytes, Unsendable> {
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
    /// Of the prompt or the context.
    truncated: Option<bool>,
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
        delta.text_is = TextIs::Last;
        if is(chunk.truncated) {
            delta.departures.add(Departure::TruncatedContext, "");
        }
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
    fn stop_reasons_of_old_and_new_servers() {
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
