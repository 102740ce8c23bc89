//! `output_config.format` of Anthropic's messages.
//!
//! Source: Anthropic's guide "Structured outputs", and vLLM's `anthropic/protocol.py`. The schema has
//! no name, and there is no `json_object`.

use serde_json::json;

use super::{ConstraintFields, DialectSpec, JSON_ONLY, at, conversion};
use sobench_core::constraint::ConstraintKind::JsonSchema;

pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "output-config",
    embedded: true,
    holder: Some("output_config"),
    is_field: |field| field == "format",
    fields: &[(JsonSchema, |schema, _| {
        let schema = conversion::schema_object(schema)?;
        Ok(ConstraintFields {
            pinned: vec!["/output_config/format/type", "/output_config/format/schema"],
            ..at(
                "/output_config/format",
                json!({"type": "json_schema", "schema": schema}),
            )?
        })
    })],
    ..JSON_ONLY
};
