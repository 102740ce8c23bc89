//! Aphrodite's completions: a fork of vLLM's. Which version turned from `guided_*` to
//! `structured_outputs` could not be confirmed.

use super::openai::{self, COMPLETIONS};
use super::{ConstraintDialect, KindSpec};

pub(super) const SPEC: KindSpec = KindSpec {
    name: "aphrodite",
    dialects: &[
        ConstraintDialect::Guided,
        ConstraintDialect::StructuredOutputs,
        ConstraintDialect::ResponseFormat,
    ],
    auto_dialect: |_| ConstraintDialect::Guided,
    logprobs: Some(openai::logprobs),
    ..COMPLETIONS
};
