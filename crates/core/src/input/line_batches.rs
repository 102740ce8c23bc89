//! Reads a text file in batches of whole lines, so that several threads can work on its lines.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::lines::{self, MAX_LINE_BYTES};
use super::{BYTE_ORDER_MARK, check_text, line_of, not_utf8, nul, open, unreadable};
use crate::error::Result;

/// Bytes that are read for one batch: some hundred rows.
const BATCH_BYTES: u64 = 256 << 10;

/// Some lines of a file.
#[derive(Debug)]
pub struct LineBatch {
    /// The number of the line before the first one.
    lines_before: usize,
    bytes: Vec<u8>,
}

impl LineBatch {
    /// Size in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are no lines.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Non-blank lines, trimmed, with their numbers in the file from 1.
    ///
    /// # Errors
    /// Usage error with `path` and the line: it is not UTF-8, or contains a NUL.
    pub fn lines(&self, path: &Path) -> Result<impl Iterator<Item = (usize, &str)>> {
        let text = str::from_utf8(&self.bytes).map_err(|error| {
            let line = line_of(&self.bytes, error.valid_up_to());
            not_utf8(path, self.lines_before + line)
        })?;
        if let Some(position) = memchr::memchr(0, &self.bytes) {
            let line = line_of(&self.bytes, position);
            return Err(nul(path, self.lines_before + line));
        }
        Ok(lines::lines(text).map(move |(number, line)| (self.lines_before + number, line)))
    }
}

/// The lines of a file, in batches. Memory use is one batch, or one line if that is longer.
#[derive(Debug)]
pub struct LineBatches {
    path: PathBuf,
    file: File,
    file_len: u64,
    /// The start of a line whose end has not been read.
    rest: Vec<u8>,
    lines_before: usize,
    is_start: bool,
}

impl LineBatches {
    /// Opens a file of any size.
    ///
    /// # Errors
    /// As for [`check_text`].
    pub fn open(path: &Path) -> Result<Self> {
        check_text(path, u64::MAX)?;
        let (file, file_len) = open(path, u64::MAX)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            file_len,
            rest: Vec::new(),
            lines_before: 0,
            is_start: true,
        })
    }

    /// Size of the file in bytes when it was opened.
    pub fn file_len(&self) -> u64 {
        self.file_len
    }

    /// The next lines; `None` at the end of the file.
    ///
    /// # Errors
    /// Usage error with the path: the file is unreadable, or a line is too long.
    pub fn next_batch(&mut self) -> Result<Option<LineBatch>> {
        let mut bytes = std::mem::take(&mut self.rest);
        loop {
            let read = (&mut self.file)
                .take(BATCH_BYTES)
                .read_to_end(&mut bytes)
                .map_err(|error| unreadable(&self.path, &error))?;
            if read == 0 {
                break;
            }
            if let Some(end) = last_line_end(&bytes) {
                self.rest = bytes.split_off(end + 1);
                break;
            }
            if bytes.len() > MAX_LINE_BYTES {
                return Err(lines::too_long(&self.path, self.lines_before + 1));
            }
        }
        if std::mem::take(&mut self.is_start) && bytes.starts_with(BYTE_ORDER_MARK) {
            bytes.drain(..BYTE_ORDER_MARK.len());
        }
        if bytes.is_empty() {
            return Ok(None);
        }
        let batch = LineBatch {
            lines_before: self.lines_before,
            bytes,
        };
        self.lines_before += lines::ends(&batch.bytes);
        Ok(Some(batch))
    }
}

/// The position of the last byte of a line end that no further byte can belong to.
fn last_line_end(bytes: &[u8]) -> Option<usize> {
    let complete = &bytes[..bytes.len().saturating_sub(1)];
    // The last CR may be the first half of a CR LF.
    let carriage_return = || memchr::memrchr(b'\r', complete);
    memchr::memrchr(b'\n', bytes).or_else(carriage_return)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All lines of a file, and its number of batches.
    fn read(bytes: &[u8]) -> (Result<Vec<(usize, String)>>, usize) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows");
        std::fs::write(&path, bytes).unwrap();
        let mut batches = LineBatches::open(&path).unwrap();
        let (mut lines, mut count) = (Vec::new(), 0);
        while let Some(batch) = batches.next_batch().unwrap() {
            count += 1;
            match batch.lines(&path) {
                Ok(all) => lines.extend(all.map(|(number, line)| (number, line.to_owned()))),
                Err(error) => return (Err(error), count),
            }
        }
        (Ok(lines), count)
    }

    #[test]
    fn batches_have_the_lines_of_the_text() {
        let size = BATCH_BYTES as usize;
        for end in ["\n", "\r\n", "\r", "\n\n", "\r\n\r\n"] {
            for length in [size / 7, size - 1, size, size + 1, 3 * size] {
                let line = "é".repeat(length / 2);
                let text = format!("\u{feff}{}{end}last", format!("{line}{end}").repeat(9));
                let expected: Vec<(usize, String)> = lines::lines(&text["\u{feff}".len()..])
                    .map(|(number, line)| (number, line.to_owned()))
                    .collect();
                let (found, batches) = read(text.as_bytes());
                assert_eq!(found.unwrap(), expected, "{length} bytes, {end:?}");
                assert!(batches > 1, "{length} bytes, {end:?}");
            }
        }
        assert_eq!(read(b"").0.unwrap(), []);
    }

    #[test]
    fn bad_bytes_are_reported_with_their_line() {
        let good = "x\n".repeat(BATCH_BYTES as usize);
        let number = BATCH_BYTES + 2;
        for (bad, message) in [
            (&b"\xff"[..], "not UTF-8"),
            (b"\0", "NUL character in text"),
        ] {
            let error = read(&[good.as_bytes(), b"y\n", bad, b"\n"].concat()).0;
            let error = error.unwrap_err().what;
            assert!(
                error.ends_with(&format!("line {number}: {message}")),
                "{error}"
            );
        }
    }
}
