//! vLLM's completions endpoint. The body is that of vLLM's own client.

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
    // 0.11 added `structured-outputs` and still forwarded `guided`.
    auto_dialect: |version| match version {
        Some(version) if version < (0, 11) => ConstraintDialect::Guided,
        _ => ConstraintDialect::StructuredOutputs,
    },
    // vLLM's script sent Lark before 0.8.
    grammar_dialect: |version| match version {
        Some(version) if version < (0, 8) => GrammarDialect::Lark,
        _ => GrammarDialect::Ebnf,
    },
    // Up to 0.7 (V0). Later versions configure the engine on the server and refuse or ignore the
    // field.
    accepts_engine: |version| version.is_none_or(|version| version < (0, 8)),
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
    // vLLM's own client always sends this. It overrides a penalty of the model's generation config,
    // so without it the sampling could differ from that of vLLM's script.
    repetition_penalty: Some(1.0),
    logprobs: Some(openai::logprobs),
    product: Some(ProductSpec {
        owned_by: Some("vllm"),
        ..ProductSpec::new("vllm", "vLLM")
    }),
    ..COMPLETIONS
};
