//! OpenAI-compatible completions: `{model, prompt, max_tokens, ...}`. Only requested fields are
//! sent, as OpenAI refuses unknown ones.
//!
//! Supported by vLLM, its fork Aphrodite, SGLang, llama.cpp, OpenAI (legacy), ScaleLLM and
//! DeepSpeed-MII.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Credentials, Input, KindSpec, ServerKind};
use crate::body_layout::BodyLayout;
use crate::{BodySettings, ConstraintDialect, Unsendable, body, decode};
use sobench_core::case::Case;
use sobench_core::constraint::GrammarDialect;

/// The base of every kind: completions with the fields that all servers have.
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
    accepts_engine: |_| true,
    ignores_dialect: |_, _| false,
    treated_as: |_, _| None,
    tools: None,
    body: BodyLayout::COMPLETIONS,
    repetition_penalty: None,
    logprobs: None,
    names_model: true,
    template_variables: None,
    thinking_switches: &[],
    // OpenAI and vLLM; SGLang and mistral.rs; FastAPI.
    product: None,
    credentials: Credentials::OPENAI,
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

fn encode(kind: ServerKind, case: &Case, options: &BodySettings) -> Result<Bytes, Unsendable> {
    let mut body = json!({"model": options.model_of(case), "prompt": body::text(kind, case)?});
    if let Some(penalty) = kind.repetition_penalty() {
        body["repetition_penalty"] = json!(penalty);
    }
    body["max_tokens"] = json!(case.output_len);
    body::finish(kind, body, case, options)
}
