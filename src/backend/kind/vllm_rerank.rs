//! vLLM's rerank endpoint: `{model, query, documents, truncate_prompt_tokens}`, answered by a score a document.
//!
//! Source: vLLM's client (`async_request_vllm_rerank`) and `RerankResponse`, whose shape is Jina's and Cohere's. Also at
//! `/v1/rerank` and `/v2/rerank`.

use bytes::Bytes;
use serde_json::Value;

use super::openai_embeddings::COMPUTED;
use super::{Input, KindSpec, ServerKind};
use crate::backend::body::{self, Fields};
use crate::backend::decode::{self, Framing, Wire};
use crate::backend::lists::{self, Listed};
use crate::backend::shape::Shape;
use crate::backend::{Adapter, Decoder, RequestOptions, Unsendable};
use crate::case::{Case, Prompt};

pub(super) const SPEC: KindSpec = KindSpec {
    name: "vllm-rerank",
    path: "/rerank",
    path_words: &["rerank"],
    input: Input::Ranking,
    body: Shape { prompt: "documents", ..COMPUTED.body },
    adapter: |_| Box::new(Rerank),
    ..COMPUTED
};

struct Rerank;

const WIRE: Wire = Wire { framing: Framing::Sse, event: read, body: read, body_ends_answer: false };

impl Adapter for Rerank {
    fn kind(&self) -> ServerKind {
        ServerKind::VllmRerank
    }

    fn encode(&self, case: &Case, options: &RequestOptions) -> Result<Bytes, Unsendable> {
        let Prompt::Ranking { query, documents } = &case.prompt else {
            return Err(body::no_such_prompt(self.kind(), "a query with documents", &case.prompt));
        };
        let mut fields = Fields::new();
        fields.insert("model".to_owned(), Value::from(options.model_of(case)));
        fields.insert("query".to_owned(), Value::from(&**query));
        fields.insert("documents".to_owned(), documents.iter().map(|document| Value::from(&**document)).collect());
        fields.insert("truncate_prompt_tokens".to_owned(), Value::from(-1));
        body::finish(self.kind(), fields, case, options)
    }

    fn decoder(&self, stream: bool, max_event_bytes: usize) -> Box<dyn Decoder> {
        decode::decoder(WIRE, stream, max_event_bytes)
    }
}

fn read(json: &str) -> serde_json::Result<crate::backend::wire::Delta> {
    lists::read(Listed::Scores, json)
}
