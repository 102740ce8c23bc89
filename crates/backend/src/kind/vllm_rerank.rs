//! vLLM's rerank endpoint: `{model, query, documents, truncate_prompt_tokens}`, answered by a score
//! a document.
//!
//! Source: vLLM's client (`async_request_vllm_rerank`) and `RerankResponse`, whose shape is Jina's
//! and Cohere's. Also at `/v1/rerank` and `/v2/rerank`.

use bytes::Bytes;
use serde_json::json;

use super::openai_embeddings::COMPUTED;
use super::{Input, KindSpec, ServerKind};
use crate::decode::Wire;
use crate::lists::{self, Listed};
use crate::shape::Shape;
use crate::{RequestOptions, Unsendable, body};
use sobench_core::case::{Case, Prompt};

pub(super) const SPEC: KindSpec = KindSpec {
    name: "vllm-rerank",
    path: "/rerank",
    path_words: &["rerank"],
    input: Input::Ranking,
    body: Shape {
        prompt: "documents",
        ..COMPUTED.body
    },
    encode,
    wire: Wire::sse(|json| lists::read(Listed::Scores, json)),
    ..COMPUTED
};

fn encode(kind: ServerKind, case: &Case, options: &RequestOptions) -> Result<Bytes, Unsendable> {
    let Prompt::Ranking { query, documents } = &case.prompt else {
        return Err(body::no_such_prompt(
            kind,
            "a query with documents",
            &case.prompt,
        ));
    };
    let model = options.model_of(case);
    let body = json!({"model": model, "query": query, "documents": documents, "truncate_prompt_tokens": -1});
    body::finish(kind, body, case, options)
}
