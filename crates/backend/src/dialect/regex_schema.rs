//! LMDeploy's `response_format`, which has the type `regex_schema` in addition to OpenAI's.
//!
//! Source: `ResponseFormat` in `lmdeploy/serve/openai/protocol.py`, not tested against a server. A
//! choice is sent as a regular expression of its alternatives.

use serde_json::json;

use super::{DialectSpec, JSON_ONLY, at, response_format};
use sobench_core::constraint::ConstraintKind::{JsonObject, JsonSchema, Regex};

pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "regex-schema",
    is_field: |field| field == "response_format",
    fields: &[
        (JsonSchema, response_format::json_schema),
        (JsonObject, response_format::json_object),
        (Regex, |regex, _| {
            at(
                "/response_format",
                json!({"type": "regex_schema", "regex_schema": regex}),
            )
        }),
    ],
    ..JSON_ONLY
};
