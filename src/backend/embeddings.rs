//! The embeddings endpoint: `{model, input}`, answered by a vector. Knows no vector.
//!
//! Source: OpenAI's reference "Create embeddings", and vLLM's client (`async_request_openai_embeddings`), which adds
//! `truncate_prompt_tokens: -1`. OpenAI refuses fields that it does not know, and so this kind sends none: where inputs are longer
//! than the model's context, `--extra-body '{"truncate_prompt_tokens": -1}'` does as vLLM's client does.

use bytes::Bytes;
use serde_json::Value;

use super::body::{self, Fields};
use super::decode::{self, Framing, Wire};
use super::lists::{self, Listed};
use super::{Adapter, Decoder, RequestOptions, ServerKind, Unsendable};
use crate::case::Case;

/// [`ServerKind::OpenaiEmbeddings`].
pub(super) struct Embeddings;

const WIRE: Wire = Wire { framing: Framing::Sse, event: read, body: read, body_ends_answer: false };

impl Adapter for Embeddings {
    fn kind(&self) -> ServerKind {
        ServerKind::OpenaiEmbeddings
    }

    fn encode(&self, case: &Case, options: &RequestOptions) -> Result<Bytes, Unsendable> {
        let mut fields = Fields::new();
        fields.insert("model".to_owned(), Value::from(options.model_of(case)));
        fields.insert("input".to_owned(), Value::from(body::text(self.kind(), case)?));
        body::finish(self.kind(), fields, case, options)
    }

    fn decoder(&self, stream: bool, max_event_bytes: usize) -> Box<dyn Decoder> {
        decode::decoder(WIRE, stream, max_event_bytes)
    }
}

fn read(json: &str) -> serde_json::Result<super::wire::Delta> {
    lists::read(Listed::Embeddings, json)
}
