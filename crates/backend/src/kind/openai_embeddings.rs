//! OpenAI's embeddings endpoint: `{model, input}`, answered by a vector.
//!
//! Source: OpenAI's reference "Create embeddings", and vLLM's client
//! (`async_request_openai_embeddings`), which adds `truncate_prompt_tokens: -1`. OpenAI refuses
//! unknown fields, so this kind does not send it. If inputs are longer than the model's context,
//! `--extra-body '{"truncate_prompt_tokens": -1}'` has the effect of vLLM's client.

use bytes::Bytes;
use serde_json::json;

use super::openai::COMPLETIONS;
use super::{KindSpec, ServerKind};
use crate::body_layout::BodyLayout;
use crate::decode::Wire;
use crate::lists::{self, ListItem};
use crate::{BodySettings, Unsendable, body};
use sobench_core::case::Case;

/// The base of kinds that do not generate text: no sampling and no streaming.
pub(super) const COMPUTED: KindSpec = KindSpec {
    name: "computed",
    generates: false,
    takes_constraints: false,
    body: BodyLayout {
        prompt: "input",
        has_stream_field: false,
        has_stream_options: false,
        has_ignore_eos: false,
        sampling: &[],
        ..BodyLayout::COMPLETIONS
    },
    ..COMPLETIONS
};

pub(super) const SPEC: KindSpec = KindSpec {
    name: "openai-embeddings",
    path: "/v1/embeddings",
    path_words: &["embeddings"],
    encode,
    wire: Wire::sse(|json| lists::read(ListItem::Embeddings, json)),
    ..COMPUTED
};

fn encode(kind: ServerKind, case: &Case, options: &BodySettings) -> Result<Bytes, Unsendable> {
    let body = json!({"model": options.model_of(case), "input": body::text(kind, case)?});
    body::finish(kind, body, case, options)
}
