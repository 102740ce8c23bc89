//! Values as Python's `repr` writes them, read as JSON: strings, numbers, lists, tuples, sets,
//! dicts, and calls such as `SamplingParams(n=1)`, which become objects.

use serde_json::{Map, Value};

/// The most nested values.
const MAX_DEPTH: usize = 100;

/// Reads the value at the start of a text. Returns the text after it, too; `None` if there is no
/// value.
pub(super) fn value(text: &str) -> Option<(Value, &str)> {
    let mut reader = Reader { rest: text };
    let value = reader.value(0)?;
    Some((value, reader.rest))
}

struct Reader<'t> {
    rest: &'t str,
}

impl<'t> Reader<'t> {
    fn value(&mut self, depth: usize) -> Option<Value> {
        if depth > MAX_DEPTH {
            return None;
        }
        self.rest = self.rest.trim_start();
        match self.rest.chars().next()? {
            '\'' | '"' => self.string().map(Value::from),
            bracket @ ('[' | '(' | '{') => {
                self.rest = &self.rest[1..];
                match bracket {
                    '[' => self.list("]", depth),
                    '(' => self.list(")", depth),
                    _ => self.dict(depth),
                }
            }
            // A member of an enum.
            '<' => {
                self.rest = &self.rest[self.rest.find('>')? + 1..];
                Some(Value::Null)
            }
            _ => {
                let word = self.word();
                if self.take("(") {
                    return self.arguments(depth);
                }
                match word {
                    "" => None,
                    "True" => Some(true.into()),
                    "False" => Some(false.into()),
                    word => Some(serde_json::from_str(word).unwrap_or_default()),
                }
            }
        }
    }

    fn take(&mut self, expected: &str) -> bool {
        let rest = self.rest.trim_start().strip_prefix(expected);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// A name or a number.
    fn word(&mut self) -> &'t str {
        let is_part = |c: char| c.is_alphanumeric() || "_.+-".contains(c);
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    /// The items up to `end`, after their opening bracket.
    fn list(&mut self, end: &str, depth: usize) -> Option<Value> {
        let mut items = Vec::new();
        while !self.take(end) {
            items.push(self.value(depth + 1)?);
            self.take(",");
        }
        Some(items.into())
    }

    /// The members of a dict, or the items of a set.
    fn dict(&mut self, depth: usize) -> Option<Value> {
        let (mut members, mut items) = (Map::new(), Vec::new());
        while !self.take("}") {
            let key = self.value(depth + 1)?;
            if self.take(":") {
                let name = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
                members.insert(name, self.value(depth + 1)?);
            } else {
                items.push(key);
            }
            self.take(",");
        }
        Some(match items.is_empty() {
            true => members.into(),
            false => items.into(),
        })
    }

    /// The named arguments of a call.
    fn arguments(&mut self, depth: usize) -> Option<Value> {
        let mut members = Map::new();
        while !self.take(")") {
            self.rest = self.rest.trim_start();
            let name = self.word();
            self.take("=").then_some(())?;
            members.insert(name.to_owned(), self.value(depth + 1)?);
            self.take(",");
        }
        Some(members.into())
    }

    fn string(&mut self) -> Option<String> {
        let mut characters = self.rest.chars();
        let (quote, mut text) = (characters.next()?, String::new());
        loop {
            match characters.next()? {
                end if end == quote => break,
                '\\' => text.push(match characters.next()? {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    hex @ ('x' | 'u' | 'U') => {
                        let digits = match hex {
                            'x' => 2,
                            'u' => 4,
                            _ => 8,
                        };
                        let code: String = characters.by_ref().take(digits).collect();
                        let code = u32::from_str_radix(&code, 16).ok()?;
                        char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
                    }
                    other => other,
                }),
                other => text.push(other),
            }
        }
        self.rest = characters.as_str();
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_repr_are_read() {
        let text = r#"P(n=1, a=-0.5, s='it\'s\n\u00e9 "x"', d="'", l=['a', (1,)], e=<K.A: 1>, o=Q(json={'a': [True, None], 3: 1}, x={1, 2}), i=inf), more"#;
        let (found, rest) = value(text).unwrap();
        let expected = json!({"n": 1, "a": -0.5, "s": "it's\né \"x\"", "d": "'", "l": ["a", [1]], "e": null,
            "o": {"json": {"a": [true, null], "3": 1}, "x": [1, 2]}, "i": null});
        assert_eq!(found, expected);
        assert_eq!(rest, ", more");
        for text in ["", "'a", "[1", "P(1)", "{'a':", &"[".repeat(1000)] {
            assert_eq!(value(text), None, "{text}");
        }
    }
}
