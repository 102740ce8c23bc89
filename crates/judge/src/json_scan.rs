//! The tokens of JSON (`Lexer`), and [`Scanner`], which passes over values without building them.
//!
//! The scanner accepts a part of JSON that all readers read alike. A text that it does not accept
//! may still be JSON: the caller then reads it with a complete reader, which also explains errors.
//! Not accepted are lone surrogates, values in over `MAX_NESTING` containers, numbers of over
//! `MAX_NUMBER` bytes and, unless repeated names are allowed, names with escapes and objects with
//! over `MAX_NAMES` members.

/// Maximum nesting of containers. Readers recurse, and stop at 128.
const MAX_NESTING: usize = 100;

/// Maximum bytes of a number. CPython stops at integers of 4,300 digits.
const MAX_NUMBER: usize = 300;

/// Maximum digits that CPython (from 3.11) converts to an `int`:
/// `sys.int_info.default_max_str_digits`.
const PYTHON_MAX_INTEGER_DIGITS: usize = 4300;

/// The message on a text that does not go on with a value.
pub const EXPECTED_VALUE: &str = "expected a value";

/// Maximum number of members of an object whose names are compared with each other.
const MAX_NAMES: usize = 64;

/// Marks an open array in [`Scanner::open`].
const ARRAY: usize = usize::MAX;

const ENDS_IN_STRING: &str = "the text ends inside a string";

/// Every byte of a word is 1, or has only its highest bit.
const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// Accepted variant of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Strict RFC 8259.
    Rfc8259,
    /// CPython's `json.loads`: also `NaN`, `Infinity` and `-Infinity`.
    Python,
}

/// Byte at which a text stops being JSON, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SyntaxError {
    pub byte: usize,
    pub message: &'static str,
    /// Whether the text is JSON as far as it goes, so that more text could complete it.
    pub at_end: bool,
}

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
            lexer: Lexer::new(text, 0, Dialect::Rfc8259),
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
                Token::Open(bracket) if self.lexer.is_filled(bracket) => {
                    if self.open.len() >= MAX_NESTING {
                        return None;
                    }
                    match bracket {
                        Bracket::Object => {
                            self.open.push(self.names.len());
                            self.member_name()?;
                        }
                        Bracket::Array => self.open.push(ARRAY),
                    }
                    continue;
                }
                Token::Number(written) if written.len() > MAX_NUMBER => return None,
                _ => {}
            }
            if self.lexer.lone_surrogate.is_some() {
                return None;
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
        let (name, has_escapes) = self.lexer.name()?;
        self.lexer.colon()?;
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
#[derive(Clone, Copy, Debug)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Reads the tokens of JSON. `None` where the text is not JSON: `failure` says why.
pub(super) struct Lexer<'a> {
    text: &'a str,
    pub position: usize,
    dialect: Dialect,
    pub failure: SyntaxError,
    /// The scalar in which the text ends, as far as it is certain.
    pub unfinished: Option<Token<'a>>,
    /// Byte of the first `\u` escape of a lone surrogate.
    pub lone_surrogate: Option<usize>,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str, position: usize, dialect: Dialect) -> Self {
        Self {
            text,
            position,
            dialect,
            failure: SyntaxError {
                byte: position,
                message: EXPECTED_VALUE,
                at_end: false,
            },
            unfinished: None,
            lone_surrogate: None,
        }
    }

    pub(super) fn dialect(&self) -> Dialect {
        self.dialect
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
        let Some(byte) = self.peek() else {
            return self.fail("the text ends where a value is expected");
        };
        match byte {
            b'"' => {
                let (written, has_escapes) = self.string()?;
                Some(Token::String {
                    written,
                    has_escapes,
                })
            }
            b'-' if self.is_negative_infinity() => {
                self.position += 1;
                self.word("Infinity", Token::Null)
            }
            b'-' | b'0'..=b'9' => Some(Token::Number(self.number()?)),
            b'{' | b'[' => {
                self.position += 1;
                Some(Token::Open(if byte == b'{' {
                    Bracket::Object
                } else {
                    Bracket::Array
                }))
            }
            b't' => self.word("true", Token::Boolean(true)),
            b'f' => self.word("false", Token::Boolean(false)),
            b'n' => self.word("null", Token::Null),
            b'N' if self.dialect == Dialect::Python => self.word("NaN", Token::Null),
            b'I' if self.dialect == Dialect::Python => self.word("Infinity", Token::Null),
            _ => self.fail(EXPECTED_VALUE),
        }
    }

    /// Whether the container whose opening bracket was passed has values. An empty one is passed as
    /// a whole.
    pub(super) fn is_filled(&mut self, bracket: Bracket) -> bool {
        !self.take(bracket.closing())
    }

    /// Passes a comma, or the bracket that closes the container. Whether it was a comma.
    pub(super) fn is_continued(&mut self, bracket: Bracket) -> Option<bool> {
        self.white_space();
        let byte = self.peek();
        if byte != Some(b',') && byte != Some(bracket.closing()) {
            return self.fail(match (bracket, byte) {
                (Bracket::Array, Some(_)) => "expected a comma or the end of the array",
                (Bracket::Object, Some(_)) => "expected a comma or the end of the object",
                (Bracket::Array, None) => "the text ends inside an array",
                (Bracket::Object, None) => "the text ends inside an object",
            });
        }
        self.position += 1;
        Some(byte == Some(b','))
    }

    /// Passes a member's name, and returns it as written, and whether it has escapes.
    #[inline(always)]
    pub(super) fn name(&mut self) -> Option<(&'a str, bool)> {
        self.white_space();
        match self.peek() {
            Some(b'"') => self.string(),
            Some(_) => self.fail("expected a member name in double quotes"),
            None => self.fail("the text ends inside an object"),
        }
    }

    /// Passes the colon after a name.
    #[inline(always)]
    pub(super) fn colon(&mut self) -> Option<()> {
        if self.take(b':') {
            return Some(());
        }
        self.fail(match self.peek() {
            Some(_) => "expected a colon",
            None => "the text ends inside an object",
        })
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

    /// The same for a string from `start` that has an escape, or ends, at this position.
    #[cold]
    fn string_with_escapes(&mut self, start: usize) -> Option<(&'a str, bool)> {
        loop {
            let end = self.position;
            let passed = match self.peek() {
                Some(b'"') => {
                    self.position += 1;
                    return Some((&self.text[start..end], true));
                }
                Some(b'\\') => self.escape(),
                Some(_) => self.fail("unescaped control character in a string"),
                None => self.fail(ENDS_IN_STRING),
            };
            if passed.is_none() {
                self.unfinished = Some(Token::String {
                    written: &self.text[start..end],
                    has_escapes: true,
                });
                return None;
            }
            self.position += plain_bytes(&self.text.as_bytes()[self.position..]);
        }
    }

    fn escape(&mut self) -> Option<()> {
        let backslash = self.position;
        self.position += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.position += 1,
            Some(b'u') => {
                self.position += 1;
                return self.unicode_escape(backslash);
            }
            Some(_) => return self.fail("invalid escape"),
            None => return self.fail(ENDS_IN_STRING),
        }
        Some(())
    }

    /// Passes `XXXX`, or `XXXX\uXXXX` of a surrogate pair, of the escape at `backslash`.
    fn unicode_escape(&mut self, backslash: usize) -> Option<()> {
        let unit = self.four_hex_digits()?;
        let rest = &self.text[self.position..];
        if (0xd800..0xdc00).contains(&unit) {
            if matches!(rest, "" | "\\") {
                // The other half may follow.
                self.position = self.text.len();
                return self.fail(ENDS_IN_STRING);
            }
            if rest.starts_with("\\u") {
                let end = self.position;
                self.position += 2;
                if (0xdc00..0xe000).contains(&self.four_hex_digits()?) {
                    return Some(());
                }
                self.position = end;
            }
        }
        if (0xd800..0xe000).contains(&unit) {
            self.lone_surrogate.get_or_insert(backslash);
        }
        Some(())
    }

    fn four_hex_digits(&mut self) -> Option<u32> {
        let mut unit = 0;
        for _ in 0..4 {
            let Some(digit) = self.peek().and_then(|byte| char::from(byte).to_digit(16)) else {
                return self.fail("expected four hexadecimal digits");
            };
            unit = unit * 16 + digit;
            self.position += 1;
        }
        Some(unit)
    }

    fn is_negative_infinity(&self) -> bool {
        self.dialect == Dialect::Python && self.text[self.position..].starts_with("-I")
    }

    fn number(&mut self) -> Option<&'a str> {
        let start = self.position;
        let is_whole = self.whole_number().is_some();
        let written = &self.text[start..self.position];
        if !is_whole {
            self.unfinished = Some(Token::Number(written));
        }
        is_whole.then_some(written)
    }

    /// Passes `-? (0 | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [+-]? [0-9]+)?`.
    #[inline]
    fn whole_number(&mut self) -> Option<()> {
        if self.peek() == Some(b'-') {
            self.position += 1;
        }
        let digits_start = self.position;
        if self.peek() == Some(b'0') {
            self.position += 1;
        } else {
            self.digits()?;
        }
        let integer_end = self.position;
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
        if self.dialect == Dialect::Python
            && self.position == integer_end
            && integer_end - digits_start > PYTHON_MAX_INTEGER_DIGITS
        {
            return self.fail("more digits than Python converts to an integer");
        }
        Some(())
    }

    fn digits(&mut self) -> Option<()> {
        let rest = self.text.as_bytes()[self.position..].iter();
        let count = rest.take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return self.fail("expected a digit");
        }
        self.position += count;
        Some(())
    }

    fn word(&mut self, word: &str, token: Token<'a>) -> Option<Token<'a>> {
        let rest = &self.text.as_bytes()[self.position..];
        if rest.starts_with(word.as_bytes()) {
            self.position += word.len();
            return Some(token);
        }
        let at_end = word.as_bytes().starts_with(rest);
        self.unfinished = at_end.then_some(token);
        self.fail::<()>(EXPECTED_VALUE);
        self.failure.at_end = at_end;
        None
    }

    #[inline(always)]
    fn white_space(&mut self) {
        if self.peek().is_some_and(|byte| byte <= b' ') {
            self.position = skip_white_space(self.text, self.position);
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    /// Notes that the text is not JSON at this position.
    #[cold]
    pub(super) fn fail<T>(&mut self, message: &'static str) -> Option<T> {
        self.failure = SyntaxError {
            byte: self.position,
            message,
            at_end: self.peek().is_none(),
        };
        None
    }
}

/// Returns the first byte from `position` on that is not JSON white space.
pub(super) fn skip_white_space(text: &str, position: usize) -> usize {
    let rest = text.as_bytes()[position..].iter();
    position
        + rest
            .take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))
            .count()
}

/// The text of a string as written between its quotes, whose escapes a [`Lexer`] has accepted. Lone
/// surrogates become U+FFFD.
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
                let character;
                (character, rest) = unicode_character(characters.as_str());
                text.push(character);
                continue;
            }
            other => other.unwrap_or('\\'),
        };
        text.push(character);
        rest = characters.as_str();
    }
    text + rest
}

/// The character of a `\u` escape whose digits start `text`, and what follows it.
fn unicode_character(text: &str) -> (char, &str) {
    let unit = |text: &str| u16::from_str_radix(text.get(..4)?, 16).ok();
    let after = text.get(4..).unwrap_or_default();
    let low = after.strip_prefix("\\u").and_then(unit);
    let units = unit(text).into_iter().chain(low);
    let character = char::decode_utf16(units).next().and_then(Result::ok);
    let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
    let is_pair = character.len_utf16() == 2;
    (character, if is_pair { &after[6..] } else { after })
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
    use crate::json_reader;

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
        assert!(accepts(&"1".repeat(MAX_NUMBER)) && !accepts(&"1".repeat(MAX_NUMBER + 1)));
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

    /// Damaged documents: all that is accepted is JSON for both complete readers, without
    /// irregularities, and undamaged documents are accepted.
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
                assert!(is_json, "{text:?}");
                assert_eq!(document.irregularity(), None, "{text:?}");
            }
        }
        assert!(
            accepted > 100 && accepted * 10 > json * 8,
            "{accepted} of {json}"
        );
    }
}
