//! Python writes `NaN`, `Infinity` and `-Infinity` in JSON, for example in results of vLLM's tools
//! (the standard deviation of one request). They are replaced by `null`.

use std::borrow::Cow;
use std::io::{self, Read};

const LITERALS: [&[u8]; 3] = [b"NaN", b"-Infinity", b"Infinity"];

/// Bytes that are read at once.
const PART_BYTES: usize = 64 << 10;

/// Replaces `NaN`, `Infinity` and `-Infinity` outside of strings by `null`.
pub fn without_nan(bytes: &[u8]) -> Cow<'_, [u8]> {
    let has = |literal: &[u8]| bytes.windows(literal.len()).any(|window| window == literal);
    if !has(LITERALS[0]) && !has(LITERALS[2]) {
        return Cow::Borrowed(bytes);
    }
    let mut clean = Vec::with_capacity(bytes.len());
    Replacer::default().replace(bytes, true, &mut clean);
    Cow::Owned(clean)
}

/// Replaces literals in a text that is read in parts.
#[derive(Debug, Default)]
struct Replacer {
    in_string: bool,
    /// After a backslash in a string.
    is_escaped: bool,
}

impl Replacer {
    /// Appends a part of the text to `clean`, and returns how many bytes of it. Unless it is the last
    /// part, the start of a literal at its end is left.
    fn replace(&mut self, bytes: &[u8], is_last: bool, clean: &mut Vec<u8>) -> usize {
        let mut position = 0;
        while let Some(byte) = bytes.get(position) {
            let rest = &bytes[position..];
            if !self.in_string && matches!(byte, b'N' | b'I' | b'-') {
                if let Some(literal) = LITERALS.into_iter().find(|own| rest.starts_with(own)) {
                    clean.extend_from_slice(b"null");
                    position += literal.len();
                    continue;
                }
                if !is_last && LITERALS.into_iter().any(|own| own.starts_with(rest)) {
                    break;
                }
            }
            if self.is_escaped {
                self.is_escaped = false;
            } else if *byte == b'"' {
                self.in_string = !self.in_string;
            } else {
                self.is_escaped = self.in_string && *byte == b'\\';
            }
            clean.push(*byte);
            position += 1;
        }
        position
    }
}

/// Reads a JSON text with these literals replaced by `null`.
#[derive(Debug)]
pub struct WithoutNan<R> {
    inner: R,
    replacer: Replacer,
    /// Bytes whose literals have not been replaced.
    raw: Vec<u8>,
    clean: Vec<u8>,
    /// Bytes of `clean` that have been read.
    taken: usize,
    is_last: bool,
}

impl<R: Read> WithoutNan<R> {
    /// Reads from `inner`.
    pub fn new(inner: R) -> Self {
        Self {
            inner,
            replacer: Replacer::default(),
            raw: Vec::new(),
            clean: Vec::new(),
            taken: 0,
            is_last: false,
        }
    }

    /// The next bytes; empty at the end.
    fn next_part(&mut self) -> io::Result<&[u8]> {
        while self.taken == self.clean.len() && !self.is_last {
            let read = (&mut self.inner)
                .take(PART_BYTES as u64)
                .read_to_end(&mut self.raw)?;
            self.is_last = read == 0;
            self.clean.clear();
            self.taken = 0;
            let done = self
                .replacer
                .replace(&self.raw, self.is_last, &mut self.clean);
            self.raw.drain(..done);
        }
        Ok(&self.clean[self.taken..])
    }
}

impl<R: Read> Read for WithoutNan<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let part = self.next_part()?;
        let length = part.len().min(buffer.len());
        buffer[..length].copy_from_slice(&part[..length]);
        self.taken += length;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_finite_numbers_are_null_outside_of_strings() {
        for (text, expected) in [
            (
                r#"{"std": NaN, "a": [-Infinity, Infinity]}"#,
                r#"{"std": null, "a": [null, null]}"#,
            ),
            (
                r#"{"a": "NaN \" NaN \\", "b": NaN}"#,
                r#"{"a": "NaN \" NaN \\", "b": null}"#,
            ),
            ("{}", "{}"),
            (r#""NaN\"#, r#""NaN\"#),
        ] {
            assert_eq!(without_nan(text.as_bytes()), expected.as_bytes());
            for length in 1..text.len() {
                let (start, end) = text.as_bytes().split_at(length);
                let mut read = String::new();
                WithoutNan::new(start.chain(end))
                    .read_to_string(&mut read)
                    .unwrap();
                assert_eq!(read, expected);
                let mut replacer = Replacer::default();
                let mut clean = Vec::new();
                let done = replacer.replace(start, false, &mut clean);
                replacer.replace(&text.as_bytes()[done..], true, &mut clean);
                assert_eq!(clean, expected.as_bytes());
            }
        }
    }
}
