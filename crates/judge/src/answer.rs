//! What counts as the answer where JSON is due: one JSON text and nothing else. Knows no schema.
//!
//! The text is taken exactly as the server sent it. JSON white space before and after the document
//! belongs to a JSON text (RFC 8259, section 2); prose, Markdown fences, a byte order mark or a
//! second document do not, and are told apart from text that holds no JSON at all.

use serde_json::Value;

use super::json::{self, Dialect, MAX_NESTING, SyntaxError};
use sobench_core::verdict::{NotScored, Reason, Verdict};

/// The one JSON value that `text` is, or what else it is.
///
/// Where several things are wrong the first of these is reported: not JSON, other text around it,
/// too deep to judge, half a surrogate pair, a repeated member.
pub(super) fn json_answer(text: &str) -> Result<Value, Verdict> {
    if text.is_empty() {
        return Err(invalid(Reason::Empty));
    }
    let document =
        json::read(text, 0, Dialect::Rfc8259).map_err(|error| invalid(not_json(text, error)))?;
    let rest = json::skip_white_space(text, document.end);
    if rest < text.len() {
        return Err(invalid(broken_or_followed(text, rest)));
    }
    if document.nesting > MAX_NESTING {
        return Err(Verdict::NotScored {
            why: NotScored::Limit {
                what: format!("nesting over {MAX_NESTING}"),
            },
        });
    }
    if let Some(byte) = document.lone_surrogate {
        return Err(invalid(Reason::LoneSurrogate { byte }));
    }
    if let Some(json::Duplicate { key, instance_path }) = document.duplicate {
        return Err(invalid(Reason::DuplicateKey { key, instance_path }));
    }
    Ok(document.value)
}

fn invalid(reason: Reason) -> Verdict {
    Verdict::Invalid { reason }
}

/// A document ends before `rest`. After a closing bracket or quote that is a document with text
/// behind it; after a bare word or a number with more of the same (`01`, `nullable`, `1.2.3`), it
/// was no document.
fn broken_or_followed(text: &str, rest: usize) -> Reason {
    let bytes = text.as_bytes();
    let glued =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'+' | b'-' | b'_');
    if glued(bytes[rest - 1]) && glued(bytes[rest]) {
        let error = SyntaxError {
            byte: rest,
            message: "expected the end of the value",
        };
        return not_json_or_prose(text, error);
    }
    Reason::ExtraText { byte: rest }
}

/// Why `text` is not JSON: prose around a document, or a document that is broken.
fn not_json(text: &str, error: SyntaxError) -> Reason {
    let start = json::skip_white_space(text, 0);
    match text.as_bytes().get(start) {
        // It begins as a document does, so it is that document which is broken, not a later one
        // which is surrounded.
        Some(b'{' | b'[' | b'"') | None => broken(error),
        Some(_) => not_json_or_prose(text, error),
    }
}

/// Looks for one whole object or array further on. A piece that fails is skipped as far as it was
/// read, so that the inner object of a broken outer one is not taken for the answer, and the search
/// takes linear time.
fn not_json_or_prose(text: &str, error: SyntaxError) -> Reason {
    let mut from = 0;
    while let Some(offset) = text[from..].find(['{', '[']) {
        match json::read(text, from + offset, Dialect::Rfc8259) {
            Ok(_) => {
                return Reason::ExtraText {
                    byte: json::skip_white_space(text, 0),
                };
            }
            // The reader fails only between characters.
            Err(failure) => from = failure.byte.max(from + offset + 1),
        }
    }
    broken(error)
}

fn broken(error: SyntaxError) -> Reason {
    Reason::NotJson {
        message: error.message.to_owned(),
        byte: error.byte,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> (&'static str, Option<usize>) {
        match json_answer(text) {
            Ok(_) => ("json", None),
            Err(Verdict::Invalid { reason }) => {
                let byte = match reason {
                    Reason::NotJson { byte, .. }
                    | Reason::ExtraText { byte }
                    | Reason::LoneSurrogate { byte } => Some(byte),
                    _ => None,
                };
                (reason.name(), byte)
            }
            Err(Verdict::NotScored { why }) => (why.name(), None),
            Err(Verdict::Valid) => panic!("validity is not decided here"),
        }
    }

    #[test]
    fn tells_what_is_around_a_document_from_what_is_none() {
        for (text, expected) in [
            ("", ("empty", None)),
            (" \n", ("not_json", Some(2))),
            (" {\"a\": 1}\r\n", ("json", None)),
            ("{} {}", ("extra_text", Some(3))),
            ("{}.", ("extra_text", Some(2))),
            ("true story", ("extra_text", Some(5))),
            ("```json\n{\"a\":1}\n```", ("extra_text", Some(0))),
            ("Sure: {\"a\":1}", ("extra_text", Some(0))),
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
            assert_eq!(name(text), expected, "{text:?}");
        }
    }

    #[test]
    fn deep_json_is_a_limit_and_deep_nonsense_is_not_json() {
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(name(&nested(MAX_NESTING)), ("json", None));
        assert_eq!(name(&nested(MAX_NESTING + 1)), ("limit", None));
        assert_eq!(
            name(&"[".repeat(MAX_NESTING + 1)),
            ("not_json", Some(MAX_NESTING + 1))
        );
    }
}
