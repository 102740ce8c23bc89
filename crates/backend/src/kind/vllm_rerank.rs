//! vLLM's rerank endpoint: `{model, query, documents, truncate_prompt_tokens}`, answered by one
//! score per document.
//!
//! Source: vLLM's client (`async_request_vllm_rerank`) and `RerankResponse`, whose format is that
//! of Jina and Cohere. Also at `/v1/rerank` and `/v2/rerank`.

use bytes::Bytes;
use serde_json::json;

use super::openai_embeddings::COMPUTED;
use super::{Input, KindSpec, ServerKind};
use crate::body_layout::BodyLayout;
use crate::decode::Wire;
use crate::lists::{self, ListItem};
use crate::{BodySettings, Unsendable, body};
use sobench_core::case::{Case, Prompt};

pub(super) const SPEC: KindSpec = KindSpec {
    name: "vllm-rerank",
    path: "/rerank",
    path_words: &["rerank"],
    input: Input::Ranking,
    body: BodyLayout {
        prompt: "documents",
        ..COMPUTED.body
    },
    encode,
    wire: Wire::sse(|json| lists::read(ListItem::Scores, json)),
    ..COMPUTED
};

fn encode(kind: ServerKind, case: &Case, options: &BodySettings) -> Result<Bytes, Unsendable> {
    let Prompt::Ranking { query, documents } = &case.prompt else {
        return Err(body::wrong_prompt_type(
            kind,
            "a query with documents",
            &case.prompt,
        ));
    };
    let model = options.model_of(case);
    let body = json!({"model": model, "query": query, "documents": documents, "truncate_prompt_tokens": -1});
    body::finish(kind, body, case, options)
}
