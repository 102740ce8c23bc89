//! Passes over JSON values without building them, several times as fast as reading them.
//!
//! [`Scanner`] accepts a part of JSON that all readers read alike. A text that it does not accept
//! may still be JSON: the caller then reads it with a complete reader, which also explains errors.
//! Not accepted are lone surrogates and surrogate pairs in escapes, values in over `MAX_NESTING`
//! containers, numbers with over `MAX_DIGITS` digits in a row and, unless repeated names are
//! allowed, names with escapes and objects with over `MAX_NAMES` members.

/// Maximum nesting of containers. Readers recurse, and stop at 128.
const MAX_NESTING: usize = 100;

/// Maximum number of digits in a row. CPython stops at integers of 4,300.
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
    lexer: Lexer<'a>,
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
            lexer: Lexer::new(text),
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
        self.lexer.is_at_end()
    }

    /// Passes white space, and then this byte if it follows.
    pub fn take(&mut self, byte: u8) -> bool {
        self.lexer.take(byte)
    }

    /// Passes white space and one value, and returns the value as written; `None` if it is not
    /// accepted.
    pub fn value(&mut self) -> Option<&'a str> {
        self.lexer.white_space();
        let start = self.lexer.position;
        loop {
            match self.lexer.token()? {
                Token::Open(bracket) if self.lexer.is_filled(bracket, self.open.len())? => {
                    match bracket {
                        Bracket::Object => {
                            self.open.push(self.names.len());
                            self.member_name()?;
                        }
                        Bracket::Array => self.open.push(ARRAY),
                    }
                    continue;
                }
                _ => {}
            }
            if self.close_containers()? {
                return Some(&self.lexer.text[start..self.lexer.position]);
            }
        }
    }

    /// Passes what follows a complete value: brackets that close containers, and a comma. Whether
    /// the outermost value is complete.
    fn close_containers(&mut self) -> Option<bool> {
        while let Some(&first_name) = self.open.last() {
            let is_array = first_name == ARRAY;
            let bracket = if is_array {
                Bracket::Array
            } else {
                Bracket::Object
            };
            if self.lexer.is_continued(bracket)? {
                if !is_array {
                    self.member_name()?;
                }
                return Some(false);
            }
            if !is_array {
                self.names.truncate(first_name);
            }
            self.open.pop();
        }
        Some(true)
    }

    /// Passes a member's name and its colon.
    fn member_name(&mut self) -> Option<()> {
        let (name, has_escapes) = self.lexer.member_name()?;
        if self.unique_names {
            let first = *self.open.last()?;
            let earlier = &self.names[first..];
            if earlier.len() >= MAX_NAMES || has_escapes || earlier.contains(&name) {
                return None;
            }
            self.names.push(name);
        }
        Some(())
    }
}

/// A token that starts a value. Texts are as written.
pub(super) enum Token<'a> {
    Null,
    Boolean(bool),
    Number(&'a str),
    /// Without the quotes. Escapes in it are valid.
    String {
        written: &'a str,
        has_escapes: bool,
    },
    Open(Bracket),
}

/// The kind of a container.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Bracket {
    Array,
    Object,
}

impl Bracket {
    fn closing(self) -> u8 {
        match self {
            Self::Array => b']',
            Self::Object => b'}',
        }
    }
}

/// Reads the tokens of JSON, without the nesting, numbers and escapes that this module does not
/// accept. `None` where the text is not accepted. Names are the caller's.
pub(super) struct Lexer<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, position: 0 }
    }

    /// Whether only white space follows.
    pub(super) fn is_at_end(&mut self) -> bool {
        self.white_space();
        self.position == self.text.len()
    }

    /// Passes white space, and then this byte if it follows.
    fn take(&mut self, byte: u8) -> bool {
        self.white_space();
        let found = self.peek() == Some(byte);
        self.position += usize::from(found);
        found
    }

    /// Passes white space, and the scalar or the opening bracket after it.
    #[inline(always)]
    pub(super) fn token(&mut self) -> Option<Token<'a>> {
        self.white_space();
        Some(match self.peek()? {
            b'"' => {
                let (written, has_escapes) = self.string()?;
                Token::String {
                    written,
                    has_escapes,
                }
            }
            b'-' | b'0'..=b'9' => Token::Number(self.number()?),
            bracket @ (b'{' | b'[') => {
                self.position += 1;
                Token::Open(if bracket == b'{' {
                    Bracket::Object
                } else {
                    Bracket::Array
                })
            }
            b't' => self.word("true", Token::Boolean(true))?,
            b'f' => self.word("false", Token::Boolean(false))?,
            b'n' => self.word("null", Token::Null)?,
            _ => return None,
        })
    }

    /// Whether the container whose opening bracket was passed has values. An empty one is passed as
    /// a whole. `nesting` is the number of containers around it; `None` if its values are nested too
    /// deeply.
    pub(super) fn is_filled(&mut self, bracket: Bracket, nesting: usize) -> Option<bool> {
        if self.take(bracket.closing()) {
            return Some(false);
        }
        (nesting < MAX_NESTING).then_some(true)
    }

    /// Passes a comma, or the bracket that closes the container. Whether it was a comma.
    pub(super) fn is_continued(&mut self, bracket: Bracket) -> Option<bool> {
        self.white_space();
        let byte = self.peek()?;
        self.position += 1;
        match byte {
            b',' => Some(true),
            _ if byte == bracket.closing() => Some(false),
            _ => None,
        }
    }

    /// Passes a member's name and its colon, and returns the name as written, and whether it has
    /// escapes.
    #[inline(always)]
    pub(super) fn member_name(&mut self) -> Option<(&'a str, bool)> {
        self.white_space();
        if self.peek()? != b'"' {
            return None;
        }
        let name = self.string()?;
        self.take(b':').then_some(name)
    }

    /// Passes the string at this position, and returns it as written between its quotes, and
    /// whether it has escapes.
    #[inline(always)]
    fn string(&mut self) -> Option<(&'a str, bool)> {
        let start = self.position + 1;
        let bytes = self.text.as_bytes();
        let end = start + plain_bytes(&bytes[start..]);
        if bytes.get(end) != Some(&b'"') {
            self.position = end;
            return self.string_with_escapes(start);
        }
        self.position = end + 1;
        Some((&self.text[start..end], false))
    }

    /// The same for a string from `start` that has an escape at this position.
    #[cold]
    fn string_with_escapes(&mut self, start: usize) -> Option<(&'a str, bool)> {
        loop {
            match self.peek()? {
                b'"' => {
                    let string = &self.text[start..self.position];
                    self.position += 1;
                    return Some((string, true));
                }
                b'\\' => self.escape()?,
                _ => return None,
            }
            self.position += plain_bytes(&self.text.as_bytes()[self.position..]);
        }
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

    /// Passes `-? (0 | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [+-]? [0-9]+)?`.
    fn number(&mut self) -> Option<&'a str> {
        let start = self.position;
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
        Some(&self.text[start..self.position])
    }

    fn digits(&mut self) -> Option<()> {
        let rest = self.text.as_bytes()[self.position..].iter();
        let count = rest.take_while(|byte| byte.is_ascii_digit()).count();
        self.position += count;
        (1..=MAX_DIGITS).contains(&count).then_some(())
    }

    fn word(&mut self, word: &str, token: Token<'a>) -> Option<Token<'a>> {
        let rest = &self.text.as_bytes()[self.position..];
        self.position += word.len();
        rest.starts_with(word.as_bytes()).then_some(token)
    }

    #[inline(always)]
    fn white_space(&mut self) {
        if self.peek().is_some_and(|byte| byte <= b' ') {
            self.white_space_after();
        }
    }

    fn white_space_after(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.position += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }
}

/// The text of a string as written between its quotes, whose escapes a [`Lexer`] has accepted.
pub(super) fn unescaped(written: &str) -> String {
    let mut text = String::with_capacity(written.len());
    let mut rest = written;
    while let Some((plain, escape)) = rest.split_once('\\') {
        text.push_str(plain);
        let mut characters = escape.chars();
        let character = match characters.next() {
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') => {
                let (digits, after) = characters.as_str().split_at(4);
                characters = after.chars();
                u32::from_str_radix(digits, 16)
                    .ok()
                    .and_then(char::from_u32)
                    .unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            other => other.unwrap_or('\\'),
        };
        text.push(character);
        rest = characters.as_str();
    }
    text + rest
}

/// Number of bytes before the first quote, backslash or control character.
#[inline]
pub(super) fn plain_bytes(bytes: &[u8]) -> usize {
    // Most names and many other strings end here.
    match bytes.first_chunk().and_then(first_special) {
        Some(index) => index,
        None => plain_bytes_of_many(bytes),
    }
}

/// The same, eight at a time.
#[inline(never)]
fn plain_bytes_of_many(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks();
    for (index, word) in words.iter().enumerate() {
        if let Some(special) = first_special(word) {
            return index * 8 + special;
        }
    }
    let is_plain = |byte: &&u8| !matches!(byte, b'"' | b'\\' | 0..=0x1f);
    bytes.len() - rest.len() + rest.iter().take_while(is_plain).count()
}

/// The index of the first quote, backslash or control character.
#[inline]
fn first_special(word: &[u8; 8]) -> Option<usize> {
    let word = u64::from_le_bytes(*word);
    let zeros = |word: u64| word.wrapping_sub(LOW_BITS) & !word;
    let quotes = zeros(word ^ (LOW_BITS * u64::from(b'"')));
    let backslashes = zeros(word ^ (LOW_BITS * u64::from(b'\\')));
    let controls = word.wrapping_sub(LOW_BITS * 0x20) & !word;
    // The lowest set bit is exact; higher ones may come from a borrow.
    let special = (quotes | backslashes | controls) & HIGH_BITS;
    (special != 0).then(|| special.trailing_zeros() as usize / 8)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::damaged_tests::{SEED, damaged};
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
        let seed = SEED.replace("a\\n\\u00e9", "aé");
        assert!(accepts(&seed));
        let (mut accepted, mut json) = (0, 0);
        for text in &damaged(&seed) {
            let is_json = serde_json::from_str::<Value>(text).is_ok();
            json += usize::from(is_json);
            if accepts(text) {
                accepted += 1;
                let document = json_reader::read(text, 0, Dialect::Rfc8259).unwrap();
                assert!(is_json && document.duplicate.is_none(), "{text:?}");
                assert_eq!(document.lone_surrogate, None, "{text:?}");
            }
        }
        assert!(
            accepted > 100 && accepted * 10 > json * 8,
            "{accepted} of {json}"
        );
    }
}
