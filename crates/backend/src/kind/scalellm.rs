//! ScaleLLM's completions. They have no field for a constraint (`api_protocol.py`) and would ignore
//! one, so such a case is rejected.

use super::KindSpec;
use super::openai::{self, COMPLETIONS};
use crate::body_layout::BodyLayout;

pub(super) const SPEC: KindSpec = KindSpec {
    name: "scalellm",
    body: BodyLayout {
        has_stream_options: false,
        sampling: &[
            "temperature",
            "top_p",
            "frequency_penalty",
            "presence_penalty",
            "repetition_penalty",
            "top_k",
        ],
        ..BodyLayout::COMPLETIONS
    },
    logprobs: Some(openai::logprobs),
    ..COMPLETIONS
};
