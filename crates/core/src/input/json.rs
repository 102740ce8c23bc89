//! JSON from input files: errors without line numbers, and detection of duplicate keys.
//!
//! RFC 8259 does not define objects with duplicate keys. Here the last value counts, as in Python's
//! `json`, with a warning.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};

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
        let mut scanner = KeyScanner::default();
        scanner.scan(text.as_bytes());
        self.add_scanned(scanner, position);
    }

    /// Adds what a scanner found; `position` formats the position from a line number.
    pub fn add_scanned(&mut self, scanner: KeyScanner, position: impl Fn(usize) -> String) {
        self.objects += scanner.objects;
        if let (None, Some((line, name))) = (&self.first, scanner.first) {
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

/// Maximum number of keys of an object whose set is used again: clearing takes as long as the set is
/// large.
const MAX_SPARE_KEYS: usize = 64;

/// Counts objects with duplicate keys in a JSON text that is read in parts. Keys are compared as
/// written, escapes included.
#[derive(Debug, Default)]
pub struct KeyScanner {
    objects: usize,
    /// The line (from 1) and the key of the first one.
    first: Option<(usize, String)>,
    /// Hashes of the keys of each open object, and whether it was counted; `None` for arrays.
    open: Vec<Option<(HashSet<u64>, bool)>>,
    /// Sets of closed objects, to be used again.
    spare: Vec<HashSet<u64>>,
    hasher: RandomState,
    state: KeyState,
    /// Whether a string would be a name.
    is_name: bool,
    /// The name that is being read.
    name: Vec<u8>,
    line_ends: usize,
    after_cr: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum KeyState {
    #[default]
    Outside,
    InString,
    /// After a backslash in a string.
    Escaped,
}

impl KeyScanner {
    /// Scans the next part of the text, which may end anywhere.
    pub fn scan(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some((byte, after)) = rest.split_first() {
            match self.state {
                KeyState::Outside => {
                    self.outside(*byte);
                    rest = after;
                }
                KeyState::InString => {
                    let end = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
                    if self.is_name {
                        self.name.extend_from_slice(&rest[..end]);
                    }
                    rest = &rest[end..];
                    match rest.split_first() {
                        Some((b'"', after)) => {
                            self.end_of_string();
                            rest = after;
                        }
                        Some((backslash, after)) => {
                            self.add_to_name(*backslash);
                            self.state = KeyState::Escaped;
                            rest = after;
                        }
                        None => {}
                    }
                }
                KeyState::Escaped => {
                    self.add_to_name(*byte);
                    self.state = KeyState::InString;
                    rest = after;
                }
            }
        }
    }

    fn add_to_name(&mut self, byte: u8) {
        if self.is_name {
            self.name.push(byte);
        }
    }

    fn outside(&mut self, byte: u8) {
        let is_pair = self.after_cr && byte == b'\n';
        self.after_cr = byte == b'\r';
        self.line_ends += usize::from(matches!(byte, b'\n' | b'\r') && !is_pair);
        match byte {
            b'{' => self
                .open
                .push(Some((self.spare.pop().unwrap_or_default(), false))),
            b'[' => self.open.push(None),
            b'}' | b']' => {
                if let Some(Some((mut keys, _))) = self.open.pop()
                    && keys.len() <= MAX_SPARE_KEYS
                {
                    keys.clear();
                    self.spare.push(keys);
                }
            }
            b'"' => {
                self.is_name &= matches!(self.open.last(), Some(Some(_)));
                self.name.clear();
                self.state = KeyState::InString;
                return;
            }
            _ => {}
        }
        self.is_name = match byte {
            b'{' => true,
            b',' => matches!(self.open.last(), Some(Some(_))),
            b' ' | b'\t' | b'\n' | b'\r' => self.is_name,
            _ => false,
        };
    }

    fn end_of_string(&mut self) {
        self.state = KeyState::Outside;
        if !std::mem::take(&mut self.is_name) {
            return;
        }
        let Some(Some((keys, is_counted))) = self.open.last_mut() else {
            return;
        };
        // Only a warning depends on it, so that a hash stands for the key.
        let is_new = keys.insert(self.hasher.hash_one(&self.name));
        if !is_new && !std::mem::replace(is_counted, true) {
            self.objects += 1;
            let name = || String::from_utf8_lossy(&self.name).into_owned();
            self.first
                .get_or_insert_with(|| (1 + self.line_ends, name()));
        }
    }
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
            for part in [1, 3, text.len().max(1)] {
                let mut scanner = KeyScanner::default();
                text.as_bytes()
                    .chunks(part)
                    .for_each(|bytes| scanner.scan(bytes));
                let first = scanner.first.as_ref();
                assert_eq!(
                    (
                        scanner.objects,
                        first.map(|(line, name)| (*line, name.as_str()))
                    ),
                    expected,
                    "{text}"
                );
            }
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
