//! Finds schemas that no value satisfies: their answers are invalid by the fault of the schema.

use serde_json::{Map, Value};

/// Keywords with a least and a largest size.
const RANGES: [[&str; 2]; 5] = [
    ["minimum", "maximum"],
    ["minLength", "maxLength"],
    ["minItems", "maxItems"],
    ["minContains", "maxContains"],
    ["minProperties", "maxProperties"],
];

/// Nesting up to which a schema is searched, references included.
const MAX_DEPTH: usize = 32;

/// Why no value satisfies the schema: an empty list of values, or an empty range, that every value
/// has to meet. `None` if none is found; other contradictions are not searched for.
pub fn unsatisfiable(schema: &Value) -> Option<String> {
    let (place, why) = search(schema, schema, String::new(), MAX_DEPTH)?;
    let place = match place.as_str() {
        "" => String::new(),
        place => format!(" at {place}"),
    };
    Some(format!("no value satisfies the schema{place}: {why}"))
}

fn search(root: &Value, schema: &Value, place: String, depth: usize) -> Option<(String, String)> {
    let Value::Object(members) = schema else {
        return (*schema == Value::Bool(false)).then(|| (place, "it is `false`".to_owned()));
    };
    let depth = depth.checked_sub(1)?;
    if let Some(why) = empty_keyword(members) {
        return Some((place, why));
    }
    let count = |name: &str| members.get(name).and_then(Value::as_u64).unwrap_or(0);
    let required = members.get("required").and_then(Value::as_array);
    let names = required.into_iter().flatten().filter_map(Value::as_str);
    let is_object = members.get("type").is_none_or(|kind| kind == "object");
    let properties = names.filter(|_| is_object).filter_map(|name| {
        let property = members.get("properties")?.get(name)?;
        Some((property, format!("{place}/properties/{name}")))
    });
    let is_array = members.get("type").is_some_and(|kind| kind == "array");
    let items = members
        .get("items")
        .filter(|_| is_array && count("minItems") > 0);
    let all = members.get("allOf").and_then(Value::as_array);
    let all = all.into_iter().flatten().enumerate();
    let reference = members.get("$ref").and_then(Value::as_str);
    let target = reference.and_then(|name| {
        let pointer = name.strip_prefix('#')?;
        Some((root.pointer(pointer)?, pointer.to_owned()))
    });
    properties
        .chain(items.map(|items| (items, format!("{place}/items"))))
        .chain(all.map(|(index, part)| (part, format!("{place}/allOf/{index}"))))
        .chain(target)
        .find_map(|(part, place)| search(root, part, place, depth))
}

fn empty_keyword(members: &Map<String, Value>) -> Option<String> {
    let is_empty = |name: &&str| {
        let list = members.get(*name).and_then(Value::as_array);
        list.is_some_and(Vec::is_empty)
    };
    if let Some(name) = ["enum", "type", "anyOf", "oneOf"]
        .iter()
        .find(|name| is_empty(name))
    {
        return Some(format!("the list of `{name}` is empty"));
    }
    RANGES.into_iter().find_map(|[least, most]| {
        // A range holds for values of its type only.
        members.get("type").filter(|kind| kind.is_string())?;
        let [lower, upper] = [least, most].map(|name| members.get(name).and_then(Value::as_f64));
        (lower? > upper?).then(|| format!("`{least}` is above `{most}`"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn schemas_without_a_value_are_found() {
        let of_property = |property: Value, required: bool| {
            let required = if required { json!(["a"]) } else { json!([]) };
            json!({"type": "object", "properties": {"a": property}, "required": required, "$defs": {"e": {"enum": []}}})
        };
        let range = json!({"type": "string", "minLength": 3, "maxLength": 2});
        for (schema, expected) in [
            (json!({"enum": []}), Some(": the list of `enum` is empty")),
            (
                of_property(json!({"enum": []}), true),
                Some(" at /properties/a: the list of `enum` is empty"),
            ),
            (
                of_property(json!({"$ref": "#/$defs/e"}), true),
                Some(" at /$defs/e: the list of `enum` is empty"),
            ),
            (
                of_property(range.clone(), true),
                Some(" at /properties/a: `minLength` is above `maxLength`"),
            ),
            (json!(false), Some(": it is `false`")),
            (
                json!({"type": "array", "minItems": 1, "items": {"enum": []}}),
                Some(" at /items: the list of `enum` is empty"),
            ),
            (json!({"type": "array", "items": {"enum": []}}), None),
            (of_property(range, false), None),
            (of_property(json!({"$ref": "#/properties/a"}), true), None),
            (json!({"additionalProperties": false}), None),
            (json!({"minLength": 3, "maxLength": 2}), None),
        ] {
            let expected = expected.map(|why| format!("no value satisfies the schema{why}"));
            assert_eq!(unsatisfiable(&schema), expected, "{schema}");
        }
    }
}
