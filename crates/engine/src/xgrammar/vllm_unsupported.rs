//! JSON Schema features that vLLM does not route to xgrammar.
//!
//! The list is that of `has_xgrammar_unsupported_json_features` in vLLM 0.33. xgrammar itself
//! accepts most of these schemas and ignores the keyword; with `auto`, the list routes them to
//! another engine. Checks of typed keywords need an explicit `type`: a schema without `type` passes
//! (vLLM issue 57550). This gap is reproduced here.

use serde_json::{Map, Value};

/// Formats that xgrammar converts to a pattern.
const FORMATS: [&str; 14] = [
    "email",
    "date",
    "time",
    "date-time",
    "duration",
    "ipv4",
    "ipv6",
    "hostname",
    "uuid",
    "uri",
    "uri-reference",
    "uri-template",
    "json-pointer",
    "relative-json-pointer",
];

type Members = Map<String, Value>;

/// Check of one schema object. Returns the feature that it finds.
type Check = fn(&Members) -> Option<&'static str>;

const CHECKS: [Check; 7] = [
    multiple_of,
    array_keyword,
    format,
    length_of_pattern,
    property_names,
    pattern_properties,
    all_of,
];

/// Returns the first feature of a schema, at any depth, that vLLM does not route to xgrammar.
pub(super) fn unsupported_feature(schema: &Value) -> Option<&'static str> {
    match schema {
        Value::Object(members) => {
            let own = CHECKS.iter().find_map(|check| check(members));
            own.or_else(|| members.values().find_map(unsupported_feature))
        }
        Value::Array(items) => items.iter().find_map(unsupported_feature),
        _ => None,
    }
}

/// Whether `type` is one of `names` or a list that contains one of them.
fn has_type(members: &Members, names: &[&str]) -> bool {
    match members.get("type") {
        Some(Value::String(name)) => names.contains(&name.as_str()),
        Some(Value::Array(list)) => list
            .iter()
            .filter_map(Value::as_str)
            .any(|name| names.contains(&name)),
        _ => false,
    }
}

fn has_any(members: &Members, keys: &[&str]) -> bool {
    keys.iter().any(|key| members.contains_key(*key))
}

fn multiple_of(members: &Members) -> Option<&'static str> {
    (has_type(members, &["integer", "number"]) && members.contains_key("multipleOf"))
        .then_some("multipleOf")
}

fn array_keyword(members: &Members) -> Option<&'static str> {
    let keywords = ["uniqueItems", "contains", "minContains", "maxContains"];
    keywords
        .into_iter()
        .find(|keyword| has_type(members, &["array"]) && members.contains_key(*keyword))
}

fn format(members: &Members) -> Option<&'static str> {
    let format = members
        .get("format")
        .filter(|_| has_type(members, &["string"]))?;
    let known = format.as_str().is_some_and(|name| FORMATS.contains(&name));
    (!known).then_some("format")
}

fn length_of_pattern(members: &Members) -> Option<&'static str> {
    (has_type(members, &["string"]) && pattern_with_length(members))
        .then_some("pattern or format with a length")
}

fn pattern_with_length(members: &Members) -> bool {
    has_any(members, &["pattern", "format"]) && has_any(members, &["minLength", "maxLength"])
}

fn property_names(members: &Members) -> Option<&'static str> {
    let names = members
        .get("propertyNames")
        .and_then(Value::as_object)
        .filter(|_| has_type(members, &["object"]))?;
    let clashes = has_any(members, &["patternProperties", "properties"])
        || members
            .get("unevaluatedProperties")
            .is_some_and(|value| value != &Value::Bool(true));
    (clashes || pattern_with_length(names)).then_some("propertyNames")
}

fn pattern_properties(members: &Members) -> Option<&'static str> {
    let patterns = members
        .get("patternProperties")
        .and_then(Value::as_object)
        .filter(|_| has_type(members, &["object"]))?;
    (patterns.len() > 1 || members.contains_key("properties")).then_some("patternProperties")
}

fn all_of(members: &Members) -> Option<&'static str> {
    let branches = members.get("allOf").and_then(Value::as_array)?;
    (branches.len() >= 2).then_some("allOf")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_matches_vllm_including_its_gaps() {
        for (schema, feature) in [
            (r#"{"type":"integer","multipleOf":3}"#, Some("multipleOf")),
            (
                r#"{"type":["null","number"],"multipleOf":3}"#,
                Some("multipleOf"),
            ),
            (r#"{"multipleOf":3}"#, None),
            (
                r#"{"type":"array","uniqueItems":true}"#,
                Some("uniqueItems"),
            ),
            (r#"{"type":"array","maxContains":1}"#, Some("maxContains")),
            (r#"{"uniqueItems":true}"#, None),
            (r#"{"type":"string","format":"uuid"}"#, None),
            (r#"{"type":"string","format":"idn-email"}"#, Some("format")),
            (
                r#"{"type":"string","pattern":"a","maxLength":3}"#,
                Some("pattern or format with a length"),
            ),
            (
                r#"{"type":"string","format":"uuid","minLength":3}"#,
                Some("pattern or format with a length"),
            ),
            (r#"{"pattern":"a","maxLength":3}"#, None),
            (r#"{"type":"object","propertyNames":{"pattern":"a"}}"#, None),
            (
                r#"{"type":"object","propertyNames":{"pattern":"a","maxLength":1}}"#,
                Some("propertyNames"),
            ),
            (
                r#"{"type":"object","propertyNames":{"pattern":"a"},"properties":{}}"#,
                Some("propertyNames"),
            ),
            (
                r#"{"type":"object","propertyNames":{},"unevaluatedProperties":false}"#,
                Some("propertyNames"),
            ),
            (r#"{"type":"object","patternProperties":{"a":{}}}"#, None),
            (
                r#"{"type":"object","patternProperties":{"a":{},"b":{}}}"#,
                Some("patternProperties"),
            ),
            (
                r#"{"type":"object","patternProperties":{"a":{}},"properties":{"b":{}}}"#,
                Some("patternProperties"),
            ),
            (r#"{"allOf":[{"type":"string"}]}"#, None),
            (
                r#"{"allOf":[{"type":"string"},{"maxLength":2}]}"#,
                Some("allOf"),
            ),
            (
                r#"{"properties":{"multipleOf":{"anyOf":[{"type":"number","multipleOf":2}]}}}"#,
                Some("multipleOf"),
            ),
            (
                r#"{"not":{"type":"string"},"if":true,"minProperties":2}"#,
                None,
            ),
            ("true", None),
        ] {
            let value: Value = serde_json::from_str(schema).unwrap();
            assert_eq!(unsupported_feature(&value), feature, "{schema}");
        }
    }
}
