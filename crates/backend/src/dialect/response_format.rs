//! OpenAI's `response_format`, with vLLM's and SGLang's `structural_tag` type.

use serde_json::{Map, Value, json};

use super::conversion::NAME;
use super::{Carried, ConstraintFields, DialectSpec, JSON_ONLY};
use crate::{ServerKind, Unsendable};
use sobench_core::constraint::ConstraintKind;

pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "response-format",
    embedded: true,
    is_field: |field| field == "response_format",
    fields: &[
        (ConstraintKind::JsonSchema, json_schema),
        (ConstraintKind::JsonObject, json_object),
        (ConstraintKind::StructuralTag, structural_tag),
    ],
    ..JSON_ONLY
};

/// `json_schema` with `strict: true` (without it OpenAI does not enforce the schema). `name` and
/// `strict` are not pinned, so `--extra-body` may change them.
pub(super) fn json_schema(schema: Value, _: ServerKind) -> Carried {
    Ok(ConstraintFields {
        fields: json!({"response_format": {
            "type": "json_schema",
            "json_schema": {"name": NAME, "schema": schema, "strict": true},
        }}),
        pinned: vec![
            "/response_format/type",
            "/response_format/json_schema/schema",
        ],
    })
}

pub(super) fn json_object(_: Value, _: ServerKind) -> Carried {
    Ok(ConstraintFields {
        fields: json!({"response_format": {"type": "json_object"}}),
        pinned: vec!["/response_format/type"],
    })
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
    let pinned = ["format", "structures", "triggers"].into_iter().zip([
        "/response_format/format",
        "/response_format/structures",
        "/response_format/triggers",
    ]);
    let mut pointers = vec!["/response_format/type"];
    pointers.extend(
        pinned
            .filter(|(member, _)| format.contains_key(*member))
            .map(|(_, pointer)| pointer),
    );
    Ok(ConstraintFields {
        fields: json!({"response_format": format}),
        pinned: pointers,
    })
}
