//! OpenAI's `response_format`, with vLLM's and SGLang's `structural_tag` type.

use serde_json::{Map, Value, json};

use super::conversion::NAME;
use super::{ConstraintFields, DialectSpec, JSON_ONLY, Refusal};
use crate::Unsendable;
use sobench_core::constraint::Constraint;

pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "response-format",
    kinds: &["json", "json_object", "structural_tag"],
    embedded: true,
    is_field: |field| field == "response_format",
    carry: |constraint, _, _| carry(constraint),
    ..JSON_ONLY
};

/// `json_schema` with `strict: true` (without it OpenAI does not enforce the schema),
/// `json_object`, or `structural_tag`. `name` and `strict` are not pinned, so `--extra-body` may
/// change them.
pub(super) fn carry(constraint: &Constraint) -> Result<ConstraintFields, Refusal> {
    match constraint {
        Constraint::JsonSchema(schema) => Ok(ConstraintFields::new(
            "response_format",
            json!({"type": "json_schema", "json_schema": {"name": NAME, "schema": **schema, "strict": true}}),
            &[
                "/response_format/type",
                "/response_format/json_schema/schema",
            ],
        )),
        Constraint::JsonObject(_) => Ok(ConstraintFields::new(
            "response_format",
            json!({"type": "json_object"}),
            &["/response_format/type"],
        )),
        Constraint::StructuralTag(tag) => match &**tag {
            Value::Object(members) => Ok(structural_tag(members)),
            _ => {
                let what = "the response-format dialect carries a structural_tag as an object only";
                Err(Unsendable::new(what, "write the tag as a JSON object").into())
            }
        },
        Constraint::Regex(_)
        | Constraint::Choice(_)
        | Constraint::Grammar { .. }
        | Constraint::Tools(_) => Err(Refusal::NoField),
    }
}

/// The tag's members besides the type, in the older form (`structures`, `triggers`) or the newer
/// one (`format`).
fn structural_tag(members: &Map<String, Value>) -> ConstraintFields {
    let mut format = Map::from_iter([("type".to_owned(), json!("structural_tag"))]);
    format.extend(
        members
            .iter()
            .filter(|(name, _)| *name != "type")
            .map(|(name, value)| (name.clone(), value.clone())),
    );
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
    ConstraintFields::new("response_format", Value::Object(format), &pointers)
}
