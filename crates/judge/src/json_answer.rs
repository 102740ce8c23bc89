//! Parses an answer that must be one JSON text and nothing else.
//!
//! The text is parsed exactly as the server sent it. JSON white space around the document is part
//! of a JSON text (RFC 8259, section 2). Prose, Markdown fences, a byte order mark and a second
//! document are not, and are distinguished from text without JSON.

use std::ops::Range;

use super::json_reader::{self, Document, Partial};
use super::json_scan::{Dialect, SyntaxError, skip_white_space};
use sobench_core::verdict::{ExtraText, Reason};

/// Marks of a Markdown code fence.
const FENCE: &str = "```";

/// The start and end of reasoning in the templates of common models (Qwen and DeepSeek, Magistral,
/// Seed, Granite).
pub const REASONING_TAGS: [[&str; 2]; 5] = [
    ["<think>", "</think>"],
    ["[THINK]", "[/THINK]"],
    ["<seed:think>", "</seed:think>"],
    ["<reasoning>", "</reasoning>"],
    ["<thinking>", "</thinking>"],
];

/// An answer that is not one JSON text.
#[derive(Debug)]
pub(super) struct Refused {
    pub reason: Reason,
    /// The complete JSON text in it, if there is other text around it.
    pub inner: Option<Range<usize>>,
}

impl From<Reason> for Refused {
    fn from(reason: Reason) -> Self {
        Self {
            reason,
            inner: None,
        }
    }
}

/// Parses `text`, which must be one JSON text.
///
/// The first of these problems is reported: not JSON, other text around it, nesting limit, lone
/// surrogate, duplicate member.
pub(super) fn parse_json_answer(text: &str) -> Result<Document<'_>, Refused> {
    if text.is_empty() {
        return Err(Reason::Empty.into());
    }
    let document = json_reader::read(text, 0, Dialect::Rfc8259)
        .map_err(|error| not_json_reason(text, error))?;
    let rest = skip_white_space(text, document.end);
    if rest < text.len() {
        return Err(reason_for_trailing_text(text, document.end, rest));
    }
    match document.irregularity() {
        Some(reason) => Err(reason.into()),
        None => Ok(document),
    }
}

/// What a text that may end anywhere has of an answer.
pub(super) enum Start<'t> {
    /// Nothing to judge yet.
    Nothing,
    /// Unfinished.
    Partial(Box<Partial>),
    /// Complete: only white space may follow.
    Whole(Document<'t>),
}

/// Parses a text that may end anywhere. The error is a reason that no further text can remove.
pub(super) fn parse_start(text: &str) -> Result<Start<'_>, Refused> {
    match json_reader::read_start(text) {
        Err(error) => Err(not_json_reason(text, error)),
        Ok(json_reader::Start::Nothing) => Ok(Start::Nothing),
        Ok(json_reader::Start::Whole) => parse_json_answer(text).map(Start::Whole),
        Ok(json_reader::Start::Partial(mut partial)) => match partial.irregularity.take() {
            Some(reason) => Err(reason.into()),
            None => Ok(Start::Partial(partial)),
        },
    }
}

/// Reason for text at `rest`, after a document that ends at `end`. After a closing bracket or
/// quote, it is extra text. After a literal or number that continues (`01`, `nullable`, `1.2.3`),
/// the document itself is invalid.
fn reason_for_trailing_text(text: &str, end: usize, rest: usize) -> Refused {
    let bytes = text.as_bytes();
    let continues_token =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'+' | b'-' | b'_');
    if continues_token(bytes[rest - 1]) && continues_token(bytes[rest]) {
        let error = SyntaxError {
            byte: rest,
            message: "expected the end of the value",
            at_end: false,
        };
        return search_for_document(text, error);
    }
    let kind = if text[rest..].starts_with(FENCE) {
        ExtraText::Fence
    } else if matches!(bytes[rest], b'{' | b'[') {
        ExtraText::SecondDocument
    } else {
        ExtraText::ProseAfter
    };
    let start = skip_white_space(text, 0);
    extra_text(rest, kind, start..end)
}

/// Reason why `text` is not JSON: prose around a document, or an invalid document.
fn not_json_reason(text: &str, error: SyntaxError) -> Refused {
    let start = skip_white_space(text, 0);
    let tag = REASONING_TAGS
        .iter()
        .any(|[open, _]| text[start..].starts_with(open));
    match text.as_bytes().get(start) {
        // The text starts like a document, so this document is invalid, and a later one is not
        // searched for.
        Some(b'{' | b'[' | b'"') if !tag => invalid_json_reason(error).into(),
        None => invalid_json_reason(error).into(),
        Some(_) => search_for_document(text, error),
    }
}

/// Reason for text that does not start with a document: extra text if there is one behind it.
fn search_for_document(text: &str, error: SyntaxError) -> Refused {
    // A document inside the reasoning is not the answer.
    let after_reasoning = REASONING_TAGS
        .iter()
        .filter_map(|[_, close]| Some(text.rfind(close)? + close.len()))
        .max()
        .and_then(|end| find_document(text, end));
    let start = skip_white_space(text, 0);
    let fence = |range: &Range<usize>| text[..range.start].rfind(FENCE);
    let (byte, kind, range) = match (after_reasoning, find_document(text, 0)) {
        (Some(range), _) => {
            let tags = REASONING_TAGS.iter().flatten();
            let first = tags.filter_map(|tag| text.find(tag)).min();
            (first.unwrap_or(start), ExtraText::ReasoningTags, range)
        }
        (None, Some(range)) => match fence(&range) {
            Some(byte) => (byte, ExtraText::Fence, range),
            None => (start, ExtraText::ProseBefore, range),
        },
        (None, None) => return invalid_json_reason(error).into(),
    };
    extra_text(byte, kind, range)
}

/// Searches for a complete object or array from byte `start` on. A fragment that fails is skipped
/// as far as it was read, so that an inner object of an invalid outer one is not taken for the
/// answer, and the search takes linear time.
fn find_document(text: &str, start: usize) -> Option<Range<usize>> {
    let mut search_start = start;
    while let Some(offset) = text[search_start..].find(['{', '[']) {
        let start = search_start + offset;
        match json_reader::read(text, start, Dialect::Rfc8259) {
            Ok(document) => return Some(start..document.end),
            // The reader fails only at character boundaries.
            Err(failure) => search_start = failure.byte.max(start + 1),
        }
    }
    None
}

fn extra_text(byte: usize, kind: ExtraText, inner: Range<usize>) -> Refused {
    Refused {
        reason: Reason::ExtraText {
            byte,
            kind,
            valid_if_stripped: false,
        },
        inner: Some(inner),
    }
}

fn invalid_json_reason(error: SyntaxError) -> Reason {
    Reason::NotJson {
        message: error.message.to_owned(),
        byte: error.byte,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json_reader::MAX_NESTING;

    fn outcome_name(text: &str) -> (&'static str, Option<usize>) {
        match parse_json_answer(text) {
            Ok(_) => ("json", None),
            Err(Refused { reason, .. }) => {
                let byte = match reason {
                    Reason::NotJson { byte, .. }
                    | Reason::ExtraText { byte, .. }
                    | Reason::LoneSurrogate { byte } => Some(byte),
                    _ => None,
                };
                (reason.name(), byte)
            }
        }
    }

    #[test]
    fn extra_text_is_distinguished_from_invalid_json() {
        for (text, expected) in [
            ("", ("empty", None)),
            (" \n", ("not_json", Some(2))),
            (" {\"a\": 1}\r\n", ("json", None)),
            ("{} {}", ("extra_text", Some(3))),
            ("{}.", ("extra_text", Some(2))),
            ("true story", ("extra_text", Some(5))),
            ("```json\n{\"a\":1}\n```", ("extra_text", Some(0))),
            ("Sure: {\"a\":1}", ("extra_text", Some(0))),
            ("Here:\n```\n[1]\n```", ("extra_text", Some(6))),
            ("So <think>a</think>{}", ("extra_text", Some(3))),
            (" so { is it {\"a\":1}", ("extra_text", Some(1))),
            ("nice {\"a\":1}", ("extra_text", Some(0))),
            ("\u{feff}{}", ("extra_text", Some(0))),
            ("nonsense", ("not_json", Some(0))),
            ("Sure: {\"a\":{\"b\":1}", ("not_json", Some(0))),
            ("{\"a\":{\"b\":1}", ("not_json", Some(12))),
            ("01", ("not_json", Some(1))),
            ("1.2.3", ("not_json", Some(3))),
            ("nullable", ("not_json", Some(4))),
            ("\"\\ud800\" x", ("extra_text", Some(9))),
            ("\"\\ud800\"", ("lone_surrogate", Some(1))),
            ("{\"a\":1,\"a\":\"\\ud800\"}", ("lone_surrogate", Some(12))),
            ("{\"a\":1,\"a\":1}", ("duplicate_key", None)),
        ] {
            assert_eq!(outcome_name(text), expected, "{text:?}");
        }
    }

    #[test]
    fn kinds_of_extra_text_are_distinguished() {
        for (text, kind, inner) in [
            ("```json\n{\"a\":1}\n```", "fence", "{\"a\":1}"),
            ("{\"a\":1}\n```", "fence", "{\"a\":1}"),
            ("Here:\n```\n[1]\n```", "fence", "[1]"),
            ("Sure: {\"a\":1}", "prose_before", "{\"a\":1}"),
            (" {\"a\":1} ok?", "prose_after", "{\"a\":1}"),
            ("true story", "prose_after", "true"),
            (
                "<think>{\"x\":1}</think>\n{\"a\":1}",
                "reasoning_tags",
                "{\"a\":1}",
            ),
            ("[THINK]no[/THINK]{}", "reasoning_tags", "{}"),
            (
                "say </think> {\"a\":\"</think>\"}",
                "prose_before",
                "{\"a\":\"</think>\"}",
            ),
            ("{\"a\":1} {\"a\":2}", "second_document", "{\"a\":1}"),
        ] {
            let Err(Refused {
                reason: Reason::ExtraText { kind: found, .. },
                inner: Some(range),
            }) = parse_json_answer(text)
            else {
                panic!("{text:?} has no extra text");
            };
            assert_eq!((found.name(), &text[range]), (kind, inner), "{text:?}");
        }
    }

    #[test]
    fn a_start_of_json_is_refused_only_where_no_more_text_helps() {
        for text in [
            "",
            " ",
            "-",
            "1",
            "1.",
            "1e",
            "1e-",
            "0",
            "t",
            "tru",
            "nul",
            "\"",
            "\"\\",
            "\"\\u",
            "\"\\u00",
            "\"\\ud83d",
            "\"\\ud83d\\",
            "\"\\ud83d\\u",
            "\"\\ud83d\\ude0",
            "{",
            "{\"a",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":-",
            "{\"a\":[1,",
            "[[{\"a\":1}",
            "[1 ",
        ] {
            assert!(parse_start(text).is_ok(), "{text:?}");
        }
        for (text, reason) in [
            ("-a", "not_json"),
            ("trx", "not_json"),
            ("01", "not_json"),
            ("1.e", "not_json"),
            ("{a", "not_json"),
            ("\"\\x", "not_json"),
            ("\"\\u00g", "not_json"),
            ("\"\\ud83d ", "lone_surrogate"),
            ("\"\\ude00", "lone_surrogate"),
            ("{\"a\":1,\"a\":", "duplicate_key"),
            ("The answer", "not_json"),
            ("{} a", "extra_text"),
        ] {
            match parse_start(text) {
                Err(refused) => assert_eq!(refused.reason.name(), reason, "{text:?}"),
                Ok(_) => panic!("{text:?} is not a start of JSON"),
            }
        }
        let deep = "[".repeat(MAX_NESTING + 1);
        assert!(parse_start(&deep[1..]).is_ok());
        assert!(matches!(
            parse_start(&deep),
            Err(Refused {
                reason: Reason::TooDeep { .. },
                ..
            })
        ));
    }

    #[test]
    fn deep_json_is_too_deep_and_deep_invalid_json_is_not_json() {
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(outcome_name(&nested(MAX_NESTING)), ("json", None));
        assert_eq!(outcome_name(&nested(MAX_NESTING + 1)), ("too_deep", None));
        assert_eq!(
            outcome_name(&"[".repeat(MAX_NESTING + 1)),
            ("not_json", Some(MAX_NESTING + 1))
        );
    }
}
