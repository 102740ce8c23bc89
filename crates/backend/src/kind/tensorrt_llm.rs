//! TensorRT-LLM with Triton's generate extension: `{text_input, max_tokens, stream}`.
//!
//! Source: `docs/guided_decoding.md` and README of triton-inference-server/tensorrtllm_backend,
//! Triton's generate extension, and the parser of vLLM's serving benchmark; not tested against a
//! server. The `text_output` of an event is the added text. There is no finish reason, token count
//! or terminal event: the end of the body ends the answer, and truncation at the token limit cannot
//! be detected. Errors are `{"error": "..."}`, without a status inside a stream. Fields that are
//! not in the model's configuration are ignored, so an engine built without guided decoding answers
//! without the constraint.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::openai::COMPLETIONS;
use super::{ConstraintDialect, KindSpec, ServerKind};
use crate::body_layout::BodyLayout;
use crate::decode::Wire;
use crate::product::{InfoPage, ProductSpec, ServerInfo, text_member};
use crate::wire::{self, Delta, Text, WireError};
use crate::{BodySettings, Unsendable, body};
use sobench_core::case::Case;

pub(super) const SPEC: KindSpec = KindSpec {
    name: "tensorrt-llm",
    // The model's name is part of Triton's path; TensorRT-LLM's repository uses `ensemble`.
    path: "/v2/models/ensemble/generate_stream",
    whole_path: Some("/v2/models/ensemble/generate"),
    path_words: &["generate"],
    dialects: &[ConstraintDialect::TritonGuide],
    auto_dialect: |_| ConstraintDialect::TritonGuide,
    body: BodyLayout {
        prompt: "text_input",
        has_stream_options: false,
        has_ignore_eos: false,
        sampling: &[
            "temperature",
            "top_p",
            "frequency_penalty",
            "presence_penalty",
            "repetition_penalty",
            "top_k",
            "seed",
        ],
        ..BodyLayout::COMPLETIONS
    },
    names_model: false,
    product: Some(ProductSpec {
        pages: &[InfoPage {
            path: "/v2",
            read: read_metadata,
        }],
        ..ProductSpec::new("triton", "Triton Inference Server")
    }),
    encode,
    wire: Wire {
        body_ends_answer: true,
        ..Wire::sse(read)
    },
    ..COMPLETIONS
};

/// The server metadata of Triton's inference protocol.
fn read_metadata(page: &Value) -> Option<ServerInfo> {
    text_member(page, "name").filter(|name| name == "triton")?;
    Some(ServerInfo {
        version: text_member(page, "version"),
        ..ServerInfo::default()
    })
}

/// Disables the repetition of the prompt in a whole response. The model is in the path.
fn encode(kind: ServerKind, case: &Case, options: &BodySettings) -> Result<Bytes, Unsendable> {
    let prompt = body::text(kind, case)?;
    let body = json!({"text_input": prompt, "max_tokens": case.output_len, "exclude_input_in_output": true});
    body::finish(kind, body, case, options)
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    text_output: Option<Text<'a>>,
    error: Option<&'a RawValue>,
}

fn read(json: &str) -> serde_json::Result<Delta> {
    let chunk: Chunk<'_> = serde_json::from_str(json)?;
    let mut delta = Delta {
        is_answer: chunk.text_output.is_some(),
        ..Delta::default()
    };
    delta.error = chunk.error.map(|error| WireError {
        status: wire::nested_status(error),
    });
    wire::add(&mut delta.text, chunk.text_output);
    delta.is_content = !delta.text.is_empty();
    Ok(delta)
}
