//! JSON from input files: errors without line numbers, and detection of duplicate keys.
//!
//! RFC 8259 does not define objects with duplicate keys. Here the last value counts, as in Python's
//! `json`, with a warning.

use std::collections::HashSet;

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Parses a value. The last of duplicate keys counts.
///
/// # Errors
/// Not JSON, or not of this type.
pub fn from_text<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    match serde_json::from_str(text) {
        // Deserialising into a struct fails on duplicate keys; a `Value` keeps the last one.
        Err(error) if error.to_string().starts_with("duplicate field") => {
            serde_json::from_str(&serde_json::from_str::<Value>(text)?.to_string())
        }
        read => read,
    }
}

/// As [`from_text`], but only for objects: serde would also read a struct from an array of its
/// values.
///
/// # Errors
/// Not JSON, not an object, or not of this type.
pub fn object_from_text<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    if text.trim_start().starts_with('[') {
        return Err(serde::de::Error::custom(
            "expected an object, found an array",
        ));
    }
    from_text(text)
}

/// The error message without the line number, which the caller reports.
pub fn message_without_line(error: &serde_json::Error) -> String {
    let message = error.to_string();
    message.replace(&format!(" at line {} column ", error.line()), " at column ")
}

/// Counts objects with duplicate keys in the rows of a dataset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DuplicateKeys {
    objects: usize,
    first: Option<String>,
}

impl DuplicateKeys {
    /// Scans a valid JSON text; `position` formats the position from a line number.
    pub fn scan(&mut self, text: &str, position: impl Fn(usize) -> String) {
        let (objects, first) = repeated(text);
        self.objects += objects;
        if let (None, Some((line, name))) = (&self.first, first) {
            self.first = Some(format!("{}: {name}", position(line)));
        }
    }

    /// Adds what was found in later rows.
    pub fn add(&mut self, later: Self) {
        self.objects += later.objects;
        self.first = self.first.take().or(later.first);
    }

    /// The number of objects with duplicate keys, and the first one.
    pub fn found(self) -> Option<(usize, String)> {
        Some((self.objects, self.first?))
    }
}

/// Counts objects with duplicate keys in a JSON text. Returns the first one's line (from 1) and
/// key. Keys are compared as written, escapes included.
fn repeated(text: &str) -> (usize, Option<(usize, String)>) {
    let bytes = text.as_bytes();
    let (mut objects, mut first) = (0, None);
    // Keys of each open object, and whether it was counted; `None` for arrays.
    let mut open: Vec<Option<(HashSet<&str>, bool)>> = Vec::new();
    let (mut position, mut is_name) = (0, false);
    while position < bytes.len() {
        match bytes[position] {
            b'{' => open.push(Some((HashSet::new(), false))),
            b'[' => open.push(None),
            b'}' | b']' => drop(open.pop()),
            b'"' => {
                let end = string_end(bytes, position + 1);
                if let (true, Some(Some((names, is_counted)))) = (is_name, open.last_mut()) {
                    let name = &text[position + 1..end];
                    if !names.insert(name) && !std::mem::replace(is_counted, true) {
                        objects += 1;
                        first.get_or_insert_with(|| {
                            (1 + super::lines::ends(&bytes[..position]), name.to_owned())
                        });
                    }
                }
                position = end;
            }
            _ => {}
        }
        is_name = match bytes.get(position) {
            Some(b'{') => true,
            Some(b',') => matches!(open.last(), Some(Some(_))),
            Some(b' ' | b'\t' | b'\n' | b'\r') => is_name,
            _ => false,
        };
        position += 1;
    }
    (objects, first)
}

/// The index of the closing quote of the string whose first byte is at `position`.
fn string_end(bytes: &[u8], mut position: usize) -> usize {
    while let Some(found) = bytes
        .get(position..)
        .and_then(|rest| memchr::memchr2(b'"', b'\\', rest))
    {
        position += found;
        if bytes[position] == b'"' {
            return position;
        }
        position += 2;
    }
    bytes.len()
}

/// The first difference between two values: its path (keys and indices joined with dots) and both
/// values.
pub fn first_difference(left: &Value, right: &Value) -> Option<(String, String, String)> {
    let missing = Value::Null;
    let within = |name: String, found: Option<(String, String, String)>| {
        let (position, left, right) = found?;
        Some((
            if position.is_empty() {
                name
            } else {
                format!("{name}.{position}")
            },
            left,
            right,
        ))
    };
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            let names = right
                .keys()
                .chain(left.keys().filter(|name| !right.contains_key(*name)));
            names.into_iter().find_map(|name| {
                let (left, right) = (
                    left.get(name).unwrap_or(&missing),
                    right.get(name).unwrap_or(&missing),
                );
                within(name.clone(), first_difference(left, right))
            })
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            let pairs = left.iter().zip(right).enumerate();
            pairs.into_iter().find_map(|(index, (left, right))| {
                within(index.to_string(), first_difference(left, right))
            })
        }
        (left, right) if left == right => None,
        (left, right) => Some((String::new(), left.to_string(), right.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[test]
    fn duplicate_keys_are_counted() {
        for (text, expected) in [
            ("", (0, None)),
            (
                r#"{"a": "a", "b": ["a", "a", {"a": 1}], "c": {"a": ",\"a\""}}"#,
                (0, None),
            ),
            (r#"{"a": 1, "a": 2, "a": 3}"#, (1, Some((1, "a")))),
            (
                "[{\"a\": {\"x\": 1,\r\n \"x\" : 2}},\n{\"a\\\"\": 1,\"a\\\"\":2}]",
                (2, Some((2, "x"))),
            ),
            (r#"{"a": {"a": {"a": []}}, "b": "\\"} {"a": 0}"#, (0, None)),
            (r#"{"a": "x"#, (0, None)),
            (r#"{"a\"#, (0, None)),
        ] {
            let (objects, first) = repeated(text);
            assert_eq!(
                (
                    objects,
                    first.as_ref().map(|(line, name)| (*line, name.as_str()))
                ),
                expected,
                "{text}"
            );
        }
        let mut repeated = DuplicateKeys::default();
        repeated.scan("{}", |_| String::new());
        assert_eq!(repeated.clone().found(), None);
        repeated.scan(r#"{"a": 1, "a": 2}"#, |line| {
            format!("FILE, line {}", line + 6)
        });
        repeated.scan(r#"{"b": 1, "b": 2}"#, |_| String::new());
        assert_eq!(repeated.found(), Some((2, "FILE, line 7: a".to_owned())));
    }

    #[test]
    fn the_last_duplicate_key_counts() {
        #[derive(Deserialize)]
        struct Row {
            a: u32,
        }
        let text = r#"{"a": 1, "a": 2}"#;
        assert_eq!(from_text::<Row>(text).unwrap().a, 2);
        assert_eq!(from_text::<Value>(text).unwrap()["a"], 2);
        let error = from_text::<Row>("{\"a\": 1,}").err().unwrap();
        assert_eq!(message_without_line(&error), "trailing comma at column 9");
    }
}
