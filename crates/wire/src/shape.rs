//! The shape of an answer: what its checks depend on.

use memchr::memmem;

/// Texts that a model writes.
const TEXTS: [&[u8]; 7] = [
    b"content",
    b"text",
    b"delta",
    b"refusal",
    b"reasoning",
    b"reasoning_content",
    b"arguments",
];

/// The longest number that is an integer in every client.
const MAX_DIGITS: usize = 15;

/// The frames without what differs between answers: of an id or a time stays whether it is one of
/// those before it; of a generated text, whether it is empty; of a number of tokens, nothing. With
/// calls, only their arguments are texts: clients join the rest with them.
///
/// Two answers of one shape depart alike. Clients that read one of them alike read the other alike,
/// if the arguments of each call are an object, and not the same as those of another call.
///
/// Of frames of one shape in a row, two stay: arguments come in any number of pieces.
///
/// `None` if the frames are not plain JSON.
pub fn shape(frames: &str, has_calls: bool) -> Option<Vec<u8>> {
    let bytes = frames.as_bytes();
    let mut scan = Scan {
        bytes,
        at: 0,
        shape: Vec::with_capacity(bytes.len()),
        known: Vec::new(),
    };
    let texts = match has_calls {
        true => &TEXTS[TEXTS.len() - 1..],
        false => &TEXTS[..],
    };
    while let Some(text) = scan.next_text()? {
        scan.shape.push(b'"');
        scan.shape.extend(text);
        scan.shape.push(b'"');
        if scan.bytes.get(scan.at) == Some(&b':') {
            scan.at += 1;
            scan.shape.push(b':');
            scan.value(text, texts)?;
        }
    }
    Some(without_repeats(&scan.shape))
}

/// The frames without those that are equal to the two before them.
fn without_repeats(shape: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(shape.len());
    let (mut last, mut repeats) = (&shape[..0], 0);
    let mut rest = shape;
    while !rest.is_empty() {
        let end = memmem::find(rest, b"\n\n").map_or(rest.len(), |at| at + 2);
        let frame = &rest[..end];
        rest = &rest[end..];
        repeats = if frame == last { repeats + 1 } else { 0 };
        last = frame;
        if repeats < 2 {
            kept.extend(frame);
        }
    }
    kept
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    shape: Vec<u8>,
    /// Ids and times.
    known: Vec<&'a [u8]>,
}

impl<'a> Scan<'a> {
    /// The next text, without quotes. What lies before it is a part of the shape. The outer `None`
    /// if the text is no JSON.
    fn next_text(&mut self) -> Option<Option<&'a [u8]>> {
        let rest = &self.bytes[self.at..];
        let Some(quote) = rest.iter().position(|byte| *byte == b'"') else {
            self.shape.extend(rest);
            return Some(None);
        };
        self.shape.extend(&rest[..quote]);
        self.at += quote + 1;
        self.text().map(Some)
    }

    /// The text after its quote. `None` if it is no JSON, or has the escape of a half character.
    fn text(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
        loop {
            match self.bytes.get(self.at)? {
                b'"' => break,
                b'\\' => match self.bytes.get(self.at + 1)? {
                    b'u' => {
                        let digits = self.bytes.get(self.at + 2..self.at + 6)?;
                        let is_plain = digits.iter().all(u8::is_ascii_hexdigit)
                            && !digits[0].eq_ignore_ascii_case(&b'd');
                        self.at += is_plain.then_some(6)?;
                    }
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 2,
                    _ => return None,
                },
                0..b' ' => return None,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Some(&self.bytes[start..self.at - 1])
    }

    /// The value of a member, if the shape has not all of it.
    fn value(&mut self, member: &[u8], texts: &[&[u8]]) -> Option<()> {
        let spaces = |byte: &&u8| **byte == b' ';
        self.at += self.bytes[self.at..].iter().take_while(spaces).count();
        match self.bytes.get(self.at)? {
            b'"' if member == b"id" || texts.contains(&member) => {
                self.at += 1;
                let text = self.text()?;
                self.shape.push(b'"');
                match text {
                    b"" => {}
                    id if member == b"id" => self.known(id),
                    _ => self.shape.push(b'+'),
                }
                self.shape.push(b'"');
            }
            b'0'..=b'9' => {
                let rest = &self.bytes[self.at..];
                let is_number = |byte: &u8| byte.is_ascii_digit() || b".eE+-".contains(byte);
                let length = rest.iter().take_while(|byte| is_number(byte)).count();
                let number = &rest[..length];
                let is_plain = length <= MAX_DIGITS
                    && number.iter().all(u8::is_ascii_digit)
                    && (length == 1 || number[0] != b'0');
                self.at += length;
                match member {
                    b"created" | b"created_at" if is_plain => self.known(number),
                    _ if is_plain && member.ends_with(b"_tokens") => self.shape.push(b'0'),
                    _ => self.shape.extend(number),
                }
            }
            _ => {}
        }
        Some(())
    }

    /// Adds the number of an id or a time.
    fn known(&mut self, value: &'a [u8]) {
        let known = self.known.iter().position(|known| *known == value);
        let number = known.unwrap_or_else(|| {
            self.known.push(value);
            self.known.len() - 1
        });
        self.shape.extend(number.to_string().bytes());
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
        let expected = r#"data: {"id":"0","created":1,"choices":[{"index":1,"delta":{"content":"+"}}]}

data: {"id":"2","created":1,"choices":[{"index":1,"delta":{"content":""},"finish_reason":"stop"}],"usage":{"prompt_tokens":0,"queue_tokens":1.5}}

data: [DONE]
"#;
        assert_eq!(shape_of(frames).as_deref(), Some(expected));
        let with_calls = shape(r#"{"content":"x","arguments":"{}"}"#, true).unwrap();
        assert_eq!(with_calls, br#"{"content":"x","arguments":"+"}"#);
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
