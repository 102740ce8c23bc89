//! Redaction: keys and passwords are replaced in every text that leaves the program.
//!
//! Values are registered where they enter: the command line, the environment, token files. The
//! terminal, output files and the run log redact what they write, and
//! [`printable`](crate::printable::printable) redacts before it cuts, because half a key is not
//! recognised.

use std::borrow::Cow;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::{LazyLock, PoisonError, RwLock, RwLockReadGuard};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use memchr::memmem;
use percent_encoding::percent_decode_str;
use regex::{Regex, bytes};

/// Minimum length of a secret. A shorter one could match ordinary text.
const MIN_BYTES: usize = 8;

/// Characters of a secret that a shortened form (`sk-ab***wxyz`) shows at least, in total and at
/// each end.
const MIN_SHOWN: usize = 6;
const MIN_SHOWN_AT_END: usize = 2;

/// In place of a secret.
const REDACTED: &str = "***";

/// The words of our own formats. A secret that is one of them, or a number, stays: files in which
/// it were replaced could not be read.
const FORMATS: &str = include_str!("../../../schemas/contracts/keys.txt");

static SECRETS: RwLock<Secrets> = RwLock::new(Secrets(Vec::new()));

/// Secrets, the longest first.
#[derive(Clone, Debug, Default)]
struct Secrets(Vec<String>);

/// Registers a key, also if it is written as `Bearer KEY`.
pub fn register(value: &str) {
    let mut known = SECRETS.write().unwrap_or_else(PoisonError::into_inner);
    known.add(value);
}

/// Registers the keys and passwords in the value of a flag that concerns a server: a URL, a header,
/// a JSON object or a command.
pub fn register_setting(text: &str) {
    in_setting(text).iter().for_each(|value| register(value));
}

/// Registers the value of a header `NAME=VALUE`, unless it is a media type.
pub fn register_header(pair: &str) {
    register_setting(pair);
    let value = pair.split_once(['=', ':']).map_or("", |(_, value)| value);
    let is_media_type = value.split_once('/').is_some_and(|(kind, _)| {
        ["application", "text", "audio", "image", "multipart", "*"].contains(&kind.trim())
    });
    if !is_media_type {
        register(value);
    }
}

/// A text without secrets.
pub fn redacted(text: &str) -> Cow<'_, str> {
    match known().redacted(text.as_bytes()) {
        Cow::Borrowed(_) => Cow::Borrowed(text),
        Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

/// Bytes of a text without secrets.
pub fn redacted_bytes(bytes: Vec<u8>) -> Vec<u8> {
    match known().redacted(&bytes) {
        Cow::Borrowed(_) => bytes,
        Cow::Owned(redacted) => redacted,
    }
}

fn known() -> RwLockReadGuard<'static, Secrets> {
    SECRETS.read().unwrap_or_else(PoisonError::into_inner)
}

/// Keys and passwords in a setting: values whose name ends with such a word, and the user and
/// password of a URL.
fn in_setting(text: &str) -> Vec<String> {
    static NAMED: LazyLock<Regex> = LazyLock::new(|| {
        let pattern = r#"(?ix)
            (?: (?:key|token|secret|password|passwd|pwd|auth|authorization|credentials?|cookie|signature|sig)
                ["']? \s* [=:] \s* ["']?
              | --[a-z_-]* (?:key|token|secret|password) \s+ ["']? )
            (?: (?:bearer|basic) \s+ )?
            ([^\s"'&,;{}\[\]<>]+)"#;
        Regex::new(pattern).expect("the pattern is a constant")
    });
    static USER: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"(?:^|://)([^/?#\s"']+)@"#).expect("the pattern is a constant")
    });
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let mut found = Vec::new();
    for captures in NAMED.captures_iter(text) {
        found.extend([captures[1].to_owned(), decoded(&captures[1])]);
    }
    for captures in USER.captures_iter(text) {
        let user = decoded(&captures[1]);
        let password = captures[1].split_once(':').map(|(_, password)| password);
        found.extend(password.map(str::to_owned));
        found.extend(password.map(decoded));
        // As in the header of the request.
        found.push(STANDARD.encode(&user));
        found.extend([captures[1].to_owned(), user]);
    }
    found
}

impl Secrets {
    fn add(&mut self, value: &str) {
        let value = value.trim();
        let value = match value.split_once(' ') {
            Some((scheme, key)) if ["bearer", "basic"].contains(&&*scheme.to_ascii_lowercase()) => {
                key.trim()
            }
            _ => value,
        };
        let mut bytes = value.bytes();
        let is_number = bytes.all(|byte| byte.is_ascii_digit() || byte == b'.');
        let is_word = || FORMATS.contains(value);
        if value.len() < MIN_BYTES || is_number || is_word() {
            return;
        }
        let quoted = serde_json::Value::from(value).to_string();
        let escaped = &quoted[1..quoted.len() - 1];
        self.0.extend([value.to_owned(), escaped.to_owned()]);
        self.0
            .sort_unstable_by(|one, other| (other.len(), other).cmp(&(one.len(), one)));
        self.0.dedup();
    }

    fn redacted<'t>(&self, text: &'t [u8]) -> Cow<'t, [u8]> {
        let mut found: Vec<Range<usize>> = Vec::new();
        for secret in &self.0 {
            let places = memmem::find_iter(text, secret.as_bytes());
            found.extend(places.map(|at| at..at + secret.len()));
        }
        if !self.0.is_empty() {
            found.extend(self.shortened(text));
        }
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        found.sort_unstable_by_key(|place| (place.start, std::cmp::Reverse(place.end)));
        let mut out = Vec::with_capacity(text.len());
        let mut end = 0;
        for place in found {
            if place.start >= end {
                out.extend_from_slice(&text[end..place.start]);
                out.extend_from_slice(REDACTED.as_bytes());
            }
            end = end.max(place.end);
        }
        out.extend_from_slice(&text[end..]);
        Cow::Owned(out)
    }

    /// Places where the start and the end of a secret are around a mask, as servers write it.
    fn shortened(&self, text: &[u8]) -> Vec<Range<usize>> {
        static MASK: LazyLock<bytes::Regex> = LazyLock::new(|| {
            bytes::Regex::new(r"\*{2,}|\.{2,}|…|•{2,}").expect("the pattern is a constant")
        });
        let place = |mask: Range<usize>| {
            let shown = |secret: &&String| secret.is_ascii();
            self.0.iter().filter(shown).find_map(|secret| {
                let (before, after) = (&text[..mask.start], &text[mask.end..]);
                let lengths = || (MIN_SHOWN_AT_END..secret.len()).rev();
                let start =
                    lengths().find(|length| before.ends_with(&secret.as_bytes()[..*length]))?;
                let end = lengths().find(|length| {
                    after.starts_with(&secret.as_bytes()[secret.len() - length..])
                })?;
                (start + end >= MIN_SHOWN).then(|| mask.start - start..mask.end + end)
            })
        };
        MASK.find_iter(text)
            .filter_map(|mask| place(mask.range()))
            .collect()
    }
}

/// Bytes that are collected before they are redacted.
const BLOCK_BYTES: usize = 64 << 10;

/// Bytes at the end of a block that wait for the next one, beside the longest secret: a shortened
/// secret can be longer than the secret.
const MAX_MASK_BYTES: usize = 256;

/// Redacts what is written through it. A secret must not be cut by a flush.
pub struct Redactor<W> {
    inner: W,
    held: Vec<u8>,
}

impl<W: Write> Redactor<W> {
    /// Writes to `inner`. The last bytes are written by [`Write::flush`].
    pub fn new(inner: W) -> Self {
        Self {
            inner,
            held: Vec::new(),
        }
    }

    /// Writes all but the last `keep` bytes.
    fn pass(&mut self, keep: usize) -> io::Result<()> {
        let mut text = redacted_bytes(std::mem::take(&mut self.held));
        self.held = text.split_off(text.len().saturating_sub(keep));
        self.inner.write_all(&text)
    }
}

impl<W: Write> Write for Redactor<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let longest = match known().0.first() {
            None if self.held.is_empty() => return self.inner.write(bytes),
            longest => longest.map_or(0, String::len),
        };
        self.held.extend_from_slice(bytes);
        if self.held.len() >= BLOCK_BYTES {
            self.pass(longest + MAX_MASK_BYTES)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass(0)?;
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(values: &[&str]) -> Secrets {
        let mut secrets = Secrets::default();
        values.iter().for_each(|value| secrets.add(value));
        secrets
    }

    #[test]
    fn secrets_are_replaced_whole_quoted_and_shortened() {
        let known = secrets(&["Bearer sk-abcdef123wxyz", "p\"quoted\\word"]);
        for (text, expected) in [
            (
                "key sk-abcdef123wxyz, Bearer sk-abcdef123wxyz.",
                "key ***, Bearer ***.",
            ),
            (r#"{"a":"p\"quoted\\word"}"#, r#"{"a":"***"}"#),
            (
                "Incorrect API key provided: sk-ab***wxyz. You",
                "Incorrect API key provided: ***. You",
            ),
            ("sk-abcde************wxyz", "***"),
            ("Received API Key = sk-...wxyz", "Received API Key = ***"),
            ("sk-a…3wxyz, sk-••••wxyz", "***, ***"),
            // Other text stays.
            ("sk-... and ...wxyz, so...", "sk-... and ...wxyz, so..."),
            ("sk-abcdef", "sk-abcdef"),
        ] {
            let redacted = known.redacted(text.as_bytes()).into_owned();
            assert_eq!(String::from_utf8(redacted).unwrap(), expected);
        }
    }

    #[test]
    fn short_values_numbers_and_words_of_our_formats_stay() {
        assert_eq!(
            secrets(&["short", "Bearer x", "12345678", "started_unix_ns"]).0,
            [""; 0]
        );
    }

    #[test]
    fn secrets_are_found_in_settings() {
        for (text, expected) in [
            (
                "/v1/chat?api_key=abcd%2Fefgh&x=1",
                &["abcd%2Fefgh", "abcd/efgh"][..],
            ),
            ("Authorization: Bearer abcdefgh", &["abcdefgh", "abcdefgh"]),
            (
                r#"{"a": {"apiKey": "abcdefgh"}, "max_tokens": 12345678}"#,
                &["abcdefgh", "abcdefgh"],
            ),
            (
                "vllm serve m --api-key abcdefgh --tokenizer abc",
                &["abcdefgh", "abcdefgh"],
            ),
            (
                "https://me:pass%40word@host:1/v1",
                &[
                    "pass%40word",
                    "pass@word",
                    "bWU6cGFzc0B3b3Jk",
                    "me:pass%40word",
                    "me:pass@word",
                ],
            ),
            ("/v1/completions?api-version=2024-02-01", &[]),
            (
                r#"{"tokenizer": "meta/llama", "key": {"type": "string"}}"#,
                &[],
            ),
        ] {
            assert_eq!(in_setting(text), expected, "{text}");
        }
    }

    #[test]
    fn values_of_headers_are_secret_except_media_types() {
        register_header("x-team=0123456789abcdefTEAM");
        register_header("x-api-key=only-letters-here");
        register_header("accept=application/vnd.v2+json");
        let text = "0123456789abcdefTEAM only-letters-here application/vnd.v2+json";
        assert_eq!(redacted(text), "*** *** application/vnd.v2+json");
    }

    #[test]
    fn secrets_across_writes_are_redacted() {
        register("key-across-writes-1");
        for size in [1, 7, 1000] {
            let text = format!("{}key-across-writes-1", "x".repeat(997)).repeat(200);
            let mut out = Redactor::new(Vec::new());
            for part in text.as_bytes().chunks(size) {
                out.write_all(part).unwrap();
            }
            out.flush().unwrap();
            let expected = format!("{}***", "x".repeat(997)).repeat(200);
            assert!(out.inner == expected.as_bytes(), "{size}");
        }
    }
}
