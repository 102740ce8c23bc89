//! vLLM's pooling endpoint: `{model, truncate_prompt_tokens, input}`, answered by the output of the
//! model's pooler.
//!
//! Source: vLLM's client (`async_request_vllm_pooling`) and `PoolingResponse`. A truncation of -1
//! cuts inputs at the model's context. Responses with `encoding_format` `bytes` are not JSON and
//! are not supported.

use bytes::Bytes;
use serde_json::json;

use super::openai_embeddings::COMPUTED;
use super::{KindSpec, ServerKind};
use crate::decode::Wire;
use crate::lists::{self, ListItem};
use crate::{BodySettings, Unsendable, body};
use sobench_core::case::Case;

pub(super) const SPEC: KindSpec = KindSpec {
    name: "vllm-pooling",
    path: "/pooling",
    path_words: &["pooling"],
    encode,
    wire: Wire::sse(|json| lists::read(ListItem::Pooled, json)),
    ..COMPUTED
};

fn encode(kind: ServerKind, case: &Case, options: &BodySettings) -> Result<Bytes, Unsendable> {
    let input = body::text(kind, case)?;
    let body =
        json!({"model": options.model_of(case), "truncate_prompt_tokens": -1, "input": input});
    body::finish(kind, body, case, options)
}
