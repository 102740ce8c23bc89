//! The flat `guided_*` fields of vLLM before 0.12 and of Aphrodite.

use serde_json::json;

use super::spelling::schema_or_text;
use super::{Carried, DialectSpec, JSON_ONLY, Refusal, response_format};
use sobench_core::constraint::Constraint;

/// Fields of the same prefix that constrain nothing.
const OPTIONS: [&str; 2] = ["guided_decoding_backend", "guided_whitespace_pattern"];

pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "guided",
    kinds: &Constraint::KINDS,
    embedded: true,
    names_engine: true,
    is_field: |field| field.starts_with("guided_") && !OPTIONS.contains(&field),
    carry: |constraint, _, engine| carry(constraint, engine),
    ..JSON_ONLY
};

/// One flat field, and `guided_decoding_backend` where an engine was asked for.
///
/// vLLM's clients of that time sent no `guided_*` field for "any JSON object" nor for structural
/// tags: servers took both through `response_format`, and so they are sent here.
fn carry(constraint: &Constraint, engine: Option<&str>) -> Result<Carried, Refusal> {
    let (field, pinned, value) = match constraint {
        Constraint::JsonSchema(schema) => ("guided_json", "/guided_json", schema_or_text(schema)),
        Constraint::Regex(regex) => ("guided_regex", "/guided_regex", json!(regex)),
        Constraint::Choice(choices) => ("guided_choice", "/guided_choice", json!(choices)),
        Constraint::Grammar { text, .. } => ("guided_grammar", "/guided_grammar", json!(text)),
        Constraint::JsonObject(_) | Constraint::StructuralTag(_) => {
            return Ok(with_engine(response_format::carry(constraint)?, engine));
        }
    };
    Ok(with_engine(Carried::new(field, value, &[pinned]), engine))
}

fn with_engine(mut carried: Carried, engine: Option<&str>) -> Carried {
    if let Some(engine) = engine {
        carried.fields["guided_decoding_backend"] = json!(engine);
        carried.pinned.push("/guided_decoding_backend");
    }
    carried
}
