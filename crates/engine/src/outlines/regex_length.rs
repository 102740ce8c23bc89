//! Computes the length of the regex that outlines-core generates for a JSON Schema, without
//! generating it.
//!
//! The library repeats the text of every optional property, unrolls `$ref` to a fixed depth and
//! nests its templates, so a schema of a kilobyte can become gigabytes of text. This module walks
//! the schema like the library (0.2.14, `json_schema/parsing.rs`). A test compares the lengths with
//! the real ones.

use outlines_core::json_schema::{FormatType, JsonType, STRING, STRING_INNER};
use serde_json::{Map, Value};

use crate::error::EngineError;

/// Maximum length of a regex in bytes. An automaton for a longer one exceeds the other limits.
pub(super) const MAX_REGEX_BYTES: u64 = 1 << 20;

/// Maximum bytes that the library may write in total, including discarded text.
const MAX_WRITTEN_BYTES: u64 = 16 << 20;

/// Levels of "any value" that the library unrolls unless the schema has a member `any_value_depth`.
const ANY_DEPTH: u64 = 2;

/// Maximum levels of "any value" that are computed: the text doubles with every level.
const MAX_ANY_DEPTH: u64 = 32;

/// Upper bound of the bytes of a number template with all bounds.
const MAX_NUMBER_BYTES: u64 = 256;

/// Computes the length of the regex for `schema` with `references` levels of `$ref`. For a schema
/// that the library refuses, it is the length of the part that was read.
///
/// # Errors
/// [`EngineError::TooLarge`] if the text is longer than [`MAX_REGEX_BYTES`].
pub(super) fn regex_bytes(
    schema: &Value,
    whitespace: &str,
    references: usize,
) -> Result<u64, EngineError> {
    let mut estimator = LengthEstimator {
        root: schema,
        whitespace_bytes: whitespace.len() as u64,
        references,
        ref_depth: 0,
        written: 0,
    };
    match estimator.schema(schema) {
        Ok(bytes) => Ok(bytes),
        Err(Abort::Refused | Abort::RefDepth) => Ok(estimator.written.min(MAX_REGEX_BYTES)),
        Err(Abort::TooLong) => {
            let message = format!(
                "the regex of the schema would exceed the limit of {MAX_REGEX_BYTES} bytes"
            );
            Err(EngineError::TooLarge { message })
        }
    }
}

enum Abort {
    /// A limit of this module was exceeded.
    TooLong,
    /// The library stops at a `$ref`. An object then omits the property.
    RefDepth,
    /// The library will refuse the schema.
    Refused,
}

struct LengthEstimator<'a> {
    root: &'a Value,
    whitespace_bytes: u64,
    /// Levels of `$ref` that the library follows.
    references: usize,
    ref_depth: usize,
    written: u64,
}

impl LengthEstimator<'_> {
    fn schema(&mut self, schema: &Value) -> Result<u64, Abort> {
        let Value::Object(members) = schema else {
            return Err(Abort::Refused);
        };
        self.add_written(1)?;
        let bytes = if members.is_empty() {
            self.any_value()?
        } else if let Some(properties) = members.get("properties") {
            self.properties(properties, members)?
        } else if let Some(branches) = members.get("allOf") {
            2 + self.schema_list(branches, 0, 0)?
        } else if let Some(branches) = members.get("anyOf") {
            2 + self.schema_list(branches, 0, 1)?
        } else if let Some(branches) = members.get("oneOf") {
            2 + self.schema_list(branches, 4, 1)?
        } else if let Some(items) = members.get("prefixItems") {
            4 + 2 * self.whitespace_bytes
                + self.schema_list(items, 0, 2 * self.whitespace_bytes + 1)?
        } else if let Some(values) = members.get("enum") {
            let values = values.as_array().ok_or(Abort::Refused)?;
            2 + joined_length(values.iter().map(|value| self.constant(value)), 1)
        } else if let Some(value) = members.get("const") {
            self.constant(value)
        } else if let Some(path) = members.get("$ref") {
            self.reference(path)?
        } else {
            match members.get("type") {
                Some(Value::String(name)) => self.typed_value(name, members)?,
                Some(Value::Array(names)) => {
                    let mut bytes = 2 + (names.len() as u64).saturating_sub(1);
                    for name in names {
                        bytes +=
                            4 + self.typed_value(name.as_str().ok_or(Abort::Refused)?, members)?;
                    }
                    bytes
                }
                _ => return Err(Abort::Refused),
            }
        };
        self.add_written(bytes)
    }

    /// Adds to the total of written bytes, and returns the bytes.
    fn add_written(&mut self, bytes: u64) -> Result<u64, Abort> {
        self.written = self.written.saturating_add(bytes);
        if bytes > MAX_REGEX_BYTES || self.written > MAX_WRITTEN_BYTES {
            Err(Abort::TooLong)
        } else {
            Ok(bytes)
        }
    }

    fn schema_list(&mut self, schemas: &Value, around: u64, between: u64) -> Result<u64, Abort> {
        let schemas = schemas.as_array().ok_or(Abort::Refused)?;
        let mut bytes = between * (schemas.len() as u64).saturating_sub(1);
        for schema in schemas {
            bytes += around + self.schema(schema)?;
        }
        Ok(bytes)
    }

    fn properties(
        &mut self,
        properties: &Value,
        members: &Map<String, Value>,
    ) -> Result<u64, Abort> {
        let properties = properties.as_object().ok_or(Abort::Refused)?;
        let required: Vec<&str> = members
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let mut parts = Vec::with_capacity(properties.len());
        for (name, value) in properties {
            match self.schema(value) {
                Ok(bytes) => {
                    parts.push((
                        3 * self.whitespace_bytes + 3 + regex::escape(name).len() as u64 + bytes,
                        required.contains(&name.as_str()),
                    ));
                }
                Err(Abort::RefDepth) => {}
                Err(stop) => return Err(stop),
            }
        }
        let inner = if properties
            .keys()
            .any(|name| required.contains(&name.as_str()))
        {
            // Each part with its comma, except the last required one. Optional parts are in
            // brackets.
            parts
                .iter()
                .map(|(bytes, required)| {
                    bytes
                        + if *required {
                            1 + self.whitespace_bytes
                        } else {
                            4 + self.whitespace_bytes
                        }
                })
                .sum()
        } else {
            // One alternative for each property that may be last, with all earlier ones optional.
            let (mut before, mut bytes) = (0_u64, 3 + (parts.len() as u64).saturating_sub(1));
            for (part, _) in &parts {
                bytes = bytes.saturating_add(before + part);
                before += part + self.whitespace_bytes + 4;
            }
            bytes
        };
        Ok(4 + self.whitespace_bytes + inner)
    }

    fn constant(&self, value: &Value) -> u64 {
        match value {
            Value::Array(items) => {
                4 + 2 * self.whitespace_bytes
                    + joined_length(
                        items.iter().map(|item| self.constant(item)),
                        2 * self.whitespace_bytes + 1,
                    )
            }
            Value::Object(members) => {
                let pairs = members.iter().map(|(key, value)| {
                    key.len() as u64 + 3 + 2 * self.whitespace_bytes + self.constant(value)
                });
                4 + 2 * self.whitespace_bytes + joined_length(pairs, 2 * self.whitespace_bytes + 1)
            }
            scalar => regex::escape(&scalar.to_string()).len() as u64,
        }
    }

    fn reference(&mut self, path: &Value) -> Result<u64, Abort> {
        if self.ref_depth > self.references {
            return Err(Abort::RefDepth);
        }
        self.ref_depth += 1;
        let path = path.as_str().ok_or(Abort::Refused)?;
        let (base, fragment) = path.split_once('#').unwrap_or(("", path));
        if !base.is_empty() && self.root["$id"].as_str() != Some(base) {
            return Err(Abort::Refused);
        }
        let root = self.root;
        let mut parts = fragment.split('/').filter(|part| !part.is_empty());
        let schema = parts
            .try_fold(root, |schema, part| schema.get(part))
            .ok_or(Abort::Refused)?;
        let bytes = self.schema(schema);
        // With a base URI, the library does not decrement its depth.
        if base.is_empty() {
            self.ref_depth -= 1;
        }
        bytes
    }

    fn typed_value(&mut self, name: &str, members: &Map<String, Value>) -> Result<u64, Abort> {
        let number = |kind: JsonType| {
            let has_bounds = members
                .keys()
                .any(|key| key.starts_with("minDigits") || key.starts_with("maxDigits"));
            if has_bounds {
                MAX_NUMBER_BYTES
            } else {
                kind.to_regex().len() as u64
            }
        };
        Ok(match name {
            "string" => string_length(members)?,
            "number" => number(JsonType::Number),
            "integer" => number(JsonType::Integer),
            "boolean" => JsonType::Boolean.to_regex().len() as u64,
            "null" => JsonType::Null.to_regex().len() as u64,
            "array" => self.array(members)?,
            "object" => self.object(members)?,
            _ => return Err(Abort::Refused),
        })
    }

    fn object(&mut self, members: &Map<String, Value>) -> Result<u64, Abort> {
        if members.get("maxProperties").and_then(Value::as_u64) == Some(0) {
            return Ok(4 + self.whitespace_bytes);
        }
        let value = match members.get("additionalProperties") {
            None | Some(Value::Bool(true)) => self.any_object_value(any_value_depth(members))?,
            Some(schema) => self.schema(schema)?,
        };
        Ok(self.object_with_value(value))
    }

    fn array(&mut self, members: &Map<String, Value>) -> Result<u64, Abort> {
        if members.get("maxItems").and_then(Value::as_u64) == Some(0) {
            return Ok(4 + self.whitespace_bytes);
        }
        let bounds = ["minItems", "maxItems"]
            .map(|key| members.get(key).and_then(Value::as_u64).unwrap_or(0));
        let item = match members.get("items") {
            Some(schema) => self.schema(schema)?,
            None => self.any_array_item(any_value_depth(members))?,
        };
        Ok(self.array_with_item(item)
            + digit_count(bounds[0].saturating_sub(1))
            + digit_count(bounds[1].saturating_sub(1)))
    }

    /// A schema without members: an alternative of all types, each in brackets.
    fn any_value(&mut self) -> Result<u64, Abort> {
        let array = self.any_array_item(ANY_DEPTH)?;
        let object = self.any_object_value(ANY_DEPTH)?;
        Ok(scalars_length()
            + integer_length()
            + self.array_with_item(array)
            + self.object_with_value(object)
            + 7 * 2
            + 6)
    }

    fn any_object_value(&mut self, any_value_depth: u64) -> Result<u64, Abort> {
        let nested = self.any_nested(any_value_depth)?;
        self.add_written(2 + scalars_length() + 3 + nested)
    }

    fn any_array_item(&mut self, any_value_depth: u64) -> Result<u64, Abort> {
        let nested = self.any_nested(any_value_depth)?;
        self.add_written(scalars_length() + integer_length() + 4 + nested)
    }

    /// The two container types of "any value", one level down.
    fn any_nested(&mut self, any_value_depth: u64) -> Result<u64, Abort> {
        match any_value_depth {
            0 => Ok(0),
            1..=MAX_ANY_DEPTH => {
                let (object, array) = (
                    self.any_object_value(any_value_depth - 1)?,
                    self.any_array_item(any_value_depth - 1)?,
                );
                Ok(self.object_with_value(object) + self.array_with_item(array) + 2)
            }
            _ => Err(Abort::TooLong),
        }
    }

    fn object_with_value(&self, value: u64) -> u64 {
        let pair = STRING.len() as u64 + 2 * self.whitespace_bytes + 1 + value;
        4 + 2 * self.whitespace_bytes + pair + (2 * self.whitespace_bytes + 1 + pair) + 10
    }

    /// Assumes bounds of one digit.
    fn array_with_item(&self, item: u64) -> u64 {
        18 + 3 * self.whitespace_bytes + 2 * item
    }
}

/// Bytes of the regexes of string, number, boolean and null.
fn scalars_length() -> u64 {
    [
        JsonType::String,
        JsonType::Number,
        JsonType::Boolean,
        JsonType::Null,
    ]
    .iter()
    .map(|kind| kind.to_regex().len() as u64)
    .sum()
}

fn integer_length() -> u64 {
    JsonType::Integer.to_regex().len() as u64
}

fn any_value_depth(members: &Map<String, Value>) -> u64 {
    members
        .get("depth")
        .and_then(Value::as_u64)
        .unwrap_or(ANY_DEPTH)
}

fn digit_count(number: u64) -> u64 {
    u64::from(number.checked_ilog10().unwrap_or(0) + 1)
}

fn joined_length(parts: impl Iterator<Item = u64>, between: u64) -> u64 {
    let (count, bytes) = parts.fold((0_u64, 0_u64), |(count, bytes), part| {
        (count + 1, bytes.saturating_add(part))
    });
    bytes.saturating_add(between * count.saturating_sub(1))
}

fn string_length(members: &Map<String, Value>) -> Result<u64, Abort> {
    let bounds = ["minLength", "maxLength"].map(|key| members.get(key));
    if bounds.iter().any(Option::is_some) {
        let [min, max] = bounds.map(|bound| bound.and_then(Value::as_u64));
        return Ok(STRING_INNER.len() as u64
            + 5
            + digit_count(min.unwrap_or(0))
            + max.map_or(0, digit_count));
    }
    let text = |key: &str| members.get(key).and_then(Value::as_str);
    if let Some(pattern) = text("pattern") {
        return Ok(4 + pattern.len() as u64);
    }
    match text("format") {
        Some(format) => FormatType::from_str(format)
            .map(|format| format.to_regex().len() as u64)
            .ok_or(Abort::Refused),
        None => Ok(STRING.len() as u64),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use outlines_core::json_schema::{WHITESPACE, regex_from_value};
    use serde_json::json;

    use super::*;

    #[test]
    fn the_estimate_is_close_to_the_library_s_regex() {
        for schema in [
            json!({}),
            json!({"type": "object"}),
            json!({"type": "array"}),
            json!({"type": "object", "depth": 4}),
            json!({"type": "array", "depth": 0, "minItems": 100, "maxItems": 2000}),
            json!({"type": "object", "maxProperties": 0}),
            json!({"type": "array", "maxItems": 0}),
            json!({"type": ["string", "integer", "null"], "maxLength": 17}),
            json!({"type": "string", "minLength": 3}),
            json!({"type": "string", "pattern": "^a.b$"}),
            json!({"type": "string", "format": "uri"}),
            json!({"type": "number", "minDigitsInteger": 2, "maxDigitsFraction": 9}),
            json!({"type": "integer", "maxDigits": 9}),
            json!({"enum": ["a.b", 1.50, null, [1, {"x": "y"}], {"k": [], "l": {}}]}),
            json!({"const": {"a": 1, "b": ["z"]}}),
            json!({"allOf": [{"type": "null"}, {"type": "boolean"}]}),
            json!({"anyOf": [{"type": "null"}, {"oneOf": [{"const": 1}, {"const": 2}]}]}),
            json!({"prefixItems": [{"type": "null"}, {"type": "integer"}]}),
            json!({"properties": {"a.b": {"type": "string"}, "c": {"type": "null"}, "d": {"type": "null"}}}),
            json!({"properties": {"a": {"type": "string"}, "b": {"type": "null"}, "c": {"type": "null"}}, "required": ["b"]}),
            json!({"properties": {}, "required": ["b"]}),
            json!({"type": "object", "additionalProperties": {"type": "array", "items": {"type": "number"}}}),
            json!({"properties": {"next": {"$ref": "#"}, "value": {"type": "null"}}, "required": ["value"]}),
            json!({"$id": "x", "properties": {"a": {"$ref": "x#/$defs/a"}, "b": {"$ref": "x#/$defs/a"}},
                "$defs": {"a": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/b"}]}, "b": {"type": "object"}}}),
        ] {
            for (whitespace, references) in [(WHITESPACE, 3), ("", 3), ("", 5)] {
                let actual = regex_from_value(&schema, Some(whitespace), Some(references))
                    .unwrap()
                    .len() as u64;
                let estimated = regex_bytes(&schema, whitespace, references).unwrap();
                assert!(
                    estimated >= actual
                        && estimated
                            <= actual
                                + 8
                                + actual / 8
                                + MAX_NUMBER_BYTES
                                    * u64::from(schema.to_string().contains("Digits")),
                    "{schema}: estimated {estimated}, actual {actual}"
                );
            }
        }
    }

    #[test]
    fn explosive_schemas_are_detected_without_generating_the_regex() {
        let recursive: Map<String, Value> = (0..30)
            .map(|index| (format!("p{index}"), json!({"$ref": "#"})))
            .collect();
        let optional = (0..3).fold(json!({"type": "null"}), |inner, _| {
            let members: Map<String, Value> = (0..30)
                .map(|index| (format!("p{index}"), inner.clone()))
                .collect();
            json!({"properties": members})
        });
        let mut wide = String::from("{\"properties\":{");
        for index in 0..3000 {
            write!(wide, "\"p{index}\":{{\"type\":\"string\"}},").unwrap();
        }
        wide.push_str("\"last\":{}}}");
        for schema in [
            json!({ "properties": recursive }),
            optional,
            serde_json::from_str(&wide).unwrap(),
            json!({"type": "object", "depth": 1_000_000_000_000_u64}),
            json!({"type": "object", "depth": 24}),
            json!({"enum": ["x".repeat(1 << 21)]}),
        ] {
            assert!(matches!(
                regex_bytes(&schema, WHITESPACE, 3),
                Err(EngineError::TooLarge { .. })
            ));
        }
    }
}
