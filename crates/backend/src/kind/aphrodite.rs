//! Aphrodite's completions, a fork of vLLM's. The version that changed from `guided_*` to
//! `structured_outputs` is not known.

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
