//! The completions endpoint: `{model, prompt, max_tokens, ...}`. Knows nothing of chat messages but that they do not fit.

use bytes::Bytes;
use serde_json::Value;

use super::body::{self, Fields};
use super::{Adapter, Decoder, RequestOptions, ServerKind, Unsendable, decode};
use crate::case::{Case, Prompt};

/// [`ServerKind::Vllm`] and [`ServerKind::Openai`], which differ in one field.
pub(super) struct Completions {
    pub(super) kind: ServerKind,
}

impl Adapter for Completions {
    fn kind(&self) -> ServerKind {
        self.kind
    }

    fn encode(&self, case: &Case, options: &RequestOptions) -> Result<Bytes, Unsendable> {
        let Prompt::Text(prompt) = &case.prompt else {
            return Err(Unsendable {
                what: format!("the {} backend takes text, not chat messages", self.kind),
                hint: "name a tokenizer with a chat template, or use --backend openai-chat".to_owned(),
            });
        };
        let mut fields = Fields::new();
        fields.insert("model".to_owned(), Value::from(options.model.as_str()));
        fields.insert("prompt".to_owned(), Value::from(&**prompt));
        if self.kind == ServerKind::Vllm {
            // vLLM's own client sends this always. It undoes a penalty from the model's generation config, so leaving it out
            // could measure another sampler than results of vLLM's script did.
            fields.insert("repetition_penalty".to_owned(), Value::from(1.0));
        }
        fields.insert("max_tokens".to_owned(), Value::from(case.output_len));
        body::finish(fields, case, options)
    }

    fn decoder(&self, stream: bool, max_event_bytes: usize) -> Box<dyn Decoder> {
        decode::openai(stream, max_event_bytes)
    }
}
