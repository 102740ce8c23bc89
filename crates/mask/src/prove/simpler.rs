//! Schemas that are simpler than another one: without a piece, one part of it alone, with short
//! names. Whether what was proved of the first is true of them, too, is for others to find out.
//! Knows no engine.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::respell;
use crate::corpus::tags::{ANNOTATIONS, BY_NAME};

/// Keywords under which references find what they name.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// The schema without its piece of this number: first without all that says nothing of an instance;
/// then, from the outside in, without halves, quarters and so on of what an object or array holds,
/// down to one member or item.
pub(super) fn without_piece(schema: &Value, number: usize) -> Option<Value> {
    let mut changed = schema.clone();
    let silenced = drop_silent(&mut changed);
    if silenced && number == 0 {
        return Some(changed);
    }
    let mut left = number - usize::from(silenced);
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

/// Halves, quarters and so on of so many things, down to each alone.
pub(super) fn chunks(all: usize) -> Vec<std::ops::Range<usize>> {
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

/// All but those in the range.
pub(super) fn without<T: Clone>(all: &[T], range: std::ops::Range<usize>) -> Vec<T> {
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

/// Takes away what says nothing of an instance; whether there was any. A member of that name under
/// `properties` is no keyword.
fn drop_silent(schema: &mut Value) -> bool {
    let mut dropped = false;
    let mut open: Vec<(&mut Value, bool)> = vec![(schema, false)];
    while let Some((value, is_map)) = open.pop() {
        match value {
            Value::Object(members) => {
                let before = members.len();
                members.retain(|name, _| is_map || !is_silent(name));
                dropped |= members.len() < before;
                let inner = members
                    .iter_mut()
                    .filter(|(name, _)| is_map || !matches!(name.as_str(), "enum" | "const"));
                open.extend(
                    inner.map(|(name, value)| (value, !is_map && BY_NAME.contains(&name.as_str()))),
                );
            }
            Value::Array(items) => open.extend(items.iter_mut().map(|item| (item, false))),
            _ => {}
        }
    }
    dropped
}

/// Whether a keyword says nothing of an instance.
fn is_silent(keyword: &str) -> bool {
    ANNOTATIONS.contains(&keyword) || matches!(keyword, "default" | "examples")
}

/// The schema of a member, of items, or of one alternative, each with the part of the text that it
/// is about: what may hold the error alone. The text may be the beginning of one.
pub(super) fn parts(schema: &Value, text: &[u8]) -> Vec<(Value, Vec<u8>)> {
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
    // What refers to itself is no part of itself.
    let reference = reference.filter(|part| *part != schema);
    let mut parts: Vec<(&Value, &str)> =
        branches.chain(reference).map(|part| (part, text)).collect();
    // What comes last is what a text that was refused ends in.
    for (name, member) in respell::children(text).into_iter().rev() {
        let named = |keyword: &str| keywords.get(keyword).and_then(Value::as_object);
        let about = match &name {
            Some(name) => named("properties")
                .and_then(|it| it.get(name))
                .into_iter()
                .collect(),
            None => keywords.get("items").into_iter().collect::<Vec<_>>(),
        };
        let others = named("patternProperties")
            .into_iter()
            .flat_map(Map::values)
            .chain(keywords.get("additionalProperties"));
        let others = others.filter(|_| name.is_some() && about.is_empty());
        parts.extend(
            about
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

/// A part that stands alone, with what references in it may name.
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

/// Schema and text with one letter for every name and every value of a list that has more, in both;
/// `None` where there is none.
pub(super) fn with_short_names(schema: &Value, text: &[u8]) -> Option<(Value, Vec<u8>)> {
    let text = std::str::from_utf8(text).ok()?;
    let mut names = Names::default();
    let mut schema = schema.clone();
    names.shorten(&mut schema);
    let text = respell::with_strings(text, |name| names.0.get(name).cloned());
    (!names.0.is_empty()).then(|| (schema, text.into_bytes()))
}

/// Long names, and what they are called instead.
#[derive(Default)]
struct Names(HashMap<String, String>);

impl Names {
    fn short(&mut self, name: &str) -> String {
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
                    if is_plain(name) {
                        self.short(name)
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
                self.shorten_of(keyword, value);
                match value {
                    Value::Array(items) => open.extend(items),
                    value if !BY_NAME.contains(&keyword.as_str()) => open.push(value),
                    Value::Object(members) => open.extend(members.values_mut()),
                    _ => {}
                }
            }
        }
    }

    /// Names and values that a keyword itself holds.
    fn shorten_of(&mut self, keyword: &str, value: &mut Value) {
        match (keyword, value) {
            ("required" | "enum", Value::Array(items)) => {
                items.iter_mut().for_each(|item| self.shorten_text(item))
            }
            ("const", value) => self.shorten_text(value),
            ("properties" | "dependentSchemas", Value::Object(members)) => {
                *members = renamed(members, |name| self.short(name));
            }
            ("$ref", Value::String(reference)) => {
                if let Some((keyword, name)) = definition(reference) {
                    *reference = format!("#/{keyword}/{}", self.short(name));
                }
            }
            _ => {}
        }
    }

    fn shorten_text(&mut self, value: &mut Value) {
        if let Value::String(text) = value {
            *text = self.short(text);
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

/// The keyword and the name by which a reference names a definition of the root, where it spells
/// the name as it is.
fn definition(reference: &str) -> Option<(&'static str, &str)> {
    let path = reference.strip_prefix("#/")?;
    DEFINITIONS.into_iter().find_map(|keyword| {
        let name = path.strip_prefix(keyword)?.strip_prefix('/')?;
        is_plain(name).then_some((keyword, name))
    })
}

/// A value, and all values in it.
pub(super) fn all_within(value: &Value) -> impl Iterator<Item = &Value> {
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

/// Whether there is a reference in a schema.
pub(super) fn refers(schema: &Value) -> bool {
    all_within(schema).any(|value| value.get("$ref").is_some())
}

/// Whether a pointer spells a name as it is.
pub(super) fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|it| it.is_ascii_alphanumeric() || matches!(it, '_' | '-' | '.'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_loses_what_says_nothing_then_halves_then_single_pieces() {
        let schema = json!({"a": {"b": 1}, "c": [2, 3], "title": "t"});
        let all: Vec<String> = (0..)
            .map_while(|number| without_piece(&schema, number))
            .map(|it| it.to_string())
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
    fn a_part_takes_its_text_and_the_definitions_along() {
        let schema = json!({
            "properties": {"a": {"$ref": "#/$defs/x"}, "b": {"type": "string"}},
            "additionalProperties": {"items": true},
            "$defs": {"x": {"type": "null"}}
        });
        let shown = |text: &str| -> Vec<String> {
            let parts = parts(&schema, text.as_bytes()).into_iter();
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
        assert_eq!(parts(&branches, b"[null").len(), 4);
        assert!(
            parts(&json!(true), b"1").is_empty()
                && parts(&json!({"properties": {"a": {}}}), b"{\"b\":1}").is_empty()
        );
    }

    #[test]
    fn long_names_become_short_in_schema_and_text() {
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
