//! vLLM's pooling endpoint: `{model, truncate_prompt_tokens, input}`, answered by what the model's
//! pooler makes of it.
//!
//! Source: vLLM's client (`async_request_vllm_pooling`) and `PoolingResponse`. A truncation of -1
//! cuts inputs at the model's context. Answers in `encoding_format` `bytes` are no JSON and are not
//! read.

use bytes::Bytes;
use serde_json::json;

use super::openai_embeddings::COMPUTED;
use super::{KindSpec, ServerKind};
use crate::decode::Wire;
use crate::lists::{self, Listed};
use crate::{RequestOptions, Unsendable, body};
use sobench_core::case::Case;

pub(super) const SPEC: KindSpec = KindSpec {
    name: "vllm-pooling",
    path: "/pooling",
    path_words: &["pooling"],
    encode,
    wire: Wire::sse(|json| lists::read(Listed::Pooled, json)),
    ..COMPUTED
};

fn encode(kind: ServerKind, case: &Case, options: &RequestOptions) -> Result<Bytes, Unsendable> {
    let input = body::text(kind, case)?;
    let body =
        json!({"model": options.model_of(case), "truncate_prompt_tokens": -1, "input": input});
    body::finish(kind, body, case, options)
}
