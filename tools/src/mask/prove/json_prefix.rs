//! Recognises prefixes of JSON texts (RFC 8259, UTF-8) with a state machine over bytes.
//!
//! Strictly the RFC's grammar: lone surrogates in escapes, repeated member names and numbers of any
//! size are accepted; raw control characters, overlong UTF-8 and byte-order marks are not. Every
//! reachable state can be completed to a JSON text, so a byte is refused exactly where no JSON text
//! continues with it.

/// The state after a valid prefix.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct JsonPrefix {
    /// The open containers, outermost first.
    containers: Vec<Container>,
    position: Position,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Container {
    Array,
    Object,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Position {
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
        state: StringState,
    },
    Number(NumberState),
    /// The rest of `true`, `false` or `null`.
    Word(&'static [u8]),
}

/// Position inside a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum StringState {
    Plain,
    /// After a backslash.
    Escape,
    /// Remaining hexadecimal digits.
    Hex(u8),
    /// Remaining bytes of a character; the next of them is in this range.
    Character {
        remaining: u8,
        least: u8,
        most: u8,
    },
}

/// Position inside a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum NumberState {
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
            containers: Vec::new(),
            position: Position::Value,
        }
    }
}

impl JsonPrefix {
    /// The state after `bytes`; `None` if no JSON text starts with them.
    pub(super) fn after(bytes: &[u8]) -> Option<Self> {
        let mut prefix = Self::default();
        bytes
            .iter()
            .all(|byte| prefix.push(*byte))
            .then_some(prefix)
    }

    /// Advances by a byte. Returns `false` if no JSON text continues with it; the state is then
    /// invalid.
    #[must_use]
    pub(super) fn push(&mut self, byte: u8) -> bool {
        let next = match self.position {
            Position::Text { is_name, state } => next_in_string(byte, is_name, state),
            Position::Number(digits) => match next_in_number(byte, digits) {
                Some(digits) => Some(Position::Number(digits)),
                None if digits.is_complete() => {
                    self.position = Position::AfterValue;
                    return self.push(byte);
                }
                None => None,
            },
            Position::Word(rest) => rest
                .split_first()
                .filter(|(remaining, _)| **remaining == byte)
                .map(|(_, rest)| match rest {
                    [] => Position::AfterValue,
                    rest => Position::Word(rest),
                }),
            position if is_space(byte) => Some(position),
            Position::Value => self.value(byte),
            Position::ValueOrEnd if byte == b']' => self.close(Container::Array),
            Position::ValueOrEnd => self.value(byte),
            Position::NameOrEnd if byte == b'}' => self.close(Container::Object),
            Position::NameOrEnd | Position::Name => (byte == b'"').then_some(Position::Text {
                is_name: true,
                state: StringState::Plain,
            }),
            Position::Colon => (byte == b':').then_some(Position::Value),
            Position::AfterValue => self.after_value(byte),
        };
        next.inspect(|position| self.position = *position).is_some()
    }

    /// Whether the bytes so far are a complete JSON text.
    pub(super) fn is_complete(&self) -> bool {
        let is_done = match self.position {
            Position::AfterValue => true,
            Position::Number(digits) => digits.is_complete(),
            _ => false,
        };
        is_done && self.containers.is_empty()
    }

    /// Whether a member name is next, in progress, or possible after a comma.
    pub(super) fn is_at_name(&self) -> bool {
        // A number has no end marker: the comma before a name may follow it.
        let is_after_member = matches!(self.position, Position::AfterValue | Position::Number(_))
            && self.containers.last() == Some(&Container::Object);
        is_after_member
            || matches!(
                self.position,
                Position::NameOrEnd | Position::Name | Position::Text { is_name: true, .. }
            )
    }

    /// Whether an array item is next or possible after a comma, or the array may end.
    pub(super) fn is_at_item(&self) -> bool {
        self.containers.last() == Some(&Container::Array)
            && matches!(
                self.position,
                Position::Value | Position::ValueOrEnd | Position::AfterValue | Position::Number(_)
            )
    }

    /// A description of the position.
    pub(super) fn position_name(&self) -> &'static str {
        match self.position {
            Position::Value | Position::ValueOrEnd => "at a value",
            Position::NameOrEnd | Position::Name => "at a name",
            Position::Colon => "at a colon",
            Position::AfterValue if self.containers.is_empty() => "after the text",
            Position::AfterValue => "after a value",
            Position::Text { is_name: true, .. } => "in a name",
            Position::Text {
                state: StringState::Plain,
                ..
            } => "in a string",
            Position::Text { .. } => "in a character or escape of a string",
            Position::Number(_) => "in a number",
            Position::Word(_) => "in a literal",
        }
    }

    /// The part of the state that decides about the next `bytes` bytes: without containers that
    /// they cannot close.
    pub(super) fn key(&self, bytes: usize) -> Self {
        let start = self.containers.len().saturating_sub(bytes + 1);
        Self {
            containers: self.containers[start..].to_vec(),
            position: self.position,
        }
    }

    fn value(&mut self, byte: u8) -> Option<Position> {
        Some(match byte {
            b'"' => Position::Text {
                is_name: false,
                state: StringState::Plain,
            },
            b'{' => {
                self.containers.push(Container::Object);
                Position::NameOrEnd
            }
            b'[' => {
                self.containers.push(Container::Array);
                Position::ValueOrEnd
            }
            b'-' => Position::Number(NumberState::Minus),
            b'0' => Position::Number(NumberState::Zero),
            b'1'..=b'9' => Position::Number(NumberState::Integer),
            b't' => Position::Word(b"rue"),
            b'f' => Position::Word(b"alse"),
            b'n' => Position::Word(b"ull"),
            _ => return None,
        })
    }

    fn close(&mut self, what: Container) -> Option<Position> {
        (self.containers.pop() == Some(what)).then_some(Position::AfterValue)
    }

    fn after_value(&mut self, byte: u8) -> Option<Position> {
        match (byte, self.containers.last()) {
            (b',', Some(Container::Array)) => Some(Position::Value),
            (b',', Some(Container::Object)) => Some(Position::Name),
            (b']', _) => self.close(Container::Array),
            (b'}', _) => self.close(Container::Object),
            _ => None,
        }
    }
}

impl NumberState {
    /// Whether the number may end here.
    fn is_complete(self) -> bool {
        matches!(
            self,
            Self::Zero | Self::Integer | Self::Fraction | Self::Power
        )
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn next_in_string(byte: u8, is_name: bool, state: StringState) -> Option<Position> {
    let state = match (state, byte) {
        (StringState::Plain, b'"') => {
            return Some(if is_name {
                Position::Colon
            } else {
                Position::AfterValue
            });
        }
        (StringState::Plain, b'\\') => StringState::Escape,
        (StringState::Plain, 0x20..=0x7f) => StringState::Plain,
        (StringState::Plain, byte) => character(byte)?,
        (StringState::Escape, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
            StringState::Plain
        }
        (StringState::Escape, b'u') => StringState::Hex(4),
        (StringState::Hex(1), byte) if byte.is_ascii_hexdigit() => StringState::Plain,
        (StringState::Hex(remaining), byte) if byte.is_ascii_hexdigit() => {
            StringState::Hex(remaining - 1)
        }
        (
            StringState::Character {
                remaining,
                least,
                most,
            },
            byte,
        ) if (least..=most).contains(&byte) => match remaining {
            1 => StringState::Plain,
            _ => StringState::Character {
                remaining: remaining - 1,
                least: 0x80,
                most: 0xbf,
            },
        },
        _ => return None,
    };
    Some(Position::Text { is_name, state })
}

/// The state after the first byte of a multi-byte character (Unicode, table 3-7).
fn character(first: u8) -> Option<StringState> {
    let (remaining, least, most) = match first {
        0xc2..=0xdf => (1, 0x80, 0xbf),
        0xe0 => (2, 0xa0, 0xbf),
        0xe1..=0xec | 0xee | 0xef => (2, 0x80, 0xbf),
        0xed => (2, 0x80, 0x9f),
        0xf0 => (3, 0x90, 0xbf),
        0xf1..=0xf3 => (3, 0x80, 0xbf),
        0xf4 => (3, 0x80, 0x8f),
        _ => return None,
    };
    Some(StringState::Character {
        remaining,
        least,
        most,
    })
}

fn next_in_number(byte: u8, digits: NumberState) -> Option<NumberState> {
    Some(match (digits, byte) {
        (NumberState::Minus, b'0') => NumberState::Zero,
        (NumberState::Minus, b'1'..=b'9') | (NumberState::Integer, b'0'..=b'9') => {
            NumberState::Integer
        }
        (NumberState::Zero | NumberState::Integer, b'.') => NumberState::Point,
        (NumberState::Point | NumberState::Fraction, b'0'..=b'9') => NumberState::Fraction,
        (NumberState::Zero | NumberState::Integer | NumberState::Fraction, b'e' | b'E') => {
            NumberState::Exponent
        }
        (NumberState::Exponent, b'+' | b'-') => NumberState::Sign,
        (NumberState::Exponent | NumberState::Sign | NumberState::Power, b'0'..=b'9') => {
            NumberState::Power
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each text is complete, and all its prefixes are valid.
    #[test]
    fn complete_texts_and_all_their_prefixes_are_accepted() {
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
                JsonPrefix::after(text.as_bytes()).unwrap().is_complete(),
                "{text:?}"
            );
        }
    }

    #[test]
    fn unfinished_texts_are_not_complete() {
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
                !JsonPrefix::after(text.as_bytes()).unwrap().is_complete(),
                "{text:?}"
            );
        }
    }

    /// Only the last byte is invalid.
    #[test]
    fn invalid_bytes_are_rejected_at_the_first_position() {
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

    /// States with the same key accept the same bytes, up to the key's length.
    #[test]
    fn state_key_drops_only_unreachable_containers() {
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
