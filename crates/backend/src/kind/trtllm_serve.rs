//! TensorRT-LLM's `trtllm-serve`: chat completions. Source: `openai_protocol.py`, not tested
//! against a server. Unknown fields are refused.

use super::openai_chat::CHAT;
use super::{ConstraintDialect, KindSpec};
use crate::product::ProductSpec;

pub(super) const SPEC: KindSpec = KindSpec {
    name: "trtllm-serve",
    dialects: &[
        ConstraintDialect::TrtllmFormat,
        ConstraintDialect::ResponseFormat,
        ConstraintDialect::ToolCall,
        ConstraintDialect::ToolCallNonStrict,
    ],
    auto_dialect: |_| ConstraintDialect::TrtllmFormat,
    product: Some(ProductSpec {
        owned_by: Some("tensorrt_llm"),
        ..ProductSpec::new("tensorrt_llm", "TensorRT-LLM")
    }),
    ..CHAT
};
