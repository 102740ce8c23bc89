//! Reads text line by line, from a file or from memory. Memory use is one line.
//!
//! Lines end with LF, CR LF or CR, as in Python's "universal newlines".

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use super::{BYTE_ORDER_MARK, check_text, not_utf8, nul, open, unreadable};
use crate::error::{Error, Result};

/// Maximum length of a line of an input file, in bytes.
pub const MAX_LINE_BYTES: usize = 64 << 20;

/// Non-blank lines of a text, trimmed, with their numbers from 1.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut rest = Some(text);
    let all = std::iter::from_fn(move || {
        let here = rest?;
        let Some(end) = memchr::memchr2(b'\n', b'\r', here.as_bytes()) else {
            rest = None;
            return Some(here);
        };
        let is_pair = here.as_bytes()[end..].starts_with(b"\r\n");
        rest = Some(&here[end + if is_pair { 2 } else { 1 }..]);
        Some(&here[..end])
    });
    all.enumerate()
        .map(|(index, line)| (index + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty())
}

/// Number of line ends in these bytes.
pub(super) fn ends(bytes: &[u8]) -> usize {
    let is_pair =
        |position: &usize| bytes[*position] == b'\r' && bytes.get(position + 1) == Some(&b'\n');
    memchr::memchr2_iter(b'\n', b'\r', bytes)
        .filter(|position| !is_pair(position))
        .count()
}

pub(super) fn too_long(path: &Path, line: usize) -> Error {
    Error::usage(format!(
        "{}, line {line}: longer than {MAX_LINE_BYTES} bytes",
        path.display()
    ))
    .hint("put each row on a line of its own")
}

/// Non-blank lines of a file, trimmed, with their numbers from 1.
///
/// Iteration ends after the first error, which names the file and the line.
#[derive(Debug)]
pub struct Lines {
    path: PathBuf,
    bytes: BufReader<File>,
    number: usize,
    /// Whether the last line ended with CR, so that a following LF belongs to it.
    after_cr: bool,
    file_len: u64,
    /// Bytes left up to `max_bytes`.
    left: u64,
    max_bytes: u64,
    is_over: bool,
}

impl Lines {
    /// Opens a file of at most `max_bytes` bytes.
    ///
    /// # Errors
    /// As for [`check_text`].
    pub fn open(path: &Path, max_bytes: u64) -> Result<Self> {
        check_text(path, max_bytes)?;
        let (file, file_len) = open(path, max_bytes)?;
        let bytes = BufReader::with_capacity(1 << 16, file);
        Ok(Self {
            path: path.to_owned(),
            bytes,
            number: 0,
            after_cr: false,
            file_len,
            left: max_bytes,
            max_bytes,
            is_over: false,
        })
    }

    /// Size of the file in bytes when it was opened.
    pub fn file_len(&self) -> u64 {
        self.file_len
    }

    /// The next line without its line end; `None` at the end of the file.
    fn line(&mut self) -> Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        loop {
            let read = self
                .bytes
                .fill_buf()
                .map_err(|error| unreadable(&self.path, &error))?;
            if read.is_empty() {
                self.is_over = true;
                return Ok((!line.is_empty()).then_some(line));
            }
            if self.after_cr {
                self.after_cr = false;
                if read[0] == b'\n' {
                    self.bytes.consume(1);
                    continue;
                }
            }
            let end = memchr::memchr2(b'\n', b'\r', read);
            let taken = end.unwrap_or(read.len());
            if line.len() + taken > MAX_LINE_BYTES {
                return Err(too_long(&self.path, self.number + 1));
            }
            line.extend_from_slice(&read[..taken]);
            let used = taken + usize::from(end.is_some());
            self.after_cr = end.is_some_and(|end| read[end] == b'\r');
            self.bytes.consume(used);
            self.left = self
                .left
                .checked_sub(used as u64)
                .ok_or_else(|| super::too_large(&self.path, self.max_bytes))?;
            if end.is_some() {
                return Ok(Some(line));
            }
        }
    }

    fn text(&self, line: Vec<u8>) -> Result<String> {
        let line = if self.number == 1 {
            line.strip_prefix(BYTE_ORDER_MARK)
                .map(<[u8]>::to_vec)
                .unwrap_or(line)
        } else {
            line
        };
        if memchr::memchr(0, &line).is_some() {
            return Err(nul(&self.path, self.number));
        }
        String::from_utf8(line).map_err(|_| not_utf8(&self.path, self.number))
    }
}

impl Iterator for Lines {
    type Item = Result<(usize, String)>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.is_over {
            let line = match self.line() {
                Ok(line) => line?,
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error));
                }
            };
            self.number += 1;
            match self.text(line) {
                Ok(line) if line.trim().is_empty() => {}
                Ok(line) if line.trim().len() == line.len() => {
                    return Some(Ok((self.number, line)));
                }
                Ok(line) => return Some(Ok((self.number, line.trim().to_owned()))),
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        std::fs::write(&path, bytes).unwrap();
        (folder, path)
    }

    #[test]
    fn line_numbers_are_right_for_every_line_end() {
        for (text, expected) in [
            ("", vec![]),
            ("\n \r\n", vec![]),
            ("a\r\n\r\n \nb", vec![(1, "a"), (4, "b")]),
            ("a\rb\r\rc", vec![(1, "a"), (2, "b"), (4, "c")]),
            ("a\n\rb\r\n", vec![(1, "a"), (3, "b")]),
            ("\u{feff}a\nb ", vec![(1, "a"), (2, "b")]),
        ] {
            let (_folder, path) = written(text.as_bytes());
            let from_file: Vec<(usize, String)> = Lines::open(&path, 100)
                .unwrap()
                .map(Result::unwrap)
                .collect();
            let from_file: Vec<(usize, &str)> = from_file
                .iter()
                .map(|(number, line)| (*number, line.as_str()))
                .collect();
            assert_eq!(from_file, expected, "{text:?}");
            let in_memory: Vec<(usize, &str)> =
                lines(text.trim_start_matches('\u{feff}')).collect();
            assert_eq!(in_memory, expected, "{text:?}");
        }
    }

    #[test]
    fn line_ends_at_buffer_ends_are_recognised() {
        let (long, more) = ("x".repeat((1 << 16) - 1), "y".repeat(1 << 17));
        for end in ["\n", "\r", "\r\n"] {
            let (_folder, path) = written([&long, end, &more, end, "z"].concat().as_bytes());
            let read: Vec<(usize, usize)> = Lines::open(&path, 1 << 20)
                .unwrap()
                .map(|line| line.map(|(number, line)| (number, line.len())).unwrap())
                .collect();
            assert_eq!(read, [(1, long.len()), (2, more.len()), (3, 1)], "{end:?}");
        }
    }

    #[test]
    fn iteration_ends_at_a_bad_line() {
        for (bytes, message) in [
            (&b"a\nb\xff\nc"[..], "rows.jsonl, line 2: not UTF-8"),
            (
                &[b"a\n".as_slice(), &[b'x'; 600], b"\0"].concat(),
                "rows.jsonl, line 2: NUL",
            ),
            (&[b'\n'; 1001], "larger than 1000 bytes"),
        ] {
            let (_folder, path) = written(bytes);
            let error = Lines::open(&path, 1000)
                .and_then(|lines| lines.collect::<Result<Vec<_>>>())
                .unwrap_err();
            assert!(error.what.contains(message), "{error}");
        }
        let (_folder, path) = written(b"");
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(MAX_LINE_BYTES as u64 + 2)
            .unwrap();
        assert!(
            Lines::open(&path, u64::MAX)
                .unwrap_err()
                .what
                .ends_with("it contains NUL characters and is not text")
        );
    }
}
