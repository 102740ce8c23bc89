//! The frames of an answer, as the server sent them.

use std::borrow::Cow;

use memchr::{memchr3, memmem};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bytes of frames that are kept until the answer is checked.
const MAX_BYTES: usize = 64 << 10;

/// Bytes of the frames of most answers.
const USUAL_BYTES: usize = 1000;

/// Bytes of frames that are kept in the run log.
const MAX_LOGGED_BYTES: usize = 2 << 10;

/// The frames of an answer, in the format of server-sent events. Frames that differ from the one
/// before in their text alone are joined with it, except after `}` or `]`, where a client may take
/// the arguments of a call as complete.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Frames {
    text: String,
}

/// Too many bytes. It is no frame.
const CUT: &str = ":cut\n";

/// Stands for the head of the first frame: its data before the choices. No JSON has this character.
const HEAD: char = '\u{1}';
const DATA: &str = "data: ";
const MAX_HEAD_BYTES: usize = 1 << 10;

/// The head of the first of these frames; empty if it has none, or a long one.
fn head(frames: &str) -> &str {
    let data = frames.strip_prefix(DATA).unwrap_or_default();
    let len = memmem::find(data.as_bytes(), b"\"choices\"").filter(|len| *len <= MAX_HEAD_BYTES);
    &data[..len.unwrap_or_default()]
}

impl Frames {
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The frames as server-sent events; `None` if there were too many bytes.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        let text = self.compact()?;
        Some(match text.contains(HEAD) {
            true => Cow::Owned(text.replace(HEAD, head(text))),
            false => Cow::Borrowed(text),
        })
    }

    /// [`Frames::text`], in which one character stands for a head that frames repeat.
    pub fn compact(&self) -> Option<&str> {
        (self.text != CUT).then_some(&self.text)
    }

    /// The frames for the run log: marked as cut if they are too long for it.
    pub fn shortened(self) -> Self {
        let text = self.text().filter(|text| text.len() <= MAX_LOGGED_BYTES);
        Self {
            text: text.map_or_else(|| CUT.to_owned(), Cow::into_owned),
        }
    }

    pub fn len(&self) -> usize {
        self.text.len()
    }
}

/// Joins the frames of an answer as they arrive. The content of the answer so far is given, and is
/// not kept twice: the first piece is as it was sent, the others are spelled anew.
#[derive(Debug)]
pub struct FrameWriter {
    text: String,
    /// Bytes of [`head`]; known once there is a second frame.
    head_len: Option<usize>,
    /// The text of the last frame, if more may be added to it.
    open: Option<Open>,
    /// What comes after that text.
    end: String,
}

/// A piece of text in a frame.
#[derive(Debug)]
pub enum Piece<'a> {
    /// As it was read.
    Content(&'a str),
    /// Of the arguments of a call, as they were sent.
    Arguments(&'a str),
}

#[derive(Debug)]
enum Open {
    /// Where the content begins that is not in the frame yet.
    Content(usize),
    Arguments,
}

impl Default for FrameWriter {
    /// Takes memory for most answers now: no first token may wait for it.
    fn default() -> Self {
        Self {
            text: String::with_capacity(USUAL_BYTES),
            head_len: None,
            open: None,
            end: String::with_capacity(USUAL_BYTES / 4),
        }
    }
}

impl FrameWriter {
    /// Adds a frame: the name of its event, which may be empty, and its data.
    pub fn add(&mut self, name: &[u8], data: &[u8], content: &str) {
        self.add_frame(name, data, 0, content);
    }

    /// The last bytes of the data are added as they are.
    fn add_frame(&mut self, name: &[u8], data: &[u8], suffix_len: usize, content: &str) {
        self.close(content);
        if self.text == CUT {
            return;
        }
        if !self.text.is_empty() {
            self.head_len.get_or_insert_with(|| head(&self.text).len());
        }
        if self.text.len() + name.len() + data.len() > MAX_BYTES {
            CUT.clone_into(&mut self.text);
            return;
        }
        for (field, value) in [("event: ", name), (DATA, data)] {
            if field != "event: " || !value.is_empty() {
                self.text.push_str(field);
                let value = match std::str::from_utf8(value) {
                    Ok(value) => Cow::Borrowed(value),
                    Err(_) => String::from_utf8_lossy(value),
                };
                // JSON has line ends only where a space is the same, and no HEAD.
                let value = match memchr3(b'\n', b'\r', HEAD as u8, value.as_bytes()) {
                    Some(_) => value
                        .replace(['\n', '\r'], " ")
                        .replace(HEAD, "\u{2}")
                        .into(),
                    None => value,
                };
                let head = &self.text[DATA.len()..][..self.head_len.unwrap_or_default()];
                let rest = value.strip_prefix(head).filter(|_| !head.is_empty());
                match rest.filter(|rest| rest.len() >= suffix_len) {
                    Some(rest) => {
                        self.text.push(HEAD);
                        self.text.push_str(rest);
                    }
                    None => self.text.push_str(&value),
                }
                self.text.push('\n');
            }
        }
        self.text.push('\n');
    }

    /// Adds a frame with a piece of text, and the number of bytes after it.
    pub fn add_text(
        &mut self,
        name: &[u8],
        data: &[u8],
        piece: &Piece<'_>,
        suffix_len: usize,
        content: &str,
    ) {
        let end_len = suffix_len + "\n\n".len();
        let known = self.open.as_ref().filter(|_| self.end.len() == end_len);
        match (piece, known) {
            (Piece::Content(_), Some(Open::Content(_))) => return,
            (Piece::Arguments(sent), Some(Open::Arguments))
                if !self.text.ends_with(['}', ']'])
                    && self.text.len() + sent.len() + suffix_len < MAX_BYTES =>
            {
                self.text.push_str(sent);
                return;
            }
            _ => {}
        }
        self.add_frame(name, data, suffix_len, content);
        if self.text != CUT {
            let text_len = self.text.len() - end_len;
            self.text[text_len..].clone_into(&mut self.end);
            self.text.truncate(text_len);
            self.open = Some(match piece {
                Piece::Content(text) => Open::Content(content.len() + text.len()),
                Piece::Arguments(_) => Open::Arguments,
            });
        }
    }

    fn close(&mut self, content: &str) {
        let more = match self.open.take() {
            Some(Open::Content(from)) => &content[from..],
            Some(Open::Arguments) => "",
            None => return,
        };
        if self.text.len() + more.len() + self.end.len() > MAX_BYTES {
            CUT.clone_into(&mut self.text);
            return;
        }
        if !more.is_empty() {
            let quoted = serde_json::to_string(more).expect("a text is JSON");
            self.text.push_str(&quoted[1..quoted.len() - 1]);
        }
        self.text.push_str(&self.end);
    }

    pub fn into_frames(mut self, content: &str) -> Frames {
        self.close(content);
        Frames { text: self.text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_joined() {
        let mut frames = FrameWriter::default();
        frames.add(b"", b"{\"a\":\n1}", "");
        for text in ["x", "y}", "z", "\u{e9}"] {
            let data = format!("{{\"t\":\"{text}\"}}");
            frames.add_text(b"", data.as_bytes(), &Piece::Arguments(text), 2, "");
        }
        let mut content = String::new();
        for text in ["x", "y}", "\u{e9}\""] {
            let data = serde_json::json!({"t": text}).to_string();
            frames.add_text(b"", data.as_bytes(), &Piece::Content(text), 2, &content);
            content.push_str(text);
        }
        frames.add(b"end", b"{}", &content);
        frames.add_text(b"", b"{\"t\":\"w\"}", &Piece::Content("w"), 2, &content);
        content.push_str("w!");
        assert_eq!(
            frames.into_frames(&content).text().unwrap(),
            "data: {\"a\": 1}\n\ndata: {\"t\":\"xy}\"}\n\ndata: {\"t\":\"z\u{e9}\"}\n\n\
             data: {\"t\":\"xy}\u{e9}\\\"\"}\n\n\
             event: end\ndata: {}\n\ndata: {\"t\":\"w!\"}\n\n"
        );
        let mut frames = FrameWriter::default();
        frames.add(b"", b"{\"id\":\"\x01\n\",\"choices\":[1]}", "");
        frames.add(b"", b"{\"id\":\"a\",\"choices\":[2]}", "");
        frames.add(b"", b"{\"id\":\"\x01 \",\"choices\":[3]}", "");
        assert_eq!(
            frames.into_frames("").text().unwrap(),
            "data: {\"id\":\"\u{2} \",\"choices\":[1]}\n\ndata: {\"id\":\"a\",\"choices\":[2]}\n\n\
             data: {\"id\":\"\u{2} \",\"choices\":[3]}\n\n"
        );
        let mut frames = FrameWriter::default();
        let (data, text) = ("{\"t\":\"x}\",\"choices\":[]}", Piece::Arguments("x}"));
        for _ in 0..3 {
            frames.add_text(b"", data.as_bytes(), &text, "\",\"choices\":[]}".len(), "");
        }
        let expected = format!("data: {data}\n\n").repeat(3);
        assert_eq!(frames.into_frames("").text().unwrap(), expected);
        let mut frames = FrameWriter::default();
        for text in ["x", "y"] {
            let data = format!("{{\"t\":\"{text}\",\"choices\":[]}}");
            let suffix_len = "\",\"choices\":[]}".len();
            frames.add_text(
                b"",
                data.as_bytes(),
                &Piece::Arguments(text),
                suffix_len,
                "",
            );
        }
        let last = "{\"t\":\"x\",\"choices\":[1]}";
        frames.add(b"", last.as_bytes(), "");
        assert_eq!(
            frames.into_frames("").text().unwrap(),
            format!("data: {{\"t\":\"xy\",\"choices\":[]}}\n\ndata: {last}\n\n")
        );
        let mut frames = FrameWriter::default();
        for number in 0..3 {
            let data = format!("{{\"id\":\"a\",\"choices\":[{number}]}}");
            frames.add(b"", data.as_bytes(), "");
        }
        let frames = frames.into_frames("");
        let (first, others) = ("data: {\"id\":\"a\",", "\"choices\":");
        let of = |head: &str| {
            let later = |number| format!("data: {head}{others}[{number}]}}\n\n");
            format!("{first}{others}[0]}}\n\n{}{}", later(1), later(2))
        };
        assert_eq!(frames.compact().unwrap(), of("\u{1}"));
        assert_eq!(frames.text().unwrap(), of("{\"id\":\"a\","));
        assert_eq!(frames.shortened().compact().unwrap(), of("{\"id\":\"a\","));
        let mut frames = FrameWriter::default();
        frames.add(b"", &[b'1'; MAX_BYTES], "");
        frames.add_text(b"", b"{\"t\":\"w\"}", &Piece::Content("w"), 2, "");
        assert_eq!(frames.into_frames("w").text(), None);
    }
}
