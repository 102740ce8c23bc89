//! Stop strings: texts that end an answer where they come up, as OpenAI's API and vLLM have them.
//! Knows neither tokens nor HTTP.

use std::sync::Arc;

/// What is looked for in an answer, and what of it is held back since it may be the beginning of
/// that.
#[derive(Clone, Debug, Default)]
pub(super) struct Stopping {
    strings: Vec<Arc<str>>,
    /// Whether the string that ended the answer is a part of it.
    is_kept: bool,
    held: String,
}

/// What a piece of text came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Passed {
    /// What can be told of the text; nothing of it is taken back.
    pub(super) text: String,
    /// The string that has come up, after which there is no more.
    pub(super) stop: Option<Arc<str>>,
}

impl Stopping {
    /// Looks for `strings`, none of them empty.
    pub(super) fn new(strings: &[String], is_kept: bool) -> Self {
        Self {
            strings: strings.iter().map(|it| it.as_str().into()).collect(),
            is_kept,
            held: String::new(),
        }
    }

    /// Takes the next piece of the answer; the last one holds nothing back. Where several strings
    /// are complete with the same piece, the first of the list counts, as in vLLM.
    pub(super) fn pass(&mut self, text: String, is_last: bool) -> Passed {
        if self.strings.is_empty() {
            return Passed { text, stop: None };
        }
        self.held.push_str(&text);
        let found = self
            .strings
            .iter()
            .find_map(|stop| Some((self.held.find(&**stop)?, Arc::clone(stop))));
        if let Some((start, stop)) = found {
            self.held.truncate(if self.is_kept {
                start + stop.len()
            } else {
                start
            });
            return Passed {
                text: std::mem::take(&mut self.held),
                stop: Some(stop),
            };
        }
        let told = if is_last {
            self.held.len()
        } else {
            self.told()
        };
        let rest = self.held.split_off(told);
        Passed {
            text: std::mem::replace(&mut self.held, rest),
            stop: None,
        }
    }

    /// Bytes of what is held that cannot be the beginning of a string.
    fn told(&self) -> usize {
        let begins = |start: usize| {
            self.strings
                .iter()
                .any(|stop| stop.starts_with(&self.held[start..]))
        };
        self.held
            .char_indices()
            .map(|(start, _)| start)
            .find(|start| begins(*start))
            .unwrap_or(self.held.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(
        strings: &[&str],
        is_kept: bool,
        pieces: &[&str],
        expected: &[&str],
        stop: Option<&str>,
    ) {
        let strings: Vec<String> = strings.iter().map(ToString::to_string).collect();
        let mut stopping = Stopping::new(&strings, is_kept);
        let mut told = Vec::new();
        for (place, piece) in pieces.iter().enumerate() {
            let passed = stopping.pass((*piece).to_owned(), place + 1 == pieces.len());
            told.push(passed.text);
            if passed.stop.is_some() {
                assert_eq!(passed.stop.as_deref(), stop);
                assert_eq!(told, expected);
                return;
            }
        }
        assert_eq!(
            (told, stop),
            (expected.iter().map(ToString::to_string).collect(), None)
        );
    }

    #[test]
    fn an_answer_ends_where_a_string_comes_up_and_nothing_is_told_twice_or_taken_back() {
        check(&[], false, &["a", "b"], &["a", "b"], None);
        check(&["ab"], false, &["xa", "by"], &["x", ""], Some("ab"));
        check(&["ab"], true, &["xa", "by"], &["x", "ab"], Some("ab"));
        check(&["ab"], false, &["xa", "ay", "a"], &["x", "aay", "a"], None);
        check(
            &["\n\n"],
            false,
            &["x\n", "y\n", "\nz"],
            &["x", "\ny", ""],
            Some("\n\n"),
        );
        check(&["c", "b"], false, &["abc"], &["ab"], Some("c"));
        check(&["🦀!"], false, &["é🦀", "?"], &["é", "🦀?"], None);
        check(&["aab"], false, &["aa", "ab", "c"], &["", "a"], Some("aab"));
    }
}
