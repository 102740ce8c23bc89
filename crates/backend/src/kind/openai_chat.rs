//! OpenAI-compatible chat completions: `{model, messages, max_completion_tokens, ...}`. Supported
//! by nearly every server; the server applies the chat template.

use bytes::Bytes;
use serde_json::json;

use super::openai::COMPLETIONS;
use super::{Input, KindSpec, ServerKind};
use crate::body_layout::BodyLayout;
use crate::{BodySettings, ConstraintDialect, ThinkingSwitch, Unsendable, body};
use sobench_core::case::Case;
use sobench_core::tools::ToolForm;

/// The base of chat kinds: chat completions with the fields that all servers have.
pub(super) const CHAT: KindSpec = KindSpec {
    name: "chat",
    path: "/v1/chat/completions",
    input: Input::Messages,
    body: BodyLayout {
        prompt: "messages",
        length: "max_completion_tokens",
        ..BodyLayout::COMPLETIONS
    },
    logprobs: Some(|n| json!({"logprobs": true, "top_logprobs": n})),
    template_variables: Some("chat_template_kwargs"),
    thinking_switches: &[
        ThinkingSwitch::ChatTemplateKwargs,
        ThinkingSwitch::ReasoningEffort,
    ],
    tools: Some(ToolForm::Chat),
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
        ConstraintDialect::ToolCallNonStrict,
    ],
    treated_as: |owner, _| Some(owner),
    ..CHAT
};

/// A text prompt becomes one user message. The limit is `max_completion_tokens`, as in vLLM's
/// client and required by OpenAI, except for servers that read only `max_tokens`.
fn encode(kind: ServerKind, case: &Case, options: &BodySettings) -> Result<Bytes, Unsendable> {
    let body = json!({
        "model": options.model_of(case),
        "messages": body::messages(kind, case)?,
        kind.limit_field(options.max_tokens_only): case.output_len,
    });
    body::finish(kind, body, case, options)
}
