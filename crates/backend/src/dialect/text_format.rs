//! `text.format` of the responses endpoint.
//!
//! Source: OpenAI's reference of the responses endpoint, and vLLM's `ResponsesRequest`; not tested
//! against a server. The schema's members are in the format itself, without an envelope. vLLM reads
//! `json_schema`, recently with `disable_any_whitespace` and `disable_additional_properties`, so
//! the same schema allows less than in other dialects. Older versions of vLLM refuse `json_object`,
//! newer ones ignore it.

use serde_json::json;

use super::{ConstraintFields, DialectSpec, JSON_ONLY, at, conversion};
use sobench_core::constraint::ConstraintKind::{JsonObject, JsonSchema};

pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "text-format",
    holder: Some("text"),
    is_field: |field| field == "format",
    fields: &[
        (JsonSchema, |schema, _| {
            let format = json!({"type": "json_schema", "name": conversion::NAME, "schema": schema, "strict": true});
            Ok(ConstraintFields {
                pinned: vec!["/text/format/type", "/text/format/schema"],
                ..at("/text/format", format)?
            })
        }),
        (JsonObject, |_, _| {
            at("/text/format/type", "json_object".into())
        }),
    ],
    ..JSON_ONLY
};
