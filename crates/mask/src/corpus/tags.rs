//! The keywords that a schema uses, where its corpus does not name them. Knows no corpus.

use std::collections::BTreeSet;

use serde_json::Value;

/// Keywords that hold schemas by names that are the author's.
pub(crate) const BY_NAME: [&str; 6] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
    "dependencies",
];

/// Keywords that hold values, in which nothing is a keyword.
pub(crate) const VALUES: [&str; 6] = [
    "const", "enum", "default", "examples", "example", "required",
];

/// Keywords of annotation, which constrain nothing.
pub(crate) const ANNOTATIONS: [&str; 9] = [
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

/// Characters of a format's name that are kept.
const MAX_FORMAT_CHARS: usize = 40;

/// Keywords in alphabetical order, `type:integer` and `format:date` with their values.
pub(crate) fn of_schema(schema: &Value) -> Vec<String> {
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
                        _ if VALUES.contains(&keyword.as_str()) => {}
                        Value::Object(named) if BY_NAME.contains(&keyword.as_str()) => {
                            open.extend(named.values())
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
            tags.extend(names.iter().filter_map(Value::as_str).map(named))
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
    fn keywords_are_told_from_names_and_values() {
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
            assert_eq!(of_schema(&schema), expected, "{schema}");
        }
    }
}
