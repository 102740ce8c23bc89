//! Any chat completions endpoint in OpenAI's shape: `{model, messages, max_completion_tokens,
//! ...}`. Spoken by nearly every server; the server has the chat template.

use bytes::Bytes;
use serde_json::json;

use super::openai::COMPLETIONS;
use super::{Input, KindSpec, ServerKind};
use crate::shape::Shape;
use crate::{ConstraintDialect, RequestOptions, Unsendable, body};
use sobench_core::case::Case;

/// Chat completions of a server that has nothing but what every such server has.
pub(super) const CHAT: KindSpec = KindSpec {
    name: "chat",
    path: "/v1/chat/completions",
    input: Input::Messages,
    body: Shape {
        prompt: "messages",
        length: "max_completion_tokens",
        ..Shape::COMPLETIONS
    },
    logprobs: Some(|n| json!({"logprobs": true, "top_logprobs": n})),
    template_variables: Some("chat_template_kwargs"),
    encode,
    ..COMPLETIONS
};

pub(super) const SPEC: KindSpec = KindSpec {
    name: "openai-chat",
    embedded: true,
    dialects: &[
        ConstraintDialect::StructuredOutputs,
        ConstraintDialect::Guided,
        ConstraintDialect::ResponseFormat,
        ConstraintDialect::Sglang,
        ConstraintDialect::LlamaCpp,
        ConstraintDialect::TgiGrammar,
        ConstraintDialect::TrtllmFormat,
        ConstraintDialect::RegexSchema,
        ConstraintDialect::ToolCall,
    ],
    treated_as: |owner, _| Some(owner),
    ..CHAT
};

/// A text prompt becomes one user message. The limit is `max_completion_tokens`, as in vLLM's
/// client and as OpenAI asks; a server that knows only `max_tokens` needs it through
/// `--extra-body`.
fn encode(kind: ServerKind, case: &Case, options: &RequestOptions) -> Result<Bytes, Unsendable> {
    let body = json!({
        "model": options.model_of(case),
        "messages": body::messages(kind, case)?,
        kind.spec().body.length: case.output_len,
    });
    body::finish(kind, body, case, options)
}
