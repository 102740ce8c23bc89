//! SGLang's native `/generate`: `{text, sampling_params: {...}, stream}`.
//!
//! Source: exchanges recorded from SGLang 0.5.23 and its "Sampling Parameters" page. Every event
//! repeats the whole text so far, unless the server was started with disjoint segments
//! (`--stream-output`, later `--incremental-streaming-output`). Then an event has fewer
//! `output_ids` than `completion_tokens`. That mode was not tested against a server; without ids,
//! the text is assumed to be the whole text. A refusal inside a stream is the finish reason
//! `{"type": "abort", "status_code": 400}`, with a token that is not part of an answer. Reasoning
//! is not separated. The request has no model, as the server has only one.

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

pub(super) const SPEC: KindSpec = KindSpec {
    name: "sglang",
    path: "/generate",
    path_words: &["generate"],
    dialects: &[ConstraintDialect::Sglang],
    auto_dialect: |_| ConstraintDialect::Sglang,
    body: BodyLayout {
        nested_in: Some("sampling_params"),
        prompt: "text",
        length: "max_new_tokens",
        has_stream_options: false,
        renamed: &[("seed", "sampling_seed")],
        ..BodyLayout::COMPLETIONS
    },
    logprobs: Some(|n| json!({"return_logprob": true, "top_logprobs_num": n})),
    names_model: false,
    product: Some(ProductSpec {
        owned_by: Some("sglang"),
        // The first name is the older one.
        pages: &[
            InfoPage {
                path: "/get_server_info",
                read: read_server_info,
            },
            InfoPage {
                path: "/server_info",
                read: read_server_info,
            },
        ],
        ignores_vllm_fields: true,
        ..ProductSpec::new("sglang", "SGLang")
    }),
    encode,
    wire: Wire::sse(read),
    ..COMPLETIONS
};

/// The page contains the grammar backend.
fn read_server_info(page: &Value) -> Option<ServerInfo> {
    Some(ServerInfo {
        engine: Some(text_member(page, "grammar_backend")?),
        version: text_member(page, "version"),
        model: text_member(page, "served_model_name"),
    })
}

fn encode(kind: ServerKind, case: &Case, options: &BodySettings) -> Result<Bytes, Unsendable> {
    let body = json!({"text": body::text(kind, case)?, "sampling_params": {"max_new_tokens": case.output_len}});
    body::finish(kind, body, case, options)
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    text: Option<Text<'a>>,
    output_ids: Option<Vec<&'a RawValue>>,
    meta_info: Option<MetaInfo<'a>>,
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct MetaInfo<'a> {
    #[serde(borrow)]
    finish_reason: Option<FinishReason<'a>>,
    prompt_tokens: Option<&'a RawValue>,
    completion_tokens: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct FinishReason<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Text<'a>>,
    status_code: Option<&'a RawValue>,
}

fn read(json: &str) -> serde_json::Result<Delta> {
    let chunk: Chunk<'_> = serde_json::from_str(json)?;
    let mut delta = Delta {
        is_answer: chunk.text.is_some(),
        ..Delta::default()
    };
    delta.error = chunk.error.map(|error| WireError {
        status: wire::nested_status(error),
    });
    let seen = chunk.output_ids.map(|ids| ids.len() as u64);
    let mut generated = None;
    if let Some(meta) = chunk.meta_info {
        delta.usage = wire::usage(meta.prompt_tokens, meta.completion_tokens);
        generated = delta.usage.and_then(|usage| usage.completion_tokens);
        if let Some(reason) = meta.finish_reason {
            let kind = reason.kind.map(|kind| kind.0.into_owned());
            if kind.as_deref() == Some("abort") {
                delta.error.get_or_insert(WireError {
                    status: wire::status_of(reason.status_code, None),
                });
            }
            delta.finish_reason = kind;
        }
    }
    let is_segment = matches!((seen, generated), (Some(seen), Some(generated)) if seen < generated);
    delta.text_is = if is_segment {
        TextIs::Added
    } else {
        TextIs::SoFar
    };
    wire::add(&mut delta.text, chunk.text);
    delta.is_content = is_segment && !delta.text.is_empty();
    Ok(delta)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cumulative_and_disjoint_texts_are_distinguished() {
        for (json, text_is) in [
            (
                r#"{"text":"ab","output_ids":[5,6],"meta_info":{"completion_tokens":2}}"#,
                TextIs::SoFar,
            ),
            (
                r#"{"text":"b","output_ids":[6],"meta_info":{"completion_tokens":2}}"#,
                TextIs::Added,
            ),
            (
                r#"{"text":"ab","meta_info":{"completion_tokens":2}}"#,
                TextIs::SoFar,
            ),
            (r#"{"text":"ab"}"#, TextIs::SoFar),
        ] {
            assert_eq!(read(json).unwrap().text_is, text_is, "{json}");
        }
    }

    #[test]
    fn refusals_are_finish_reasons_or_errors() {
        for (json, status) in [
            (
                r#"{"text":"Pi","meta_info":{"finish_reason":{"type":"abort","message":"no","status_code":400}}}"#,
                Some(400),
            ),
            (
                r#"{"text":"","meta_info":{"finish_reason":{"type":"abort","message":"cut"}}}"#,
                None,
            ),
            (r#"{"error":{"message":"no"}}"#, None),
            (r#"{"error":{"message":"no","code":503}}"#, Some(503)),
        ] {
            assert_eq!(
                read(json).unwrap().error,
                Some(WireError { status }),
                "{json}"
            );
        }
        assert!(read(r#"[{"text":"a"}]"#).is_err());
        assert!(!read("{}").unwrap().is_answer);
    }
}
