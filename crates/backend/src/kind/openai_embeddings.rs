//! The embeddings endpoint: `{model, input}`, answered by a vector.
//!
//! Source: OpenAI's reference "Create embeddings", and vLLM's client
//! (`async_request_openai_embeddings`), which adds `truncate_prompt_tokens: -1`. OpenAI refuses
//! fields that it does not know, and so this kind sends none: where inputs are longer than the
//! model's context, `--extra-body '{"truncate_prompt_tokens": -1}'` does as vLLM's client does.

use bytes::Bytes;
use serde_json::json;

use super::openai::COMPLETIONS;
use super::{KindSpec, ServerKind};
use crate::decode::Wire;
use crate::lists::{self, Listed};
use crate::shape::Shape;
use crate::{RequestOptions, Unsendable, body};
use sobench_core::case::Case;

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
    encode,
    wire: Wire::sse(|json| lists::read(Listed::Embeddings, json)),
    ..COMPUTED
};

fn encode(kind: ServerKind, case: &Case, options: &RequestOptions) -> Result<Bytes, Unsendable> {
    let body = json!({"model": options.model_of(case), "input": body::text(kind, case)?});
    body::finish(kind, body, case, options)
}
