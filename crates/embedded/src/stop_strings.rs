//! Stop strings: texts that end an answer when they occur, as in OpenAI's API and vLLM.

use std::sync::Arc;

/// Searches an answer for stop strings. Holds back text that may be the start of one.
#[derive(Clone, Debug, Default)]
pub(super) struct StopStrings {
    strings: Vec<Arc<str>>,
    held: String,
}

/// The result of one piece of text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Filtered {
    /// The text that can be sent.
    pub(super) text: String,
    /// The stop string that occurred. The answer ends here.
    pub(super) stop: Option<Arc<str>>,
}

impl StopStrings {
    /// Searches for `strings`, none of which is empty.
    pub(super) fn new(strings: &[String]) -> Self {
        Self {
            strings: strings.iter().map(|stop| stop.as_str().into()).collect(),
            held: String::new(),
        }
    }

    /// Processes the next piece of the answer. The last piece releases all held text. If several
    /// strings complete in the same piece, the first of the list wins, as in vLLM.
    pub(super) fn filter(&mut self, text: String, is_last: bool) -> Filtered {
        if self.strings.is_empty() {
            return Filtered { text, stop: None };
        }
        self.held.push_str(&text);
        let found = self
            .strings
            .iter()
            .find_map(|stop| Some((self.held.find(&**stop)?, Arc::clone(stop))));
        if let Some((start, stop)) = found {
            self.held.truncate(start);
            return Filtered {
                text: std::mem::take(&mut self.held),
                stop: Some(stop),
            };
        }
        let sendable = if is_last {
            self.held.len()
        } else {
            self.sendable_bytes()
        };
        let rest = self.held.split_off(sendable);
        Filtered {
            text: std::mem::replace(&mut self.held, rest),
            stop: None,
        }
    }

    /// Number of held bytes that cannot be the start of a stop string.
    fn sendable_bytes(&self) -> usize {
        let may_match = |start: usize| {
            self.strings
                .iter()
                .any(|stop| stop.starts_with(&self.held[start..]))
        };
        self.held
            .char_indices()
            .map(|(start, _)| start)
            .find(|start| may_match(*start))
            .unwrap_or(self.held.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(strings: &[&str], pieces: &[&str], expected: &[&str], stop: Option<&str>) {
        let strings: Vec<String> = strings.iter().map(ToString::to_string).collect();
        let mut stop_strings = StopStrings::new(&strings);
        let mut sent = Vec::new();
        for (index, piece) in pieces.iter().enumerate() {
            let filtered = stop_strings.filter((*piece).to_owned(), index + 1 == pieces.len());
            sent.push(filtered.text);
            if filtered.stop.is_some() {
                assert_eq!(filtered.stop.as_deref(), stop);
                assert_eq!(sent, expected);
                return;
            }
        }
        assert_eq!(
            (sent, stop),
            (expected.iter().map(ToString::to_string).collect(), None)
        );
    }

    #[test]
    fn an_answer_ends_at_the_first_stop_string() {
        check(&[], &["a", "b"], &["a", "b"], None);
        check(&["ab"], &["xa", "by"], &["x", ""], Some("ab"));
        check(&["ab"], &["xa", "ay", "a"], &["x", "aay", "a"], None);
        check(
            &["\n\n"],
            &["x\n", "y\n", "\nz"],
            &["x", "\ny", ""],
            Some("\n\n"),
        );
        check(&["c", "b"], &["abc"], &["ab"], Some("c"));
        check(&["🦀!"], &["é🦀", "?"], &["é", "🦀?"], None);
        check(&["aab"], &["aa", "ab", "c"], &["", "a"], Some("aab"));
    }
}
