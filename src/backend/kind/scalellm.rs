//! ScaleLLM's completions. They have no field for a constraint (`api_protocol.py`) and would ignore one: such a case is refused.

use super::KindSpec;
use super::openai::{self, COMPLETIONS};
use crate::backend::shape::Shape;

const SAMPLING: [(&str, &str); 6] = [
    ("temperature", "temperature"),
    ("top_p", "top_p"),
    ("frequency_penalty", "frequency_penalty"),
    ("presence_penalty", "presence_penalty"),
    ("repetition_penalty", "repetition_penalty"),
    ("top_k", "top_k"),
];

pub(super) const SPEC: KindSpec = KindSpec {
    name: "scalellm",
    body: Shape { asks_usage: false, sampling: &SAMPLING, ..Shape::COMPLETIONS },
    logprobs: Some(openai::logprobs),
    ..COMPLETIONS
};
