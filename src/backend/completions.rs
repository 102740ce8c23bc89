//! The completions endpoint: `{model, prompt, max_tokens, ...}`. Knows nothing of chat messages but that they do not fit.
//!
//! Spoken by vLLM, its fork Aphrodite, SGLang, llama.cpp, OpenAI of old, ScaleLLM and DeepSpeed-MII. The last two have no field
//! for a constraint (`api_protocol.py`, `data_models.py`) and would ignore one: such a case is refused. Which version of
//! Aphrodite turned from `guided_*` to `structured_outputs` could not be confirmed.

use bytes::Bytes;
use serde_json::Value;

use super::body::{self, Fields};
use super::{Adapter, Decoder, RequestOptions, ServerKind, Unsendable, decode};
use crate::case::Case;

/// [`ServerKind::Vllm`], [`ServerKind::Openai`] and the others on this endpoint, which differ in a few fields.
pub(super) struct Completions {
    pub(super) kind: ServerKind,
}

impl Adapter for Completions {
    fn kind(&self) -> ServerKind {
        self.kind
    }

    fn encode(&self, case: &Case, options: &RequestOptions) -> Result<Bytes, Unsendable> {
        let prompt = body::text(self.kind, case)?;
        let mut fields = Fields::new();
        fields.insert("model".to_owned(), Value::from(options.model_of(case)));
        fields.insert("prompt".to_owned(), Value::from(prompt));
        if self.kind == ServerKind::Vllm {
            // vLLM's own client sends this always. It undoes a penalty from the model's generation config, so leaving it out
            // could measure another sampler than results of vLLM's script did.
            fields.insert("repetition_penalty".to_owned(), Value::from(1.0));
        }
        fields.insert("max_tokens".to_owned(), Value::from(case.output_len));
        body::finish(self.kind, fields, case, options)
    }

    fn decoder(&self, stream: bool, max_event_bytes: usize) -> Box<dyn Decoder> {
        decode::decoder(decode::OPENAI, stream, max_event_bytes)
    }
}
