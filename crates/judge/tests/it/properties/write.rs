//! Writes a shape as a JSON Schema of any draft, from Draft 4 to 2020-12.

use serde_json::{Map, Value, json};

use super::shape::{Range, Record, Rest, Shape, number};
use crate::suite::corpus::Draft;

/// Writer with the definitions so far.
struct Writer {
    draft: Draft,
    definitions: Map<String, Value>,
}

/// Writes `shape` as a schema with `$schema`.
pub(super) fn schema(shape: &Shape, draft: Draft) -> Value {
    let mut writer = Writer {
        draft,
        definitions: Map::new(),
    };
    let body = writer.write(shape);
    let mut schema = Map::from_iter([("$schema".to_owned(), Value::from(draft.uri()))]);
    match body {
        Value::Object(members) => schema.extend(members),
        _ => assert!(
            body == Value::Bool(true),
            "only one shape is a boolean schema"
        ),
    }
    if !writer.definitions.is_empty() {
        schema.insert(
            writer.definitions_keyword().to_owned(),
            Value::Object(writer.definitions),
        );
    }
    Value::Object(schema)
}

impl Writer {
    /// Keyword of the definitions.
    fn definitions_keyword(&self) -> &'static str {
        if self.draft >= Draft::Draft201909 {
            "$defs"
        } else {
            "definitions"
        }
    }

    fn write(&mut self, shape: &Shape) -> Value {
        match shape {
            Shape::Anything if self.draft == Draft::Draft4 => json!({}),
            Shape::Anything => Value::Bool(true),
            Shape::Null => json!({ "type": "null" }),
            Shape::Boolean => json!({ "type": "boolean" }),
            Shape::Text { least, most } => {
                json!({ "type": "string", "minLength": least, "maxLength": most })
            }
            Shape::TextExcept { least } => {
                json!({ "type": "string", "minLength": least, "not": self.constant(&Value::from("~".repeat(*least))) })
            }
            Shape::NotString => json!({ "not": { "type": "string" } }),
            Shape::Matching(samples) => json!({ "type": "string", "pattern": samples.source }),
            Shape::Format(samples) => json!({ "type": "string", "format": samples.source }),
            Shape::Number(range) => self.range(range),
            Shape::NotEqual(at) => {
                let at = number(*at, 0);
                json!({ "type": "integer", "oneOf": [{ "maximum": at }, { "minimum": at }] })
            }
            Shape::Choice {
                values,
                single: true,
            } => self.constant(&values[0]),
            Shape::Choice {
                values,
                single: false,
            } => json!({ "enum": values }),
            Shape::List { of, least, most } => {
                json!({ "type": "array", "items": self.write(of), "minItems": least, "maxItems": most })
            }
            Shape::Distinct => {
                json!({ "type": "array", "items": { "type": "integer" }, "uniqueItems": true })
            }
            Shape::Tuple { parts, rest } => self.tuple(parts, rest),
            Shape::CountedNulls { least, most } => self.nulls(*least, *most),
            Shape::Record(record) => self.record(record),
            Shape::Either { parts, exactly } => {
                let parts: Vec<Value> = parts.iter().map(|part| self.write(part)).collect();
                Value::Object(Map::from_iter([(
                    (if *exactly { "oneOf" } else { "anyOf" }).to_owned(),
                    Value::Array(parts),
                )]))
            }
            Shape::SeparateKeywords(of) => self.separate_keywords(of),
            Shape::Named { name, of } => {
                let body = self.write(of);
                self.define(name, |_| body)
            }
            Shape::Chain { name, value } => {
                let value = self.write(value);
                self.define(name, |own| {
                    json!({
                        "type": "object",
                        "properties": { "value": value, "next": own },
                        "required": ["value"],
                        "additionalProperties": false,
                    })
                })
            }
        }
    }

    /// Adds a definition whose name starts with `name`, and returns a reference to it. Its body may
    /// refer to itself.
    fn define(&mut self, name: &str, body: impl FnOnce(Value) -> Value) -> Value {
        let name = format!("{name}{}", self.definitions.len());
        let pointer = name.replace('~', "~0").replace('/', "~1");
        let encoded: String = pointer
            .bytes()
            .map(|byte| match byte {
                b'~' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(byte).to_string(),
                byte => format!("%{byte:02X}"),
            })
            .collect();
        let reference = json!({ "$ref": format!("#/{}/{encoded}", self.definitions_keyword()) });
        self.definitions.insert(name, body(reference.clone()));
        reference
    }

    fn constant(&self, value: &Value) -> Value {
        if self.draft == Draft::Draft4 {
            json!({ "enum": [value] })
        } else {
            json!({ "const": value })
        }
    }

    fn range(&self, range: &Range) -> Value {
        let mut members = Map::new();
        members.insert(
            "type".to_owned(),
            Value::from(if range.integer { "integer" } else { "number" }),
        );
        if range.step != 1 {
            members.insert("multipleOf".to_owned(), number(range.step, range.scale));
        }
        for (bound, plain, exclusive) in [
            (range.low, "minimum", "exclusiveMinimum"),
            (range.high, "maximum", "exclusiveMaximum"),
        ] {
            let Some(bound) = bound else { continue };
            let at = number(bound.at, range.scale);
            if bound.exclusive && self.draft > Draft::Draft4 {
                members.insert(exclusive.to_owned(), at);
            } else {
                members.insert(plain.to_owned(), at);
                if bound.exclusive {
                    members.insert(exclusive.to_owned(), Value::Bool(true));
                }
            }
        }
        Value::Object(members)
    }

    fn tuple(&mut self, parts: &[Shape], rest: &Rest) -> Value {
        let parts: Vec<Value> = parts.iter().map(|part| self.write(part)).collect();
        let (first, beyond) = if self.draft >= Draft::Draft202012 {
            ("prefixItems", "items")
        } else {
            ("items", "additionalItems")
        };
        let mut members = Map::from_iter([
            ("type".to_owned(), Value::from("array")),
            (first.to_owned(), Value::Array(parts)),
        ]);
        match rest {
            Rest::Anything => {}
            Rest::Nothing => {
                members.insert(beyond.to_owned(), Value::Bool(false));
            }
            Rest::Only(shape) | Rest::Prefixed(shape) => {
                members.insert(beyond.to_owned(), self.write(shape));
            }
        }
        Value::Object(members)
    }

    fn nulls(&self, least: usize, most: usize) -> Value {
        let nothing = json!({ "type": "null" });
        match self.draft {
            Draft::Draft4 => json!({ "type": "array", "not": { "items": { "not": nothing } } }),
            Draft::Draft6 | Draft::Draft7 => json!({ "type": "array", "contains": nothing }),
            _ => {
                json!({ "type": "array", "contains": nothing, "minContains": least, "maxContains": most })
            }
        }
    }

    fn record(&mut self, record: &Record) -> Value {
        let mut members = Map::from_iter([("type".to_owned(), Value::from("object"))]);
        let properties: Map<String, Value> = record
            .members
            .iter()
            .map(|member| (member.name.to_owned(), self.write(&member.shape)))
            .collect();
        members.insert("properties".to_owned(), Value::Object(properties));
        let required: Vec<&str> = record
            .members
            .iter()
            .filter(|member| member.required)
            .map(|member| member.name)
            .collect();
        // Draft 4 does not allow empty lists here.
        if !required.is_empty() {
            members.insert("required".to_owned(), json!(required));
        }
        match &record.rest {
            Rest::Anything => {}
            Rest::Nothing => {
                members.insert("additionalProperties".to_owned(), Value::Bool(false));
            }
            Rest::Only(shape) => {
                members.insert("additionalProperties".to_owned(), self.write(shape));
            }
            Rest::Prefixed(shape) => {
                members.insert(
                    "patternProperties".to_owned(),
                    json!({ "^x-": self.write(shape) }),
                );
                members.insert("additionalProperties".to_owned(), Value::Bool(false));
            }
        }
        if let Some(most) = record.name_most.filter(|_| self.draft > Draft::Draft4) {
            members.insert("propertyNames".to_owned(), json!({ "maxLength": most }));
        }
        if let Some((first, second)) = record.dependent {
            let keyword = if self.draft >= Draft::Draft201909 {
                "dependentRequired"
            } else {
                "dependencies"
            };
            let names = json!([record.members[second].name]);
            members.insert(
                keyword.to_owned(),
                Value::Object(Map::from_iter([(
                    record.members[first].name.to_owned(),
                    names,
                )])),
            );
        }
        if record.least > 0 {
            members.insert("minProperties".to_owned(), json!(record.least));
        }
        if let Some(most) = record.most {
            members.insert("maxProperties".to_owned(), json!(most));
        }
        Value::Object(members)
    }

    /// Writes every keyword in a separate subschema, except for Draft 4's pairs.
    fn separate_keywords(&mut self, of: &Shape) -> Value {
        let Value::Object(members) = self.write(of) else {
            unreachable!("a scalar is written as an object")
        };
        if members.values().any(|value| *value == Value::Bool(true)) {
            return json!({ "allOf": [members] });
        }
        let parts = members
            .into_iter()
            .map(|(keyword, value)| Value::Object(Map::from_iter([(keyword, value)])));
        json!({ "allOf": parts.collect::<Vec<_>>() })
    }
}
