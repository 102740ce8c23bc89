//! Tracks the open strings, objects and lists of an answer by its bytes.

/// The open JSON of an answer. Text that is not JSON has no open objects, but its quotation marks
/// count.
#[derive(Clone, Debug, Default)]
pub(super) struct JsonState {
    frames: Vec<Frame>,
    in_string: bool,
    escaped: bool,
    /// The written part of the current member name, if any.
    key: Option<Vec<u8>>,
}

/// An open object or list.
#[derive(Clone, Debug)]
struct Frame {
    /// Names that the object already has. `None` for a list.
    keys: Option<Vec<Vec<u8>>>,
    /// Whether the next string is a member name.
    expects_key: bool,
}

/// The effect of some bytes on the state.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Change {
    /// The open string ends.
    pub(super) ends_string: bool,
    /// The open string stays open.
    pub(super) extends_string: bool,
    /// Number of closed objects and lists.
    pub(super) closed: u32,
    /// Number of opened objects and lists.
    pub(super) opened: u32,
    /// Number of empty strings.
    pub(super) empty_strings: u32,
    /// A member name ends that the object already has.
    pub(super) repeats_key: bool,
    /// A comma after which another member must follow, where the object or list could have been
    /// closed instead.
    pub(super) commits: bool,
}

impl JsonState {
    /// Updates the state with written bytes.
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

    /// The effect of `bytes`.
    pub(super) fn change(&self, bytes: &[u8]) -> Change {
        let (mut in_string, mut escaped, mut depth) = (self.in_string, self.escaped, self.depth());
        let mut change = Change {
            extends_string: in_string,
            ..Change::default()
        };
        let object = self.frames.last().filter(|frame| frame.keys.is_some());
        let mut expects_key = object.is_some_and(|frame| frame.expects_key);
        // The start of a string in `bytes`, and whether it is a name of the currently open object.
        let (mut start, mut is_key) = (0, false);
        for (index, &byte) in bytes.iter().enumerate() {
            if in_string {
                if byte == b'"' && !escaped {
                    in_string = false;
                    if change.extends_string {
                        change.extends_string = false;
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
                    // Directly after the end of the current value, one token decides between comma
                    // and bracket.
                    let choice =
                        self.in_string && self.key.is_none() && start == 0 && change.closed == 0;
                    change.commits |= !choice && index > 0;
                }
                _ => {}
            }
        }
        change
    }

    /// Whether `key` followed by `rest` is a name of the open object.
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

    /// Number of open objects and lists.
    pub(super) fn depth(&self) -> usize {
        self.frames.len()
    }

    /// Whether a string is open.
    pub(super) fn in_string(&self) -> bool {
        self.in_string
    }

    /// Whether no string, object or list is open.
    pub(super) fn is_balanced(&self) -> bool {
        self.frames.is_empty() && !self.in_string
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(text: &str) -> JsonState {
        let mut state = JsonState::default();
        state.write(text.as_bytes());
        state
    }

    #[test]
    fn tracks_open_strings_objects_and_lists() {
        for (text, depth, in_string) in [
            ("", 0, false),
            ("{\"a\": [1, \"}\\\"{", 2, true),
            ("{\"a\": [1, \"}\\\"{\\\\\"]}", 0, false),
            ("}}{", 1, false),
            ("He said \"no\".", 0, false),
        ] {
            let state = state(text);
            assert_eq!(
                (state.depth(), state.in_string()),
                (depth, in_string),
                "{text}"
            );
            assert_eq!(state.is_balanced(), depth == 0 && !in_string);
        }
    }

    #[test]
    fn reports_the_effect_of_bytes() {
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
                    extends_string: true,
                    ..none
                },
            ),
            (
                "{\"a\": \"",
                "\\\"",
                Change {
                    extends_string: true,
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
                state(text).change(next.as_bytes()),
                expected,
                "{text} {next}"
            );
        }
    }
}
