//! Server-sent events: splits bytes into events.
//!
//! Follows the WHATWG HTML standard, "Event stream interpretation": lines end in LF, CRLF or CR; a
//! byte order mark at the start is dropped; a line that starts with a colon is a comment; one space
//! after the field's colon is dropped; several `data` lines are joined with LF; an empty line ends
//! the event. Two deviations keep more of a server's output: the end of the stream also ends an
//! event (the standard drops it), and bytes are not decoded as UTF-8 (the standard decodes them).

use std::fmt;

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// The `event` field; empty if there was none.
    pub name: &'a [u8],
    pub data: &'a [u8],
}

/// An event exceeded the limit. Decoding ends, because the following bytes cannot be interpreted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventTooLarge {
    pub limit_bytes: usize,
}

impl fmt::Display for EventTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the event exceeds {} bytes", self.limit_bytes)
    }
}

const BYTE_ORDER_MARK: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// Splits bytes into events, in any number of reads.
#[derive(Debug)]
pub struct SseDecoder {
    /// Bytes of a byte order mark seen so far; `None` after the start of the stream.
    mark_seen: Option<usize>,
    /// Whether the last byte was a CR that ended a line, so that a following LF belongs to it.
    after_cr: bool,
    /// The current incomplete line.
    line: Vec<u8>,
    name: Vec<u8>,
    /// The `data` lines so far, each followed by LF.
    data: Vec<u8>,
    limit_bytes: usize,
}

impl SseDecoder {
    /// `limit_bytes` is the maximum size of an event: its name, its data and the current line.
    pub fn new(limit_bytes: usize) -> Self {
        Self {
            mark_seen: Some(0),
            after_cr: false,
            line: vec![],
            name: vec![],
            data: vec![],
            limit_bytes,
        }
    }

    /// Adds bytes and calls `on_event` for every completed event.
    pub fn push(
        &mut self,
        bytes: &[u8],
        on_event: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), EventTooLarge> {
        let mut rest = self.after_mark(bytes);
        while let Some(&first) = rest.first() {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', rest) else {
                self.check_limit(rest.len())?;
                self.line.extend_from_slice(rest);
                return Ok(());
            };
            self.check_limit(end)?;
            if let Some((data, more)) = self.whole_event(rest, end) {
                on_event(Event { name: &[], data });
                rest = more;
                continue;
            }
            self.after_cr = rest[end] == b'\r';
            if self.line.is_empty() {
                self.take_line(&rest[..end], on_event);
            } else {
                self.line.extend_from_slice(&rest[..end]);
                self.take_kept_line(on_event);
            }
            rest = &rest[end + 1..];
        }
        Ok(())
    }

    /// Fast path without a copy: the data of a complete event that has a single `data` line, which
    /// ends at `end`, and the bytes after it.
    fn whole_event<'a>(&self, rest: &'a [u8], end: usize) -> Option<(&'a [u8], &'a [u8])> {
        if !(self.line.is_empty() && self.data.is_empty() && self.name.is_empty()) {
            return None;
        }
        let (line, ends) = rest.split_at(end);
        let value = line.strip_prefix(b"data:")?;
        let more = ends
            .strip_prefix(b"\n\n")
            .or_else(|| ends.strip_prefix(b"\r\n\r\n"))?;
        Some((value.strip_prefix(b" ").unwrap_or(value), more))
    }

    /// Handles the end of the stream, which also ends the current event.
    pub fn finish(&mut self, on_event: &mut dyn FnMut(Event<'_>)) {
        if let Some(seen @ 1..=2) = self.mark_seen.take() {
            self.line.extend_from_slice(&BYTE_ORDER_MARK[..seen]);
        }
        self.take_kept_line(on_event);
        self.take_line(&[], on_event);
    }

    /// Drops a byte order mark at the start, also if it is split across reads.
    fn after_mark<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let mut rest = bytes;
        while let Some(seen) = self.mark_seen {
            let Some(&byte) = rest.first() else { break };
            if seen < BYTE_ORDER_MARK.len() && byte == BYTE_ORDER_MARK[seen] {
                rest = &rest[1..];
                self.mark_seen = Some(seen + 1);
            } else {
                if seen < BYTE_ORDER_MARK.len() {
                    self.line.extend_from_slice(&BYTE_ORDER_MARK[..seen]);
                }
                self.mark_seen = None;
            }
        }
        rest
    }

    fn take_kept_line(&mut self, on_event: &mut dyn FnMut(Event<'_>)) {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take_line(&line, on_event);
        }
        // Keep the allocation, because lines of a stream have similar sizes.
        self.line = line;
        self.line.clear();
    }

    fn take_line(&mut self, line: &[u8], on_event: &mut dyn FnMut(Event<'_>)) {
        if line.is_empty() {
            if let Some((_, data)) = self.data.split_last() {
                on_event(Event {
                    name: &self.name,
                    data,
                });
            }
            self.name.clear();
            self.data.clear();
            return;
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (
                &line[..colon],
                line[colon + 1..]
                    .strip_prefix(b" ")
                    .unwrap_or(&line[colon + 1..]),
            ),
            None => (line, &[][..]),
        };
        match field {
            b"data" => {
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
            }
            b"event" => {
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            // Comments (an empty field name), `id` and `retry` are ignored, as the client does not
            // reconnect.
            _ => {}
        }
    }

    /// Checks whole lines before they are processed, so that the limit does not depend on the split
    /// into reads.
    fn check_limit(&self, more: usize) -> Result<(), EventTooLarge> {
        if self.line.len() + more + self.data.len() + self.name.len() > self.limit_bytes {
            return Err(EventTooLarge {
                limit_bytes: self.limit_bytes,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<(String, String)> {
        let mut decoder = SseDecoder::new(1 << 10);
        let mut events = vec![];
        let mut keep = |event: Event<'_>| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            events.push((text(event.name), text(event.data)));
        };
        for piece in pieces {
            decoder.push(piece, &mut keep).unwrap();
        }
        decoder.finish(&mut keep);
        events
    }

    /// Checks the events for the whole input, split at every byte, and byte by byte.
    #[track_caller]
    fn check(stream: &[u8], expected: &[(&str, &str)]) {
        let expected: Vec<_> = expected
            .iter()
            .map(|(name, data)| (name.to_string(), data.to_string()))
            .collect();
        assert_eq!(events([stream]), expected);
        for cut in 0..=stream.len() {
            assert_eq!(
                events([&stream[..cut], &stream[cut..]]),
                expected,
                "cut at {cut}"
            );
        }
        assert_eq!(events(stream.chunks(1)), expected);
    }

    #[test]
    fn all_line_ends() {
        check(b"data: a\n\ndata: b\n\n", &[("", "a"), ("", "b")]);
        check(b"data: a\r\n\r\ndata: b\r\n\r\n", &[("", "a"), ("", "b")]);
        check(b"data: a\r\rdata: b\r\r", &[("", "a"), ("", "b")]);
        check(b"data: a\r\n\ndata: b\n\r\n", &[("", "a"), ("", "b")]);
        check(
            b"event: x\r\ndata: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n",
            &[("x", "a\nb"), ("", "c")],
        );
        check(
            b"event: x\rdata: a\rdata: b\r\rdata: c\r\r",
            &[("x", "a\nb"), ("", "c")],
        );
        check(b"\n\r\n\rdata: a\n\n\n\n", &[("", "a")]);
    }

    #[test]
    fn fields_follow_the_standard() {
        check(b"data:a\n\n", &[("", "a")]);
        check(b"data:  a \n\n", &[("", " a ")]);
        check(b"data: a\ndata: b\ndata\n\n", &[("", "a\nb\n")]);
        check(b"data\n\ndata:\n\n", &[("", ""), ("", "")]);
        check(b": ping\n\n:data: x\ndata: a:b\n\n", &[("", "a:b")]);
        check(
            b"event: error\ndata: a\n\ndata: b\n\n",
            &[("error", "a"), ("", "b")],
        );
        check(b"event: lonely\n\ndata: b\n\n", &[("", "b")]);
        check(
            b"id: 7\nretry: 10\ndata: a\nDATA: b\n data: c\n\n",
            &[("", "a")],
        );
        check(
            "data: \u{e9}\u{1f600}\n\n".as_bytes(),
            &[("", "\u{e9}\u{1f600}")],
        );
    }

    #[test]
    fn a_byte_order_mark_is_dropped_only_at_the_start() {
        check(b"\xEF\xBB\xBFdata: a\n\n", &[("", "a")]);
        check(
            b"\xEF\xBB\xBF\xEF\xBB\xBFdata: a\n\ndata: b\n\n",
            &[("", "b")],
        );
        check(b"\xEF\xBBdata: a\n\ndata: b\n\n", &[("", "b")]);
        check(b"\xEF\xBB", &[]);
        check(b"\xEF\xBB\xBF", &[]);
    }

    #[test]
    fn the_end_of_the_stream_ends_an_event() {
        check(b"data: a\n\ndata: b\n", &[("", "a"), ("", "b")]);
        check(b"data: a\n\ndata: b", &[("", "a"), ("", "b")]);
        check(b"data: a\r\n\r\n:", &[("", "a")]);
        check(b"", &[]);
    }

    #[test]
    fn the_limit_does_not_depend_on_the_split() {
        for stream in [
            b"data: 0123456789".repeat(2),
            b"data: 01234\ndata: 56789\ndata: 01234\ndata: 56789\n".to_vec(),
        ] {
            for size in [1, 7, stream.len()] {
                let mut decoder = SseDecoder::new(16);
                let result = stream
                    .chunks(size)
                    .try_for_each(|piece| decoder.push(piece, &mut |_| {}));
                assert_eq!(
                    result,
                    Err(EventTooLarge { limit_bytes: 16 }),
                    "in pieces of {size}"
                );
            }
        }
        let mut decoder = SseDecoder::new(16);
        assert_eq!(
            decoder.push(&b"data: 01234567\n\n".repeat(9), &mut |_| {}),
            Ok(())
        );
    }
}
