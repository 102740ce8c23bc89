//! A place in a JSON Schema, for walks beside a value: members, items, and the alternative that a
//! value takes.

use serde_json::{Map, Value};

/// Maximum number of `$ref` that are followed for one value.
const MAX_REFERENCES: usize = 16;

/// A part of a schema, with the document that its references point into.
#[derive(Clone, Copy, Debug)]
pub struct SchemaPart<'a> {
    root: &'a Value,
    /// The part as the schema has it, which may be a reference.
    written: &'a Value,
    /// The part itself, or the target of its reference.
    pub here: &'a Value,
}

/// Escapes a name as a reference token of a JSON Pointer (RFC 6901).
pub fn pointer_token(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The name of a reference token ([`pointer_token`]).
pub fn pointer_name(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

impl<'a> SchemaPart<'a> {
    pub fn new(root: &'a Value) -> Self {
        Self::within(root, root)
    }

    /// A part of the document `root`.
    pub fn within(root: &'a Value, part: &'a Value) -> Self {
        let mut here = part;
        for _ in 0..MAX_REFERENCES {
            let reference = here.get("$ref").and_then(Value::as_str);
            let pointer = reference.and_then(|reference| reference.strip_prefix('#'));
            match pointer.and_then(|pointer| root.pointer(pointer)) {
                Some(target) => here = target,
                None => break,
            }
        }
        Self {
            root,
            written: part,
            here,
        }
    }

    pub fn at(self, part: &'a Value) -> Self {
        Self::within(self.root, part)
    }

    /// The value of a keyword, beside the reference or in its target.
    pub fn keyword(self, name: &str) -> Option<&'a Value> {
        self.written.get(name).or_else(|| self.here.get(name))
    }

    /// The alternative of `anyOf` or `oneOf` for a value: the first one of its type that declares
    /// all of its members. The part itself if no alternative fits.
    pub fn for_value(self, value: &Value) -> Self {
        let alternatives = ["anyOf", "oneOf"]
            .iter()
            .find_map(|name| self.here.get(name));
        let fits = |part: &Self| {
            let declares_all = match (value, part.here.get("properties")) {
                (Value::Object(members), Some(Value::Object(known))) => {
                    members.keys().all(|name| known.contains_key(name))
                }
                _ => true,
            };
            part.allows_type_of(value) && declares_all
        };
        let mut parts = alternatives
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .map(|part| self.at(part));
        parts.find(fits).unwrap_or(self)
    }

    pub fn member(self, name: &str) -> Option<Self> {
        let member = self.here.get("properties")?.get(name)?;
        Some(self.at(member))
    }

    pub fn item(self, index: usize) -> Option<Self> {
        let prefix = self
            .here
            .get("prefixItems")
            .and_then(|items| items.get(index));
        prefix
            .or_else(|| self.here.get("items"))
            .map(|item| self.at(item))
    }

    /// The names of `properties`, in their order.
    pub fn names(self) -> impl Iterator<Item = &'a String> {
        let properties = self.here.get("properties").and_then(Value::as_object);
        properties.into_iter().flat_map(Map::keys)
    }

    pub fn is_required(self, name: &str) -> bool {
        match self.here.get("required").and_then(Value::as_array) {
            Some(names) => names.iter().any(|required| required == name),
            None => false,
        }
    }

    /// Whether values may have a JSON type.
    pub fn has_type(self, name: &str) -> bool {
        match self.here.get("type") {
            None => true,
            Some(Value::Array(types)) => types.iter().any(|known| known == name),
            Some(known) => known == name,
        }
    }

    pub fn allows_type_of(self, value: &Value) -> bool {
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

    /// Whether a value is allowed by its type, `enum` and `const`.
    pub fn allows(self, value: &Value) -> bool {
        match self.here.get("enum").and_then(Value::as_array) {
            Some(values) => values.contains(value),
            None => {
                self.allows_type_of(value)
                    && self.here.get("const").is_none_or(|only| only == value)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_follow_references_and_alternatives() {
        let schema = json!({
            "properties": {
                "a": {"$ref": "#/$defs/pair", "title": "beside"},
                "b": {"prefixItems": [{"type": "null"}], "items": {"$ref": "#/$defs/pair"}},
                "loop": {"$ref": "#/properties/loop"},
            },
            "$defs": {"pair": {"title": "target", "anyOf": [
                {"type": "null"},
                {"type": "object", "properties": {"x": {}}},
                {"type": "object", "properties": {"x": {}, "y": {"type": "string"}}},
            ]}},
        });
        let root = SchemaPart::new(&schema);
        let member = root.member("a").unwrap();
        assert_eq!(member.keyword("title"), Some(&json!("beside")));
        let both = member.for_value(&json!({"x": 1, "y": "z"}));
        assert!(both.member("y").unwrap().has_type("string"));
        assert!(member.for_value(&json!({"x": 1})).member("y").is_none());
        assert!(member.for_value(&json!(null)).has_type("null"));
        let list = root.member("b").unwrap();
        assert!(list.item(0).unwrap().has_type("null"));
        assert_eq!(
            list.item(1).unwrap().keyword("title"),
            Some(&json!("target"))
        );
        assert!(root.member("loop").is_some());
        assert!(root.member("c").is_none());
    }
}
