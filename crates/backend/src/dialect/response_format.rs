//! OpenAI's `response_format`, with vLLM's and SGLang's `structural_tag` type.

use serde_json::{Map, Value, json};

use super::conversion::NAME;
use super::{Carried, ConstraintFields, DialectSpec, JSON_ONLY, at};
use crate::{ServerKind, Unsendable};
use sobench_core::constraint::ConstraintKind::{JsonObject, JsonSchema, StructuralTag};

pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "response-format",
    embedded: true,
    is_field: |field| field == "response_format",
    fields: &[
        (JsonSchema, json_schema),
        (JsonObject, json_object),
        (StructuralTag, structural_tag),
    ],
    ..JSON_ONLY
};

/// `json_schema` with `strict: true` (without it OpenAI does not enforce the schema). `name` and
/// `strict` are not pinned, so `--extra-body` may change them.
pub(super) fn json_schema(schema: Value, _: ServerKind) -> Carried {
    let mut format = json!({"type": "json_schema", "json_schema": {"name": NAME}});
    format["json_schema"]["schema"] = schema;
    format["json_schema"]["strict"] = true.into();
    Ok(ConstraintFields {
        pinned: vec![
            "/response_format/type",
            "/response_format/json_schema/schema",
        ],
        ..at("/response_format", format)?
    })
}

pub(super) fn json_object(_: Value, _: ServerKind) -> Carried {
    at("/response_format/type", "json_object".into())
}

/// The tag's members besides the type, in the older form (`structures`, `triggers`) or the newer
/// one (`format`).
pub(super) fn structural_tag(tag: Value, _: ServerKind) -> Carried {
    let Value::Object(members) = tag else {
        let what = "the response-format dialect carries a structural_tag as an object only";
        return Err(Unsendable::new(what, "write the tag as a JSON object"));
    };
    let mut format = Map::from_iter([("type".to_owned(), json!("structural_tag"))]);
    format.extend(members.into_iter().filter(|(name, _)| name != "type"));
    let mut carried = at("/response_format", format.into())?;
    carried.pinned = vec![
        "/response_format/type",
        "/response_format/format",
        "/response_format/structures",
        "/response_format/triggers",
    ];
    carried
        .pinned
        .retain(|pointer| carried.fields.pointer(pointer).is_some());
    Ok(carried)
}
