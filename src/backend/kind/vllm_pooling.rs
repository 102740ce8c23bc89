//! vLLM's pooling endpoint: `{model, truncate_prompt_tokens, input}`, answered by what the model's pooler makes of it.
//!
//! Source: vLLM's client (`async_request_vllm_pooling`) and `PoolingResponse`. A truncation of -1 cuts inputs at the model's context.
//! Answers in `encoding_format` `bytes` are no JSON and are not read.

use bytes::Bytes;
use serde_json::Value;

use super::openai_embeddings::COMPUTED;
use super::{KindSpec, ServerKind};
use crate::backend::body::{self, Fields};
use crate::backend::decode::{self, Framing, Wire};
use crate::backend::lists::{self, Listed};
use crate::backend::{Adapter, Decoder, RequestOptions, Unsendable};
use crate::case::Case;

pub(super) const SPEC: KindSpec =
    KindSpec { name: "vllm-pooling", path: "/pooling", path_words: &["pooling"], adapter: |_| Box::new(Pooling), ..COMPUTED };

struct Pooling;

const WIRE: Wire = Wire { framing: Framing::Sse, event: read, body: read, body_ends_answer: false };

impl Adapter for Pooling {
    fn kind(&self) -> ServerKind {
        ServerKind::VllmPooling
    }

    fn encode(&self, case: &Case, options: &RequestOptions) -> Result<Bytes, Unsendable> {
        let mut fields = Fields::new();
        fields.insert("model".to_owned(), Value::from(options.model_of(case)));
        fields.insert("truncate_prompt_tokens".to_owned(), Value::from(-1));
        fields.insert("input".to_owned(), Value::from(body::text(self.kind(), case)?));
        body::finish(self.kind(), fields, case, options)
    }

    fn decoder(&self, stream: bool, max_event_bytes: usize) -> Box<dyn Decoder> {
        decode::decoder(WIRE, stream, max_event_bytes)
    }
}

fn read(json: &str) -> serde_json::Result<crate::backend::wire::Delta> {
    lists::read(Listed::Pooled, json)
}
