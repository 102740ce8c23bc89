//! Parses an answer that must be one JSON text and nothing else.
//!
//! The text is parsed exactly as the server sent it. JSON white space around the document is part
//! of a JSON text (RFC 8259, section 2). Prose, Markdown fences, a byte order mark and a second
//! document are not, and are distinguished from text without JSON.

use serde_json::Value;

use super::json_reader::{self, Dialect, MAX_NESTING, SyntaxError};
use sobench_core::verdict::{NotScored, Reason, Verdict};

/// Parses the JSON value of `text`, or returns the verdict that explains why there is none.
///
/// The first of these problems is reported: not JSON, other text around it, nesting limit, lone
/// surrogate, duplicate member.
pub(super) fn parse_json_answer(text: &str) -> Result<Value, Verdict> {
    if text.is_empty() {
        return Err(invalid(Reason::Empty));
    }
    let document = json_reader::read(text, 0, Dialect::Rfc8259)
        .map_err(|error| invalid(not_json_reason(text, error)))?;
    let rest = json_reader::skip_white_space(text, document.end);
    if rest < text.len() {
        return Err(invalid(reason_for_trailing_text(text, rest)));
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
    if let Some(json_reader::Duplicate { key, instance_path }) = document.duplicate {
        return Err(invalid(Reason::DuplicateKey { key, instance_path }));
    }
    Ok(document.value)
}

fn invalid(reason: Reason) -> Verdict {
    Verdict::Invalid { reason }
}

/// Reason for text after a document that ends at `rest`. After a closing bracket or quote, it is
/// extra text. After a literal or number that continues (`01`, `nullable`, `1.2.3`), the document
/// itself is invalid.
fn reason_for_trailing_text(text: &str, rest: usize) -> Reason {
    let bytes = text.as_bytes();
    let continues_token =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'+' | b'-' | b'_');
    if continues_token(bytes[rest - 1]) && continues_token(bytes[rest]) {
        let error = SyntaxError {
            byte: rest,
            message: "expected the end of the value",
        };
        return search_for_document(text, error);
    }
    Reason::ExtraText { byte: rest }
}

/// Reason why `text` is not JSON: prose around a document, or an invalid document.
fn not_json_reason(text: &str, error: SyntaxError) -> Reason {
    let start = json_reader::skip_white_space(text, 0);
    match text.as_bytes().get(start) {
        // The text starts like a document, so this document is invalid, and a later one is not
        // searched for.
        Some(b'{' | b'[' | b'"') | None => invalid_json_reason(error),
        Some(_) => search_for_document(text, error),
    }
}

/// Searches for a complete object or array in the rest of the text. A fragment that fails is
/// skipped as far as it was read, so that an inner object of an invalid outer one is not taken for
/// the answer, and the search takes linear time.
fn search_for_document(text: &str, error: SyntaxError) -> Reason {
    let mut search_start = 0;
    while let Some(offset) = text[search_start..].find(['{', '[']) {
        match json_reader::read(text, search_start + offset, Dialect::Rfc8259) {
            Ok(_) => {
                return Reason::ExtraText {
                    byte: json_reader::skip_white_space(text, 0),
                };
            }
            // The reader fails only at character boundaries.
            Err(failure) => search_start = failure.byte.max(search_start + offset + 1),
        }
    }
    invalid_json_reason(error)
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

    fn outcome_name(text: &str) -> (&'static str, Option<usize>) {
        match parse_json_answer(text) {
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
    fn deep_json_is_not_scored_and_deep_invalid_json_is_not_json() {
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(outcome_name(&nested(MAX_NESTING)), ("json", None));
        assert_eq!(outcome_name(&nested(MAX_NESTING + 1)), ("limit", None));
        assert_eq!(
            outcome_name(&"[".repeat(MAX_NESTING + 1)),
            ("not_json", Some(MAX_NESTING + 1))
        );
    }
}
