//! Which bytes begin a JSON text (RFC 8259, in UTF-8): a machine that takes one byte at a time.
//! Knows no schema, no token and no engine.
//!
//! By the letter of the grammar: half a surrogate pair in an escape is allowed, as are two members
//! of one name and numbers of any size; raw control characters, overlong UTF-8 and a byte order
//! mark are not. Every state that is reached can still become a whole text, so that a byte is
//! refused exactly where no JSON text goes on with it.

/// Where a text stands that began well.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct JsonPrefix {
    /// What is open, the outermost first.
    open: Vec<Open>,
    at: At,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Open {
    Array,
    Object,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    Value,
    /// After `[`.
    ValueOrEnd,
    /// After `{`.
    NameOrEnd,
    /// After a comma in an object.
    Name,
    Colon,
    AfterValue,
    Text {
        is_name: bool,
        within: Within,
    },
    Number(Digits),
    /// The rest of `true`, `false` or `null`.
    Word(&'static [u8]),
}

/// Inside a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Within {
    Plain,
    /// After a backslash.
    Escape,
    /// So many hexadecimal digits are due.
    Hex(u8),
    /// So many bytes of a character are due, the next of them in this range.
    Character {
        due: u8,
        least: u8,
        most: u8,
    },
}

/// Inside a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Digits {
    Minus,
    Zero,
    Integer,
    Point,
    Fraction,
    Exponent,
    Sign,
    Power,
}

impl Default for JsonPrefix {
    fn default() -> Self {
        Self {
            open: Vec::new(),
            at: At::Value,
        }
    }
}

impl JsonPrefix {
    /// Where `bytes` lead; `None` where no JSON text begins so.
    pub(super) fn after(bytes: &[u8]) -> Option<Self> {
        let mut prefix = Self::default();
        bytes
            .iter()
            .all(|byte| prefix.push(*byte))
            .then_some(prefix)
    }

    /// Takes a byte; `false` where no JSON text goes on so, and what is left of the state means
    /// nothing.
    #[must_use]
    pub(super) fn push(&mut self, byte: u8) -> bool {
        let next =
            match self.at {
                At::Text { is_name, within } => in_text(byte, is_name, within),
                At::Number(digits) => match in_number(byte, digits) {
                    Some(digits) => Some(At::Number(digits)),
                    None if digits.is_whole() => {
                        self.at = At::AfterValue;
                        return self.push(byte);
                    }
                    None => None,
                },
                At::Word(rest) => rest.split_first().filter(|(due, _)| **due == byte).map(
                    |(_, rest)| match rest {
                        [] => At::AfterValue,
                        rest => At::Word(rest),
                    },
                ),
                at if is_space(byte) => Some(at),
                At::Value => self.value(byte),
                At::ValueOrEnd if byte == b']' => self.close(Open::Array),
                At::ValueOrEnd => self.value(byte),
                At::NameOrEnd if byte == b'}' => self.close(Open::Object),
                At::NameOrEnd | At::Name => (byte == b'"').then_some(At::Text {
                    is_name: true,
                    within: Within::Plain,
                }),
                At::Colon => (byte == b':').then_some(At::Value),
                At::AfterValue => self.after_value(byte),
            };
        next.inspect(|at| self.at = *at).is_some()
    }

    /// Whether the bytes so far are a JSON text.
    pub(super) fn is_whole(&self) -> bool {
        let is_done = match self.at {
            At::AfterValue => true,
            At::Number(digits) => digits.is_whole(),
            _ => false,
        };
        is_done && self.open.is_empty()
    }

    /// Whether a member's name comes next, is under way, or may come after a comma.
    pub(super) fn is_at_name(&self) -> bool {
        // A number has no end of its own: what comes after it may be the comma before a name.
        let is_after_member = matches!(self.at, At::AfterValue | At::Number(_))
            && self.open.last() == Some(&Open::Object);
        is_after_member
            || matches!(
                self.at,
                At::NameOrEnd | At::Name | At::Text { is_name: true, .. }
            )
    }

    /// Whether an array's item comes next, or may come after a comma, or the array ends.
    pub(super) fn is_at_item(&self) -> bool {
        self.open.last() == Some(&Open::Array)
            && matches!(
                self.at,
                At::Value | At::ValueOrEnd | At::AfterValue | At::Number(_)
            )
    }

    /// Where it stands, in a word.
    pub(super) fn place(&self) -> &'static str {
        match self.at {
            At::Value | At::ValueOrEnd => "at a value",
            At::NameOrEnd | At::Name => "at a name",
            At::Colon => "at a colon",
            At::AfterValue if self.open.is_empty() => "after the text",
            At::AfterValue => "after a value",
            At::Text { is_name: true, .. } => "in a name",
            At::Text {
                within: Within::Plain,
                ..
            } => "in a string",
            At::Text { .. } => "in a character or escape of a string",
            At::Number(_) => "in a number",
            At::Word(_) => "in a literal",
        }
    }

    /// What decides about the next `bytes` bytes: the state but for what is open further out than
    /// they can close.
    pub(super) fn key(&self, bytes: usize) -> Self {
        let start = self.open.len().saturating_sub(bytes + 1);
        Self {
            open: self.open[start..].to_vec(),
            at: self.at,
        }
    }

    fn value(&mut self, byte: u8) -> Option<At> {
        Some(match byte {
            b'"' => At::Text {
                is_name: false,
                within: Within::Plain,
            },
            b'{' => {
                self.open.push(Open::Object);
                At::NameOrEnd
            }
            b'[' => {
                self.open.push(Open::Array);
                At::ValueOrEnd
            }
            b'-' => At::Number(Digits::Minus),
            b'0' => At::Number(Digits::Zero),
            b'1'..=b'9' => At::Number(Digits::Integer),
            b't' => At::Word(b"rue"),
            b'f' => At::Word(b"alse"),
            b'n' => At::Word(b"ull"),
            _ => return None,
        })
    }

    fn close(&mut self, what: Open) -> Option<At> {
        (self.open.pop() == Some(what)).then_some(At::AfterValue)
    }

    fn after_value(&mut self, byte: u8) -> Option<At> {
        match (byte, self.open.last()) {
            (b',', Some(Open::Array)) => Some(At::Value),
            (b',', Some(Open::Object)) => Some(At::Name),
            (b']', _) => self.close(Open::Array),
            (b'}', _) => self.close(Open::Object),
            _ => None,
        }
    }
}

impl Digits {
    /// Whether the number may end here.
    fn is_whole(self) -> bool {
        matches!(
            self,
            Self::Zero | Self::Integer | Self::Fraction | Self::Power
        )
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn in_text(byte: u8, is_name: bool, within: Within) -> Option<At> {
    let within = match (within, byte) {
        (Within::Plain, b'"') => return Some(if is_name { At::Colon } else { At::AfterValue }),
        (Within::Plain, b'\\') => Within::Escape,
        (Within::Plain, 0x20..=0x7f) => Within::Plain,
        (Within::Plain, byte) => character(byte)?,
        (Within::Escape, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Within::Plain,
        (Within::Escape, b'u') => Within::Hex(4),
        (Within::Hex(1), byte) if byte.is_ascii_hexdigit() => Within::Plain,
        (Within::Hex(due), byte) if byte.is_ascii_hexdigit() => Within::Hex(due - 1),
        (Within::Character { due, least, most }, byte) if (least..=most).contains(&byte) => {
            match due {
                1 => Within::Plain,
                _ => Within::Character {
                    due: due - 1,
                    least: 0x80,
                    most: 0xbf,
                },
            }
        }
        _ => return None,
    };
    Some(At::Text { is_name, within })
}

/// What follows the first byte of a character of several (Unicode, table 3-7).
fn character(first: u8) -> Option<Within> {
    let (due, least, most) = match first {
        0xc2..=0xdf => (1, 0x80, 0xbf),
        0xe0 => (2, 0xa0, 0xbf),
        0xe1..=0xec | 0xee | 0xef => (2, 0x80, 0xbf),
        0xed => (2, 0x80, 0x9f),
        0xf0 => (3, 0x90, 0xbf),
        0xf1..=0xf3 => (3, 0x80, 0xbf),
        0xf4 => (3, 0x80, 0x8f),
        _ => return None,
    };
    Some(Within::Character { due, least, most })
}

fn in_number(byte: u8, digits: Digits) -> Option<Digits> {
    Some(match (digits, byte) {
        (Digits::Minus, b'0') => Digits::Zero,
        (Digits::Minus, b'1'..=b'9') | (Digits::Integer, b'0'..=b'9') => Digits::Integer,
        (Digits::Zero | Digits::Integer, b'.') => Digits::Point,
        (Digits::Point | Digits::Fraction, b'0'..=b'9') => Digits::Fraction,
        (Digits::Zero | Digits::Integer | Digits::Fraction, b'e' | b'E') => Digits::Exponent,
        (Digits::Exponent, b'+' | b'-') => Digits::Sign,
        (Digits::Exponent | Digits::Sign | Digits::Power, b'0'..=b'9') => Digits::Power,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each text is whole, and every beginning of it lives.
    #[test]
    fn whole_texts_and_their_beginnings() {
        for text in [
            "0",
            "-0",
            "10",
            " -1.50e+07 ",
            "1E5",
            "true",
            "[ ]",
            "{ }\n",
            "null",
            "false",
            "[1,[2,{\"a\":[]}], \"x\"]",
            "{\"a\":{\"\":1},\"b\" : [null]}",
            "\"\\u00e9\\ud800\\/\\\"é日😀\u{7f}\"",
        ] {
            for end in 0..=text.len() {
                assert!(
                    JsonPrefix::after(&text.as_bytes()[..end]).is_some(),
                    "{text:?} up to {end}"
                );
            }
            assert!(
                JsonPrefix::after(text.as_bytes()).unwrap().is_whole(),
                "{text:?}"
            );
        }
    }

    #[test]
    fn begun_and_not_whole() {
        for text in [
            "",
            " ",
            "-",
            "1.",
            "1e",
            "1e+",
            "tru",
            "[",
            "[1",
            "[1,",
            "{",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":1,",
            "\"",
            "\"\\",
            "\"\\u12",
        ] {
            assert!(
                !JsonPrefix::after(text.as_bytes()).unwrap().is_whole(),
                "{text:?}"
            );
        }
    }

    /// The last byte is the one that kills.
    #[test]
    fn dead_at_the_very_byte() {
        let dead: [&[u8]; 24] = [
            b"x",
            b"\xef",
            b"01",
            b"-a",
            b"1..",
            b"1.e",
            b"+",
            b"1ee",
            b"trux",
            b"[,",
            b"[1 2",
            b"[1,]",
            b"{,",
            b"{1",
            b"{\"a\",",
            b"{\"a\":1]",
            b"{\"a\":1,}",
            b"]",
            b"1 1",
            b"\"\x1f",
            b"\"\\x",
            b"\"\\u00g",
            b"\"\xc0",
            b"\"\xed\xa0",
        ];
        for text in dead {
            assert!(
                JsonPrefix::after(&text[..text.len() - 1]).is_some(),
                "{text:?}"
            );
            assert!(JsonPrefix::after(text).is_none(), "{text:?}");
        }
    }

    /// What a state is told apart by decides about as many bytes as it was made for.
    #[test]
    fn a_key_forgets_only_what_cannot_be_reached() {
        let deep = JsonPrefix::after(b"[[[{\"a\":[").unwrap();
        let shallow = JsonPrefix::after(b"{\"b\":[{\"a\":[").unwrap();
        assert_eq!(deep.key(1), shallow.key(1));
        assert_ne!(deep.key(4), shallow.key(4));
        for bytes in [&b"]}"[..], b"]}]", b"1,2", b"]}}"] {
            let lives = |state: &JsonPrefix| {
                let mut state = state.clone();
                bytes.iter().all(|byte| state.push(*byte))
            };
            assert_eq!(lives(&deep), lives(&deep.key(bytes.len())), "{bytes:?}");
        }
    }
}
