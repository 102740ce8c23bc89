//! The chat completions endpoint: `{model, messages, max_completion_tokens, ...}`. Knows no chat template: the server has it.
//!
//! Spoken by nearly every server. TensorRT-LLM's `trtllm-serve` (`openai_protocol.py`) refuses fields that it does not know;
//! LMDeploy (`protocol.py`) ignores them and takes `max_tokens`. Both were read, not run.

use bytes::Bytes;
use serde_json::Value;

use super::body::{self, Fields};
use super::shape::Shape;
use super::{Adapter, Decoder, RequestOptions, ServerKind, Unsendable, decode};
use crate::case::Case;

/// [`ServerKind::OpenaiChat`] and the others on this endpoint.
pub(super) struct Chat {
    pub(super) kind: ServerKind,
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
        fields.insert(Shape::of(self.kind).length.to_owned(), Value::from(case.output_len));
        body::finish(self.kind, fields, case, options)
    }

    fn decoder(&self, stream: bool, max_event_bytes: usize) -> Box<dyn Decoder> {
        decode::decoder(decode::OPENAI, stream, max_event_bytes)
    }
}
