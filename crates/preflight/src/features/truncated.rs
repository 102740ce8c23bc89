//! Whether a truncated answer already breaks its schema.
//!
//! Missing parts of a truncated answer prove nothing. Two violations cannot be corrected by more
//! text: a syntax error, and a complete member of the outermost object that breaks its schema in
//! `properties`. (A second member of the same name could follow, but a document with duplicate
//! names is not a valid answer either.)

use serde_json::{Map, Value, json};

use sobench_core::constraint::Constraint;
use sobench_core::verdict::{Reason, Verdict};
use sobench_judge::Evaluator;
use std::sync::Arc;

/// Maximum number of members to check.
const MAX_MEMBERS: usize = 32;

/// Members of the root schema that affect the schema of a member.
const ROOT_MEMBERS: [&str; 4] = ["$schema", "$id", "$defs", "definitions"];

/// Why `text` is not the prefix of an answer that `schema` allows; `None` if it may be.
pub fn prefix_violation(schema: &Value, text: &str, evaluator: &mut Evaluator) -> Option<String> {
    if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(text)
        && error.is_syntax()
    {
        return Some(format!("is not a prefix of JSON: {error}"));
    }
    let properties = schema.get("properties")?.as_object()?;
    whole_members(text).into_iter().find_map(|(name, value)| {
        let member_schema = properties.get(&name)?;
        let judged_by = schema_of_member(schema, &name, member_schema);
        let document = json!({ &name: value }).to_string();
        match evaluator.judge_text(&judged_by, None, &document) {
            Verdict::Invalid {
                reason: reason @ Reason::Schema { .. },
            } => Some(reason.to_string()),
            _ => None,
        }
    })
}

/// A schema with only one member of the root's `properties`.
fn schema_of_member(schema: &Value, name: &str, member_schema: &Value) -> Constraint {
    let mut root: Map<String, Value> = ROOT_MEMBERS
        .iter()
        .filter_map(|member| Some(((*member).to_owned(), schema.get(member)?.clone())))
        .collect();
    root.insert("properties".to_owned(), json!({ name: member_schema }));
    Constraint::JsonSchema(Arc::new(Value::Object(root)))
}

/// The complete members of the outermost object.
fn whole_members(text: &str) -> Vec<(String, Value)> {
    for end in commas(text).into_iter().rev().take(MAX_MEMBERS) {
        if let Ok(Value::Object(members)) = serde_json::from_str(&format!("{}}}", &text[..end])) {
            return members.into_iter().take(MAX_MEMBERS).collect();
        }
    }
    Vec::new()
}

/// Positions of the commas of the outermost object, and of white space, which may end a value.
fn commas(text: &str) -> Vec<usize> {
    let (mut positions, mut depth, mut in_string, mut escaped) =
        (Vec::new(), 0_usize, false, false);
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
            b',' if depth == 1 => positions.push(at),
            // White space ends a number, so a value before it is complete.
            byte if byte.is_ascii_whitespace() && depth == 1 => positions.push(at),
            _ => {}
        }
    }
    positions
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_judge::EvaluateOptions;

    #[test]
    fn only_final_violations_are_reported() {
        let schema = json!({
            "type": "object",
            "properties": {"v": {"$ref": "#/$defs/s"}, "n": {"type": "integer"}},
            "required": ["v", "n"],
            "minProperties": 2,
            "additionalProperties": false,
            "$defs": {"s": {"type": "string", "maxLength": 3}},
        });
        let mut evaluator = Evaluator::new(EvaluateOptions::default());
        for (text, expected) in [
            (r#"{"v": "abcdef", "#, Some("maxLength")),
            ("{\"v\": \"abcdef\"   \n\n", Some("maxLength")),
            (r#"{"n": 1.5, "v": "a"#, Some("`type` at /n")),
            (r#"{"n": {"a": [1, 2]}, "v"#, Some("`type` at /n")),
            ("{\"v\": \"a\tb", Some("not a prefix of JSON")),
            (r#"{"v": NaN"#, Some("not a prefix of JSON")),
            ("The answer", Some("not a prefix of JSON")),
            // Incomplete values may still become valid.
            (r#"{"v": "abcdef"#, None),
            (r#"{"v": "abcdef""#, None),
            (r#"{"n": 1.5"#, None),
            (r#"{"v": "abc", "#, None),
            (r#"{"n": 1, "v": "#, None),
            ("{\n\n\n   ", None),
            ("{", None),
            ("", None),
        ] {
            let found = prefix_violation(&schema, text, &mut evaluator);
            assert_eq!(found.is_some(), expected.is_some(), "{text:?}: {found:?}");
            assert!(
                found
                    .unwrap_or_default()
                    .contains(expected.unwrap_or_default()),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_schema_without_properties_is_checked_for_syntax_only() {
        let mut evaluator = Evaluator::new(EvaluateOptions::default());
        assert_eq!(
            prefix_violation(
                &json!({"type": "array", "maxItems": 1}),
                "[1, 2, 3, ",
                &mut evaluator
            ),
            None
        );
        assert_eq!(
            prefix_violation(&json!(true), "[1, 2, 3, ", &mut evaluator),
            None
        );
        assert!(prefix_violation(&json!(true), "[1, 2, 03", &mut evaluator).is_some());
    }
}
