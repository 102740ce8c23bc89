//! vLLM's rerank endpoint: `{model, query, documents, truncate_prompt_tokens}`, answered by a score a document. Knows no score.
//!
//! Source: vLLM's client (`async_request_vllm_rerank`) and `RerankResponse`, whose shape is Jina's and Cohere's. Also at
//! `/v1/rerank` and `/v2/rerank`.

use bytes::Bytes;
use serde_json::Value;

use super::body::{self, Fields};
use super::decode::{self, Framing, Wire};
use super::lists::{self, Listed};
use super::{Adapter, Decoder, RequestOptions, ServerKind, Unsendable};
use crate::case::{Case, Prompt};

/// [`ServerKind::VllmRerank`].
pub(super) struct Rerank;

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

fn read(json: &str) -> serde_json::Result<super::wire::Delta> {
    lists::read(Listed::Scores, json)
}
