//! What an answer has opened and not closed, by its bytes: strings, objects, lists. Knows neither
//! tokens' weights nor masks.

/// Where an answer stands. Text that is not JSON has no objects to close, and quotation marks work
/// alike.
#[derive(Clone, Debug, Default)]
pub(super) struct Posture {
    frames: Vec<Frame>,
    in_string: bool,
    escaped: bool,
    /// What has been written of a member's name, while inside one.
    key: Option<Vec<u8>>,
}

/// An open object or list.
#[derive(Clone, Debug)]
struct Frame {
    /// Names that the object has already; `None` for a list.
    keys: Option<Vec<Vec<u8>>>,
    /// Whether the next string is a name.
    expects_key: bool,
}

/// What some bytes would do to a posture.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Change {
    /// The string that was open is closed.
    pub(super) ends_string: bool,
    /// The string that was open stays open.
    pub(super) prolongs_string: bool,
    /// Objects and lists closed.
    pub(super) closed: u32,
    /// Objects and lists opened.
    pub(super) opened: u32,
    /// Strings opened and closed at once.
    pub(super) empty_strings: u32,
    /// A name is finished that the object has already.
    pub(super) repeats_key: bool,
    /// A comma that nothing but another member may follow, written where the object or list might
    /// have been closed instead.
    pub(super) commits: bool,
}

impl Posture {
    /// Takes notice of what was written.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if self.in_string {
                self.write_in_string(byte);
            } else {
                self.write_outside(byte);
            }
        }
    }

    fn write_in_string(&mut self, byte: u8) {
        if byte == b'"' && !self.escaped {
            self.in_string = false;
            if let (
                Some(key),
                Some(Frame {
                    keys: Some(keys),
                    expects_key,
                }),
            ) = (self.key.take(), self.frames.last_mut())
            {
                keys.push(key);
                *expects_key = false;
            }
            return;
        }
        self.escaped = byte == b'\\' && !self.escaped;
        if let Some(key) = &mut self.key {
            key.push(byte);
        }
    }

    fn write_outside(&mut self, byte: u8) {
        match byte {
            b'"' => {
                self.in_string = true;
                self.escaped = false;
                self.key = self
                    .frames
                    .last()
                    .is_some_and(|frame| frame.expects_key)
                    .then(Vec::new);
            }
            b'{' => self.frames.push(Frame {
                keys: Some(Vec::new()),
                expects_key: true,
            }),
            b'[' => self.frames.push(Frame {
                keys: None,
                expects_key: false,
            }),
            b'}' | b']' => drop(self.frames.pop()),
            b',' => {
                if let Some(frame) = self.frames.last_mut() {
                    frame.expects_key = frame.keys.is_some();
                }
            }
            _ => {}
        }
    }

    /// What `bytes` would do.
    pub(super) fn change(&self, bytes: &[u8]) -> Change {
        let (mut in_string, mut escaped, mut depth) = (self.in_string, self.escaped, self.depth());
        let mut change = Change {
            prolongs_string: in_string,
            ..Change::default()
        };
        let object = self.frames.last().filter(|frame| frame.keys.is_some());
        let mut expects_key = object.is_some_and(|frame| frame.expects_key);
        // Where a string began in `bytes`, and whether it is a name of the object that is open now.
        let (mut start, mut is_key) = (0, false);
        for (index, &byte) in bytes.iter().enumerate() {
            if in_string {
                if byte == b'"' && !escaped {
                    in_string = false;
                    if change.prolongs_string {
                        change.prolongs_string = false;
                        change.ends_string = true;
                        change.repeats_key |= self
                            .key
                            .as_ref()
                            .is_some_and(|key| self.has_key(key, &bytes[..index]));
                    } else {
                        change.empty_strings += u32::from(start == index);
                        change.repeats_key |= is_key && self.has_key(&[], &bytes[start..index]);
                    }
                }
                escaped = byte == b'\\' && !escaped;
                continue;
            }
            match byte {
                b'"' => {
                    (in_string, escaped, start) = (true, false, index + 1);
                    is_key = expects_key && depth == self.depth() && change.closed == 0;
                    expects_key = false;
                }
                b'{' | b'[' => {
                    depth += 1;
                    change.opened += 1;
                }
                b'}' | b']' if depth > 0 => {
                    depth -= 1;
                    change.closed += 1;
                }
                b',' => {
                    expects_key = object.is_some();
                    // After the value that was being written, the choice between comma and bracket
                    // is made in one token.
                    let choice =
                        self.in_string && self.key.is_none() && start == 0 && change.closed == 0;
                    change.commits |= !choice && index > 0;
                }
                _ => {}
            }
        }
        change
    }

    /// Whether `key` with `rest` after it is a name that the open object has.
    fn has_key(&self, key: &[u8], rest: &[u8]) -> bool {
        let Some(Frame {
            keys: Some(keys), ..
        }) = self.frames.last()
        else {
            return false;
        };
        keys.iter()
            .any(|known| known.strip_prefix(key) == Some(rest))
    }

    /// Objects and lists that are open.
    pub(super) fn depth(&self) -> usize {
        self.frames.len()
    }

    /// Whether a string is open.
    pub(super) fn in_string(&self) -> bool {
        self.in_string
    }

    /// Whether nothing is open.
    pub(super) fn balanced(&self) -> bool {
        self.frames.is_empty() && !self.in_string
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn posture(text: &str) -> Posture {
        let mut posture = Posture::default();
        posture.write(text.as_bytes());
        posture
    }

    #[test]
    fn knows_what_is_open() {
        for (text, depth, in_string) in [
            ("", 0, false),
            ("{\"a\": [1, \"}\\\"{", 2, true),
            ("{\"a\": [1, \"}\\\"{\\\\\"]}", 0, false),
            ("}}{", 1, false),
            ("He said \"no\".", 0, false),
        ] {
            let posture = posture(text);
            assert_eq!(
                (posture.depth(), posture.in_string()),
                (depth, in_string),
                "{text}"
            );
            assert_eq!(posture.balanced(), depth == 0 && !in_string);
        }
    }

    #[test]
    fn knows_what_would_change() {
        let none = Change::default();
        let ends = Change {
            ends_string: true,
            ..none
        };
        for (text, next, expected) in [
            (
                "{\"a\": \"",
                "b}]",
                Change {
                    prolongs_string: true,
                    ..none
                },
            ),
            (
                "{\"a\": \"",
                "\\\"",
                Change {
                    prolongs_string: true,
                    ..none
                },
            ),
            ("{\"a\": \"", "\"}}", Change { closed: 1, ..ends }),
            ("{\"a\": \"b\"", ", \"", none),
            (
                "{\"a\": ",
                "\"\"}",
                Change {
                    closed: 1,
                    empty_strings: 1,
                    ..none
                },
            ),
            ("{\"a\": ", "{\"", Change { opened: 1, ..none }),
            ("{\"a\": 1, \"b", "\":", ends),
            (
                "{\"ab\": 1, \"a",
                "b\":",
                Change {
                    repeats_key: true,
                    ..ends
                },
            ),
            (
                "{\"ab\": {\"c\": 1}, \"ab",
                "\"",
                Change {
                    repeats_key: true,
                    ..ends
                },
            ),
            ("{\"ab\": {\"", "ab\"", ends),
            ("{\"ab\": \"", "ab\"", ends),
            ("[{\"a\": 1}, {\"", "a\"", ends),
            (
                "{\"\": 1",
                ",\"\":",
                Change {
                    repeats_key: true,
                    empty_strings: 1,
                    ..none
                },
            ),
            (
                "{\"\": \"",
                "\",\"\":",
                Change {
                    repeats_key: true,
                    empty_strings: 1,
                    ..ends
                },
            ),
            (
                "{\"\": \"",
                "\"},\"\"",
                Change {
                    closed: 1,
                    empty_strings: 1,
                    commits: true,
                    ..ends
                },
            ),
            (
                "{\"\": ",
                "\"\",",
                Change {
                    empty_strings: 1,
                    commits: true,
                    ..none
                },
            ),
            (
                "[\"\"",
                ",\"\"",
                Change {
                    empty_strings: 1,
                    ..none
                },
            ),
            ("{\"a\": \"", "\",\"", ends),
            (
                "{\"a",
                "\":\"\",",
                Change {
                    empty_strings: 1,
                    commits: true,
                    ..ends
                },
            ),
            (
                "{\"a\": [1",
                "],",
                Change {
                    closed: 1,
                    commits: true,
                    ..none
                },
            ),
        ] {
            assert_eq!(
                posture(text).change(next.as_bytes()),
                expected,
                "{text} {next}"
            );
        }
    }
}
