//! Constraint dialects: which request fields carry a constraint. One dialect a file; knows no server kind and no prompt.

mod guided;
mod response_format;
mod structured_outputs;

use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value};

use super::{Unsendable, named};
use crate::constraint::Constraint;
use crate::error::Error;

/// The fields that carry a constraint, as `--constraint-dialect` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConstraintDialect {
    /// `structured_outputs: {...}`: vLLM from 0.11.
    StructuredOutputs,
    /// `guided_json`, `guided_regex`, ...: vLLM before 0.12, Aphrodite. Later vLLMs ignore these fields and answer unconstrained.
    Guided,
    /// `response_format: {...}`: OpenAI, and nearly every server for JSON. It has no place for regex, choice or grammar.
    ResponseFormat,
}

impl ConstraintDialect {
    /// Every dialect, in the order of help texts.
    pub const ALL: [Self; 3] = [Self::StructuredOutputs, Self::Guided, Self::ResponseFormat];

    /// The name used in flags, files and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::StructuredOutputs => "structured-outputs",
            Self::Guided => "guided",
            Self::ResponseFormat => "response-format",
        }
    }

    /// The fields that carry `constraint` in this dialect; `engine` is `--guided-decoding-backend`.
    pub(super) fn carry(self, constraint: &Constraint, engine: Option<&str>) -> Result<Carried, Unsendable> {
        match self {
            Self::StructuredOutputs => Ok(structured_outputs::carry(constraint)),
            Self::Guided => guided::carry(constraint, engine),
            Self::ResponseFormat => response_format::carry(constraint),
        }
    }

    /// Whether the dialect has a place for the kind that [`Constraint::kind`] names.
    pub fn carries(self, kind: &str) -> bool {
        match self {
            Self::StructuredOutputs | Self::Guided => true,
            Self::ResponseFormat => matches!(kind, "json" | "json_object" | "structural_tag"),
        }
    }

    /// Whether a top-level request field constrains the answer, in any dialect that is known to us (those of SGLang, llama.cpp
    /// and mistral.rs among them): such a field in `--extra-body` would constrain the control arm as well.
    pub fn is_constraint_field(field: &str) -> bool {
        let is_option = matches!(field, "guided_decoding_backend" | "guided_whitespace_pattern");
        (field.starts_with("guided_") && !is_option)
            || matches!(
                field,
                "structured_outputs" | "response_format" | "structural_tag" | "grammar" | "json_schema" | "regex" | "ebnf"
            )
    }
}

impl fmt::Display for ConstraintDialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ConstraintDialect {
    type Err = Error;
    fn from_str(name: &str) -> Result<Self, Error> {
        named(&Self::ALL, Self::name, "constraint dialect", name)
    }
}

/// Request fields that carry a constraint.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Carried {
    /// Top-level fields of the request.
    pub(super) fields: Map<String, Value>,
    /// JSON pointers into the request whose values *are* the constraint: whatever is merged over them later must leave them as
    /// they are, or an answer would be judged by something else than was sent.
    pub(super) pinned: Vec<&'static str>,
}

impl Carried {
    fn new(field: &str, value: Value, pinned: &[&'static str]) -> Self {
        Self { fields: Map::from_iter([(field.to_owned(), value)]), pinned: pinned.to_vec() }
    }
}

/// A schema as servers take it where they take an object or a string: a boolean schema, which is neither, goes as text.
fn schema_or_text(schema: &Value) -> Value {
    match schema {
        Value::Object(_) | Value::String(_) => schema.clone(),
        other => Value::String(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::constraint::{AlwaysTrue, GrammarDialect};

    fn constraints() -> Vec<Constraint> {
        vec![
            Constraint::JsonSchema(Arc::new(serde_json::json!({"type": "object"}))),
            Constraint::JsonSchema(Arc::new(Value::Bool(true))),
            Constraint::JsonObject(AlwaysTrue),
            Constraint::Regex("a+\n".into()),
            Constraint::Choice(vec!["a".to_owned(), "b".to_owned()].into()),
            Constraint::Grammar { dialect: GrammarDialect::Ebnf, text: "root ::= \"a\"".into() },
            Constraint::StructuralTag(Arc::new(serde_json::json!({"format": {"type": "any_text"}}))),
        ]
    }

    /// One line a constraint: the fields, or why there are none.
    fn check(dialect: ConstraintDialect, engine: Option<&str>, expected: &[&str]) {
        let constraints = constraints();
        assert_eq!(constraints.len(), expected.len());
        for (constraint, expected) in constraints.iter().zip(expected) {
            let carried = dialect.carry(constraint, engine);
            assert_eq!(carried.is_ok(), dialect.carries(constraint.kind()), "{}", constraint.kind());
            let line = match carried {
                Ok(carried) => {
                    let body = Value::Object(carried.fields);
                    for pointer in carried.pinned {
                        assert!(body.pointer(pointer).is_some(), "{pointer} is not in {body}");
                    }
                    body.to_string()
                }
                Err(unsendable) => unsendable.what,
            };
            assert_eq!(line, *expected);
        }
    }

    #[test]
    fn structured_outputs_carry_every_kind() {
        check(
            ConstraintDialect::StructuredOutputs,
            Some("xgrammar"),
            &[
                r#"{"structured_outputs":{"json":{"type":"object"}}}"#,
                r#"{"structured_outputs":{"json":"true"}}"#,
                r#"{"structured_outputs":{"json_object":true}}"#,
                r#"{"structured_outputs":{"regex":"a+\n"}}"#,
                r#"{"structured_outputs":{"choice":["a","b"]}}"#,
                r#"{"structured_outputs":{"grammar":"root ::= \"a\""}}"#,
                r#"{"structured_outputs":{"structural_tag":"{\"format\":{\"type\":\"any_text\"}}"}}"#,
            ],
        );
    }

    #[test]
    fn guided_fields_carry_every_kind_and_the_engine_if_given() {
        check(
            ConstraintDialect::Guided,
            None,
            &[
                r#"{"guided_json":{"type":"object"}}"#,
                r#"{"guided_json":"true"}"#,
                r#"{"response_format":{"type":"json_object"}}"#,
                r#"{"guided_regex":"a+\n"}"#,
                r#"{"guided_choice":["a","b"]}"#,
                r#"{"guided_grammar":"root ::= \"a\""}"#,
                r#"{"response_format":{"type":"structural_tag","format":{"type":"any_text"}}}"#,
            ],
        );
        let regex = Constraint::Regex("a".into());
        let carried = ConstraintDialect::Guided.carry(&regex, Some("outlines")).unwrap();
        assert_eq!(Value::Object(carried.fields).to_string(), r#"{"guided_regex":"a","guided_decoding_backend":"outlines"}"#);
    }

    #[test]
    fn response_format_carries_json_and_structural_tags_only() {
        check(
            ConstraintDialect::ResponseFormat,
            None,
            &[
                r#"{"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object"},"strict":true}}}"#,
                r#"{"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":true,"strict":true}}}"#,
                r#"{"response_format":{"type":"json_object"}}"#,
                "the response-format dialect cannot carry a regex constraint",
                "the response-format dialect cannot carry a choice constraint",
                "the response-format dialect cannot carry a grammar constraint",
                r#"{"response_format":{"type":"structural_tag","format":{"type":"any_text"}}}"#,
            ],
        );
    }

    #[test]
    fn a_structural_tag_that_is_no_object_has_no_place_in_response_format() {
        let tag = Constraint::StructuralTag(Arc::new(Value::from(1)));
        let unsendable = ConstraintDialect::ResponseFormat.carry(&tag, None).unwrap_err();
        assert!(unsendable.what.contains("structural_tag"), "{unsendable:?}");
        assert!(ConstraintDialect::StructuredOutputs.carry(&tag, None).is_ok());
    }
}
