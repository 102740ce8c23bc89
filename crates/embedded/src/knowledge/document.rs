//! A value in the order of its schema, and the smallest document that contains a given answer.

use serde_json::{Value, json};

use sobench_core::schema_part::SchemaPart;

/// Maximum nesting of a smallest document.
const MAX_NESTING: usize = 32;

/// Text of members that are not the answer.
const OTHER_TEXT: &str = "As asked.";

/// The value with the members of objects in the order of `properties`, which engines require. Others
/// follow in their own order.
pub(super) fn in_schema_order(value: &Value, schema: Option<SchemaPart<'_>>) -> Value {
    let schema = schema.map(|schema| schema.for_value(value));
    match value {
        Value::Object(members) => {
            let known: Vec<&String> = schema.into_iter().flat_map(SchemaPart::names).collect();
            let first = known
                .iter()
                .copied()
                .filter(|name| members.contains_key(*name));
            let others = members.keys().filter(|name| !known.contains(name));
            let ordered = first.chain(others).map(|name| {
                let member = schema.and_then(|schema| schema.member(name));
                (name.clone(), in_schema_order(&members[name], member))
            });
            Value::Object(ordered.collect())
        }
        Value::Array(items) => {
            let ordered = items.iter().enumerate().map(|(index, item)| {
                in_schema_order(item, schema.and_then(|schema| schema.item(index)))
            });
            Value::Array(ordered.collect())
        }
        other => other.clone(),
    }
}

/// The smallest document of a schema that contains an answer: the answer itself, or an object with
/// the answer in the last member that allows it. A number may be written as text. `None` if no
/// member allows it.
pub(super) fn document_with(answer: &Value, schema: &Value) -> Option<Value> {
    let schema = SchemaPart::new(schema);
    let as_text = match answer {
        Value::Number(number) => Some(Value::from(number.to_string())),
        _ => None,
    };
    [Some(answer), as_text.as_ref()]
        .into_iter()
        .flatten()
        .find_map(|answer| {
            if schema.here.get("properties").is_none() {
                return schema.allows(answer).then(|| answer.clone());
            }
            let allowing = |name: &&String| {
                let member = schema.member(name);
                member.is_some_and(|member| member.for_value(answer).allows(answer))
            };
            let place = schema.names().filter(allowing).last()?;
            let members = schema.names().filter_map(|name| {
                if name == place {
                    return Some((name.clone(), answer.clone()));
                }
                let member = schema.member(name).filter(|_| schema.is_required(name))?;
                Some((name.clone(), smallest(member, 0)))
            });
            Some(Value::Object(members.collect()))
        })
}

/// A small value of a schema.
fn smallest(schema: SchemaPart<'_>, nesting: usize) -> Value {
    let here = schema.here;
    if nesting > MAX_NESTING {
        return Value::Null;
    }
    if let Some(value) = here.get("const") {
        return value.clone();
    }
    if let Some(value) = here.get("enum").and_then(|values| values.get(0)) {
        return value.clone();
    }
    if let Some(first) = ["anyOf", "oneOf"]
        .iter()
        .find_map(|name| here.get(name)?.get(0))
    {
        return smallest(schema.at(first), nesting + 1);
    }
    let count = |name: &str| {
        let count = here.get(name).and_then(Value::as_u64);
        usize::try_from(count.unwrap_or(0)).unwrap_or(0).min(64)
    };
    if schema.has_type("string") {
        let mut text = OTHER_TEXT.to_owned();
        while text.len() < count("minLength") {
            text.push_str(OTHER_TEXT);
        }
        Value::from(text)
    } else if schema.has_type("object") {
        let required = schema.names().filter(|name| schema.is_required(name));
        let members = required.filter_map(|name| {
            let member = schema.member(name)?;
            Some((name.clone(), smallest(member, nesting + 1)))
        });
        Value::Object(members.collect())
    } else if schema.has_type("array") {
        let items = (0..count("minItems")).map(|index| {
            schema
                .item(index)
                .map_or(Value::Null, |item| smallest(item, nesting + 1))
        });
        Value::Array(items.collect())
    } else if schema.has_type("boolean") {
        json!(false)
    } else if schema.has_type("null") {
        Value::Null
    } else {
        here.get("minimum").cloned().unwrap_or(json!(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_in_the_order_of_the_schema() {
        let schema = json!({
            "properties": {"b": {"$ref": "#/$defs/pair"}, "a": {"items": {"$ref": "#/$defs/pair"}}},
            "$defs": {"pair": {"anyOf": [{"type": "null"}, {"type": "object",
                "properties": {"y": {}, "x": {}}}]}},
        });
        let value = json!({"a": [{"x": 1, "y": 2}], "c": 3, "b": {"x": 4, "y": 5}});
        assert_eq!(
            in_schema_order(&value, Some(SchemaPart::new(&schema))).to_string(),
            r#"{"b":{"y":5,"x":4},"a":[{"y":2,"x":1}],"c":3}"#
        );
    }

    #[test]
    fn the_answer_is_in_the_last_member_that_allows_it() {
        let schema = json!({"type": "object", "required": ["steps", "answer", "sure"], "properties": {
            "steps": {"type": "array", "minItems": 1, "items": {"type": "string"}},
            "draft": {"type": "integer"},
            "answer": {"type": "number"},
            "sure": {"type": "boolean"},
        }});
        assert_eq!(
            document_with(&json!(12), &schema).unwrap().to_string(),
            r#"{"steps":["As asked."],"answer":12,"sure":false}"#
        );
        let choice = json!({"properties": {"answer": {"enum": ["A", "B"]}}});
        assert_eq!(
            document_with(&json!("B"), &choice),
            Some(json!({"answer": "B"}))
        );
        assert_eq!(document_with(&json!("C"), &choice), None);
        let text = json!({"properties": {"answer": {"type": "string"}}});
        assert_eq!(
            document_with(&json!(7), &text),
            Some(json!({"answer": "7"}))
        );
        assert_eq!(
            document_with(&json!("B"), &json!({"enum": ["B"]})),
            Some(json!("B"))
        );
    }
}
