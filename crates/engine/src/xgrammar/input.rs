//! Converts a constraint to the input formats of xgrammar, for the port and for the original.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::error::EngineError;
use crate::input::Input;
use sobench_core::constraint::{Constraint, GrammarDialect};

/// Input of xgrammar for a constraint.
pub(super) enum EngineInput<'a> {
    /// A JSON Schema as JSON text.
    Schema(Cow<'a, str>),
    Regex(&'a str),
    /// EBNF with the start rule `root`.
    Ebnf(Cow<'a, str>),
    /// Lark with the start rule `start`.
    Lark(&'a str),
    /// A structural tag as JSON text.
    StructuralTag(String),
}

/// The schema of any JSON object, as in vLLM.
const ANY_OBJECT: &str = r#"{"type":"object"}"#;

impl<'a> EngineInput<'a> {
    /// Converts a constraint as vLLM does for xgrammar.
    ///
    /// # Errors
    /// As [`Input::new`].
    pub(super) fn from_constraint(constraint: &'a Constraint) -> Result<Self, EngineError> {
        Ok(match Input::new(constraint)? {
            Input::Schema(schema) => Self::Schema(Cow::Owned(schema.to_string())),
            Input::AnyObject => Self::Schema(Cow::Borrowed(ANY_OBJECT)),
            Input::Regex(regex) => Self::Regex(regex),
            Input::Choice(choices) => Self::Ebnf(Cow::Owned(choice(choices))),
            Input::Grammar(GrammarDialect::Ebnf, text) => Self::Ebnf(Cow::Borrowed(text)),
            Input::Grammar(GrammarDialect::Lark, text) => Self::Lark(text),
            Input::StructuralTag(tag) => Self::StructuralTag(structural_tag(tag)),
        })
    }
}

/// `root ::= "a" | "b"`.
fn choice(choices: &[String]) -> String {
    let quoted: Vec<String> = choices
        .iter()
        .map(|choice| format!("\"{}\"", escape(choice)))
        .collect();
    format!("root ::= {}", quoted.join(" | "))
}

/// Escapes quotes, backslashes and control characters for an EBNF string.
fn escape(text: &str) -> String {
    use std::fmt::Write as _;
    text.chars()
        .fold(String::with_capacity(text.len()), |mut out, char| {
            match char {
                '\\' => out.push_str("\\\\"),
                '"' => out.push_str("\\\""),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                control if control < ' ' || control == '\u{7f}' => {
                    write!(out, "\\u{:04x}", u32::from(control))
                        .expect("writing to a string does not fail");
                }
                other => out.push(other),
            }
            out
        })
}

/// Converts the tag to the current form. The older form, `structures` and `triggers`, is converted
/// like xgrammar's Python package does; other values are passed unchanged.
fn structural_tag(tag: &Value) -> String {
    let Some(structures) = tag.get("structures").and_then(Value::as_array) else {
        return tag.to_string();
    };
    let tags: Vec<Value> = structures
        .iter()
        .map(|item| {
            let content = json!({ "type": "json_schema", "json_schema": item["schema"] });
            json!({ "type": "tag", "begin": item["begin"], "content": content, "end": item["end"] })
        })
        .collect();
    let format = json!({ "type": "triggered_tags", "triggers": tag["triggers"], "tags": tags });
    json!({ "type": "structural_tag", "format": format }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_quoted_and_escaped() {
        for (choices, text) in [
            (&["a", "b c"][..], r#"root ::= "a" | "b c""#),
            (&["\"\\\n\r\t"], r#"root ::= "\"\\\n\r\t""#),
            (&["\u{1}\u{7f}é日"], r#"root ::= "\u0001\u007fé日""#),
            (&[""], r#"root ::= """#),
        ] {
            let choices: Vec<String> = choices.iter().map(ToString::to_string).collect();
            assert_eq!(choice(&choices), text);
        }
    }

    #[test]
    fn old_structural_tags_are_converted_and_new_ones_unchanged() {
        let new = json!({ "type": "structural_tag", "format": { "type": "any_text" } });
        assert_eq!(structural_tag(&new), new.to_string());
        let old = json!({ "structures": [{ "begin": "<f>", "schema": {}, "end": "</f>" }], "triggers": ["<f"] });
        let tag = json!({ "type": "tag", "begin": "<f>", "content": { "type": "json_schema", "json_schema": {} }, "end": "</f>" });
        let format = json!({ "type": "triggered_tags", "triggers": ["<f"], "tags": [tag] });
        assert_eq!(
            structural_tag(&old),
            json!({ "type": "structural_tag", "format": format }).to_string()
        );
    }
}
