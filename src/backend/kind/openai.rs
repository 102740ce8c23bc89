//! Any completions endpoint in OpenAI's shape: `{model, prompt, max_tokens, ...}`. Nothing is sent that was not asked for, as OpenAI
//! refuses unknown fields.
//!
//! Spoken by vLLM, its fork Aphrodite, SGLang, llama.cpp, OpenAI of old, ScaleLLM and DeepSpeed-MII.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Input, KindSpec, ServerKind};
use crate::backend::body::{self, Fields};
use crate::backend::shape::Shape;
use crate::backend::{Adapter, ConstraintDialect, Decoder, RequestOptions, Unsendable, decode};
use crate::case::Case;
use crate::constraint::GrammarDialect;

/// Completions of a server that has nothing but what every such server has.
pub(super) const COMPLETIONS: KindSpec = KindSpec {
    name: "completions",
    path: "/v1/completions",
    whole_path: None,
    path_words: &[],
    input: Input::Text,
    generates: true,
    takes_constraints: true,
    embedded: false,
    dialects: &[],
    auto_dialect: |_| ConstraintDialect::ResponseFormat,
    grammar_dialect: |_| GrammarDialect::Ebnf,
    grammar_spelling: None,
    honours_engine: |_| true,
    ignores_dialect: |_, _| false,
    treated_as: |_, _| None,
    body: Shape::COMPLETIONS,
    repetition_penalty: None,
    logprobs: None,
    names_model: true,
    template_variables: None,
    // OpenAI's and vLLM's, SGLang's and mistral.rs's, FastAPI's.
    error_messages: &["/error/message", "/message", "/detail"],
    product: None,
    adapter: |kind| Box::new(Completions { kind }),
};

pub(super) const SPEC: KindSpec = KindSpec {
    name: "openai",
    embedded: true,
    dialects: &[
        ConstraintDialect::StructuredOutputs,
        ConstraintDialect::Guided,
        ConstraintDialect::ResponseFormat,
        ConstraintDialect::Sglang,
        ConstraintDialect::LlamaCpp,
        ConstraintDialect::TrtllmFormat,
    ],
    treated_as: |owner, _| Some(owner),
    logprobs: Some(logprobs),
    ..COMPLETIONS
};

/// vLLM's own client sends the field to completions only.
pub(super) fn logprobs(n: u32) -> Value {
    json!({"logprobs": n})
}

/// The adapter of every kind on this endpoint; they differ in a few fields.
struct Completions {
    kind: ServerKind,
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
        if let Some(penalty) = self.kind.repetition_penalty() {
            fields.insert("repetition_penalty".to_owned(), Value::from(penalty));
        }
        fields.insert("max_tokens".to_owned(), Value::from(case.output_len));
        body::finish(self.kind, fields, case, options)
    }

    fn decoder(&self, stream: bool, max_event_bytes: usize) -> Box<dyn Decoder> {
        decode::decoder(decode::OPENAI, stream, max_event_bytes)
    }
}
