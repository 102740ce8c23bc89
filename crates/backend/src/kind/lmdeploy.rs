//! LMDeploy's chat completions; its completions have no field for a constraint. Source:
//! `protocol.py`, not tested against a server. Unknown fields are ignored, among them `strict` of a
//! tool; that of `response_format` is declared and not used.

use super::openai_chat::CHAT;
use super::{ConstraintDialect, KindSpec};
use crate::body_layout::BodyLayout;
use crate::product::ProductSpec;

pub(super) const SPEC: KindSpec = KindSpec {
    name: "lmdeploy",
    dialects: &[
        ConstraintDialect::RegexSchema,
        ConstraintDialect::ResponseFormat,
        ConstraintDialect::ToolCallNonStrict,
    ],
    auto_dialect: |_| ConstraintDialect::RegexSchema,
    // Older releases read `max_tokens` only, and newer ones still accept it.
    body: BodyLayout {
        length: "max_tokens",
        ..CHAT.body
    },
    product: Some(ProductSpec {
        owned_by: Some("lmdeploy"),
        ..ProductSpec::new("lmdeploy", "LMDeploy")
    }),
    ..CHAT
};
