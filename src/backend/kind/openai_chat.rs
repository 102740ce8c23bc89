//! Any chat completions endpoint in OpenAI's shape: `{model, messages, max_completion_tokens, ...}`. Spoken by nearly every server;
//! the server has the chat template.

use bytes::Bytes;
use serde_json::{Value, json};

use super::openai::COMPLETIONS;
use super::{Input, KindSpec, ServerKind};
use crate::backend::body::{self, Fields};
use crate::backend::shape::Shape;
use crate::backend::{Adapter, ConstraintDialect, Decoder, RequestOptions, Unsendable, decode};
use crate::case::Case;

/// Chat completions of a server that has nothing but what every such server has.
pub(super) const CHAT: KindSpec = KindSpec {
    name: "chat",
    path: "/v1/chat/completions",
    input: Input::Messages,
    body: Shape { prompt: "messages", length: "max_completion_tokens", ..Shape::COMPLETIONS },
    logprobs: Some(|n| json!({"logprobs": true, "top_logprobs": n})),
    template_variables: Some("chat_template_kwargs"),
    adapter: |kind| Box::new(Chat { kind }),
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

/// The adapter of every kind on this endpoint.
struct Chat {
    kind: ServerKind,
}

impl Adapter for Chat {
    fn kind(&self) -> ServerKind {
        self.kind
    }

    /// A text prompt becomes one user message. The limit is `max_completion_tokens`, as in vLLM's client and as OpenAI asks; a
    /// server that knows only `max_tokens` needs it through `--extra-body`.
    fn encode(&self, case: &Case, options: &RequestOptions) -> Result<Bytes, Unsendable> {
        let mut fields = Fields::new();
        fields.insert("model".to_owned(), Value::from(options.model_of(case)));
        fields.insert("messages".to_owned(), body::messages(self.kind, case)?);
        fields.insert(self.kind.spec().body.length.to_owned(), Value::from(case.output_len));
        body::finish(self.kind, fields, case, options)
    }

    fn decoder(&self, stream: bool, max_event_bytes: usize) -> Box<dyn Decoder> {
        decode::decoder(decode::OPENAI, stream, max_event_bytes)
    }
}
