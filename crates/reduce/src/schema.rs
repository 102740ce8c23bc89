//! Reductions of schemas: without a piece, one part alone, with short names. The caller checks
//! whether a finding still reproduces.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::keywords::ANNOTATIONS;
use crate::respell;
use sobench_core::schema_keywords::NAME_MAPS;

/// Keywords that hold definitions.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// The n-th reduction of a schema: first without annotations; then, from the outside in, without
/// halves, quarters and so on of each object or array, down to single members or items.
pub fn without_piece(schema: &Value, number: usize) -> Option<Value> {
    let mut changed = schema.clone();
    let had_annotations = remove_annotations(&mut changed);
    if had_annotations && number == 0 {
        return Some(changed);
    }
    let mut left = number - usize::from(had_annotations);
    changed = schema.clone();
    let mut level: Vec<&mut Value> = vec![&mut changed];
    while !level.is_empty() {
        let mut inner: Vec<&mut Value> = Vec::new();
        for value in level {
            let size = size(value);
            let ranges = chunks(size);
            if let Some(range) = ranges.get(left) {
                drop_range(value, range.clone());
                return Some(changed);
            }
            left -= ranges.len();
            match value {
                Value::Object(members) => inner.extend(members.values_mut()),
                Value::Array(items) => inner.extend(items.iter_mut()),
                _ => {}
            }
        }
        level = inner;
    }
    None
}

fn size(value: &Value) -> usize {
    match value {
        Value::Object(members) => members.len(),
        Value::Array(items) => items.len(),
        _ => 0,
    }
}

/// Ranges of halves, quarters and so on of `all` items, down to single items.
pub fn chunks(all: usize) -> Vec<std::ops::Range<usize>> {
    let sizes = std::iter::successors(Some(all.div_ceil(2)), |size| {
        (*size > 1).then(|| size.div_ceil(2))
    })
    .filter(|_| all > 0);
    sizes
        .flat_map(|size| {
            (0..all)
                .step_by(size)
                .map(move |start| start..(start + size).min(all))
        })
        .collect()
}

/// All items outside the range.
pub fn without_range<T: Clone>(all: &[T], range: std::ops::Range<usize>) -> Vec<T> {
    [&all[..range.start], &all[range.end..]].concat()
}

fn drop_range(value: &mut Value, range: std::ops::Range<usize>) {
    match value {
        Value::Object(members) => {
            let mut places = 0..;
            members.retain(|_, _| {
                places
                    .next()
                    .is_some_and(|place: usize| !range.contains(&place))
            });
        }
        Value::Array(items) => drop(items.drain(range)),
        _ => {}
    }
}

/// Removes annotations; returns whether there were any. Members of that name under `properties` are
/// no keywords.
fn remove_annotations(schema: &mut Value) -> bool {
    let mut dropped = false;
    let mut open: Vec<(&mut Value, bool)> = vec![(schema, false)];
    while let Some((value, is_map)) = open.pop() {
        match value {
            Value::Object(members) => {
                let before = members.len();
                members.retain(|name, _| is_map || !is_annotation(name));
                dropped |= members.len() < before;
                let inner = members
                    .iter_mut()
                    .filter(|(name, _)| is_map || !matches!(name.as_str(), "enum" | "const"));
                open.extend(
                    inner.map(|(name, value)| {
                        (value, !is_map && NAME_MAPS.contains(&name.as_str()))
                    }),
                );
            }
            Value::Array(items) => open.extend(items.iter_mut().map(|item| (item, false))),
            _ => {}
        }
    }
    dropped
}

/// Whether a keyword does not constrain instances.
pub fn is_annotation(keyword: &str) -> bool {
    ANNOTATIONS.contains(&keyword) || matches!(keyword, "default" | "examples")
}

/// The subschemas of members, items and alternatives, each with its part of the text, which may be
/// truncated: candidates that may show the error alone.
pub fn subschemas(schema: &Value, text: &[u8]) -> Vec<(Value, Vec<u8>)> {
    let (Value::Object(keywords), Ok(text)) = (schema, std::str::from_utf8(text)) else {
        return Vec::new();
    };
    let branches = ["allOf", "anyOf", "oneOf"]
        .into_iter()
        .filter_map(|name| keywords.get(name)?.as_array())
        .flatten();
    let reference = keywords
        .get("$ref")
        .and_then(Value::as_str)
        .and_then(|path| schema.pointer(path.strip_prefix('#')?));
    // A self-reference is no part.
    let reference = reference.filter(|part| *part != schema);
    let mut parts: Vec<(&Value, &str)> =
        branches.chain(reference).map(|part| (part, text)).collect();
    // A refused text ends inside its last child.
    for (name, member) in respell::children(text).into_iter().rev() {
        let named = |keyword: &str| keywords.get(keyword).and_then(Value::as_object);
        let record = match &name {
            Some(name) => named("properties")
                .and_then(|properties| properties.get(name))
                .into_iter()
                .collect(),
            None => keywords.get("items").into_iter().collect::<Vec<_>>(),
        };
        let others = named("patternProperties")
            .into_iter()
            .flat_map(Map::values)
            .chain(keywords.get("additionalProperties"));
        let others = others.filter(|_| name.is_some() && record.is_empty());
        parts.extend(
            record
                .iter()
                .copied()
                .chain(others)
                .map(|part| (part, &text[member.clone()])),
        );
    }
    let is_schema = |part: &Value| part.is_object() || part.is_boolean();
    let parts = parts.into_iter().filter(|(part, _)| is_schema(part));
    parts
        .map(|(part, text)| (with_definitions(part, keywords), text.as_bytes().to_vec()))
        .collect()
}

/// A subschema with the definitions that its references may need.
fn with_definitions(part: &Value, root: &Map<String, Value>) -> Value {
    let mut part = part.clone();
    if let Value::Object(keywords) = &mut part {
        for name in DEFINITIONS {
            if let Some(definitions) = root.get(name)
                && !keywords.contains_key(name)
            {
                keywords.insert(name.to_owned(), definitions.clone());
            }
        }
    }
    part
}

/// Schema and text with short names and values in place of long ones; `None` if there are none.
pub fn with_short_names(schema: &Value, text: &[u8]) -> Option<(Value, Vec<u8>)> {
    let text = std::str::from_utf8(text).ok()?;
    let mut names = Names::default();
    let mut schema = schema.clone();
    names.shorten(&mut schema);
    let text = respell::with_strings(text, |name| names.0.get(name).cloned());
    (!names.0.is_empty()).then(|| (schema, text.into_bytes()))
}

/// Long names and their replacements.
#[derive(Default)]
struct Names(HashMap<String, String>);

impl Names {
    fn short_name(&mut self, name: &str) -> String {
        if name.chars().count() < 2 {
            return name.to_owned();
        }
        let next = self.0.len();
        let letter = char::from(b'a' + u8::try_from(next % 26).expect("it is below 26"));
        let short = if next < 26 {
            letter.to_string()
        } else {
            format!("{letter}{}", next / 26)
        };
        self.0.entry(name.to_owned()).or_insert(short).clone()
    }

    fn shorten(&mut self, schema: &mut Value) {
        for keyword in DEFINITIONS {
            if let Some(Value::Object(members)) = schema.get_mut(keyword) {
                let short = |name: &String| {
                    if needs_no_escaping(name) {
                        self.short_name(name)
                    } else {
                        name.clone()
                    }
                };
                *members = renamed(members, short);
            }
        }
        let mut open = vec![schema];
        while let Some(value) = open.pop() {
            let Value::Object(keywords) = value else {
                continue;
            };
            for (keyword, value) in keywords {
                self.shorten_keyword(keyword, value);
                match value {
                    Value::Array(items) => open.extend(items),
                    value if !NAME_MAPS.contains(&keyword.as_str()) => open.push(value),
                    Value::Object(members) => open.extend(members.values_mut()),
                    _ => {}
                }
            }
        }
    }

    /// Shortens names and values of a keyword.
    fn shorten_keyword(&mut self, keyword: &str, value: &mut Value) {
        match (keyword, value) {
            ("required" | "enum", Value::Array(items)) => {
                items.iter_mut().for_each(|item| self.shorten_text(item));
            }
            ("const", value) => self.shorten_text(value),
            ("properties" | "dependentSchemas", Value::Object(members)) => {
                *members = renamed(members, |name| self.short_name(name));
            }
            ("$ref", Value::String(reference)) => {
                if let Some((keyword, name)) = definition(reference) {
                    *reference = format!("#/{keyword}/{}", self.short_name(name));
                }
            }
            _ => {}
        }
    }

    fn shorten_text(&mut self, value: &mut Value) {
        if let Value::String(text) = value {
            *text = self.short_name(text);
        }
    }
}

fn renamed(
    members: &mut Map<String, Value>,
    mut other: impl FnMut(&String) -> String,
) -> Map<String, Value> {
    std::mem::take(members)
        .into_iter()
        .map(|(name, value)| (other(&name), value))
        .collect()
}

/// The keyword and name of a reference to a definition of the root, if the name needs no escaping.
fn definition(reference: &str) -> Option<(&'static str, &str)> {
    let path = reference.strip_prefix("#/")?;
    DEFINITIONS.into_iter().find_map(|keyword| {
        let name = path.strip_prefix(keyword)?.strip_prefix('/')?;
        needs_no_escaping(name).then_some((keyword, name))
    })
}

/// A value and all nested values.
pub fn nested_values(value: &Value) -> impl Iterator<Item = &Value> {
    let mut open = vec![value];
    std::iter::from_fn(move || {
        let next = open.pop()?;
        match next {
            Value::Object(members) => open.extend(members.values()),
            Value::Array(items) => open.extend(items),
            _ => {}
        }
        Some(next)
    })
}

/// Whether a schema contains a reference.
pub fn has_references(schema: &Value) -> bool {
    nested_values(schema).any(|value| value.get("$ref").is_some())
}

/// Whether a name needs no escaping in a pointer.
pub fn needs_no_escaping(name: &str) -> bool {
    !name.is_empty()
        && name.chars().all(|character| {
            character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.')
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn schema_loses_annotations_then_halves_then_single_pieces() {
        let schema = json!({"a": {"b": 1}, "c": [2, 3], "title": "t"});
        let all: Vec<String> = (0..)
            .map_while(|number| without_piece(&schema, number))
            .map(|schema| schema.to_string())
            .collect();
        assert_eq!(
            all,
            [
                r#"{"a":{"b":1},"c":[2,3]}"#,
                r#"{"title":"t"}"#,
                r#"{"a":{"b":1},"c":[2,3]}"#,
                r#"{"c":[2,3],"title":"t"}"#,
                r#"{"a":{"b":1},"title":"t"}"#,
                r#"{"a":{"b":1},"c":[2,3]}"#,
                r#"{"a":{},"c":[2,3],"title":"t"}"#,
                r#"{"a":{"b":1},"c":[3],"title":"t"}"#,
                r#"{"a":{"b":1},"c":[2],"title":"t"}"#,
            ]
        );
        let named = json!({"properties": {"title": {"title": "t"}}, "enum": [{"title": 1}]});
        assert_eq!(
            without_piece(&named, 0).unwrap(),
            json!({"properties": {"title": {}}, "enum": [{"title": 1}]})
        );
    }

    #[test]
    fn subschemas_keep_their_text_and_the_definitions() {
        let schema = json!({
            "properties": {"a": {"$ref": "#/$defs/x"}, "b": {"type": "string"}},
            "additionalProperties": {"items": true},
            "$defs": {"x": {"type": "null"}}
        });
        let shown = |text: &str| -> Vec<String> {
            let parts = subschemas(&schema, text.as_bytes()).into_iter();
            parts
                .map(|(part, text)| format!("{part} {}", String::from_utf8(text).unwrap()))
                .collect()
        };
        let defs = r#""$defs":{"x":{"type":"null"}}"#;
        let expected = [
            format!(r#"{{"items":true,{defs}}} [1]"#),
            format!(r#"{{"type":"string",{defs}}} "x\u0061""#),
            format!(r##"{{"$ref":"#/$defs/x",{defs}}} null"##),
        ];
        assert_eq!(shown(r#"{"a": null , "b":"x\u0061","c":[1]}"#), expected);
        assert_eq!(
            shown(r#"{"a":null,"b":"x"#)[0],
            format!(r#"{{"type":"string",{defs}}} "x"#)
        );
        let branches = json!({"anyOf": [{"const": 1}, true], "$ref": "#/definitions/d", "definitions": {"d": {}}, "items": {"type": "null"}});
        assert_eq!(subschemas(&branches, b"[null").len(), 4);
        assert!(
            subschemas(&json!(true), b"1").is_empty()
                && subschemas(&json!({"properties": {"a": {}}}), b"{\"b\":1}").is_empty()
        );
    }

    #[test]
    fn long_names_are_shortened_in_schema_and_text() {
        let schema = json!({"properties": {"name": {"enum": ["one", "two"]}, "x": {"const": "name"}}, "required": ["name"]});
        let (schema, text) =
            with_short_names(&schema, br#"{ "name": "two", "x":"other"}"#).unwrap();
        assert_eq!(
            schema,
            json!({"properties": {"a": {"enum": ["b", "c"]}, "x": {"const": "a"}}, "required": ["a"]})
        );
        assert_eq!(
            String::from_utf8(text).unwrap(),
            r#"{ "a": "c", "x":"other"}"#
        );
        assert_eq!(with_short_names(&json!({"required": ["a"]}), b"{}"), None);
        let schema = json!({"$ref": "#/definitions/node", "definitions": {"node": {"items": {"$ref": "#/definitions/node"}}, "a b": {}}});
        let (schema, _) = with_short_names(&schema, b"[]").unwrap();
        let short = json!({"$ref": "#/definitions/a", "definitions": {"a": {"items": {"$ref": "#/definitions/a"}}, "a b": {}}});
        assert_eq!(schema, short);
    }
}
