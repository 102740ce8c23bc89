//! TensorRT-LLM behind Triton's generate extension: `{text_input, max_tokens, stream}`.
//!
//! Source: `docs/guided_decoding.md` and README of triton-inference-server/tensorrtllm_backend,
//! Triton's generate extension, and the parser of vLLM's serving benchmark; read, not run. Every
//! event's `text_output` is what was added. There is neither a finish reason nor a token count nor
//! a terminal event: the end of the body ends the answer, and an answer that was cut at the token
//! limit cannot be told from one that ended. Errors are `{"error": "words"}`, with no status inside
//! a stream. A field that the model's configuration does not know becomes a parameter that nobody
//! reads: an engine built without guided decoding answers unconstrained.

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

pub(super) const SPEC: KindSpec = KindSpec {
    name: "tensorrt-llm",
    // The model's name is part of Triton's path, and `ensemble` is what TensorRT-LLM's own
    // repository calls it.
    path: "/v2/models/ensemble/generate_stream",
    whole_path: Some("/v2/models/ensemble/generate"),
    path_words: &["generate"],
    dialects: &[ConstraintDialect::TritonGuide],
    auto_dialect: |_| ConstraintDialect::TritonGuide,
    body: Shape {
        prompt: "text_input",
        asks_usage: false,
        ignores_eos: false,
        sampling: &[
            "temperature",
            "top_p",
            "frequency_penalty",
            "presence_penalty",
            "repetition_penalty",
            "top_k",
            "seed",
        ],
        ..Shape::COMPLETIONS
    },
    names_model: false,
    error_messages: &["/error"],
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
fn read_metadata(page: &Value) -> Option<Info> {
    text_member(page, "name").filter(|name| name == "triton")?;
    Some(Info {
        version: text_member(page, "version"),
        ..Info::default()
    })
}

/// The prompt is asked not to be repeated in the answer, as a whole body would have it otherwise.
/// The path names the model.
fn encode(kind: ServerKind, case: &Case, options: &RequestOptions) -> Result<Bytes, Unsendable> {
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
