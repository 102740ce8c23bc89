//! `text.format` of the responses endpoint.
//!
//! Source: OpenAI's reference of the responses endpoint, and vLLM's `ResponsesRequest`; read, not
//! run. The schema's members stand in the format itself, with no envelope around them. vLLM reads
//! `json_schema`, lately with `disable_any_whitespace` and `disable_additional_properties`, so that
//! the same schema means less there than by other dialects; `json_object` it refused in older
//! versions and ignores in newer ones.

use serde_json::json;

use super::{Carried, DialectSpec, JSON_ONLY, Refusal, spelling};
use sobench_core::constraint::Constraint;

pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "text-format",
    holder: Some("text"),
    is_field: |field| field == "format",
    carry: |constraint, _, _| carry(constraint),
    ..JSON_ONLY
};

fn carry(constraint: &Constraint) -> Result<Carried, Refusal> {
    let (format, pinned) = match constraint {
        Constraint::JsonSchema(schema) => (
            json!({"type": "json_schema", "name": spelling::NAME, "schema": **schema, "strict": true}),
            &["/text/format/type", "/text/format/schema"][..],
        ),
        Constraint::JsonObject(_) => (json!({"type": "json_object"}), &["/text/format/type"][..]),
        _ => return Err(Refusal::NoPlace),
    };
    Ok(Carried::new("text", json!({"format": format}), pinned))
}
