//! JSON as files of strangers have it: what is said of a bad one, and of objects that name a member
//! twice. Knows no layout.
//!
//! RFC 8259 leaves open what such an object means; here the last one counts in every file, as in
//! Python's `json`, and it is said.

use std::collections::HashSet;

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads a value. Of a member that stands twice in an object the last counts.
///
/// # Errors
/// It is not JSON, or not of this type.
pub fn from_text<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    match serde_json::from_str(text) {
        // What is read straight into a type refuses such an object; a tree of values does not.
        Err(error) if error.to_string().starts_with("duplicate field") => {
            serde_json::from_str(&serde_json::from_str::<Value>(text)?.to_string())
        }
        read => read,
    }
}

/// The same of an object: a struct would be read from a list of its members' values as well.
///
/// # Errors
/// It is not JSON, no object, or not of this type.
pub fn object_from_text<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    if text.trim_start().starts_with('[') {
        return Err(serde::de::Error::custom(
            "a list, where an object was expected",
        ));
    }
    from_text(text)
}

/// What is wrong with a text of one line, whose number is told elsewhere.
pub fn in_line(error: &serde_json::Error) -> String {
    let words = error.to_string();
    words.replace(&format!(" at line {} column ", error.line()), " at column ")
}

/// Objects that name a member twice, counted over the rows of a dataset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repeated {
    objects: usize,
    first: Option<String>,
}

impl Repeated {
    /// Looks through JSON that was read; `place` makes a name of the line in it.
    pub fn look(&mut self, text: &str, place: impl Fn(usize) -> String) {
        let (objects, first) = repeated(text);
        self.objects += objects;
        if let (None, Some((line, name))) = (&self.first, first) {
            self.first = Some(format!("{}: {name}", place(line)));
        }
    }

    /// How many there are, and which is the first.
    pub fn found(self) -> Option<(usize, String)> {
        Some((self.objects, self.first?))
    }
}

/// How many objects of a JSON text name a member twice, and where the first of them does: its line
/// from 1, and the member. Names are compared as they are spelt.
fn repeated(text: &str) -> (usize, Option<(usize, String)>) {
    let bytes = text.as_bytes();
    let (mut objects, mut first) = (0, None);
    // The names of each open object, and whether it was counted; nothing of arrays.
    let mut open: Vec<Option<(HashSet<&str>, bool)>> = Vec::new();
    let (mut place, mut is_name) = (0, false);
    while place < bytes.len() {
        match bytes[place] {
            b'{' => open.push(Some((HashSet::new(), false))),
            b'[' => open.push(None),
            b'}' | b']' => drop(open.pop()),
            b'"' => {
                let end = string_end(bytes, place + 1);
                if let (true, Some(Some((names, is_counted)))) = (is_name, open.last_mut()) {
                    let name = &text[place + 1..end];
                    if !names.insert(name) && !std::mem::replace(is_counted, true) {
                        objects += 1;
                        first.get_or_insert_with(|| {
                            (1 + super::lines::ends(&bytes[..place]), name.to_owned())
                        });
                    }
                }
                place = end;
            }
            _ => {}
        }
        is_name = match bytes.get(place) {
            Some(b'{') => true,
            Some(b',') => matches!(open.last(), Some(Some(_))),
            Some(b' ' | b'\t' | b'\n' | b'\r') => is_name,
            _ => false,
        };
        place += 1;
    }
    (objects, first)
}

/// Where the string ends whose first byte is at `place`: at its closing quote.
fn string_end(bytes: &[u8], mut place: usize) -> usize {
    while let Some(found) = bytes
        .get(place..)
        .and_then(|rest| memchr::memchr2(b'"', b'\\', rest))
    {
        place += found;
        if bytes[place] == b'"' {
            return place;
        }
        place += 2;
    }
    bytes.len()
}

/// The first place where two values differ, as members and places with dots between them, and both
/// values there.
pub fn difference(left: &Value, right: &Value) -> Option<(String, String, String)> {
    let missing = Value::Null;
    let within = |name: String, found: Option<(String, String, String)>| {
        let (place, left, right) = found?;
        Some((
            if place.is_empty() {
                name
            } else {
                format!("{name}.{place}")
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
                within(name.clone(), difference(left, right))
            })
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            let pairs = left.iter().zip(right).enumerate();
            pairs.into_iter().find_map(|(index, (left, right))| {
                within(index.to_string(), difference(left, right))
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
    fn members_that_stand_twice_are_found() {
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
        let mut repeated = Repeated::default();
        repeated.look("{}", |_| String::new());
        assert_eq!(repeated.clone().found(), None);
        repeated.look(r#"{"a": 1, "a": 2}"#, |line| {
            format!("FILE, line {}", line + 6)
        });
        repeated.look(r#"{"b": 1, "b": 2}"#, |_| String::new());
        assert_eq!(repeated.found(), Some((2, "FILE, line 7: a".to_owned())));
    }

    #[test]
    fn the_last_counts_whatever_is_read() {
        #[derive(Deserialize)]
        struct Row {
            a: u32,
        }
        let text = r#"{"a": 1, "a": 2}"#;
        assert_eq!(from_text::<Row>(text).unwrap().a, 2);
        assert_eq!(from_text::<Value>(text).unwrap()["a"], 2);
        let error = from_text::<Row>("{\"a\": 1,}").err().unwrap();
        assert_eq!(in_line(&error), "trailing comma at column 9");
    }
}
