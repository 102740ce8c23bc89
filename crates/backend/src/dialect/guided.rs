//! The `guided_*` fields of vLLM before 0.12 and of Aphrodite.

use serde_json::json;

use super::conversion::schema_or_text;
use super::{ConstraintFields, DialectSpec, JSON_ONLY, Refusal, response_format};
use sobench_core::constraint::Constraint;

/// Fields with this prefix that are not constraints.
const OPTIONS: [&str; 2] = ["guided_decoding_backend", "guided_whitespace_pattern"];

pub(super) const SPEC: DialectSpec = DialectSpec {
    name: "guided",
    kinds: &Constraint::TEXT_KINDS,
    embedded: true,
    names_engine: true,
    is_field: |field| field.starts_with("guided_") && !OPTIONS.contains(&field),
    carry: |constraint, _, engine| carry(constraint, engine),
    ..JSON_ONLY
};

/// One field, and `guided_decoding_backend` if an engine was requested.
///
/// vLLM's clients of that time had no `guided_*` field for "any JSON object" and structural tags.
/// Servers read both from `response_format`, so they are sent there.
fn carry(constraint: &Constraint, engine: Option<&str>) -> Result<ConstraintFields, Refusal> {
    let (field, pinned, value) = match constraint {
        Constraint::JsonSchema(schema) => ("guided_json", "/guided_json", schema_or_text(schema)),
        Constraint::Regex(regex) => ("guided_regex", "/guided_regex", json!(regex)),
        Constraint::Choice(choices) => ("guided_choice", "/guided_choice", json!(choices)),
        Constraint::Grammar { text, .. } => ("guided_grammar", "/guided_grammar", json!(text)),
        Constraint::JsonObject(_) | Constraint::StructuralTag(_) => {
            return Ok(with_engine(response_format::carry(constraint)?, engine));
        }
        Constraint::Tools(_) => return Err(Refusal::NoField),
    };
    Ok(with_engine(
        ConstraintFields::new(field, value, &[pinned]),
        engine,
    ))
}

fn with_engine(mut carried: ConstraintFields, engine: Option<&str>) -> ConstraintFields {
    if let Some(engine) = engine {
        carried.fields["guided_decoding_backend"] = json!(engine);
        carried.pinned.push("/guided_decoding_backend");
    }
    carried
}
