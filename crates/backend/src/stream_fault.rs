//! Kinds of stream errors, recognised by the start of their message, and a hint for each.

use std::fmt;

use sobench_core::observation::ERROR_IN_STREAM;

/// What is wrong with a response of status 200.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFault {
    /// The body has a content coding, although `identity` was requested.
    Compressed,
    /// The server sent an error instead of (more of) the answer.
    ServerError,
    /// A JSON string has one half of a surrogate pair.
    HalfSurrogate,
    /// Two finish reasons that contradict each other.
    TwoFinishReasons,
    /// A finish reason that says that the request failed.
    FailedFinishReason,
    /// No terminal event and no finish reason.
    NoEnd,
    /// Not a single byte, or white space only.
    EmptyBody,
    Utf16,
    /// Another encoding, or half a character.
    NotUtf8,
}

impl StreamFault {
    pub const ALL: [Self; 9] = [
        Self::Compressed,
        Self::ServerError,
        Self::HalfSurrogate,
        Self::TwoFinishReasons,
        Self::FailedFinishReason,
        Self::NoEnd,
        Self::EmptyBody,
        Self::Utf16,
        Self::NotUtf8,
    ];

    /// The message of an outcome with this fault.
    pub fn message(self, detail: &str) -> String {
        if detail.is_empty() {
            self.to_string()
        } else {
            format!("{self}: {detail}")
        }
    }

    /// The fault that a message names.
    pub fn from_message(message: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|fault| message.starts_with(fault.start()))
    }

    /// What to do if it happens on the first request.
    pub fn hint(self) -> &'static str {
        match self {
            Self::Compressed => {
                "turn off compression at the server or at the proxy before it: compressed events \
                 arrive late, so nothing could be timed"
            }
            Self::ServerError => "the server failed on the first request: check its log",
            Self::HalfSurrogate => {
                "the server splits a character: this is an error of the server or of its tokenizer"
            }
            Self::TwoFinishReasons => {
                "the server ends one answer twice: check its log and any proxy before it; such an \
                 answer has no known end"
            }
            Self::FailedFinishReason => "the server gave up on the request: check its log",
            Self::NoEnd => {
                "the server or a proxy before it ended the stream early: check their logs; if \
                 every stream ends so, check --backend"
            }
            Self::EmptyBody => {
                "the server or a proxy before it sent a response without a body: check their logs, \
                 and --endpoint"
            }
            Self::Utf16 => "JSON and event streams are UTF-8: configure the server or its proxy",
            Self::NotUtf8 => {
                "the server splits a character, or uses another encoding than UTF-8: this is an \
                 error of the server or of its tokenizer"
            }
        }
    }

    fn start(self) -> &'static str {
        match self {
            Self::Compressed => "compressed response although identity was requested",
            Self::ServerError => ERROR_IN_STREAM,
            Self::HalfSurrogate => "half of a surrogate pair in a JSON string",
            Self::TwoFinishReasons => "two finish reasons",
            Self::FailedFinishReason => "finish reason of a failed request",
            Self::NoEnd => "the stream ended without a terminal event and without a finish reason",
            Self::EmptyBody => "empty body in a response with status 200",
            Self::Utf16 => "a response in UTF-16 in place of UTF-8",
            Self::NotUtf8 => "a response that is not UTF-8",
        }
    }
}

impl fmt::Display for StreamFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.start())?;
        match self {
            Self::Compressed => f.write_str(", content-encoding"),
            _ => Ok(()),
        }
    }
}

/// Whether JSON text has the escape of one half of a surrogate pair without the other half.
pub(super) fn has_half_surrogate(json: &[u8]) -> bool {
    let mut rest = json;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        let escape = &rest[at..];
        let (size, is_half) = match code_unit(escape) {
            Some(0xD800..=0xDBFF) => match code_unit(&escape[6..]) {
                Some(0xDC00..=0xDFFF) => (12, false),
                _ => (6, true),
            },
            Some(0xDC00..=0xDFFF) => (6, true),
            Some(_) => (6, false),
            None => (2, false),
        };
        if is_half {
            return true;
        }
        rest = escape.get(size..).unwrap_or_default();
    }
    false
}

/// The code unit of an escape `\\uXXXX` at the start of the text.
fn code_unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_their_fault() {
        for fault in StreamFault::ALL {
            for detail in ["", "words"] {
                let message = fault.message(detail);
                assert_eq!(
                    StreamFault::from_message(&message),
                    Some(fault),
                    "{message}"
                );
                assert!(message.ends_with(detail), "{message}");
            }
            assert!(!fault.hint().is_empty());
        }
        assert_eq!(
            StreamFault::from_message("unreadable event (): two finish reasons"),
            None
        );
        assert_eq!(
            StreamFault::Compressed.message("gzip"),
            "compressed response although identity was requested, content-encoding: gzip"
        );
    }

    #[test]
    fn halves_of_surrogate_pairs_are_found() {
        for (json, expected) in [
            (r#""a""#, false),
            (r#""\ud83d\ude00""#, false),
            (r#""\u00e9\n""#, false),
            (r#""\\ud83d""#, false),
            (r#""\ud83d""#, true),
            (r#""\uD83Dx""#, true),
            (r#""\ude00""#, true),
            (r#""\ud83d\ud83d\ude00""#, true),
            (r#""\\\ud83d""#, true),
            (r#""\u12"#, false),
            ("\\", false),
        ] {
            assert_eq!(has_half_surrogate(json.as_bytes()), expected, "{json}");
        }
    }
}
