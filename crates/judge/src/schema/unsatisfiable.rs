//! Finds keywords that no value satisfies: the fault of a schema, not of the answers.

use serde_json::Value;

/// Keywords with a least and a largest size.
const RANGES: [[&str; 2]; 6] = [
    ["minimum", "maximum"],
    ["minLength", "maxLength"],
    ["minItems", "maxItems"],
    ["minContains", "maxContains"],
    ["minProperties", "maxProperties"],
    ["exclusiveMinimum", "exclusiveMaximum"],
];

/// Why no value satisfies the keyword that an answer violates, at this JSON pointer in the schema.
/// `None` if some value may.
pub fn unsatisfiable_keyword(schema: &Value, schema_path: &str) -> Option<String> {
    let none = |why: &str| Some(format!("no value satisfies the schema{why}"));
    if *schema == Value::Bool(false) {
        return none(", which is `false`");
    }
    let (parent, keyword) = schema_path.rsplit_once('/')?;
    let members = schema.pointer(parent)?.as_object()?;
    let place = match parent {
        "" => String::new(),
        parent => format!(" at {parent}"),
    };
    if matches!(keyword, "enum" | "type" | "anyOf" | "oneOf")
        && members.get(keyword)?.as_array().is_some_and(Vec::is_empty)
    {
        return none(&format!("{place}: the list of `{keyword}` is empty"));
    }
    let [least, most] = RANGES.into_iter().find(|range| range.contains(&keyword))?;
    let [lower, upper] = [least, most].map(|name| members.get(name).and_then(Value::as_f64));
    if lower? > upper? {
        return none(&format!("{place}: `{least}` is above `{most}`"));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keywords_without_a_value_are_found() {
        let empty = json!({"properties": {"a": {"enum": []}, "b": {"minLength": 3, "maxLength": 2}, "c": {"enum": ["x"]}}});
        for (schema, path, expected) in [
            (
                &empty,
                "/properties/a/enum",
                Some("the schema at /properties/a: the list of `enum` is empty"),
            ),
            (
                &empty,
                "/properties/b/maxLength",
                Some("the schema at /properties/b: `minLength` is above `maxLength`"),
            ),
            (&empty, "/properties/c/enum", None),
            (&empty, "/properties/d/$ref/enum", None),
            (
                &json!({"enum": []}),
                "/enum",
                Some("the schema: the list of `enum` is empty"),
            ),
            (
                &json!({"additionalProperties": false}),
                "/additionalProperties",
                None,
            ),
            (&json!({"minimum": 2, "maximum": 2}), "/minimum", None),
            (&json!(false), "", Some("the schema, which is `false`")),
        ] {
            let expected = expected.map(|why| format!("no value satisfies {why}"));
            assert_eq!(unsatisfiable_keyword(schema, path), expected, "{path}");
        }
    }
}
