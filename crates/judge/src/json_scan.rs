//! Passes over JSON values without building them, several times as fast as reading them.
//!
//! [`Scanner`] accepts a part of JSON that all readers read alike. A text that it does not accept
//! may still be JSON: the caller then reads it with a complete reader, which also explains errors.
//! Not accepted are lone surrogates and surrogate pairs in escapes, nesting over [`MAX_NESTING`],
//! integers over [`MAX_DIGITS`] digits and, unless repeated names are allowed, names with escapes
//! and objects with over [`MAX_NAMES`] members.

/// Maximum nesting of containers. Readers recurse, and stop at 128.
const MAX_NESTING: usize = 100;

/// Maximum number of digits of an integer. CPython stops at 4,300.
const MAX_DIGITS: usize = 300;

/// Maximum number of members of an object whose names are compared with each other.
const MAX_NAMES: usize = 64;

/// Marks an open array in [`Scanner::open`].
const ARRAY: usize = usize::MAX;

/// Every byte of a word is 1, or has only its highest bit.
const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// A position in a text, from which JSON values are passed over.
pub struct Scanner<'a> {
    text: &'a str,
    position: usize,
    unique_names: bool,
    /// Names of the members of all open objects.
    names: Vec<&'a str>,
    /// The index of the first name of each open object, or [`ARRAY`].
    open: Vec<usize>,
}

impl<'a> Scanner<'a> {
    /// A scanner at the start of `text` that refuses objects with repeated names.
    pub fn new(text: &'a str) -> Self {
        Self {
            text,
            position: 0,
            unique_names: true,
            names: Vec::new(),
            open: Vec::new(),
        }
    }

    /// Allows repeated names.
    #[must_use]
    pub fn with_repeated_names(mut self) -> Self {
        self.unique_names = false;
        self
    }

    /// Whether only white space follows.
    pub fn is_at_end(&mut self) -> bool {
        self.white_space();
        self.position == self.text.len()
    }

    /// Passes white space, and then this byte if it follows.
    pub fn take(&mut self, byte: u8) -> bool {
        self.white_space();
        let found = self.peek() == Some(byte);
        self.position += usize::from(found);
        found
    }

    /// Passes white space and one value, and returns the value as written; `None` if it is not
    /// accepted.
    pub fn value(&mut self) -> Option<&'a str> {
        self.white_space();
        let start = self.position;
        loop {
            match self.peek()? {
                b'{' if self.open_container(b'}')? => {
                    self.open.push(self.names.len());
                    self.member_name()?;
                    continue;
                }
                b'[' if self.open_container(b']')? => {
                    self.open.push(ARRAY);
                    continue;
                }
                b'{' | b'[' => {}
                b'"' => {
                    self.string()?;
                }
                b'-' | b'0'..=b'9' => self.number()?,
                b't' => self.word("true")?,
                b'f' => self.word("false")?,
                b'n' => self.word("null")?,
                _ => return None,
            }
            if self.close_containers()? {
                return Some(&self.text[start..self.position]);
            }
        }
    }

    /// Passes the string at this position, and returns it as written between its quotes.
    fn string(&mut self) -> Option<&'a str> {
        if self.peek() != Some(b'"') {
            return None;
        }
        self.position += 1;
        let start = self.position;
        loop {
            self.position += plain_bytes(&self.text.as_bytes()[self.position..]);
            match self.peek()? {
                b'"' => {
                    let string = &self.text[start..self.position];
                    self.position += 1;
                    return Some(string);
                }
                b'\\' => self.escape()?,
                _ => return None,
            }
        }
    }

    /// Passes the bracket that opens a container. Whether the container has values; an empty one is
    /// passed as a whole.
    fn open_container(&mut self, closing: u8) -> Option<bool> {
        self.position += 1;
        if self.take(closing) {
            return Some(false);
        }
        (self.open.len() < MAX_NESTING).then_some(true)
    }

    /// Passes what follows a complete value: brackets that close containers, and a comma. Whether
    /// the outermost value is complete.
    fn close_containers(&mut self) -> Option<bool> {
        while let Some(&first_name) = self.open.last() {
            self.white_space();
            let is_array = first_name == ARRAY;
            match self.peek()? {
                b',' => {
                    self.position += 1;
                    self.white_space();
                    if !is_array {
                        self.member_name()?;
                    }
                    return Some(false);
                }
                b']' if is_array => {}
                b'}' if !is_array => self.names.truncate(first_name),
                _ => return None,
            }
            self.position += 1;
            self.open.pop();
        }
        Some(true)
    }

    /// Passes a member's name, its colon and white space.
    fn member_name(&mut self) -> Option<()> {
        let name = self.string()?;
        if self.unique_names {
            let first = *self.open.last()?;
            let earlier = &self.names[first..];
            if earlier.len() >= MAX_NAMES || name.contains('\\') || earlier.contains(&name) {
                return None;
            }
            self.names.push(name);
        }
        if !self.take(b':') {
            return None;
        }
        self.white_space();
        Some(())
    }

    fn escape(&mut self) -> Option<()> {
        let bytes = self.text.as_bytes();
        match bytes.get(self.position + 1)? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.position += 2,
            b'u' => {
                let digits = bytes.get(self.position + 2..self.position + 6)?;
                let is_surrogate =
                    matches!(digits[0], b'd' | b'D') && !matches!(digits[1], b'0'..=b'7');
                if is_surrogate || !digits.iter().all(u8::is_ascii_hexdigit) {
                    return None;
                }
                self.position += 6;
            }
            _ => return None,
        }
        Some(())
    }

    /// Passes the number at this position.
    fn number(&mut self) -> Option<()> {
        if self.peek() == Some(b'-') {
            self.position += 1;
        }
        if self.peek()? == b'0' {
            self.position += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.position += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.position += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.position += 1;
            }
            self.digits()?;
        }
        Some(())
    }

    fn digits(&mut self) -> Option<()> {
        let rest = self.text.as_bytes()[self.position..].iter();
        let count = rest.take_while(|byte| byte.is_ascii_digit()).count();
        self.position += count;
        (1..=MAX_DIGITS).contains(&count).then_some(())
    }

    fn word(&mut self, word: &str) -> Option<()> {
        let rest = &self.text.as_bytes()[self.position..];
        self.position += word.len();
        rest.starts_with(word.as_bytes()).then_some(())
    }

    fn white_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.position += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }
}

/// Number of bytes before the first quote, backslash or control character; eight at a time.
pub(super) fn plain_bytes(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let zeros = |word: u64| word.wrapping_sub(LOW_BITS) & !word;
        let quotes = zeros(word ^ (LOW_BITS * u64::from(b'"')));
        let backslashes = zeros(word ^ (LOW_BITS * u64::from(b'\\')));
        let controls = word.wrapping_sub(LOW_BITS * 0x20) & !word;
        // The lowest set bit is exact; higher ones may come from a borrow.
        let special = (quotes | backslashes | controls) & HIGH_BITS;
        if special != 0 {
            return index * 8 + special.trailing_zeros() as usize / 8;
        }
    }
    let is_plain = |byte: &&u8| !matches!(byte, b'"' | b'\\' | 0..=0x1f);
    bytes.len() - rest.len() + rest.iter().take_while(is_plain).count()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::json_reader::{self, Dialect};

    fn accepts(text: &str) -> bool {
        let mut scanner = Scanner::new(text);
        scanner.value().is_some() && scanner.is_at_end()
    }

    #[test]
    fn values_are_passed_over() {
        let text = r#" {"a": [1, -2.5e+3, "x\"\u00e9", {}, []], "b": null} , true"#;
        let mut scanner = Scanner::new(text);
        let value = scanner.value().unwrap();
        assert_eq!(value, text[1..text.len() - 7].trim_end());
        assert!(scanner.take(b',') && scanner.value() == Some("true") && scanner.is_at_end());
    }

    #[test]
    fn what_readers_read_differently_is_not_accepted() {
        let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(accepts(&deep(MAX_NESTING)) && !accepts(&deep(MAX_NESTING + 2)));
        assert!(accepts(&"1".repeat(MAX_DIGITS)) && !accepts(&"1".repeat(MAX_DIGITS + 1)));
        for text in [
            r#"{"a":1,"a":2}"#,
            r#"{"\u0061":1}"#,
            r#""\ud800""#,
            r#""\uDC00""#,
            r#"{"b":{"a":1},"c":{"a":1,"b":2,"a":3}}"#,
        ] {
            assert!(!accepts(text), "{text}");
        }
        assert!(accepts(r#"{"b":{"a":1},"c":{"a":1},"a":[{"a":1}]}"#));
        let mut repeated = Scanner::new(r#"{"a":1,"a":2}"#).with_repeated_names();
        assert!(repeated.value().is_some());
    }

    #[test]
    fn strings_end_at_any_offset() {
        for before in 0..20 {
            for (end, accepted) in [
                ("\"", true),
                ("\\n\"", true),
                ("\u{1f}\"", false),
                ("", false),
            ] {
                for filler in ["x", "é", "\u{7f}", "!"] {
                    let text = format!("\"{}{end}", filler.repeat(before));
                    assert_eq!(accepts(&text), accepted, "{text:?}");
                }
            }
        }
    }

    /// Damaged documents: all that is accepted is JSON for both complete readers, without repeated
    /// names, and undamaged documents are accepted.
    #[test]
    fn only_json_is_accepted() {
        let seed =
            r#" {"a\n\u00e9" : [1, -0.5e+3, true, false, null, "x\\\"y", {}], "b":{"c":[[]]}} "#;
        let seed = seed.replace("a\\n\\u00e9", "aé");
        let alphabet: Vec<char> = "{}[]:,\"\\u0123e.-+tn \u{1}é".chars().collect();
        let characters: Vec<char> = seed.chars().collect();
        assert!(accepts(&seed));
        let (mut accepted, mut json) = (0, 0);
        for index in 0..characters.len() {
            let (head, tail) = (&characters[..index], &characters[index..]);
            let mut texts: Vec<String> = vec![head.iter().collect()];
            texts.push(head.iter().chain(&tail[1..]).collect());
            for replacement in &alphabet {
                texts.push(head.iter().chain([replacement]).chain(&tail[1..]).collect());
                texts.push(head.iter().chain([replacement]).chain(tail).collect());
            }
            for text in &texts {
                let is_json = serde_json::from_str::<Value>(text).is_ok();
                json += usize::from(is_json);
                if accepts(text) {
                    accepted += 1;
                    let document = json_reader::read(text, 0, Dialect::Rfc8259).unwrap();
                    assert!(is_json && document.duplicate.is_none(), "{text:?}");
                    assert_eq!(document.lone_surrogate, None, "{text:?}");
                }
            }
        }
        assert!(
            accepted > 100 && accepted * 10 > json * 8,
            "{accepted} of {json}"
        );
    }
}
