//! The shape of an answer: what its checks depend on.

use std::io::Write as _;

use memchr::memchr_iter;

/// The longest number that is an integer in every client.
const MAX_DIGITS: usize = 15;

/// The frames without what differs between answers: of an id, a name or a time stays whether it is
/// one of those before it; of a generated text, whether it is empty; of a number of tokens, nothing.
///
/// Two answers of one shape depart alike. Clients that join the calls of one of them alike join
/// those of the other alike, if the request has the tools, and the arguments of each call are an
/// object, and not the same as those of another call.
///
/// Of frames of one shape in a row, two stay: arguments come in any number of pieces.
///
/// `None` if the frames are not plain JSON.
pub fn shape(frames: &str, joins_calls: bool) -> Option<Vec<u8>> {
    let bytes = frames.as_bytes();
    let mut scan = Scan {
        bytes,
        at: 0,
        copied: 0,
        shape: Vec::with_capacity(bytes.len()),
        known: Vec::new(),
        joins_calls,
    };
    while let Some(quote) = bytes[scan.at..].iter().position(|byte| *byte == b'"') {
        scan.at += quote + 1;
        let text = scan.text()?;
        if bytes.get(scan.at) == Some(&b':') {
            scan.at += 1;
            scan.value(text)?;
        }
    }
    scan.copy(bytes.len());
    without_repeats(&mut scan.shape);
    Some(scan.shape)
}

/// Removes frames that are equal to the two before them.
fn without_repeats(shape: &mut Vec<u8>) {
    let ends = memchr_iter(b'\n', shape).map(|at| at + 1);
    let ends = ends.filter(|end| shape.get(*end) == Some(&b'\n'));
    let ends: Vec<usize> = ends.map(|end| end + 1).chain([shape.len()]).collect();
    let (mut start, mut kept, mut repeats) = (0, 0, 0);
    let mut last = 0..0;
    for end in ends {
        let is_repeat = shape[start..end] == shape[last];
        repeats = if is_repeat { repeats + 1 } else { 0 };
        last = start..end;
        if repeats < 2 {
            shape.copy_within(start..end, kept);
            last = kept..kept + (end - start);
            kept = last.end;
        }
        start = end;
    }
    shape.truncate(kept);
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The bytes before are in the shape, or left out.
    copied: usize,
    shape: Vec<u8>,
    /// Ids, names and times.
    known: Vec<&'a [u8]>,
    joins_calls: bool,
}

/// What of a member's value is left out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Member {
    /// All but whether it was there before.
    Name,
    Time,
    /// All but whether it is empty.
    Text,
    /// All.
    Count,
    Other,
}

impl Member {
    /// With calls to join, clients only take note of the first texts being empty or not.
    fn new(name: &[u8], joins_calls: bool) -> Self {
        match name {
            b"id" | b"name" => Self::Name,
            b"created" | b"created_at" => Self::Time,
            b"arguments" | b"content" | b"reasoning" | b"reasoning_content" => Self::Text,
            b"refusal" | b"delta" | b"text" if !joins_calls => Self::Text,
            name if name.ends_with(b"_tokens") => Self::Count,
            _ => Self::Other,
        }
    }
}

impl<'a> Scan<'a> {
    /// Adds the bytes before a place.
    fn copy(&mut self, end: usize) {
        self.shape.extend(&self.bytes[self.copied..end]);
        self.copied = self.at;
    }

    /// The text after its quote. `None` if it is no JSON, or has the escape of a half character.
    fn text(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
        loop {
            let rest = &self.bytes[self.at..];
            let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..b' ');
            let plain = rest.iter().position(is_special)?;
            self.at += plain;
            match (rest[plain], rest.get(plain + 1)) {
                (b'"', _) => break,
                (b'\\', Some(b'u')) => {
                    let digits = rest.get(plain + 2..plain + 6)?;
                    let is_plain = digits.iter().all(u8::is_ascii_hexdigit)
                        && !digits[0].eq_ignore_ascii_case(&b'd');
                    self.at += is_plain.then_some(6)?;
                }
                (b'\\', Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't')) => {
                    self.at += 2;
                }
                _ => return None,
            }
        }
        self.at += 1;
        Some(&self.bytes[start..self.at - 1])
    }

    /// The value of a member, if the shape has not all of it.
    fn value(&mut self, name: &[u8]) -> Option<()> {
        let spaces = |byte: &&u8| **byte == b' ';
        self.at += self.bytes[self.at..].iter().take_while(spaces).count();
        let start = self.at;
        let member = Member::new(name, self.joins_calls);
        match (self.bytes.get(start)?, member) {
            (b'"', Member::Name | Member::Text) => {
                self.at += 1;
                match self.text()? {
                    // A client takes this text for no id.
                    b"" | b"null" => {}
                    _ if member == Member::Text => {
                        self.copy(start);
                        self.shape.extend(b"\"+\"");
                    }
                    name => self.known(start + 1, name, b"\""),
                }
            }
            (b'0'..=b'9', Member::Time | Member::Count) => {
                let rest = &self.bytes[start..];
                let is_number = |byte: &u8| byte.is_ascii_digit() || b".eE+-".contains(byte);
                let length = rest.iter().take_while(|byte| is_number(byte)).count();
                let number = &rest[..length];
                let is_plain = length <= MAX_DIGITS
                    && number.iter().all(u8::is_ascii_digit)
                    && (length == 1 || number[0] != b'0');
                self.at += length;
                match member {
                    Member::Time if is_plain => self.known(start, number, b""),
                    Member::Count if is_plain => {
                        self.copy(start);
                        self.shape.push(b'0');
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        Some(())
    }

    /// Adds the number of an id, a name or a time.
    fn known(&mut self, start: usize, value: &'a [u8], end: &[u8]) {
        let known = self.known.iter().position(|known| *known == value);
        let number = known.unwrap_or_else(|| {
            self.known.push(value);
            self.known.len() - 1
        });
        self.copy(start);
        let _ = write!(self.shape, "{number}");
        self.shape.extend(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape_of(frames: &str) -> Option<String> {
        shape(frames, false).map(|shape| String::from_utf8(shape).unwrap())
    }

    #[test]
    fn ids_times_counts_and_texts_are_left_out() {
        let frames = r#"data: {"id":"a\"b","created": 17,"choices":[{"index":1,"delta":{"content":"x\n\u00e9"}}]}

data: {"id":"c","created": 17,"choices":[{"index":1,"delta":{"content":""},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"queue_tokens":1.5}}

data: [DONE]
"#;
        let expected = r#"data: {"id":"0","created": 1,"choices":[{"index":1,"delta":{"content":"+"}}]}

data: {"id":"2","created": 1,"choices":[{"index":1,"delta":{"content":""},"finish_reason":"stop"}],"usage":{"prompt_tokens":0,"queue_tokens":1.5}}

data: [DONE]
"#;
        assert_eq!(shape_of(frames).as_deref(), Some(expected));
        let with_calls = shape(r#"{"name":"f","text":"x","arguments":"{}"}"#, true).unwrap();
        assert_eq!(with_calls, br#"{"name":"0","text":"x","arguments":"+"}"#);
    }

    #[test]
    fn frames_in_a_row_are_two() {
        let frame = "data: {\"arguments\":\"x\"}\n\n";
        let shapes = [1, 2, 3, 4].map(|count| shape_of(&frame.repeat(count)).unwrap());
        assert_ne!(shapes[0], shapes[1]);
        assert_eq!((&shapes[1], &shapes[1]), (&shapes[2], &shapes[3]));
        let other = format!("{frame}data: [DONE]\n\n{frame}");
        assert_eq!(shape_of(&other).unwrap().matches("arguments").count(), 2);
    }

    #[test]
    fn what_may_be_no_json_has_no_shape() {
        for text in [
            r#"{"content":"\x"}"#,
            r#"{"content":"\ud800"}"#,
            r#"{"content":"\u00g0"}"#,
            "{\"content\":\"\n\"}",
            r#"{"content":"open}"#,
            "{\"a\":",
        ] {
            assert_eq!(shape_of(text), None, "{text}");
        }
    }
}
