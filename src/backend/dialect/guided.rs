//! The flat `guided_*` fields of vLLM before 0.12 and of Aphrodite. Knows no other dialect but `response_format`, which it
//! borrows for the kinds that never had a flat field.

use serde_json::{Map, Value, json};

use super::spelling::schema_or_text;
use super::{Carried, Refusal, response_format};
use crate::constraint::Constraint;

/// One flat field, and `guided_decoding_backend` where an engine was asked for.
///
/// vLLM's clients of that time sent no `guided_*` field for "any JSON object" nor for structural tags: servers took both through
/// `response_format`, and so they are sent here.
pub(super) fn carry(constraint: &Constraint, engine: Option<&str>) -> Result<Carried, Refusal> {
    let (field, pinned, value) = match constraint {
        Constraint::JsonSchema(schema) => ("guided_json", "/guided_json", schema_or_text(schema)),
        Constraint::Regex(regex) => ("guided_regex", "/guided_regex", json!(regex)),
        Constraint::Choice(choices) => ("guided_choice", "/guided_choice", json!(choices)),
        Constraint::Grammar { text, .. } => ("guided_grammar", "/guided_grammar", json!(text)),
        Constraint::JsonObject(_) | Constraint::StructuralTag(_) => {
            return Ok(with_engine(response_format::carry(constraint)?, engine));
        }
    };
    Ok(with_engine(Carried { fields: Map::from_iter([(field.to_owned(), value)]), pinned: vec![pinned] }, engine))
}

fn with_engine(mut carried: Carried, engine: Option<&str>) -> Carried {
    if let Some(engine) = engine {
        carried.fields.insert("guided_decoding_backend".to_owned(), Value::String(engine.to_owned()));
        carried.pinned.push("/guided_decoding_backend");
    }
    carried
}
