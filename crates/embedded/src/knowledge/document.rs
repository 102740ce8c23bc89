//! Parts of a schema, and the smallest document that contains a given answer.

use serde_json::{Map, Value, json};

/// Maximum number of `$ref` that are followed for one value.
const MAX_REFERENCES: usize = 16;

/// Maximum nesting of a smallest document.
const MAX_NESTING: usize = 32;

/// Text of members that are not the answer.
const OTHER_TEXT: &str = "As asked.";

/// A part of a schema, with the document that its references point into.
#[derive(Clone, Copy)]
pub(super) struct Schema<'a> {
    root: &'a Value,
    pub(super) here: &'a Value,
}

impl<'a> Schema<'a> {
    pub(super) fn new(root: &'a Value) -> Self {
        Self { root, here: root }.resolved()
    }

    /// Follows local references.
    fn resolved(mut self) -> Self {
        for _ in 0..MAX_REFERENCES {
            let reference = self.here.get("$ref").and_then(Value::as_str);
            let pointer = reference.and_then(|reference| reference.strip_prefix('#'));
            match pointer.and_then(|pointer| self.root.pointer(pointer)) {
                Some(target) => self.here = target,
                None => break,
            }
        }
        self
    }

    fn at(self, here: &'a Value) -> Self {
        Self { here, ..self }.resolved()
    }

    /// The alternative for a value: the first one of its type that has all of its members.
    pub(super) fn for_value(self, value: &Value) -> Self {
        let alternatives = ["anyOf", "oneOf"]
            .iter()
            .find_map(|name| self.here.get(name));
        let fits = |schema: &Self| {
            let has_members = match (value, schema.here.get("properties")) {
                (Value::Object(members), Some(Value::Object(known))) => {
                    members.keys().all(|name| known.contains_key(name))
                }
                _ => true,
            };
            schema.allows_type_of(value) && has_members
        };
        let mut schemas = alternatives
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .map(|here| self.at(here));
        schemas.find(fits).unwrap_or(self)
    }

    pub(super) fn member(self, name: &str) -> Option<Self> {
        let here = self.here.get("properties")?.get(name)?;
        Some(self.at(here))
    }

    pub(super) fn item(self, index: usize) -> Option<Self> {
        let prefix = self
            .here
            .get("prefixItems")
            .and_then(|items| items.get(index));
        prefix
            .or_else(|| self.here.get("items"))
            .map(|here| self.at(here))
    }

    /// The names of `properties`, in their order.
    fn names(self) -> impl Iterator<Item = &'a String> {
        let properties = self.here.get("properties").and_then(Value::as_object);
        properties.into_iter().flat_map(Map::keys)
    }

    fn is_required(self, name: &str) -> bool {
        match self.here.get("required").and_then(Value::as_array) {
            Some(names) => names.iter().any(|required| required == name),
            None => false,
        }
    }

    fn has_type(self, name: &str) -> bool {
        match self.here.get("type") {
            None => true,
            Some(Value::Array(types)) => types.iter().any(|known| known == name),
            Some(known) => known == name,
        }
    }

    fn allows_type_of(self, value: &Value) -> bool {
        match value {
            Value::Null => self.has_type("null"),
            Value::Bool(_) => self.has_type("boolean"),
            Value::Number(number) => {
                self.has_type("number") || !number.is_f64() && self.has_type("integer")
            }
            Value::String(_) => self.has_type("string"),
            Value::Array(_) => self.has_type("array"),
            Value::Object(_) => self.has_type("object"),
        }
    }

    /// Whether the answer may be this value, by type and `enum`.
    fn allows(self, answer: &Value) -> bool {
        match self.here.get("enum").and_then(Value::as_array) {
            Some(values) => values.contains(answer),
            None => {
                self.allows_type_of(answer)
                    && self.here.get("const").is_none_or(|value| value == answer)
            }
        }
    }
}

/// The value with the members of objects in the order of `properties`, which engines require. Others
/// follow in their own order.
pub(super) fn in_schema_order(value: &Value, schema: Option<Schema<'_>>) -> Value {
    let schema = schema.map(|schema| schema.for_value(value));
    match value {
        Value::Object(members) => {
            let known: Vec<&String> = schema.into_iter().flat_map(Schema::names).collect();
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
    let schema = Schema::new(schema);
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
fn smallest(schema: Schema<'_>, nesting: usize) -> Value {
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
            in_schema_order(&value, Some(Schema::new(&schema))).to_string(),
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
