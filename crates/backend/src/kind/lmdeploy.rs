//! LMDeploy's chat completions; its completions have no place for a constraint. Source:
//! `protocol.py`, read and not run; fields that it does not know are ignored.

use super::openai_chat::CHAT;
use super::{ConstraintDialect, KindSpec};
use crate::product::ProductSpec;
use crate::shape::Shape;

pub(super) const SPEC: KindSpec = KindSpec {
    name: "lmdeploy",
    dialects: &[
        ConstraintDialect::RegexSchema,
        ConstraintDialect::ResponseFormat,
        ConstraintDialect::ToolCall,
    ],
    auto_dialect: |_| ConstraintDialect::RegexSchema,
    // Older releases know `max_tokens` only, and newer ones still read it.
    body: Shape {
        length: "max_tokens",
        ..CHAT.body
    },
    product: Some(ProductSpec {
        owned_by: Some("lmdeploy"),
        ..ProductSpec::new("lmdeploy", "LMDeploy")
    }),
    ..CHAT
};
