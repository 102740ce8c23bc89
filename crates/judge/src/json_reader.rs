//! The reader of JSON: what a text has of it, its irregularities, and the byte at which it stops
//! being JSON.
//!
//! `serde_json` does not report what verdicts need: that byte, lone surrogates, nesting and
//! duplicate member names, and it reads `{"$serde_json::private::Number": "1"}` as a number. A test
//! compares the two. Nothing recurses while a text is read, so nesting cannot overflow the stack.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::Value;

use super::json_scan::{Bracket, Dialect, Lexer, SyntaxError, Token, unescaped};
use super::text_values::{TextNode, TextView, Values, text_of};
use sobench_core::schema_part::pointer_token;
use sobench_core::verdict::Reason;

/// Maximum nesting of an answer that is judged. Common readers have a similar limit (serde_json:
/// 128).
pub(super) const MAX_NESTING: usize = 128;

/// Nesting at which `json.loads` of CPython 3.11 fails: its recursion limit of 1,000 minus the
/// frames of a script. Other versions differ.
const PYTHON_MAX_NESTING: usize = 990;

/// A complete JSON text and its irregularities.
#[derive(Debug)]
pub(super) struct Document<'t> {
    values: Values<'t>,
    /// The byte after the text.
    pub end: usize,
    /// The deepest nesting of containers; 0 for a scalar.
    pub nesting: usize,
    /// Byte of the first `\u` escape of a lone surrogate.
    lone_surrogate: Option<usize>,
}

/// The start of a JSON text, completed by closing its open containers.
#[derive(Debug)]
pub(super) struct Partial {
    /// Without the member whose value has not started. An unfinished string or number is as long as
    /// it got. `null` if the text is nested deeper than [`MAX_NESTING`].
    pub value: Value,
    /// Reference tokens of the path of unfinished values, from the outermost. The whole document
    /// is unfinished too.
    pub open: Vec<String>,
    /// The name of the member whose value has not started. Its object is the innermost unfinished
    /// value.
    pub name: Option<PartialName>,
    pub irregularity: Option<Reason>,
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
    Partial(Box<Partial>),
    /// A complete value; other text may follow it.
    Whole,
}

/// Reads the JSON value at byte `start` of `text`, after optional white space. Text after the value
/// is ignored.
pub(super) fn read(
    text: &str,
    start: usize,
    dialect: Dialect,
) -> Result<Document<'_>, SyntaxError> {
    let mut reader = Reader::new(text, start, dialect);
    match reader.document() {
        Some(()) => Ok(reader.into_document()),
        None => Err(reader.lexer.failure),
    }
}

/// Reads `text`, which may end anywhere. The error is one that no further text can correct.
pub(super) fn read_start(text: &str) -> Result<Start, SyntaxError> {
    let mut reader = Reader::new(text, 0, Dialect::Rfc8259);
    let is_whole = reader.document().is_some();
    if !is_whole && !reader.lexer.failure.at_end {
        return Err(reader.lexer.failure);
    }
    // More digits may follow a number at the end of the text: nothing else that is complete ends in
    // a digit.
    let ends_in_number = reader.lexer.unfinished.is_none()
        && reader.cut_name.is_none()
        && reader.values.ends_in_number()
        && text[..reader.lexer.position].ends_with(|last: char| last.is_ascii_digit());
    if is_whole && !(ends_in_number && reader.lexer.position == text.len()) {
        return Ok(Start::Whole);
    }
    Ok(reader.into_partial(ends_in_number))
}

impl Document<'_> {
    pub(super) fn root(&self) -> TextNode<'_> {
        self.values.root()
    }

    /// Why the text is not an answer although it is JSON: nesting, a lone surrogate or a duplicate
    /// member, in this order.
    pub(super) fn irregularity(&self) -> Option<Reason> {
        if self.nesting > MAX_NESTING {
            let nesting = self.nesting;
            return Some(Reason::TooDeep { nesting });
        }
        if let Some(byte) = self.lone_surrogate {
            return Some(Reason::LoneSurrogate { byte });
        }
        let is_repeated = self.values.has_repeated_name;
        is_repeated.then(|| duplicate(self.root(), ""))?
    }
}

/// The first member in the order of the text whose name occurs earlier in its object. Recurses.
fn duplicate(value: TextNode<'_>, pointer: &str) -> Option<Reason> {
    let within = |value: TextNode<'_>, step: &str| duplicate(value, &format!("{pointer}/{step}"));
    match value.view() {
        TextView::Array(items) => items
            .enumerate()
            .find_map(|(index, item)| within(item, &index.to_string())),
        TextView::Object(mut members) => {
            let mut seen = HashSet::new();
            members.find_map(|(name, value)| {
                if seen.insert(name) {
                    return within(value, &pointer_token(name));
                }
                Some(Reason::DuplicateKey {
                    key: name.to_owned(),
                    instance_path: pointer.to_owned(),
                })
            })
        }
        _ => None,
    }
}

struct Reader<'t> {
    lexer: Lexer<'t>,
    values: Values<'t>,
    nesting: usize,
    /// The name of the member whose value is next.
    name: Option<Cow<'t, str>>,
    /// The name in which the text ends.
    cut_name: Option<Token<'t>>,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str, start: usize, dialect: Dialect) -> Self {
        Self {
            lexer: Lexer::new(text, start, dialect),
            values: Values::of_text(text.len() - start),
            nesting: 0,
            name: None,
            cut_name: None,
        }
    }

    /// Reads one value.
    fn document(&mut self) -> Option<()> {
        let mut name = None;
        loop {
            let Some(token) = self.lexer.token() else {
                self.name = name;
                return None;
            };
            self.values.push(name.take(), token);
            let is_opened = match token {
                Token::Open(bracket) => self.open(bracket)?,
                _ => false,
            };
            if !is_opened && !self.is_continued()? {
                return Some(());
            }
            if self.values.bracket() == Bracket::Object {
                name = Some(self.member_name()?);
            }
        }
    }

    /// Passes the end of an empty container. Whether the container has values.
    fn open(&mut self, bracket: Bracket) -> Option<bool> {
        self.nesting = self.nesting.max(self.values.depth + 1);
        if self.nesting > PYTHON_MAX_NESTING && self.lexer.dialect() == Dialect::Python {
            return self.lexer.fail("nested too deeply for Python");
        }
        let is_filled = self.lexer.is_filled(bracket);
        if is_filled {
            self.values.open_last(bracket);
        }
        Some(is_filled)
    }

    /// Passes what follows a complete value: brackets that close containers, and a comma. Whether
    /// another value follows.
    fn is_continued(&mut self) -> Option<bool> {
        while self.values.depth > 0 {
            if self.lexer.is_continued(self.values.bracket())? {
                return Some(true);
            }
            self.values.close();
        }
        Some(false)
    }

    fn member_name(&mut self) -> Option<Cow<'t, str>> {
        let Some((written, has_escapes)) = self.lexer.name() else {
            self.cut_name = self.lexer.unfinished.take();
            return None;
        };
        let name = text_of(written, has_escapes);
        if self.lexer.colon().is_none() {
            self.name = Some(name);
            return None;
        }
        Some(name)
    }

    fn into_document(self) -> Document<'t> {
        Document {
            values: self.values,
            end: self.lexer.position,
            nesting: self.nesting,
            lone_surrogate: self.lexer.lone_surrogate,
        }
    }

    /// Closes the open containers.
    fn into_partial(mut self, ends_in_number: bool) -> Start {
        let unfinished = self.lexer.unfinished.take();
        let is_in_scalar = unfinished.is_some();
        if let Some(token) = unfinished {
            self.values.push(self.name.take(), token);
        }
        if self.values.is_empty() {
            return Start::Nothing;
        }
        let name = match (self.name.take(), self.cut_name.take()) {
            (Some(name), _) => Some((name.into_owned(), true)),
            (None, Some(Token::String { written, .. })) => Some((unescaped(written), false)),
            _ => None,
        };
        let mut name = name.map(|(text, is_whole)| PartialName { text, is_whole });
        let steps = self.values.close_all(is_in_scalar || ends_in_number);
        let mut open: Vec<String> = steps.iter().map(|step| pointer_token(step)).collect();
        let document = self.into_document();
        let mut irregularity = document.irregularity();
        let value = if document.nesting > MAX_NESTING {
            (open, name) = (Vec::new(), None);
            Value::Null
        } else {
            document.root().to_value()
        };
        if let (None, Some(name)) = (&irregularity, &name)
            && name.is_whole
        {
            let instance_path: String = open.iter().map(|step| format!("/{step}")).collect();
            let object = value.pointer(&instance_path);
            irregularity = object
                .is_some_and(|object| object.get(&name.text).is_some())
                .then(|| Reason::DuplicateKey {
                    key: name.text.clone(),
                    instance_path,
                });
        }
        Start::Partial(Box::new(Partial {
            value,
            open,
            name,
            irregularity,
        }))
    }
}

#[cfg(test)]
mod tests {
    use sobench_testkit::repository_path;

    use super::*;
    use crate::damaged_tests::{SEED, damaged};
    use crate::json_scan::skip_white_space;

    fn read_rfc8259(text: &str) -> Result<Document<'_>, SyntaxError> {
        read(text, 0, Dialect::Rfc8259)
    }

    fn assert_fails_at(text: &str, byte: usize) {
        assert_eq!(read_rfc8259(text).unwrap_err().byte, byte, "{text:?}");
    }

    /// Parses `text` if all of it is JSON, with optional white space around it.
    fn parse_whole(text: &str) -> Option<Value> {
        let document = read_rfc8259(text).ok()?;
        (skip_white_space(text, document.end) == text.len() && document.lone_surrogate.is_none())
            .then(|| document.root().to_value())
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
            document.root().to_value().to_string(),
            "[12345678901234567890123,0.10,-0,1E400]"
        );
    }

    #[test]
    fn a_member_named_like_serde_json_s_number_is_an_object() {
        assert!(
            read_rfc8259(r#"{"$serde_json::private::Number":"1"}"#)
                .unwrap()
                .root()
                .to_value()
                .is_object()
        );
    }

    #[test]
    fn duplicate_names_are_found_through_escapes() {
        let irregularity = |text: &str| read_rfc8259(text).unwrap().irregularity();
        for (text, pointer) in [
            (r#"[0,{"x/y":{"a":1,"\u0061":2,"a":3}}]"#, "/1/x~1y"),
            (r#"{"b":{"a":1,"a":1},"b":1}"#, "/b"),
            (r#"{"a":{},"a":{"a":1,"a":1}}"#, ""),
        ] {
            let reason = Reason::DuplicateKey {
                key: "a".to_owned(),
                instance_path: pointer.to_owned(),
            };
            assert_eq!(irregularity(text), Some(reason), "{text}");
        }
        assert_eq!(irregularity(r#"[{"a":1},{"a":1}]"#), None);
    }

    #[test]
    fn lone_surrogates_are_reported() {
        assert_eq!(
            read_rfc8259(r#""\ud83d\ude00""#).unwrap().root().to_value(),
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

    /// What is not certain yet is left out, and no value is in a name.
    #[test]
    fn a_text_is_read_as_far_as_it_is_certain() {
        for (text, value, open, name) in [
            (r#"["a\ud83d"#, r#"["a"]"#, "0", None),
            (r#"["a\ud83d\"#, r#"["a"]"#, "0", None),
            (
                r#"{"a":[1,{"b":tr"#,
                r#"{"a":[1,{"b":true}]}"#,
                "a 1 b",
                None,
            ),
            (r#"{"a":[1,12"#, r#"{"a":[1,12]}"#, "a 1", None),
            (r#"{"a":[1 "#, r#"{"a":[1]}"#, "a", None),
            (r#"{"a":1,"b2"#, r#"{"a":1}"#, "", Some(("b2", false))),
            (r#"{"a":{"":"#, r#"{"a":{}}"#, "a", Some(("", true))),
        ] {
            let Ok(Start::Partial(start)) = read_start(text) else {
                panic!("{text} is the start of a value");
            };
            let found = start.name.map(|name| (name.text, name.is_whole));
            let found = found
                .as_ref()
                .map(|(text, is_whole)| (text.as_str(), *is_whole));
            assert_eq!(
                (&*start.value.to_string(), &*start.open.join(" "), found),
                (value, open, name),
                "{text}"
            );
        }
    }

    #[test]
    fn nesting_is_counted_without_recursion() {
        let deep = 400_000;
        let text = format!("{}{}", "[".repeat(deep), "]".repeat(deep));
        let document = read_rfc8259(&text).unwrap();
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

    /// The texts of the JSONTestSuite: what is JSON is read, and nothing else.
    #[test]
    fn the_json_test_suite_is_read_as_it_says() {
        let path = repository_path("fixtures/json-test-suite/texts.jsonl");
        let lines = std::fs::read_to_string(path).unwrap();
        let rows = lines.lines().map(|line| {
            let row: Value = serde_json::from_str(line).unwrap();
            let member = |name: &str| row[name].as_str().unwrap().to_owned();
            (member("name"), member("text"))
        });
        let deep = [
            ("n_structure_100000_opening_arrays", "[".repeat(100_000)),
            (
                "n_structure_open_array_object",
                "[{\"\":".repeat(50_000) + "\n",
            ),
        ];
        let deep = deep.map(|(name, text)| (name.to_owned(), text));
        let (mut accepted, mut refused) = (0, 0);
        for (name, text) in rows.chain(deep) {
            let is_json = read_rfc8259(&text)
                .is_ok_and(|document| skip_white_space(&text, document.end) == text.len());
            match name.split_once('_') {
                Some(("y", _)) => accepted += usize::from(is_json),
                Some(("n", _)) => refused += usize::from(!is_json),
                _ => {}
            }
        }
        assert_eq!((accepted, refused), (95, 176));
    }
}
