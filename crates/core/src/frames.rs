//! The frames of an answer, as the server sent them.

use std::borrow::Cow;

use memchr::memchr2;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bytes of frames that are kept until the answer is checked.
const MAX_BYTES: usize = 64 << 10;

/// Bytes of the frames of most answers.
const USUAL_BYTES: usize = 2 << 10;

/// Bytes of frames that are kept in the run log.
const MAX_LOGGED_BYTES: usize = 2 << 10;

/// The frames of an answer, in the format of server-sent events. Frames that differ from the one
/// before in their text alone are joined with it, except after `}` or `]`, where a client may take
/// the arguments of a call as complete.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Frames {
    text: String,
    /// Bytes after the text of the last frame, if more text may be added to it.
    #[serde(skip)]
    suffix_len: Option<usize>,
}

/// Too many bytes. It is no frame.
const CUT: &str = ":cut\n";

impl Frames {
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The frames as server-sent events; `None` if there were too many bytes.
    pub fn text(&self) -> Option<&str> {
        (self.text != CUT).then_some(&self.text)
    }

    /// Adds a frame: the name of its event, which may be empty, and its data.
    pub fn add(&mut self, name: &[u8], data: &[u8]) {
        self.suffix_len = None;
        if self.text == CUT {
            return;
        }
        if self.text.is_empty() {
            self.text.reserve(USUAL_BYTES);
        }
        if self.text.len() + name.len() + data.len() > MAX_BYTES {
            CUT.clone_into(&mut self.text);
            return;
        }
        for (field, value) in [("event: ", name), ("data: ", data)] {
            if field != "event: " || !value.is_empty() {
                self.text.push_str(field);
                let value = match std::str::from_utf8(value) {
                    Ok(value) => Cow::Borrowed(value),
                    Err(_) => String::from_utf8_lossy(value),
                };
                // A line end is white space in JSON.
                match memchr2(b'\n', b'\r', value.as_bytes()) {
                    Some(_) => self.text.push_str(&value.replace(['\n', '\r'], " ")),
                    None => self.text.push_str(&value),
                }
                self.text.push('\n');
            }
        }
        self.text.push('\n');
    }

    /// Adds a frame whose text lies between a prefix and a suffix of these lengths.
    pub fn add_text(
        &mut self,
        name: &[u8],
        data: &[u8],
        [prefix_len, suffix_len]: [usize; 2],
        is_call: bool,
    ) {
        let text = &data[prefix_len..data.len() - suffix_len];
        let known = self.suffix_len.filter(|known| {
            let at = self.text.len() - known;
            *known == suffix_len + "\n\n".len()
                && !(is_call && self.text[..at].ends_with(['}', ']']))
        });
        match (known, std::str::from_utf8(text)) {
            (Some(suffix_len), Ok(text)) if self.text.len() + text.len() <= MAX_BYTES => {
                let at = self.text.len() - suffix_len;
                self.text.insert_str(at, text);
            }
            _ => {
                self.add(name, data);
                self.suffix_len = (self.text != CUT).then_some(suffix_len + "\n\n".len());
            }
        }
    }

    /// The frames for the run log: marked as cut if they are too long for it.
    pub fn shortened(mut self) -> Self {
        if self.text.len() > MAX_LOGGED_BYTES {
            CUT.clone_into(&mut self.text);
        }
        self
    }

    pub fn len(&self) -> usize {
        self.text.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_joined() {
        let mut frames = Frames::default();
        frames.add(b"", b"{\"a\":\n1}");
        for text in ["x", "y}", "z", "\u{e9}"] {
            let data = format!("{{\"t\":\"{text}\"}}");
            frames.add_text(b"", data.as_bytes(), [6, 2], true);
        }
        frames.add(b"end", b"{}");
        frames.add_text(b"", b"{\"t\":\"w\"}", [6, 2], true);
        assert_eq!(
            frames.text().unwrap(),
            "data: {\"a\": 1}\n\ndata: {\"t\":\"xy}\"}\n\ndata: {\"t\":\"z\u{e9}\"}\n\n\
             event: end\ndata: {}\n\ndata: {\"t\":\"w\"}\n\n"
        );
        frames.add(b"", &[b'1'; MAX_BYTES]);
        assert_eq!(frames.text(), None);
        frames.add_text(b"", b"{\"t\":\"w\"}", [6, 2], false);
        assert_eq!(frames.text(), None);
    }
}
