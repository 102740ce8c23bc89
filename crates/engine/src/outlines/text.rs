//! How long the regex is that outlines-core makes of a JSON Schema, without making it. Knows the
//! library's templates, no regexes.
//!
//! The library repeats the text of every optional property, unrolls `$ref` some levels deep and
//! nests its templates, so that a schema of a kilobyte can become gigabytes of text. It walks here
//! as the library (0.2.14, `json_schema/parsing.rs`) walks; a test holds the lengths to the real
//! ones.

use outlines_core::json_schema::{FormatType, JsonType, STRING, STRING_INNER};
use serde_json::{Map, Value};

use crate::EngineError;

/// Longest regex that is made of a schema, or taken. An automaton for a longer one does not fit any
/// of our limits.
pub(super) const MAX_REGEX_BYTES: u64 = 1 << 20;

/// Bytes that the library may write on its way to the regex, texts that it throws away included.
const MAX_WRITTEN_BYTES: u64 = 16 << 20;

/// Levels of "any value" that the library unrolls unless a schema has a member `depth` of its own.
const ANY_DEPTH: u64 = 2;

/// Deepest unrolling of "any value" that is measured: the text doubles with every level.
const MAX_ANY_DEPTH: u64 = 32;

/// Bytes of the number templates with all bounds, at most.
const MAX_NUMBER_BYTES: u64 = 256;

/// The length of the regex for `schema` with `references` levels of `$ref`. Where the library will
/// refuse the schema itself the length is that of what it has read.
///
/// # Errors
/// [`EngineError::TooLarge`] if the text is longer than [`MAX_REGEX_BYTES`].
pub(super) fn regex_bytes(
    schema: &Value,
    whitespace: &str,
    references: usize,
) -> Result<u64, EngineError> {
    let mut measure = Measure {
        root: schema,
        ws: whitespace.len() as u64,
        references,
        ref_depth: 0,
        written: 0,
    };
    match measure.schema(schema) {
        Ok(bytes) => Ok(bytes),
        Err(Stop::Refused | Stop::RefDepth) => Ok(measure.written.min(MAX_REGEX_BYTES)),
        Err(Stop::TooLong) => {
            let words = format!(
                "its regex would be longer than the {MAX_REGEX_BYTES} bytes that are compiled"
            );
            Err(EngineError::TooLarge { words })
        }
    }
}

enum Stop {
    /// A limit of ours.
    TooLong,
    /// The library gives up on a `$ref`; an object then leaves the property out.
    RefDepth,
    /// The library will refuse the schema.
    Refused,
}

struct Measure<'a> {
    root: &'a Value,
    ws: u64,
    /// Levels of `$ref` that the library follows.
    references: usize,
    ref_depth: usize,
    written: u64,
}

impl Measure<'_> {
    fn schema(&mut self, schema: &Value) -> Result<u64, Stop> {
        let Value::Object(members) = schema else {
            return Err(Stop::Refused);
        };
        self.note(1)?;
        let bytes = if members.is_empty() {
            self.anything()?
        } else if let Some(properties) = members.get("properties") {
            self.properties(properties, members)?
        } else if let Some(branches) = members.get("allOf") {
            2 + self.list(branches, 0, 0)?
        } else if let Some(branches) = members.get("anyOf") {
            2 + self.list(branches, 0, 1)?
        } else if let Some(branches) = members.get("oneOf") {
            2 + self.list(branches, 4, 1)?
        } else if let Some(items) = members.get("prefixItems") {
            4 + 2 * self.ws + self.list(items, 0, 2 * self.ws + 1)?
        } else if let Some(values) = members.get("enum") {
            let values = values.as_array().ok_or(Stop::Refused)?;
            2 + joined(values.iter().map(|value| self.constant(value)), 1)
        } else if let Some(value) = members.get("const") {
            self.constant(value)
        } else if let Some(path) = members.get("$ref") {
            self.reference(path)?
        } else {
            match members.get("type") {
                Some(Value::String(name)) => self.typed(name, members)?,
                Some(Value::Array(names)) => {
                    let mut bytes = 2 + (names.len() as u64).saturating_sub(1);
                    for name in names {
                        bytes += 4 + self.typed(name.as_str().ok_or(Stop::Refused)?, members)?;
                    }
                    bytes
                }
                _ => return Err(Stop::Refused),
            }
        };
        self.note(bytes)
    }

    /// Counts what the library writes, and passes it on.
    fn note(&mut self, bytes: u64) -> Result<u64, Stop> {
        self.written = self.written.saturating_add(bytes);
        if bytes > MAX_REGEX_BYTES || self.written > MAX_WRITTEN_BYTES {
            Err(Stop::TooLong)
        } else {
            Ok(bytes)
        }
    }

    fn list(&mut self, schemas: &Value, around: u64, between: u64) -> Result<u64, Stop> {
        let schemas = schemas.as_array().ok_or(Stop::Refused)?;
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
    ) -> Result<u64, Stop> {
        let properties = properties.as_object().ok_or(Stop::Refused)?;
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
                        3 * self.ws + 3 + regex::escape(name).len() as u64 + bytes,
                        required.contains(&name.as_str()),
                    ));
                }
                Err(Stop::RefDepth) => {}
                Err(stop) => return Err(stop),
            }
        }
        let inner = if properties
            .keys()
            .any(|name| required.contains(&name.as_str()))
        {
            // Each part and its comma, but for the last one that is required; what is optional in
            // brackets.
            parts
                .iter()
                .map(|(bytes, required)| bytes + if *required { 1 + self.ws } else { 4 + self.ws })
                .sum()
        } else {
            // One alternative for each property that may be the last, with all before it optional.
            let (mut before, mut bytes) = (0_u64, 3 + (parts.len() as u64).saturating_sub(1));
            for (part, _) in &parts {
                bytes = bytes.saturating_add(before + part);
                before += part + self.ws + 4;
            }
            bytes
        };
        Ok(4 + self.ws + inner)
    }

    fn constant(&self, value: &Value) -> u64 {
        match value {
            Value::Array(items) => {
                4 + 2 * self.ws
                    + joined(
                        items.iter().map(|item| self.constant(item)),
                        2 * self.ws + 1,
                    )
            }
            Value::Object(members) => {
                let pairs = members
                    .iter()
                    .map(|(key, value)| key.len() as u64 + 3 + 2 * self.ws + self.constant(value));
                4 + 2 * self.ws + joined(pairs, 2 * self.ws + 1)
            }
            scalar => regex::escape(&scalar.to_string()).len() as u64,
        }
    }

    fn reference(&mut self, path: &Value) -> Result<u64, Stop> {
        if self.ref_depth > self.references {
            return Err(Stop::RefDepth);
        }
        self.ref_depth += 1;
        let path = path.as_str().ok_or(Stop::Refused)?;
        let (base, fragment) = path.split_once('#').unwrap_or(("", path));
        if !base.is_empty() && self.root["$id"].as_str() != Some(base) {
            return Err(Stop::Refused);
        }
        let root = self.root;
        let mut parts = fragment.split('/').filter(|part| !part.is_empty());
        let schema = parts
            .try_fold(root, |schema, part| schema.get(part))
            .ok_or(Stop::Refused)?;
        let bytes = self.schema(schema);
        // With a base the library forgets that it came back.
        if base.is_empty() {
            self.ref_depth -= 1;
        }
        bytes
    }

    fn typed(&mut self, name: &str, members: &Map<String, Value>) -> Result<u64, Stop> {
        let number = |kind: JsonType| {
            let bounded = members
                .keys()
                .any(|key| key.starts_with("minDigits") || key.starts_with("maxDigits"));
            if bounded {
                MAX_NUMBER_BYTES
            } else {
                kind.to_regex().len() as u64
            }
        };
        Ok(match name {
            "string" => string(members)?,
            "number" => number(JsonType::Number),
            "integer" => number(JsonType::Integer),
            "boolean" => JsonType::Boolean.to_regex().len() as u64,
            "null" => JsonType::Null.to_regex().len() as u64,
            "array" => self.array(members)?,
            "object" => self.object(members)?,
            _ => return Err(Stop::Refused),
        })
    }

    fn object(&mut self, members: &Map<String, Value>) -> Result<u64, Stop> {
        if members.get("maxProperties").and_then(Value::as_u64) == Some(0) {
            return Ok(4 + self.ws);
        }
        let value = match members.get("additionalProperties") {
            None | Some(Value::Bool(true)) => self.any_object_value(depth(members))?,
            Some(schema) => self.schema(schema)?,
        };
        Ok(self.object_of(value))
    }

    fn array(&mut self, members: &Map<String, Value>) -> Result<u64, Stop> {
        if members.get("maxItems").and_then(Value::as_u64) == Some(0) {
            return Ok(4 + self.ws);
        }
        let bounds = ["minItems", "maxItems"]
            .map(|key| members.get(key).and_then(Value::as_u64).unwrap_or(0));
        let item = match members.get("items") {
            Some(schema) => self.schema(schema)?,
            None => self.any_array_item(depth(members))?,
        };
        Ok(self.array_of(item)
            + digits(bounds[0].saturating_sub(1))
            + digits(bounds[1].saturating_sub(1)))
    }

    /// A schema without members: each type in brackets, one or another.
    fn anything(&mut self) -> Result<u64, Stop> {
        let array = self.any_array_item(ANY_DEPTH)?;
        let object = self.any_object_value(ANY_DEPTH)?;
        Ok(scalars() + integer() + self.array_of(array) + self.object_of(object) + 7 * 2 + 6)
    }

    fn any_object_value(&mut self, depth: u64) -> Result<u64, Stop> {
        let nested = self.any_nested(depth)?;
        self.note(2 + scalars() + 3 + nested)
    }

    fn any_array_item(&mut self, depth: u64) -> Result<u64, Stop> {
        let nested = self.any_nested(depth)?;
        self.note(scalars() + integer() + 4 + nested)
    }

    /// The two containers that "any value" can be, one level down.
    fn any_nested(&mut self, depth: u64) -> Result<u64, Stop> {
        match depth {
            0 => Ok(0),
            1..=MAX_ANY_DEPTH => {
                let (object, array) = (
                    self.any_object_value(depth - 1)?,
                    self.any_array_item(depth - 1)?,
                );
                Ok(self.object_of(object) + self.array_of(array) + 2)
            }
            _ => Err(Stop::TooLong),
        }
    }

    fn object_of(&self, value: u64) -> u64 {
        let pair = STRING.len() as u64 + 2 * self.ws + 1 + value;
        4 + 2 * self.ws + pair + (2 * self.ws + 1 + pair) + 10
    }

    /// With one digit of bounds.
    fn array_of(&self, item: u64) -> u64 {
        18 + 3 * self.ws + 2 * item
    }
}

/// Bytes of string, number, boolean and null.
fn scalars() -> u64 {
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

fn integer() -> u64 {
    JsonType::Integer.to_regex().len() as u64
}

fn depth(members: &Map<String, Value>) -> u64 {
    members
        .get("depth")
        .and_then(Value::as_u64)
        .unwrap_or(ANY_DEPTH)
}

fn digits(number: u64) -> u64 {
    u64::from(number.checked_ilog10().unwrap_or(0) + 1)
}

fn joined(parts: impl Iterator<Item = u64>, between: u64) -> u64 {
    let (count, bytes) = parts.fold((0_u64, 0_u64), |(count, bytes), part| {
        (count + 1, bytes.saturating_add(part))
    });
    bytes.saturating_add(between * count.saturating_sub(1))
}

fn string(members: &Map<String, Value>) -> Result<u64, Stop> {
    let bounds = ["minLength", "maxLength"].map(|key| members.get(key));
    if bounds.iter().any(Option::is_some) {
        let [least, most] = bounds.map(|bound| bound.and_then(Value::as_u64));
        return Ok(STRING_INNER.len() as u64
            + 5
            + digits(least.unwrap_or(0))
            + most.map_or(0, digits));
    }
    let text = |key: &str| members.get(key).and_then(Value::as_str);
    if let Some(pattern) = text("pattern") {
        return Ok(4 + pattern.len() as u64);
    }
    match text("format") {
        Some(format) => FormatType::from_str(format)
            .map(|format| format.to_regex().len() as u64)
            .ok_or(Stop::Refused),
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
    fn never_shorter_and_hardly_longer_than_the_library_s_text() {
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
                let real = regex_from_value(&schema, Some(whitespace), Some(references))
                    .unwrap()
                    .len() as u64;
                let measured = regex_bytes(&schema, whitespace, references).unwrap();
                assert!(
                    measured >= real
                        && measured
                            <= real
                                + 8
                                + real / 8
                                + MAX_NUMBER_BYTES
                                    * u64::from(schema.to_string().contains("Digits")),
                    "{schema}: measured {measured}, is {real}"
                );
            }
        }
    }

    #[test]
    fn bombs_are_seen_without_being_written() {
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
