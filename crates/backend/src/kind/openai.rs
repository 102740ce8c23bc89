//! Any completions endpoint in OpenAI's shape: `{model, prompt, max_tokens, ...}`. Nothing is sent
//! that was not asked for, as OpenAI refuses unknown fields.
//!
//! Spoken by vLLM, its fork Aphrodite, SGLang, llama.cpp, OpenAI of old, ScaleLLM and
//! DeepSpeed-MII.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Input, KindSpec, ServerKind};
use crate::shape::Shape;
use crate::{ConstraintDialect, RequestOptions, Unsendable, body, decode};
use sobench_core::case::Case;
use sobench_core::constraint::GrammarDialect;

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
    encode,
    wire: decode::OPENAI,
    adapter: |kind| Box::new(kind),
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

fn encode(kind: ServerKind, case: &Case, options: &RequestOptions) -> Result<Bytes, Unsendable> {
    let mut body = json!({"model": options.model_of(case), "prompt": body::text(kind, case)?});
    if let Some(penalty) = kind.repetition_penalty() {
        body["repetition_penalty"] = json!(penalty);
    }
    body["max_tokens"] = json!(case.output_len);
    body::finish(kind, body, case, options)
}
