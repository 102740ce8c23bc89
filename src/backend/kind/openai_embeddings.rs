//! The embeddings endpoint: `{model, input}`, answered by a vector.
//!
//! Source: OpenAI's reference "Create embeddings", and vLLM's client (`async_request_openai_embeddings`), which adds
//! `truncate_prompt_tokens: -1`. OpenAI refuses fields that it does not know, and so this kind sends none: where inputs are longer
//! than the model's context, `--extra-body '{"truncate_prompt_tokens": -1}'` does as vLLM's client does.

use bytes::Bytes;
use serde_json::Value;

use super::openai::COMPLETIONS;
use super::{KindSpec, ServerKind};
use crate::backend::body::{self, Fields};
use crate::backend::decode::{self, Framing, Wire};
use crate::backend::lists::{self, Listed};
use crate::backend::shape::Shape;
use crate::backend::{Adapter, Decoder, RequestOptions, Unsendable};
use crate::case::Case;

/// A kind that generates nothing, and so samples nothing and streams nothing.
pub(super) const COMPUTED: KindSpec = KindSpec {
    name: "computed",
    generates: false,
    takes_constraints: false,
    body: Shape {
        prompt: "input",
        says_stream: false,
        asks_usage: false,
        ignores_eos: false,
        sampling: &[],
        ..Shape::COMPLETIONS
    },
    ..COMPLETIONS
};

pub(super) const SPEC: KindSpec = KindSpec {
    name: "openai-embeddings",
    path: "/v1/embeddings",
    path_words: &["embeddings"],
    adapter: |_| Box::new(Embeddings),
    ..COMPUTED
};

struct Embeddings;

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

fn read(json: &str) -> serde_json::Result<crate::backend::wire::Delta> {
    lists::read(Listed::Embeddings, json)
}
