//! TensorRT-LLM behind Triton's generate extension: `{text_input, max_tokens, stream}`.
//!
//! Source: `docs/guided_decoding.md` and README of triton-inference-server/tensorrtllm_backend, Triton's generate extension, and
//! the parser of vLLM's serving benchmark; read, not run. Every event's `text_output` is what was added. There is neither a
//! finish reason nor a token count nor a terminal event: the end of the body ends the answer, and an answer that was cut at the
//! token limit cannot be told from one that ended. Errors are `{"error": "words"}`, with no status inside a stream. A field that
//! the model's configuration does not know becomes a parameter that nobody reads: an engine built without guided decoding
//! answers unconstrained.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::openai::COMPLETIONS;
use super::{ConstraintDialect, KindSpec, ServerKind};
use crate::backend::body::{self, Fields};
use crate::backend::decode::{self, Framing, Wire};
use crate::backend::product::{Info, InfoPage, ProductSpec, text_member};
use crate::backend::shape::Shape;
use crate::backend::wire::{self, Delta, Text, WireError};
use crate::backend::{Adapter, Decoder, RequestOptions, Unsendable};
use crate::case::Case;

pub(super) const SPEC: KindSpec = KindSpec {
    name: "tensorrt-llm",
    // The model's name is part of Triton's path, and `ensemble` is what TensorRT-LLM's own repository calls it.
    path: "/v2/models/ensemble/generate_stream",
    whole_path: Some("/v2/models/ensemble/generate"),
    path_words: &["generate"],
    dialects: &[ConstraintDialect::TritonGuide],
    auto_dialect: |_| ConstraintDialect::TritonGuide,
    body: Shape {
        prompt: "text_input",
        asks_usage: false,
        ignores_eos: false,
        sampling: &["temperature", "top_p", "frequency_penalty", "presence_penalty", "repetition_penalty", "top_k", "seed"],
        ..Shape::COMPLETIONS
    },
    names_model: false,
    error_messages: &["/error"],
    product: Some(ProductSpec {
        pages: &[InfoPage { path: "/v2", read: read_metadata }],
        ..ProductSpec::new("triton", "Triton Inference Server")
    }),
    adapter: |_| Box::new(Triton),
    ..COMPLETIONS
};

/// The server metadata of Triton's inference protocol.
fn read_metadata(page: &Value) -> Option<Info> {
    text_member(page, "name").filter(|name| name == "triton")?;
    Some(Info { version: text_member(page, "version"), ..Info::default() })
}

struct Triton;

const WIRE: Wire = Wire { framing: Framing::Sse, event: read, body: read, body_ends_answer: true };

impl Adapter for Triton {
    fn kind(&self) -> ServerKind {
        ServerKind::TensorrtLlm
    }

    /// The prompt is asked not to be repeated in the answer, as a whole body would have it otherwise. The path names the model.
    fn encode(&self, case: &Case, options: &RequestOptions) -> Result<Bytes, Unsendable> {
        let mut fields = Fields::new();
        fields.insert("text_input".to_owned(), Value::from(body::text(self.kind(), case)?));
        fields.insert("max_tokens".to_owned(), Value::from(case.output_len));
        fields.insert("exclude_input_in_output".to_owned(), Value::Bool(true));
        body::finish(self.kind(), fields, case, options)
    }

    fn decoder(&self, stream: bool, max_event_bytes: usize) -> Box<dyn Decoder> {
        decode::decoder(WIRE, stream, max_event_bytes)
    }
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    text_output: Option<Text<'a>>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

fn read(json: &str) -> serde_json::Result<Delta> {
    let chunk: Chunk<'_> = serde_json::from_str(json)?;
    let mut delta = Delta { is_answer: chunk.text_output.is_some(), ..Delta::default() };
    delta.error = chunk.error.map(|error| WireError { status: wire::nested_status(error) });
    wire::add(&mut delta.text, chunk.text_output);
    delta.is_content = !delta.text.is_empty();
    Ok(delta)
}
