//! The values of a JSON text, which refer to the text: made several times as fast as a [`Value`], and
//! enough to decide whether they match a schema.

use std::borrow::Cow;
use std::cell::Cell;
use std::mem;

use serde_json::{Map, Number, Value};

use super::json_scan::{Bracket, Token, unescaped};

/// Maximum members of an object that are looked up one by one.
const MAX_UNSORTED: usize = 12;

/// Bytes of text for each value that space is reserved for.
const BYTES_PER_VALUE: usize = 6;

/// Maximum values whose space is reserved, and kept for the next document.
const MAX_SPARE: usize = 4096;

thread_local! {
    /// The space of an earlier document on this thread.
    static SPARE: Cell<Vec<TextValue<'static>>> = const { Cell::new(Vec::new()) };
}

/// The values of a document, in the order of the text, with its open containers while it is read.
#[derive(Debug)]
pub(super) struct Values<'t> {
    all: Vec<TextValue<'t>>,
    /// The index, the kind and the number of values of the innermost open container. Until it is
    /// closed, its size and length are the index and the number of values of the one around it.
    open: usize,
    bracket: Bracket,
    len: usize,
    /// The number of open containers.
    pub depth: usize,
    /// Whether a name is repeated in one of the closed objects.
    pub has_repeated_name: bool,
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

impl<'t> Values<'t> {
    /// Space for the values of a text of `bytes` bytes.
    pub(super) fn of_text(bytes: usize) -> Self {
        let mut all = emptied(SPARE.take());
        all.reserve((bytes / BYTES_PER_VALUE + 1).min(MAX_SPARE));
        Self {
            all,
            open: 0,
            bracket: Bracket::Array,
            len: 0,
            depth: 0,
            has_repeated_name: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The document's value.
    pub(super) fn root(&self) -> TextNode<'_> {
        TextNode(&self.all)
    }

    /// The kind of the innermost open container.
    #[inline]
    pub(super) fn bracket(&self) -> Bracket {
        self.bracket
    }

    /// Adds a scalar or an empty container, with its name in an object.
    #[inline]
    pub(super) fn push(&mut self, name: Option<Cow<'t, str>>, token: Token<'t>) {
        let content = match token {
            Token::Null => Content::Null,
            Token::Boolean(value) => Content::Boolean(value),
            Token::Number(written) => Content::Number(written),
            Token::String {
                written,
                has_escapes,
            } => Content::String(text_of(written, has_escapes)),
            Token::Open(Bracket::Array) => Content::Array { len: 0 },
            Token::Open(Bracket::Object) => Content::Object {
                len: 0,
                sorted: None,
            },
        };
        self.len += 1;
        self.all.push(TextValue {
            name: name.unwrap_or_default(),
            content,
            size: 1,
        });
    }

    /// Opens the container that was just added.
    #[inline]
    pub(super) fn open_last(&mut self, bracket: Bracket) {
        let index = self.all.len() - 1;
        let container = &mut self.all[index];
        container.size = mem::replace(&mut self.open, index);
        if let Content::Array { len } | Content::Object { len, .. } = &mut container.content {
            *len = mem::take(&mut self.len);
        }
        self.bracket = bracket;
        self.depth += 1;
    }

    /// Closes the innermost open container.
    pub(super) fn close(&mut self) {
        let (container, rest) = self.all[self.open..]
            .split_first_mut()
            .expect("a container is closed only while one is open");
        self.open = mem::replace(&mut container.size, rest.len() + 1);
        self.depth -= 1;
        match &mut container.content {
            Content::Array { len } => mem::swap(len, &mut self.len),
            Content::Object { len, sorted } => {
                mem::swap(len, &mut self.len);
                match sorted_unless_repeated(rest, *len) {
                    Some(places) => *sorted = places,
                    None => self.has_repeated_name = true,
                }
            }
            _ => {}
        }
        self.bracket = match self.all[self.open].content {
            Content::Object { .. } => Bracket::Object,
            _ => Bracket::Array,
        };
    }

    /// Closes all open containers, and returns the names and indexes that lead to the innermost
    /// one; to the last value in it if that is not finished.
    pub(super) fn close_all(&mut self, last_is_unfinished: bool) -> Vec<String> {
        let mut steps = Vec::with_capacity(self.depth);
        let mut inner = last_is_unfinished.then(|| self.all.len() - 1);
        while self.depth > 0 {
            if let Some(inner) = inner {
                steps.push(match self.bracket {
                    Bracket::Array => (self.len - 1).to_string(),
                    Bracket::Object => self.all[inner].name.clone().into_owned(),
                });
            }
            inner = Some(self.open);
            self.close();
        }
        steps.reverse();
        steps
    }

    /// Whether the last value is a number.
    pub(super) fn ends_in_number(&self) -> bool {
        let last = self.all.last().map(|value| &value.content);
        matches!(last, Some(Content::Number(_)))
    }
}

impl Drop for Values<'_> {
    fn drop(&mut self) {
        if self.all.capacity() <= MAX_SPARE {
            SPARE.set(emptied(mem::take(&mut self.all)));
        }
    }
}

/// An empty list in the space of another one.
fn emptied<'t>(mut values: Vec<TextValue<'_>>) -> Vec<TextValue<'t>> {
    values.clear();
    values
        .into_iter()
        .map(|_| unreachable!("no values are left"))
        .collect()
}

/// The text of a string as written between its quotes.
pub(super) fn text_of(written: &str, has_escapes: bool) -> Cow<'_, str> {
    if has_escapes {
        Cow::Owned(unescaped(written))
    } else {
        Cow::Borrowed(written)
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
    use super::*;
    use crate::json_reader::{self, Document};
    use crate::json_scan::{Dialect, SyntaxError};

    fn read_rfc8259(text: &str) -> Result<Document<'_>, SyntaxError> {
        json_reader::read(text, 0, Dialect::Rfc8259)
    }

    #[test]
    fn members_are_found_by_name() {
        let many: Vec<String> = (0..100)
            .map(|index| format!("\"n{}\": [{index}, {{}}]", index * 37 % 100))
            .collect();
        let text = format!("{{{}}}", many.join(", "));
        let document = read_rfc8259(&text).unwrap();
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
    fn repeated_names_are_found_in_small_and_large_objects() {
        let is_repeated = |text: &str| read_rfc8259(text).unwrap().irregularity().is_some();
        for count in [1, 2, MAX_UNSORTED - 1, MAX_UNSORTED, 40] {
            let names: Vec<String> = (0..count).map(|index| format!("\"{index}\":1")).collect();
            let unique = names.join(",");
            assert!(!is_repeated(&format!("[{{{unique}}}]")));
            assert!(is_repeated(&format!("[{{{unique},\"\\u0030\":2}}]")));
        }
        assert!(!is_repeated(r#"{"a":{"a":[{"a":1},{"a":1}]},"b":{"a":1}}"#));
        assert_eq!(mark("axz"), mark("ayz"));
        assert!(!is_repeated(r#"{"axz":1,"ayz":2}"#));
        assert!(is_repeated(r#"{"axz":1,"ayz":2,"axz":3}"#));
    }

    /// The space of a document is used again, also by one that is not JSON.
    #[test]
    fn documents_on_one_thread_do_not_mix() {
        for _ in 0..3 {
            for text in [r#"{"a":["b\n",1]}"#, r#"{"a":1,"#, "[]", r#"["x","y"]"#] {
                assert_eq!(read_rfc8259(text).is_ok(), !text.ends_with(','), "{text}");
            }
        }
        let first = read_rfc8259("[1,2]").unwrap();
        let second = read_rfc8259("[3]").unwrap();
        assert_eq!(first.root().to_value(), serde_json::json!([1, 2]));
        assert_eq!(second.root().to_value(), serde_json::json!([3]));
    }
}
