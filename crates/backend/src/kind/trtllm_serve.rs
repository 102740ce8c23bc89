//! TensorRT-LLM behind its own `trtllm-serve`: chat completions. Source: `openai_protocol.py`, read
//! and not run; fields that it does not know are refused.

use super::openai_chat::CHAT;
use super::{ConstraintDialect, KindSpec};
use crate::product::ProductSpec;

pub(super) const SPEC: KindSpec = KindSpec {
    name: "trtllm-serve",
    dialects: &[
        ConstraintDialect::TrtllmFormat,
        ConstraintDialect::ResponseFormat,
        ConstraintDialect::ToolCall,
    ],
    auto_dialect: |_| ConstraintDialect::TrtllmFormat,
    product: Some(ProductSpec {
        owned_by: Some("tensorrt_llm"),
        ..ProductSpec::new("tensorrt_llm", "TensorRT-LLM")
    }),
    ..CHAT
};
