//! JSON reader that reports lone surrogates, duplicate members and nesting.
//!
//! `serde_json` does not report what verdicts need: the byte at which a text stops being JSON, lone
//! surrogates, nesting and duplicate member names, and it reads `{"$serde_json::private::Number":
//! "1"}` as a number. A test compares this reader with `serde_json`. It uses an explicit stack, so
//! nesting cannot overflow the thread's stack.

use serde_json::{Map, Value};

use super::json_scan::plain_bytes;
use super::text_values;
use sobench_core::schema_part::pointer_token;

/// The message on a text that does not go on with a value.
pub const EXPECTED_VALUE: &str = "expected a value";

/// Maximum nesting of an answer that is judged. Common readers have a similar limit (serde_json:
/// 128).
pub(super) const MAX_NESTING: usize = 128;

/// Nesting at which `json.loads` of CPython 3.11 fails: its recursion limit of 1,000 minus the
/// frames of a script. Other versions differ.
const PYTHON_MAX_NESTING: usize = 990;

/// Maximum digits that CPython (from 3.11) converts to an `int`:
/// `sys.int_info.default_max_str_digits`.
const PYTHON_MAX_INTEGER_DIGITS: usize = 4300;

/// Accepted variant of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Strict RFC 8259.
    Rfc8259,
    /// CPython's `json.loads`: also `NaN`, `Infinity` and `-Infinity`.
    Python,
}

/// A complete JSON text and its irregularities.
#[derive(Debug)]
pub(super) struct Document {
    /// The value. Containers nested deeper than [`MAX_NESTING`] are replaced by `null`, lone
    /// surrogates by U+FFFD, and of duplicate members the last one is kept.
    pub value: Value,
    /// The byte after the text.
    pub end: usize,
    /// The deepest nesting of containers; 0 for a scalar.
    pub nesting: usize,
    /// Byte of the first `\u` escape of a lone surrogate.
    pub lone_surrogate: Option<usize>,
    /// The first duplicate member name.
    pub duplicate: Option<Duplicate>,
}

/// A member name that occurs twice in one object, and the JSON pointer of that object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Duplicate {
    pub key: String,
    pub instance_path: String,
}

/// Byte at which a text stops being JSON, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SyntaxError {
    pub byte: usize,
    pub message: &'static str,
    /// Whether the text is JSON as far as it goes, so that more text could complete it.
    pub at_end: bool,
}

/// The start of a JSON text, completed by closing its open containers.
#[derive(Debug)]
pub(super) struct Partial {
    /// Without the member whose value has not started. An unfinished string or number is as long as
    /// it got.
    pub value: Value,
    /// Reference tokens of the path of unfinished values, from the outermost. The whole document
    /// is unfinished too.
    pub open: Vec<String>,
    /// The name of the member whose value has not started. Its object is the innermost unfinished
    /// value.
    pub name: Option<PartialName>,
    pub nesting: usize,
    pub lone_surrogate: Option<usize>,
    pub duplicate: Option<Duplicate>,
}

/// The name of a member without its value.
#[derive(Debug)]
pub(super) struct PartialName {
    pub text: String,
    /// Whether its closing quote is written.
    pub is_whole: bool,
}

/// What a text that may end anywhere has of a JSON text.
#[derive(Debug)]
pub(super) enum Start {
    /// No value has started.
    Nothing,
    Partial(Partial),
    /// A complete value; other text may follow it.
    Whole,
}

/// Reads the JSON value at byte `start` of `text`, after optional white space. Text after the value
/// is ignored.
pub(super) fn read(text: &str, start: usize, dialect: Dialect) -> Result<Document, SyntaxError> {
    let mut reader = Reader::new(text, start, dialect);
    let value = reader.document()?;
    Ok(reader.into_document(value))
}

/// Reads `text`, which may end anywhere. The error is one that no further text can correct.
pub(super) fn read_start(text: &str) -> Result<Start, SyntaxError> {
    let mut reader = Reader::new(text, 0, Dialect::Rfc8259);
    match reader.document() {
        // More digits may follow.
        Ok(value) if value.is_number() && reader.position == text.len() => {
            reader.unfinished = Some(value);
            Ok(reader.into_partial())
        }
        Ok(_) => Ok(Start::Whole),
        Err(error) if error.at_end => Ok(reader.into_partial()),
        Err(error) => Err(error),
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

/// A container that is not closed yet.
enum Open {
    Array(Vec<Value>),
    /// `key` is the name whose value is being read.
    Object {
        members: Map<String, Value>,
        key: String,
    },
}

/// What follows a complete value.
enum Next {
    /// A comma: another value.
    Value,
    /// The end of the container, which is a complete value itself.
    Closed(Value),
    /// Nothing: the value is the document.
    Document(Value),
}

struct Reader<'a> {
    text: &'a str,
    position: usize,
    dialect: Dialect,
    open: Vec<Open>,
    nesting: usize,
    lone_surrogate: Option<usize>,
    duplicate: Option<Duplicate>,
    /// The scalar in which the text ends, or the object before whose first member it ends.
    unfinished: Option<Value>,
    /// The name in or after which the text ends.
    name: Option<PartialName>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, start: usize, dialect: Dialect) -> Self {
        Self {
            text,
            position: start,
            dialect,
            open: Vec::new(),
            nesting: 0,
            lone_surrogate: None,
            duplicate: None,
            unfinished: None,
            name: None,
        }
    }

    fn into_document(self, value: Value) -> Document {
        Document {
            value,
            end: self.position,
            nesting: self.nesting,
            lone_surrogate: self.lone_surrogate,
            duplicate: self.duplicate,
        }
    }

    /// Closes the open containers. Of a text that is nested too deeply, the value is `null`.
    fn into_partial(self) -> Start {
        let (mut inner, mut open) = (self.unfinished, Vec::new());
        let mut containers = self.open;
        let mut name = self.name;
        if let (None, None, Some(Open::Object { key, .. })) = (&name, &inner, containers.last())
            && !key.is_empty()
        {
            name = Some(PartialName {
                text: key.clone(),
                is_whole: true,
            });
        }
        if self.nesting > MAX_NESTING {
            containers.clear();
            inner = Some(Value::Null);
            name = None;
        }
        for container in containers.into_iter().rev() {
            inner = Some(match container {
                Open::Array(mut items) => {
                    if let Some(value) = inner {
                        open.push(items.len().to_string());
                        items.push(value);
                    }
                    Value::Array(items)
                }
                Open::Object { mut members, key } => {
                    if let Some(value) = inner {
                        open.push(pointer_token(&key));
                        members.insert(key, value);
                    }
                    Value::Object(members)
                }
            });
        }
        open.reverse();
        inner.map_or(Start::Nothing, |value| {
            Start::Partial(Partial {
                value,
                open,
                name,
                nesting: self.nesting,
                lone_surrogate: self.lone_surrogate,
                duplicate: self.duplicate,
            })
        })
    }

    fn document(&mut self) -> Result<Value, SyntaxError> {
        loop {
            let Some(mut value) = self.start_value()? else {
                continue;
            };
            loop {
                match self.after_value(value)? {
                    Next::Value => break,
                    Next::Closed(container) => value = container,
                    Next::Document(document) => return Ok(document),
                }
            }
        }
    }

    /// Reads a scalar or an empty container; `None` where a container was opened and its first
    /// value comes next.
    fn start_value(&mut self) -> Result<Option<Value>, SyntaxError> {
        self.position = skip_white_space(self.text, self.position);
        let Some(byte) = self.peek() else {
            return self.fail("the text ends where a value is expected");
        };
        match byte {
            b'{' | b'[' => self.open_container(byte),
            b'"' => self.string().map(|text| Some(Value::String(text))),
            b'-' | b'0'..=b'9' => self.number().map(Some),
            b't' => self.literal("true", Value::Bool(true)),
            b'f' => self.literal("false", Value::Bool(false)),
            b'n' => self.literal("null", Value::Null),
            b'N' if self.dialect == Dialect::Python => self.literal("NaN", Value::Null),
            b'I' if self.dialect == Dialect::Python => self.literal("Infinity", Value::Null),
            _ => self.fail(EXPECTED_VALUE),
        }
    }

    fn open_container(&mut self, bracket: u8) -> Result<Option<Value>, SyntaxError> {
        self.nesting = self.nesting.max(self.open.len() + 1);
        if self.dialect == Dialect::Python && self.nesting > PYTHON_MAX_NESTING {
            return self.fail("nested too deeply for Python");
        }
        self.position = skip_white_space(self.text, self.position + 1);
        let is_object = bracket == b'{';
        if self.peek() == Some(if is_object { b'}' } else { b']' }) {
            self.position += 1;
            return Ok(Some(if is_object {
                Value::Object(Map::new())
            } else {
                Value::Array(Vec::new())
            }));
        }
        if is_object {
            let key = self
                .member_name()
                .inspect_err(|_| self.unfinished = Some(Value::Object(Map::new())))?;
            self.open.push(Open::Object {
                members: Map::new(),
                key,
            });
        } else {
            self.open.push(Open::Array(Vec::new()));
        }
        Ok(None)
    }

    /// Reads a member's name and its colon.
    fn member_name(&mut self) -> Result<String, SyntaxError> {
        match self.peek() {
            Some(b'"') => {}
            Some(_) => return self.fail("expected a member name in double quotes"),
            None => return self.fail("the text ends inside an object"),
        }
        let key = match self.string() {
            Ok(key) => key,
            Err(error) => {
                if let Some(Value::String(text)) = self.unfinished.take() {
                    let is_whole = false;
                    self.name = Some(PartialName { text, is_whole });
                }
                return Err(error);
            }
        };
        self.position = skip_white_space(self.text, self.position);
        match self.peek() {
            Some(b':') => self.position += 1,
            Some(_) => return self.fail("expected a colon"),
            None => {
                let (text, is_whole) = (key, true);
                self.name = Some(PartialName { text, is_whole });
                return self.fail("the text ends inside an object");
            }
        }
        Ok(key)
    }

    /// Adds a complete value to the open container, and reads the following comma or bracket.
    fn after_value(&mut self, value: Value) -> Result<Next, SyntaxError> {
        // More digits may follow a number at the end of the text.
        if value.is_number() && self.peek().is_none() && !self.open.is_empty() {
            self.unfinished = Some(value);
            return match self.open.last() {
                Some(Open::Object { .. }) => self.fail("the text ends inside an object"),
                _ => self.fail("the text ends inside an array"),
            };
        }
        let is_object = match self.open.last_mut() {
            None => return Ok(Next::Document(value)),
            Some(Open::Array(items)) => {
                items.push(value);
                false
            }
            Some(Open::Object { members, key }) => {
                members.insert(std::mem::take(key), value);
                true
            }
        };
        self.position = skip_white_space(self.text, self.position);
        match (self.peek(), is_object) {
            (Some(b','), false) => {
                self.position += 1;
                Ok(Next::Value)
            }
            (Some(b','), true) => {
                self.position = skip_white_space(self.text, self.position + 1);
                self.next_member()?;
                Ok(Next::Value)
            }
            (Some(b']'), false) | (Some(b'}'), true) => {
                self.position += 1;
                Ok(Next::Closed(self.close_container()))
            }
            (Some(_), false) => self.fail("expected a comma or the end of the array"),
            (Some(_), true) => self.fail("expected a comma or the end of the object"),
            (None, false) => self.fail("the text ends inside an array"),
            (None, true) => self.fail("the text ends inside an object"),
        }
    }

    fn next_member(&mut self) -> Result<(), SyntaxError> {
        let name = self.member_name()?;
        let repeated = match self.open.last() {
            Some(Open::Object { members, .. }) => members.contains_key(&name),
            _ => false,
        };
        if repeated && self.duplicate.is_none() {
            self.duplicate = Some(Duplicate {
                key: name.clone(),
                instance_path: self.pointer_to_open(),
            });
        }
        if let Some(Open::Object { key, .. }) = self.open.last_mut() {
            *key = name;
        }
        Ok(())
    }

    fn close_container(&mut self) -> Value {
        let container = self
            .open
            .pop()
            .expect("a container is closed only while one is open");
        if self.open.len() >= MAX_NESTING {
            return Value::Null;
        }
        match container {
            Open::Array(items) => Value::Array(items),
            Open::Object { members, .. } => Value::Object(members),
        }
    }

    /// JSON pointer of the innermost open container.
    fn pointer_to_open(&self) -> String {
        let outer = &self.open[..self.open.len().saturating_sub(1)];
        let steps = outer.iter().map(|container| match container {
            Open::Array(items) => format!("/{}", items.len()),
            Open::Object { key, .. } => format!("/{}", pointer_token(key)),
        });
        steps.collect()
    }

    fn literal(&mut self, word: &str, value: Value) -> Result<Option<Value>, SyntaxError> {
        let rest = &self.text.as_bytes()[self.position..];
        if !rest.starts_with(word.as_bytes()) {
            let at_end = word.as_bytes().starts_with(rest);
            if at_end {
                self.unfinished = Some(value);
            }
            return Err(SyntaxError {
                at_end,
                ..self.error(EXPECTED_VALUE)
            });
        }
        self.position += word.len();
        Ok(Some(value))
    }

    fn number(&mut self) -> Result<Value, SyntaxError> {
        let start = self.position;
        let number = self.whole_number();
        if number.is_err() {
            let written = text_values::to_number(&self.text[start..self.position]);
            self.unfinished = Some(Value::Number(written));
        }
        number
    }

    /// Reads `-? (0 | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [+-]? [0-9]+)?`.
    fn whole_number(&mut self) -> Result<Value, SyntaxError> {
        let start = self.position;
        if self.peek() == Some(b'-') {
            self.position += 1;
            if self.dialect == Dialect::Python && self.peek() == Some(b'I') {
                return self.literal("Infinity", Value::Null).map(|_| Value::Null);
            }
        }
        let digits = match self.peek() {
            Some(b'0') => {
                self.position += 1;
                1
            }
            _ => self.digits()?,
        };
        let mut is_integer = true;
        if self.peek() == Some(b'.') {
            is_integer = false;
            self.position += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            is_integer = false;
            self.position += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.position += 1;
            }
            self.digits()?;
        }
        if self.dialect == Dialect::Python {
            return if is_integer && digits > PYTHON_MAX_INTEGER_DIGITS {
                self.fail("more digits than Python converts to an integer")
            } else {
                Ok(Value::Null)
            };
        }
        let number = text_values::to_number(&self.text[start..self.position]);
        Ok(Value::Number(number))
    }

    /// Reads one or more digits and returns their number.
    fn digits(&mut self) -> Result<usize, SyntaxError> {
        let count = self.text.as_bytes()[self.position..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        if count == 0 {
            return self.fail("expected a digit");
        }
        self.position += count;
        Ok(count)
    }

    /// Reads a string. The reader is at its opening quote.
    fn string(&mut self) -> Result<String, SyntaxError> {
        self.position += 1;
        let mut out = String::new();
        loop {
            let run = plain_bytes(&self.text.as_bytes()[self.position..]);
            out.push_str(&self.text[self.position..self.position + run]);
            self.position += run;
            match self.peek() {
                Some(b'"') => {
                    self.position += 1;
                    return Ok(out);
                }
                Some(b'\\') => match self.escape() {
                    Ok(character) => out.push(character),
                    Err(error) => {
                        self.unfinished = Some(Value::String(out));
                        return Err(error);
                    }
                },
                Some(_) => return self.fail("unescaped control character in a string"),
                None => {
                    self.unfinished = Some(Value::String(out));
                    return self.fail("the text ends inside a string");
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char, SyntaxError> {
        self.position += 1;
        let character = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(),
            Some(_) => return self.fail("invalid escape"),
            None => return self.fail("the text ends inside a string"),
        };
        self.position += 1;
        Ok(character)
    }

    /// Reads `uXXXX`, or `uXXXX\uXXXX` for a surrogate pair.
    fn unicode_escape(&mut self) -> Result<char, SyntaxError> {
        let backslash = self.position - 1;
        self.position += 1;
        let unit = self.four_hex_digits()?;
        if let Some(character) = char::from_u32(unit) {
            return Ok(character);
        }
        if unit < 0xdc00 && self.text[self.position..].starts_with("\\u") {
            let rewind = self.position;
            self.position += 2;
            let low = self.four_hex_digits()?;
            if (0xdc00..0xe000).contains(&low) {
                let scalar = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                return Ok(char::from_u32(scalar).expect("a surrogate pair is a scalar value"));
            }
            self.position = rewind;
        }
        // At the end of the text, the other half may follow.
        if unit >= 0xdc00 || !matches!(&self.text[self.position..], "" | "\\") {
            self.lone_surrogate.get_or_insert(backslash);
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn four_hex_digits(&mut self) -> Result<u32, SyntaxError> {
        let mut unit = 0;
        for _ in 0..4 {
            let Some(digit) = self.peek().and_then(|byte| char::from(byte).to_digit(16)) else {
                return self.fail("expected four hexadecimal digits");
            };
            unit = unit * 16 + digit;
            self.position += 1;
        }
        Ok(unit)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    fn fail<T>(&self, message: &'static str) -> Result<T, SyntaxError> {
        Err(self.error(message))
    }

    fn error(&self, message: &'static str) -> SyntaxError {
        SyntaxError {
            byte: self.position,
            message,
            at_end: self.peek().is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::damaged_tests::{SEED, damaged};

    fn read_rfc8259(text: &str) -> Result<Document, SyntaxError> {
        read(text, 0, Dialect::Rfc8259)
    }

    fn assert_fails_at(text: &str, byte: usize) {
        assert_eq!(read_rfc8259(text).unwrap_err().byte, byte, "{text:?}");
    }

    /// Parses `text` if all of it is JSON, with optional white space around it.
    fn parse_whole(text: &str) -> Option<Value> {
        let document = read_rfc8259(text).ok()?;
        (skip_white_space(text, document.end) == text.len() && document.lone_surrogate.is_none())
            .then_some(document.value)
    }

    #[test]
    fn errors_report_the_byte() {
        for (text, byte) in [
            ("", 0),
            ("  ", 2),
            ("nul", 0),
            ("NaN", 0),
            ("01", 1),
            ("-", 1),
            ("1.", 2),
            ("1e+", 3),
            ("[1,]", 3),
            ("{\"a\":1,}", 7),
            ("{a:1}", 1),
            ("{\"a\" 1}", 5),
            ("\"a\tb\"", 2),
            ("\"\\x41\"", 2),
            ("\"\\u12G4\"", 5),
            ("\"é", 3),
            ("[1", 2),
            ("{\"a\":1", 6),
            ("[1}", 2),
        ] {
            if text == "01" {
                // `0` is a document. The caller checks the rest.
                assert_eq!(read_rfc8259(text).unwrap().end, byte);
            } else {
                assert_fails_at(text, byte);
            }
        }
    }

    #[test]
    fn numbers_keep_their_digits() {
        let document = read_rfc8259("[12345678901234567890123, 0.10, -0, 1E400]").unwrap();
        assert_eq!(
            document.value.to_string(),
            "[12345678901234567890123,0.10,-0,1E400]"
        );
    }

    #[test]
    fn a_member_named_like_serde_json_s_number_is_an_object() {
        assert!(
            read_rfc8259(r#"{"$serde_json::private::Number":"1"}"#)
                .unwrap()
                .value
                .is_object()
        );
    }

    #[test]
    fn duplicate_names_are_found_through_escapes() {
        let duplicate = read_rfc8259(r#"[0,{"x/y":{"a":1,"\u0061":2,"a":3}}]"#)
            .unwrap()
            .duplicate
            .unwrap();
        assert_eq!(
            (duplicate.key.as_str(), duplicate.instance_path.as_str()),
            ("a", "/1/x~1y")
        );
        assert_eq!(
            read_rfc8259(r#"[{"a":1},{"a":1}]"#).unwrap().duplicate,
            None
        );
    }

    #[test]
    fn lone_surrogates_are_reported() {
        assert_eq!(
            read_rfc8259(r#""\ud83d\ude00""#).unwrap().value,
            Value::from("😀")
        );
        for (text, byte) in [
            (r#""a\ud800""#, 2),
            (r#""\udc00""#, 1),
            (r#""\ud800\u0041""#, 1),
            (r#""\ud83d\ud83d\ude00""#, 1),
        ] {
            assert_eq!(
                read_rfc8259(text).unwrap().lone_surrogate,
                Some(byte),
                "{text}"
            );
        }
        assert_fails_at(r#""\ud800\u00"#, 11);
    }

    #[test]
    fn nesting_is_counted_without_recursion() {
        let deep = 400_000;
        let document = read_rfc8259(&format!("{}{}", "[".repeat(deep), "]".repeat(deep))).unwrap();
        assert_eq!(document.nesting, deep);
        assert_fails_at(&"[".repeat(deep), deep);
        assert_eq!(read_rfc8259("{\"a\":[]}").unwrap().nesting, 2);
        assert_eq!(read_rfc8259("1").unwrap().nesting, 0);
    }

    /// Both readers accept the same texts and read the same values, on thousands of damaged
    /// documents.
    #[test]
    fn agrees_with_serde_json() {
        let texts = damaged(SEED);
        let mut accepted = 0;
        for text in &texts {
            let expected = serde_json::from_str::<Value>(text).ok();
            // `serde_json` changes the spelling of exponents.
            let found = parse_whole(text).map(|value| {
                serde_json::from_str::<Value>(&value.to_string()).expect("what was read is JSON")
            });
            assert_eq!(found, expected, "{text:?}");
            accepted += usize::from(expected.is_some());
        }
        assert!(
            accepted > 100 && texts.len() - accepted > 1000,
            "{accepted} of {}",
            texts.len()
        );
    }
}
