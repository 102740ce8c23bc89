//! The bytes of an answer that a verdict's reason is about.

use std::fmt;
use std::ops::Range;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use sobench_core::answer::Channel;
use sobench_core::schema_part::pointer_name;
use sobench_core::verdict::{Reason, ToolCallFault};

/// A piece of an answer around its error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marked<'t> {
    pub before: &'t str,
    /// Empty where the position is unknown, or is the end of the answer.
    pub marked: &'t str,
    pub after: &'t str,
    /// Whether the answer ended too early.
    pub ended_early: bool,
    /// Bytes of the answer left out on each side.
    pub cut_before: usize,
    pub cut_after: usize,
}

/// The text around the error: at most `max_bytes` before it, in it, and after it.
pub fn mark<'t>(text: &'t str, reason: &Reason, max_bytes: usize) -> Marked<'t> {
    let found = error_range(text, reason);
    let ended_early = match (&found, reason) {
        (Some(range), _) => range.start >= text.len(),
        (None, reason) => *reason == Reason::Truncated,
    };
    // Without a known position the start of the answer is shown, or its end where it ended too
    // early.
    let start = if ended_early { text.len() } else { 0 };
    let range = found.unwrap_or(start..start);
    let from = floor_char_boundary(text, range.start.saturating_sub(max_bytes));
    let marked_end =
        floor_char_boundary(text, range.end.min(range.start + max_bytes)).max(range.start);
    let to = floor_char_boundary(text, marked_end.saturating_add(max_bytes)).max(marked_end);
    Marked {
        before: &text[from..range.start],
        marked: &text[range.start..marked_end],
        after: &text[marked_end..to],
        ended_early,
        cut_before: from,
        cut_after: text.len() - to,
    }
}

/// The bytes that a reason is about. The range starts at the text's length where the answer ended
/// too early.
fn error_range(text: &str, reason: &Reason) -> Option<Range<usize>> {
    match reason {
        Reason::NotJson { byte, .. }
        | Reason::Grammar { byte }
        | Reason::StructuralTag { byte, .. } => Some(character_range(text, *byte)),
        Reason::LoneSurrogate { byte } => {
            let start = floor_char_boundary(text, *byte);
            Some(start..floor_char_boundary(text, start + r"\ud800".len()).max(start))
        }
        Reason::ExtraText { byte, .. } => {
            let start = floor_char_boundary(text, *byte);
            // Before the document: the text up to it. Behind it: the rest.
            let document = text[start..]
                .find(['{', '['])
                .filter(|_| text[..start].trim().is_empty());
            Some(start..document.map_or(text.len(), |offset| start + offset))
        }
        Reason::Schema { instance_path, .. } if instance_path.is_empty() => None,
        Reason::Schema { instance_path, .. } => {
            value_at(text, instance_path).map(|value| range_of(text, value))
        }
        Reason::DuplicateKey { key, instance_path } => {
            duplicate_key(text, instance_path, key).map(|key| range_of(text, key))
        }
        Reason::Regex { .. }
        | Reason::Choice
        | Reason::Empty
        | Reason::Truncated
        | Reason::TooLong { .. }
        | Reason::TooDeep { .. }
        | Reason::RunawayWhitespace { .. }
        | Reason::WrongChannel { .. } => None,
        // The text of an answer starts with its content.
        Reason::ToolCall(ToolCallFault::LeakedMarkup {
            channel: Channel::Content,
            markup,
            byte,
        }) => text
            .get(*byte..)
            .filter(|rest| rest.starts_with(markup.as_str()))
            .map(|_| *byte..byte + markup.len()),
        Reason::ToolCall(_) => None,
        Reason::OtherRequest { member } => {
            text.find(member.as_str()).map(|at| at..at + member.len())
        }
    }
}

/// The last character boundary at or before `byte`.
fn floor_char_boundary(text: &str, byte: usize) -> usize {
    (0..=byte.min(text.len()))
        .rev()
        .find(|byte| text.is_char_boundary(*byte))
        .unwrap_or(0)
}

fn character_range(text: &str, byte: usize) -> Range<usize> {
    let start = floor_char_boundary(text, byte);
    start..start + text[start..].chars().next().map_or(0, char::len_utf8)
}

/// The value that a JSON pointer (RFC 6901) names; of duplicate members, the last.
fn value_at<'t>(text: &'t str, pointer: &str) -> Option<&'t str> {
    let mut value = text;
    for token in pointer.split('/').skip(1) {
        let token = pointer_name(token);
        value = children(value)
            .into_iter()
            .rfind(|child| child.name == token)?
            .value;
    }
    Some(value)
}

/// The key of the second member of this name in the object at `pointer`.
fn duplicate_key<'t>(text: &'t str, pointer: &str, key: &str) -> Option<&'t str> {
    children(value_at(text, pointer)?)
        .into_iter()
        .filter(|child| child.name == key)
        .nth(1)
        .map(|child| child.key)
}

/// The byte range of a part of the text.
fn range_of(text: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr() as usize - text.as_ptr() as usize;
    start..start + part.len()
}

/// A member of an object, or an element of an array, whose name is its index.
struct Child<'t> {
    name: String,
    /// As written in the text; empty for elements.
    key: &'t str,
    value: &'t str,
}

/// The members or elements of a container; empty for other values.
fn children(container: &str) -> Vec<Child<'_>> {
    if let Ok(Members(members)) = serde_json::from_str(container) {
        return members;
    }
    let elements: Vec<&RawValue> = serde_json::from_str(container).unwrap_or_default();
    let names = (0..).map(|index: usize| index.to_string());
    names
        .zip(elements)
        .map(|(name, value)| Child {
            name,
            key: "",
            value: value.get(),
        })
        .collect()
}

/// The members of an object in the order of the text, with duplicates. Members whose name is not a
/// string are left out.
struct Members<'t>(Vec<Child<'t>>);

impl<'t> Deserialize<'t> for Members<'t> {
    fn deserialize<D: Deserializer<'t>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'t> Visitor<'t> for MembersVisitor {
    type Value = Members<'t>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<Members<'t>, A::Error> {
        let mut members = Vec::new();
        while let Some((key, value)) = map.next_entry::<&RawValue, &RawValue>()? {
            let name = serde_json::from_str(key.get()).ok();
            members.extend(name.map(|name| Child {
                name,
                key: key.get(),
                value: value.get(),
            }));
        }
        Ok(Members(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, reason: &Reason, expected: &str) {
        let found = mark(text, reason, 1000);
        let end = if found.ended_early { "$" } else { "" };
        assert_eq!(
            format!("{}<{}>{}{end}", found.before, found.marked, found.after),
            expected
        );
        assert_eq!((found.cut_before, found.cut_after), (0, 0));
    }

    fn schema(path: &str) -> Reason {
        Reason::Schema {
            keyword: "type".into(),
            instance_path: path.into(),
            schema_path: String::new(),
            message: String::new(),
        }
    }

    #[test]
    fn the_error_is_marked() {
        let not_json = |byte| Reason::NotJson {
            message: String::new(),
            byte,
        };
        check("{\"a\": é}", &not_json(6), "{\"a\": <é>}");
        check("{\"a\"", &not_json(4), "{\"a\"<>$");
        check("abc", &Reason::Grammar { byte: 99 }, "abc<>$");
        check("é!", &Reason::Grammar { byte: 1 }, "<é>!");
        check(
            "Sure: {\"a\":1} ok",
            &Reason::ExtraText {
                byte: 0,
                kind: sobench_core::verdict::ExtraText::Unknown,
                valid_if_stripped: false,
            },
            "<Sure: >{\"a\":1} ok",
        );
        check(
            "{} {}.",
            &Reason::ExtraText {
                byte: 3,
                kind: sobench_core::verdict::ExtraText::Unknown,
                valid_if_stripped: false,
            },
            "{} <{}.>",
        );
        check(
            r#"{"a":"\ud800!"}"#,
            &Reason::LoneSurrogate { byte: 6 },
            r#"{"a":"<\ud800>!"}"#,
        );
        check("cut", &Reason::Truncated, "cut<>$");
        check("maybe", &Reason::Choice, "<>maybe");
        check("", &Reason::Empty, "<>");
    }

    #[test]
    fn json_pointers_are_resolved_in_the_text() {
        let text = r#" {"x/y": [1, {"~": "a\"]}b" , "é":true}], "z":{"k":1,"k" : 2}} "#;
        for (path, marked) in [
            ("/x~1y/1/~0", r#""a\"]}b""#),
            ("/x~1y/0", "1"),
            ("/x~1y/1/é", "true"),
            ("/z", r#"{"k":1,"k" : 2}"#),
            ("/z/k", "2"),
            ("/x~1y", r#"[1, {"~": "a\"]}b" , "é":true}]"#),
            ("", ""),
            ("/none", ""),
            ("/x~1y/7", ""),
            ("/z/k/deeper", ""),
        ] {
            assert_eq!(mark(text, &schema(path), 1000).marked, marked, "{path}");
        }
        let twice = Reason::DuplicateKey {
            key: "k".into(),
            instance_path: "/z".into(),
        };
        let found = mark(text, &twice, 1000);
        assert_eq!((found.marked, found.after), ("\"k\"", " : 2}} "));
    }

    #[test]
    fn broken_text_does_not_panic() {
        for text in [
            "", "{", "[", "{\"", "{\"a", "{\"a\\", "{\"a\":", "[1,,", "}", "é", "{1:2}", "[\"\\",
        ] {
            for path in ["/a", "/0", "/0/a"] {
                let _ = mark(text, &schema(path), 2);
                let twice = Reason::DuplicateKey {
                    key: "a".into(),
                    instance_path: path.into(),
                };
                let _ = mark(text, &twice, 2);
            }
        }
    }

    #[test]
    fn long_answers_are_cut_around_the_error() {
        let text = format!("{}!{}", "é".repeat(50), "ü".repeat(50));
        let found = mark(&text, &Reason::Grammar { byte: 100 }, 11);
        assert_eq!(
            (found.before, found.marked, found.after),
            ("éééééé", "!", "üüüüü")
        );
        assert_eq!((found.cut_before, found.cut_after), (88, 90));
        assert_eq!(mark(&text, &Reason::Truncated, 11).cut_before, 189);
        let value = format!("[\"{}\"]", "x".repeat(90));
        let found = mark(&value, &schema("/0"), 10);
        assert_eq!((found.marked.len(), found.after.len()), (10, 10));
    }
}
