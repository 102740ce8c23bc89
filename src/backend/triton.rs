//! TensorRT-LLM behind Triton's generate extension: `{text_input, max_tokens, stream}`. Knows nothing of `trtllm-serve`.
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

use super::body::{self, Fields};
use super::decode::{self, Framing, Wire};
use super::wire::{self, Delta, Text, WireError};
use super::{Adapter, Decoder, RequestOptions, ServerKind, Unsendable};
use crate::case::Case;

/// [`ServerKind::TensorrtLlm`].
pub(super) struct Triton;

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
