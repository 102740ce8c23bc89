//! The chat completions endpoint: `{model, messages, max_completion_tokens, ...}`. Knows no chat template: the server has it.

use bytes::Bytes;
use serde_json::{Value, json};

use super::body::{self, Fields};
use super::{Adapter, Decoder, RequestOptions, ServerKind, Unsendable, decode};
use crate::case::{Case, Prompt};

/// [`ServerKind::OpenaiChat`].
pub(super) struct Chat;

impl Adapter for Chat {
    fn kind(&self) -> ServerKind {
        ServerKind::OpenaiChat
    }

    /// A text prompt becomes one user message. The limit is `max_completion_tokens`, as in vLLM's client and as OpenAI asks; a
    /// server that knows only `max_tokens` needs it through `--extra-body`.
    fn encode(&self, case: &Case, options: &RequestOptions) -> Result<Bytes, Unsendable> {
        let messages = match &case.prompt {
            Prompt::Text(text) => json!([{"role": "user", "content": text}]),
            Prompt::Messages(messages) => json!(messages),
        };
        let mut fields = Fields::new();
        fields.insert("model".to_owned(), Value::from(options.model.as_str()));
        fields.insert("messages".to_owned(), messages);
        fields.insert("max_completion_tokens".to_owned(), Value::from(case.output_len));
        body::finish(fields, case, options)
    }

    fn decoder(&self, stream: bool, max_event_bytes: usize) -> Box<dyn Decoder> {
        decode::openai(stream, max_event_bytes)
    }
}
