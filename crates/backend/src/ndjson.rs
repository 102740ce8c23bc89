//! One JSON object a line: bytes to lines. Knows no JSON and no server.
//!
//! Follows the specification at ndjson.org: lines end in LF, with or without a CR before it, and
//! empty lines mean nothing. The end of the stream also ends a line, to see more of what a server
//! did.

use super::sse::{Event, EventTooLarge};

/// Turns bytes into lines, however the bytes are cut. A line is an [`Event`] without a name.
#[derive(Debug)]
pub(super) struct LineDecoder {
    /// A line that has begun and not ended yet.
    line: Vec<u8>,
    limit_bytes: usize,
}

impl LineDecoder {
    /// `limit_bytes` bounds what is kept for one line.
    pub(super) fn new(limit_bytes: usize) -> Self {
        Self {
            line: vec![],
            limit_bytes,
        }
    }

    /// Takes the next bytes and calls `on_event` for every line that they complete.
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

    /// Takes the end of the stream, or of a line.
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
    fn lines_are_the_same_however_they_are_cut() {
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
    fn a_line_is_bounded_however_it_comes() {
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
