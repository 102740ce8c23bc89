//! `text.format` of the responses endpoint.
//!
//! Source: OpenAI's reference of the responses endpoint, and vLLM's `ResponsesRequest`; not tested
//! against a server. The schema's members are in the format itself, without an envelope. vLLM reads
//! `json_schema`, recently with `disable_any_whitespace` and `disable_additional_properties`, so
//! the same schema allows less than in other dialects. Older versions of vLLM refuse `json_object`,
//! newer ones ignore it.

use serde_json::json;

use super::{ConstraintFields, DialectSpec, JSON_ONLY, Refusal, conversion};
use sobench_core::constraint::Constraint;

pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "text-format",
    holder: Some("text"),
    is_field: |field| field == "format",
    carry: |constraint, _, _| carry(constraint),
    ..JSON_ONLY
};

fn carry(constraint: &Constraint) -> Result<ConstraintFields, Refusal> {
    let (format, pinned) = match constraint {
        Constraint::JsonSchema(schema) => (
            json!({"type": "json_schema", "name": conversion::NAME, "schema": **schema, "strict": true}),
            &["/text/format/type", "/text/format/schema"][..],
        ),
        Constraint::JsonObject(_) => (json!({"type": "json_object"}), &["/text/format/type"][..]),
        _ => return Err(Refusal::NoField),
    };
    Ok(ConstraintFields::new(
        "text",
        json!({"format": format}),
        pinned,
    ))
}
