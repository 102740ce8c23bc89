//! Aphrodite's completions, a fork of vLLM's. Source: its repository. Version 0.10 added
//! `structured_outputs` (commit f5f651f90), and 0.20 removed `guided_*` (commit 8c233874c), which it
//! then ignores.

use super::openai::{self, COMPLETIONS};
use super::{ConstraintDialect, KindSpec};
use crate::product::ProductSpec;

pub(super) const SPEC: KindSpec = KindSpec {
    name: "aphrodite",
    dialects: &[
        ConstraintDialect::StructuredOutputs,
        ConstraintDialect::Guided,
        ConstraintDialect::ResponseFormat,
    ],
    auto_dialect: |version| match version {
        Some(version) if version < (0, 10) => ConstraintDialect::Guided,
        _ => ConstraintDialect::StructuredOutputs,
    },
    ignores_dialect: |version, dialect| match dialect {
        ConstraintDialect::Guided => version >= (0, 20),
        ConstraintDialect::StructuredOutputs => version < (0, 10),
        _ => false,
    },
    logprobs: Some(openai::logprobs),
    product: Some(ProductSpec {
        owned_by: Some("aphrodite"),
        ..ProductSpec::new("aphrodite", "Aphrodite")
    }),
    ..COMPLETIONS
};
