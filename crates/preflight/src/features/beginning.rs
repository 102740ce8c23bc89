//! Whether an answer that was cut breaks its schema whatever would have followed. Pure.
//!
//! A cut answer proves nothing by what it lacks. Two things cannot be mended any more: a byte at
//! which the text stops being the beginning of a JSON text, and a member of the outermost object
//! that is whole and breaks the schema which `properties` has for it. (A second member of the same
//! name could come later. It would make the document one with duplicate names, which is no answer
//! to any schema either.)

use serde_json::{Map, Value, json};

use sobench_core::constraint::Constraint;
use sobench_core::verdict::{Reason, Verdict};
use sobench_judge::Evaluator;
use std::sync::Arc;

/// Most members of a cut answer that are looked at.
const MAX_MEMBERS: usize = 32;

/// Members of the schema's root that the schema of one member may lead to, or be read by.
const ROOT_MEMBERS: [&str; 4] = ["$schema", "$id", "$defs", "definitions"];

/// Why `text`, the beginning of an answer, is not the beginning of one that `schema` allows; `None`
/// where it may be.
pub fn broken(schema: &Value, text: &str, evaluator: &mut Evaluator) -> Option<String> {
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text)
        && error.is_syntax()
    {
        return Some(format!("is not JSON, whatever would follow: {error}"));
    }
    let properties = schema.get("properties")?.as_object()?;
    whole_members(text).into_iter().find_map(|(name, value)| {
        let of_member = properties.get(&name)?;
        let judged_by = schema_of_member(schema, &name, of_member);
        let document = json!({ &name: value }).to_string();
        match evaluator.judge_text(&judged_by, None, &document) {
            Verdict::Invalid {
                reason: reason @ Reason::Schema { .. },
            } => Some(reason.to_string()),
            _ => None,
        }
    })
}

/// What the root's `properties` says of one member, and nothing else.
fn schema_of_member(schema: &Value, name: &str, of_member: &Value) -> Constraint {
    let mut root: Map<String, Value> = ROOT_MEMBERS
        .iter()
        .filter_map(|member| Some(((*member).to_owned(), schema.get(member)?.clone())))
        .collect();
    root.insert("properties".to_owned(), json!({ name: of_member }));
    Constraint::JsonSchema(Arc::new(Value::Object(root)))
}

/// The members of the outermost object that are whole: those that another one or the end follows.
fn whole_members(text: &str) -> Vec<(String, Value)> {
    for end in commas(text).into_iter().rev().take(MAX_MEMBERS) {
        if let Ok(Value::Object(members)) = serde_json::from_str(&format!("{}}}", &text[..end])) {
            return members.into_iter().take(MAX_MEMBERS).collect();
        }
    }
    Vec::new()
}

/// Where the commas of the outermost object are, the end of a value at which white space begins
/// among them.
fn commas(text: &str) -> Vec<usize> {
    let (mut places, mut depth, mut in_string, mut escaped) = (Vec::new(), 0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        if in_string {
            in_string = byte != b'"' || escaped;
            escaped = byte == b'\\' && !escaped;
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' if depth == 1 => places.push(at),
            // White space ends a number; what stood before it is whole, if it is a value at all.
            byte if byte.is_ascii_whitespace() && depth == 1 => places.push(at),
            _ => {}
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_judge::EvaluateOptions;

    #[test]
    fn only_what_cannot_be_mended_is_broken() {
        let schema = json!({
            "type": "object",
            "properties": {"v": {"$ref": "#/$defs/s"}, "n": {"type": "integer"}},
            "required": ["v", "n"],
            "minProperties": 2,
            "additionalProperties": false,
            "$defs": {"s": {"type": "string", "maxLength": 3}},
        });
        let mut evaluator = Evaluator::new(EvaluateOptions::default());
        for (text, words) in [
            (r#"{"v": "abcdef", "#, Some("maxLength")),
            ("{\"v\": \"abcdef\"   \n\n", Some("maxLength")),
            (r#"{"n": 1.5, "v": "a"#, Some("`type` at /n")),
            (r#"{"n": {"a": [1, 2]}, "v"#, Some("`type` at /n")),
            ("{\"v\": \"a\tb", Some("not JSON")),
            (r#"{"v": NaN"#, Some("not JSON")),
            ("The answer", Some("not JSON")),
            // What is still open may yet come right, or is none of this schema's members.
            (r#"{"v": "abcdef"#, None),
            (r#"{"v": "abcdef""#, None),
            (r#"{"n": 1.5"#, None),
            (r#"{"v": "abc", "#, None),
            (r#"{"n": 1, "v": "#, None),
            ("{\n\n\n   ", None),
            ("{", None),
            ("", None),
        ] {
            let found = broken(&schema, text, &mut evaluator);
            assert_eq!(found.is_some(), words.is_some(), "{text:?}: {found:?}");
            assert!(
                found
                    .unwrap_or_default()
                    .contains(words.unwrap_or_default()),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_schema_without_members_is_held_to_json_alone() {
        let mut evaluator = Evaluator::new(EvaluateOptions::default());
        assert_eq!(
            broken(
                &json!({"type": "array", "maxItems": 1}),
                "[1, 2, 3, ",
                &mut evaluator
            ),
            None
        );
        assert_eq!(broken(&json!(true), "[1, 2, 3, ", &mut evaluator), None);
        assert!(broken(&json!(true), "[1, 2, 03", &mut evaluator).is_some());
    }
}
