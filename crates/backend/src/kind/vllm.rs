//! vLLM's completions endpoint. The body is the one of vLLM's own client.

use super::openai::{self, COMPLETIONS};
use super::{ConstraintDialect, KindSpec, ServerKind};
use crate::product::ProductSpec;
use sobench_core::constraint::GrammarDialect;

pub(super) const SPEC: KindSpec = KindSpec {
    name: "vllm",
    embedded: true,
    dialects: &[
        ConstraintDialect::StructuredOutputs,
        ConstraintDialect::Guided,
        ConstraintDialect::ResponseFormat,
    ],
    // `structured-outputs` came in 0.11, where `guided` was still forwarded.
    auto_dialect: |version| match version {
        Some(version) if version < (0, 11) => ConstraintDialect::Guided,
        _ => ConstraintDialect::StructuredOutputs,
    },
    // vLLM's script sent Lark before 0.8.
    grammar_dialect: |version| match version {
        Some(version) if version < (0, 8) => GrammarDialect::Lark,
        _ => GrammarDialect::Ebnf,
    },
    // Up to 0.7 (its V0); later the engine belongs to the server, and the field is refused or
    // ignored.
    honours_engine: |version| version.is_none_or(|version| version < (0, 8)),
    ignores_dialect: |version, dialect| match dialect {
        ConstraintDialect::Guided => version >= (0, 12),
        ConstraintDialect::StructuredOutputs => version < (0, 11),
        _ => false,
    },
    treated_as: |owner, _| {
        owner
            .product()
            .filter(|product| product.ignores_vllm_fields())
            .map(|_| ServerKind::Openai)
    },
    // vLLM's own client sends this always. It undoes a penalty from the model's generation config,
    // so leaving it out could measure another sampler than results of vLLM's script did.
    repetition_penalty: Some(1.0),
    logprobs: Some(openai::logprobs),
    product: Some(ProductSpec {
        owned_by: Some("vllm"),
        ..ProductSpec::new("vllm", "vLLM")
    }),
    ..COMPLETIONS
};
