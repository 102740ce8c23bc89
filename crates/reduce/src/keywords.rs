//! Keyword tags of a schema, for corpora without tags.

use std::collections::BTreeSet;

use serde_json::Value;
use sobench_core::schema_keywords::{LITERAL_KEYWORDS, NAME_MAPS};

/// Annotation keywords, which constrain nothing.
pub const ANNOTATIONS: [&str; 9] = [
    "$schema",
    "$id",
    "id",
    "$comment",
    "title",
    "description",
    "readOnly",
    "writeOnly",
    "deprecated",
];

/// Maximum length of a format's name in a tag.
const MAX_FORMAT_CHARS: usize = 40;

/// Keywords in alphabetical order; `type` and `format` with their values, such as `type:integer`.
pub fn keywords_in_schema(schema: &Value) -> Vec<String> {
    let mut tags = BTreeSet::new();
    let mut open = vec![schema];
    while let Some(next) = open.pop() {
        match next {
            Value::Array(items) => open.extend(items),
            Value::Object(members) => {
                for (keyword, value) in members {
                    if ANNOTATIONS.contains(&keyword.as_str()) {
                        continue;
                    }
                    tag(keyword, value, &mut tags);
                    match value {
                        _ if LITERAL_KEYWORDS.contains(&keyword.as_str()) => {}
                        Value::Object(named) if NAME_MAPS.contains(&keyword.as_str()) => {
                            open.extend(named.values());
                        }
                        _ => open.push(value),
                    }
                }
            }
            _ => {}
        }
    }
    tags.into_iter().collect()
}

fn tag(keyword: &str, value: &Value, tags: &mut BTreeSet<String>) {
    let named = |name: &str| {
        format!(
            "{keyword}:{}",
            name.chars().take(MAX_FORMAT_CHARS).collect::<String>()
        )
    };
    match (keyword, value) {
        ("type" | "format", Value::String(name)) => {
            tags.insert(named(name));
        }
        ("type", Value::Array(names)) => {
            tags.extend(names.iter().filter_map(Value::as_str).map(named));
        }
        _ => {
            tags.insert(keyword.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn property_names_and_literal_values_are_not_keywords() {
        for (schema, expected) in [
            (json!(true), vec![]),
            (
                json!({"title": "x", "type": ["string", "null"]}),
                vec!["type:null", "type:string"],
            ),
            (
                json!({"properties": {"format": {"format": "date"}, "anyOf": {"anyOf": [{"minLength": 1}]}}}),
                vec!["anyOf", "format:date", "minLength", "properties"],
            ),
            (
                json!({"enum": [{"pattern": 1}], "$ref": "#/$defs/a", "$defs": {"a": {}}}),
                vec!["$defs", "$ref", "enum"],
            ),
        ] {
            assert_eq!(keywords_in_schema(&schema), expected, "{schema}");
        }
    }
}
