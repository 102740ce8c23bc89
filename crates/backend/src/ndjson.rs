//! Newline-delimited JSON: splits bytes into lines.
//!
//! Follows the specification at ndjson.org: lines end in LF or CRLF, and empty lines are ignored.
//! The end of the stream also ends a line, to keep incomplete output of a server.

use super::sse::{Event, EventTooLarge};

/// Splits bytes into lines, in any number of reads. A line is an [`Event`] without a name.
#[derive(Debug)]
pub(super) struct LineDecoder {
    /// The current incomplete line.
    line: Vec<u8>,
    limit_bytes: usize,
}

impl LineDecoder {
    /// `limit_bytes` is the maximum size of a line.
    pub(super) fn new(limit_bytes: usize) -> Self {
        Self {
            line: vec![],
            limit_bytes,
        }
    }

    /// Adds bytes and calls `on_event` for every completed line.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), EventTooLarge> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| *byte == b'\n');
            let (part, more) = rest.split_at(end.unwrap_or(rest.len()));
            if self.line.len() + part.len() > self.limit_bytes {
                return Err(EventTooLarge {
                    limit_bytes: self.limit_bytes,
                });
            }
            self.line.extend_from_slice(part);
            if end.is_none() {
                return Ok(());
            }
            self.finish(on_event);
            rest = &more[1..];
        }
        Ok(())
    }

    /// Handles the end of the stream or of a line.
    pub(super) fn finish(&mut self, on_event: &mut dyn FnMut(Event<'_>)) {
        let line = self.line.trim_ascii();
        if !line.is_empty() {
            on_event(Event {
                name: b"",
                data: line,
            });
        }
        self.line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]]) -> Vec<String> {
        let mut decoder = LineDecoder::new(16);
        let mut lines = vec![];
        let mut keep =
            |event: Event<'_>| lines.push(String::from_utf8_lossy(event.data).into_owned());
        for piece in pieces {
            decoder.push(piece, &mut keep).unwrap();
        }
        decoder.finish(&mut keep);
        lines
    }

    #[test]
    fn lines_do_not_depend_on_the_split() {
        for (stream, expected) in [
            (&b"{}\n{\"a\":1}\n"[..], vec!["{}", "{\"a\":1}"]),
            (b"{}\r\n\r\n\n{}", vec!["{}", "{}"]),
            (b" \n", vec![]),
            (b"", vec![]),
        ] {
            assert_eq!(lines(&[stream]), expected);
            for cut in 0..=stream.len() {
                assert_eq!(
                    lines(&[&stream[..cut], &stream[cut..]]),
                    expected,
                    "cut at {cut}"
                );
            }
        }
    }

    #[test]
    fn the_limit_does_not_depend_on_the_split() {
        for size in [1, 5, 20] {
            let mut decoder = LineDecoder::new(16);
            let result = [b'x'; 20]
                .chunks(size)
                .try_for_each(|piece| decoder.push(piece, &mut |_| {}));
            assert_eq!(
                result,
                Err(EventTooLarge { limit_bytes: 16 }),
                "in pieces of {size}"
            );
        }
    }
}
