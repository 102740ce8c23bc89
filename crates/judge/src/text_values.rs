//! Reads a JSON text into values that refer to the text: several times as fast as building them,
//! and enough to decide whether they match a schema.
//!
//! The reader accepts what [`Lexer`] does, without repeated names. A text that it does not accept
//! may still be JSON: then `json_reader.rs` reads it, which also explains errors.

use std::borrow::Cow;
use std::cell::Cell;
use std::mem;

use serde_json::{Map, Number, Value};

use super::json_scan::{Bracket, Lexer, Token, unescaped};

/// Maximum members of an object that are looked up one by one.
const MAX_UNSORTED: usize = 12;

/// Bytes of text for each value that space is reserved for.
const BYTES_PER_VALUE: usize = 6;

/// Maximum values whose space is kept for the next document.
const MAX_SPARE: usize = 4096;

thread_local! {
    /// The space of an earlier document on this thread.
    static SPARE: Cell<Vec<TextValue<'static>>> = const { Cell::new(Vec::new()) };
}

/// A JSON text.
#[derive(Debug)]
pub(super) struct TextDocument<'t> {
    /// The document's value, and all values in it.
    values: Vec<TextValue<'t>>,
    /// The most containers around a value, as of `ValueSize`.
    pub nesting: usize,
}

/// A value of a document. Behind it in the document are the values in it, in the order of the text.
#[derive(Debug)]
pub(super) struct TextValue<'t> {
    /// The name of a member; empty for other values.
    name: Cow<'t, str>,
    content: Content<'t>,
    /// The number of values in it, itself included.
    size: usize,
}

#[derive(Debug)]
enum Content<'t> {
    Null,
    Boolean(bool),
    Number(&'t str),
    String(Cow<'t, str>),
    Array {
        len: usize,
    },
    Object {
        len: usize,
        /// The places of the members, sorted by name, if there are many.
        sorted: Option<Box<[usize]>>,
    },
}

/// A value with the values in it, which is never empty.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextNode<'a>(&'a [TextValue<'a>]);

/// What a value is.
#[derive(Clone, Copy)]
pub(super) enum TextView<'a> {
    Null,
    Boolean(bool),
    /// As written.
    Number(&'a str),
    String(&'a str),
    Array(TextItems<'a>),
    Object(TextMembers<'a>),
}

/// The items of an array.
#[derive(Clone, Copy)]
pub(super) struct TextItems<'a> {
    rest: &'a [TextValue<'a>],
    len: usize,
}

/// The members of an object.
#[derive(Clone, Copy)]
pub(super) struct TextMembers<'a> {
    rest: &'a [TextValue<'a>],
    len: usize,
    sorted: Option<&'a [usize]>,
}

/// Reads a text that is one JSON value and white space. `None` if it is not accepted.
pub(super) fn read(text: &str) -> Option<TextDocument<'_>> {
    let mut values = emptied(SPARE.take());
    values.reserve(text.len() / BYTES_PER_VALUE + 1);
    let mut reader = Reader {
        lexer: Lexer::new(text),
        values,
        open: 0,
        bracket: Bracket::Array,
        len: 0,
        depth: 0,
        nesting: 0,
    };
    reader.document()?;
    let Reader {
        mut lexer,
        values,
        nesting,
        ..
    } = reader;
    lexer
        .is_at_end()
        .then_some(TextDocument { values, nesting })
}

/// An empty list in the space of another one.
fn emptied<'t>(mut values: Vec<TextValue<'_>>) -> Vec<TextValue<'t>> {
    values.clear();
    values
        .into_iter()
        .map(|_| unreachable!("no values are left"))
        .collect()
}

impl Drop for TextDocument<'_> {
    fn drop(&mut self) {
        if self.values.capacity() <= MAX_SPARE {
            SPARE.set(emptied(mem::take(&mut self.values)));
        }
    }
}

impl TextDocument<'_> {
    pub(super) fn root(&self) -> TextNode<'_> {
        TextNode(&self.values)
    }

    pub(super) fn is_object(&self) -> bool {
        matches!(self.root().view(), TextView::Object(_))
    }
}

impl<'a> TextNode<'a> {
    #[inline]
    pub(super) fn view(self) -> TextView<'a> {
        let (value, rest) = self.parts();
        match &value.content {
            Content::Null => TextView::Null,
            Content::Boolean(value) => TextView::Boolean(*value),
            Content::Number(number) => TextView::Number(number),
            Content::String(text) => TextView::String(text),
            Content::Array { len } => TextView::Array(TextItems { rest, len: *len }),
            Content::Object { len, sorted } => TextView::Object(TextMembers {
                rest,
                len: *len,
                sorted: sorted.as_deref(),
            }),
        }
    }

    /// The address of the value, which no other value of the document has.
    pub(super) fn address(self) -> usize {
        self.0.as_ptr() as usize
    }

    /// The value, without its document.
    pub(super) fn to_value(self) -> Value {
        match self.view() {
            TextView::Null => Value::Null,
            TextView::Boolean(value) => Value::Bool(value),
            TextView::Number(number) => Value::Number(to_number(number)),
            TextView::String(text) => Value::String(text.to_owned()),
            TextView::Array(items) => items.map(Self::to_value).collect(),
            TextView::Object(members) => Value::Object(
                members
                    .map(|(name, member)| (name.to_owned(), member.to_value()))
                    .collect::<Map<_, _>>(),
            ),
        }
    }

    #[inline]
    fn parts(self) -> (&'a TextValue<'a>, &'a [TextValue<'a>]) {
        self.0.split_first().expect("a node has a value")
    }
}

/// A number with the spelling of the text.
pub(super) fn to_number(written: &str) -> Number {
    Number::from_string_unchecked(written.to_owned())
}

impl TextItems<'_> {
    pub(super) fn len(self) -> usize {
        self.len
    }
}

impl<'a> Iterator for TextItems<'a> {
    type Item = TextNode<'a>;

    #[inline]
    fn next(&mut self) -> Option<TextNode<'a>> {
        let (item, rest) = self.rest.split_at_checked(self.rest.first()?.size)?;
        self.rest = rest;
        Some(TextNode(item))
    }
}

impl<'a> TextMembers<'a> {
    pub(super) fn len(self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn get(mut self, name: &str) -> Option<TextNode<'a>> {
        let Some(sorted) = self.sorted else {
            return self.find_map(|(known, value)| is_same(known, name).then_some(value));
        };
        let found = sorted.binary_search_by(|place| (*self.rest[*place].name).cmp(name));
        let member = &self.rest[sorted[found.ok()?]..];
        member.get(..member.first()?.size).map(TextNode)
    }
}

impl<'a> Iterator for TextMembers<'a> {
    type Item = (&'a str, TextNode<'a>);

    #[inline]
    fn next(&mut self) -> Option<(&'a str, TextNode<'a>)> {
        let first = self.rest.first()?;
        let (member, rest) = self.rest.split_at_checked(first.size)?;
        self.rest = rest;
        Some((&first.name, TextNode(member)))
    }
}

struct Reader<'t> {
    lexer: Lexer<'t>,
    values: Vec<TextValue<'t>>,
    /// The index, the kind and the number of values of the innermost open container. Until it is
    /// closed, its size and length are the index and the number of values of the one around it.
    open: usize,
    bracket: Bracket,
    len: usize,
    /// The number of open containers.
    depth: usize,
    nesting: usize,
}

impl<'t> Reader<'t> {
    fn document(&mut self) -> Option<()> {
        let mut name = Cow::Borrowed("");
        loop {
            let index = self.values.len();
            let (mut size, mut is_opened) = (1, false);
            let content = match self.lexer.token()? {
                Token::Null => Content::Null,
                Token::Boolean(value) => Content::Boolean(value),
                Token::Number(written) => Content::Number(written),
                Token::String {
                    written,
                    has_escapes: false,
                } => Content::String(Cow::Borrowed(written)),
                Token::String { written, .. } => Content::String(Cow::Owned(unescaped(written))),
                Token::Open(bracket) => {
                    is_opened = self.lexer.is_filled(bracket, self.depth)?;
                    let mut len = 0;
                    if is_opened {
                        size = mem::replace(&mut self.open, index);
                        len = mem::replace(&mut self.len, 1);
                        self.bracket = bracket;
                        self.depth += 1;
                        self.nesting = self.nesting.max(self.depth);
                    }
                    match bracket {
                        Bracket::Array => Content::Array { len },
                        Bracket::Object => Content::Object { len, sorted: None },
                    }
                }
            };
            self.values.push(TextValue {
                name,
                content,
                size,
            });
            // A container that was opened is followed by its first value.
            if !is_opened && !self.is_continued()? {
                return Some(());
            }
            name = match self.bracket {
                Bracket::Object => self.member_name()?,
                Bracket::Array => Cow::Borrowed(""),
            };
        }
    }

    /// Passes what follows a complete value: brackets that close containers, and a comma. Whether
    /// another value follows.
    fn is_continued(&mut self) -> Option<bool> {
        while self.depth > 0 {
            if self.lexer.is_continued(self.bracket)? {
                self.len += 1;
                return Some(true);
            }
            self.close()?;
        }
        Some(false)
    }

    /// Closes the innermost container. `None` if a name is repeated in it.
    fn close(&mut self) -> Option<()> {
        let (container, rest) = self.values[self.open..].split_first_mut()?;
        self.open = mem::replace(&mut container.size, rest.len() + 1);
        self.depth -= 1;
        match &mut container.content {
            Content::Array { len } => mem::swap(len, &mut self.len),
            Content::Object { len, sorted } => {
                mem::swap(len, &mut self.len);
                *sorted = sorted_unless_repeated(rest, *len)?;
            }
            _ => return None,
        }
        self.bracket = match self.values[self.open].content {
            Content::Object { .. } => Bracket::Object,
            _ => Bracket::Array,
        };
        Some(())
    }

    fn member_name(&mut self) -> Option<Cow<'t, str>> {
        let (written, has_escapes) = self.lexer.member_name()?;
        Some(if has_escapes {
            Cow::Owned(unescaped(written))
        } else {
            Cow::Borrowed(written)
        })
    }
}

/// Equality of names, most of which differ in their first bytes: comparing those saves a call.
#[inline]
fn is_same(left: &str, right: &str) -> bool {
    left.len() == right.len()
        && left.as_bytes().first() == right.as_bytes().first()
        && left == right
}

/// The places of the members, sorted by name, if there are many; `None` if a name is repeated.
fn sorted_unless_repeated(rest: &[TextValue<'_>], len: usize) -> Option<Option<Box<[usize]>>> {
    if len <= MAX_UNSORTED {
        let members = TextMembers {
            rest,
            len,
            sorted: None,
        };
        return (!has_repeated_name(members)).then_some(None);
    }
    let mut next = 0;
    let mut sorted: Box<[usize]> = (0..len)
        .map(|_| {
            let place = next;
            next += rest[place].size;
            place
        })
        .collect();
    let name = |place: usize| -> &str { &rest[place].name };
    sorted.sort_unstable_by(|left, right| name(*left).cmp(name(*right)));
    let is_repeated = sorted.windows(2).any(|pair| name(pair[0]) == name(pair[1]));
    (!is_repeated).then_some(Some(sorted))
}

/// Whether two of a few members have the same name. Names whose marks differ need no comparison.
fn has_repeated_name(members: TextMembers<'_>) -> bool {
    let mut seen = 0_u64;
    members.enumerate().any(|(index, (name, _))| {
        let mark = mark(name);
        let is_same = seen & mark != 0 && {
            let mut earlier = members.take(index);
            earlier.any(|(earlier, _)| is_same(earlier, name))
        };
        seen |= mark;
        is_same
    })
}

/// One of 64 bits, from the length and the ends of a name.
fn mark(name: &str) -> u64 {
    let bytes = name.as_bytes();
    let end = |byte: Option<&u8>| usize::from(byte.copied().unwrap_or_default());
    let mixed = bytes.len() ^ end(bytes.first()) ^ (end(bytes.last()) << 2);
    1 << (mixed % 64)
}

#[cfg(test)]
mod tests {
    use sobench_testkit::repository_path;

    use super::*;
    use crate::damaged_tests::{SEED, damaged};
    use crate::json_reader::{self, Dialect};

    /// What `json_reader.rs` reads, if the text has no irregularity.
    fn read_completely(text: &str) -> Option<Value> {
        let document = json_reader::read(text, 0, Dialect::Rfc8259).ok()?;
        let is_regular = document.duplicate.is_none() && document.lone_surrogate.is_none();
        let is_whole = json_reader::skip_white_space(text, document.end) == text.len();
        (is_regular && is_whole).then_some(document.value)
    }

    /// Whether the text is accepted. What is accepted must be what the complete reader reads.
    fn is_accepted(text: &str) -> bool {
        let Some(document) = read(text) else {
            return false;
        };
        assert_eq!(
            Some(document.root().to_value()),
            read_completely(text),
            "{text:?}"
        );
        true
    }

    #[test]
    fn documents_are_read_as_by_the_complete_reader() {
        for text in [
            "1",
            " \"a\" ",
            "[]",
            "{}",
            r#"{"":{"":[]}}"#,
            r#"{"a\n\u00e9":[1,-0.5e+3,1E5,true,false,null,"x\\\"y\/\b\f\r\t",{}],"b":{"c":[[]]}}"#,
            "[12345678901234567890123, 0.10, -0, 1E400]",
        ] {
            assert!(is_accepted(text), "{text}");
        }
        let many: Vec<String> = (0..100)
            .map(|index| format!("\"n{}\": [{index}, {{}}]", index * 37 % 100))
            .collect();
        let text = format!("{{{}}}", many.join(", "));
        assert!(is_accepted(&text));
        let document = read(&text).unwrap();
        let TextView::Object(members) = document.root().view() else {
            panic!("not an object");
        };
        assert_eq!(members.len(), 100);
        for index in 0..100 {
            let found = members.get(&format!("n{}", index * 37 % 100)).unwrap();
            assert_eq!(found.to_value()[0], index);
        }
        assert!(members.get("n100").is_none() && members.get("").is_none());
    }

    #[test]
    fn repeated_names_are_not_accepted() {
        for count in [1, 2, MAX_UNSORTED - 1, MAX_UNSORTED, 40] {
            let names: Vec<String> = (0..count).map(|index| format!("\"{index}\":1")).collect();
            let unique = names.join(",");
            assert!(is_accepted(&format!("[{{{unique}}}]")));
            assert!(!is_accepted(&format!("[{{{unique},\"\\u0030\":2}}]")));
        }
        assert!(is_accepted(r#"{"a":{"a":[{"a":1},{"a":1}]},"b":{"a":1}}"#));
        assert_eq!(mark("axz"), mark("ayz"));
        assert!(is_accepted(r#"{"axz":1,"ayz":2}"#));
        assert!(!is_accepted(r#"{"axz":1,"ayz":2,"axz":3}"#));
    }

    /// The space of a document is used again, also by one that is not accepted.
    #[test]
    fn documents_on_one_thread_do_not_mix() {
        for _ in 0..3 {
            for text in [
                r#"{"a":["b\n",1]}"#,
                r#"{"a":1,"a":2}"#,
                "[]",
                r#"["x","y"]"#,
            ] {
                assert_eq!(is_accepted(text), !text.contains("\"a\":2"), "{text}");
            }
        }
        let first = read("[1,2]").unwrap();
        let second = read("[3]").unwrap();
        assert_eq!(first.root().to_value(), serde_json::json!([1, 2]));
        assert_eq!(second.root().to_value(), serde_json::json!([3]));
    }

    #[test]
    fn nesting_is_counted() {
        for (text, nesting) in [("1", 0), ("[]", 0), ("{\"a\":[]}", 1), ("[[1],[[1]]]", 3)] {
            assert_eq!(read(text).unwrap().nesting, nesting, "{text}");
        }
        assert!(read(&"[".repeat(1_000_000)).is_none());
    }

    /// The texts of the JSONTestSuite. Both readers accept what is JSON and nothing else. Where JSON
    /// has irregularities, the reader of this file leaves it to the other.
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
        let (mut accepted, mut left, mut refused) = (0, Vec::new(), 0);
        for (name, text) in rows.chain(deep) {
            let document = json_reader::read(&text, 0, Dialect::Rfc8259);
            let is_json = document.is_ok_and(|document| {
                json_reader::skip_white_space(&text, document.end) == text.len()
            });
            let is_fast = is_accepted(&text);
            assert!(is_json || !is_fast, "{name}");
            match name.split_once('_') {
                Some(("y", _)) if is_fast => accepted += 1,
                Some(("y", rest)) => {
                    assert!(is_json, "{name}");
                    left.push(rest.to_owned());
                }
                Some(("n", _)) => {
                    assert!(!is_json, "{name}");
                    refused += 1;
                }
                _ => {}
            }
        }
        left.sort();
        assert_eq!(
            left,
            [
                "object_duplicated_key",
                "object_duplicated_key_and_value",
                "string_accepted_surrogate_pair",
                "string_accepted_surrogate_pairs",
                "string_last_surrogates_1_and_2",
                "string_surrogates_U+1D11E_MUSICAL_SYMBOL_G_CLEF",
                "string_unicode_U+10FFFE_nonchar",
                "string_unicode_U+1FFFE_nonchar",
            ]
        );
        assert_eq!((accepted, refused), (95 - left.len(), 176));
    }

    /// On damaged documents, the reader never accepts what is not JSON, and rarely leaves JSON to
    /// the complete reader.
    #[test]
    fn only_json_is_accepted() {
        let (mut accepted, mut json) = (0, 0);
        for text in &damaged(SEED) {
            json += usize::from(read_completely(text).is_some());
            accepted += usize::from(is_accepted(text));
        }
        assert!(
            accepted > 100 && accepted * 10 > json * 9,
            "{accepted} of {json}"
        );
    }
}
