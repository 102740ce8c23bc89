//! ScaleLLM's completions. They have no field for a constraint (`api_protocol.py`) and would ignore
//! one: such a case is refused.

use super::KindSpec;
use super::openai::{self, COMPLETIONS};
use crate::shape::Shape;

pub(super) const SPEC: KindSpec = KindSpec {
    name: "scalellm",
    body: Shape {
        asks_usage: false,
        sampling: &[
            "temperature",
            "top_p",
            "frequency_penalty",
            "presence_penalty",
            "repetition_penalty",
            "top_k",
        ],
        ..Shape::COMPLETIONS
    },
    logprobs: Some(openai::logprobs),
    ..COMPLETIONS
};
