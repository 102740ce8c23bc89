//! Repeats a given text token by token, as far as a mask allows.

use sobench_engine::{TokenId, Vocabulary};

/// Longest token to try, in bytes.
const LONGEST_TOKEN: usize = 32;

/// The text to repeat.
pub(super) struct Repeating {
    text: String,
    position: usize,
    /// Remaining tokens of a character with several tokens, in reverse order.
    pending: Vec<TokenId>,
}

impl Repeating {
    pub(super) fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            position: 0,
            pending: Vec::new(),
        }
    }

    /// The longest allowed token that continues the text, or the end token after it. `None` if none
    /// is allowed.
    pub(super) fn next(
        &mut self,
        vocabulary: &Vocabulary,
        allowed: impl Fn(TokenId) -> bool,
    ) -> Option<TokenId> {
        if let Some(token) = self.pending.pop() {
            return Some(token).filter(|token| allowed(*token));
        }
        let rest = &self.text[self.position..];
        let Some(first) = rest.chars().next() else {
            return Some(vocabulary.eos()).filter(|token| allowed(*token));
        };
        let ends = (1..=rest.len().min(LONGEST_TOKEN))
            .rev()
            .filter(|end| rest.is_char_boundary(*end));
        for end in ends {
            if let [token] = vocabulary.encode(&rest[..end])[..]
                && allowed(token)
            {
                self.position += end;
                return Some(token);
            }
        }
        // A character with several tokens.
        let mut tokens = vocabulary.encode(&rest[..first.len_utf8()]);
        tokens.reverse();
        let token = tokens.pop().filter(|token| allowed(*token))?;
        self.position += first.len_utf8();
        self.pending = tokens;
        Some(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_engine::vocabulary::shared;

    fn written(text: &str, allowed: impl Fn(&[u8]) -> bool) -> (Vec<u8>, bool) {
        let vocabulary = shared();
        let (mut repeating, mut written) = (Repeating::new(text), Vec::new());
        while let Some(token) = repeating.next(&vocabulary, |token| {
            token == vocabulary.eos() || allowed(vocabulary.bytes(token))
        }) {
            if token == vocabulary.eos() {
                return (written, true);
            }
            written.extend_from_slice(vocabulary.bytes(token));
        }
        (written, false)
    }

    #[test]
    fn a_text_is_repeated_as_far_as_allowed() {
        for text in [
            "{\"v\": \"abcdef\"}",
            "",
            "\u{661}\u{662} zoë 日本 \u{1F9EA}",
            "a\tb\nc",
        ] {
            assert_eq!(
                written(text, |_| true),
                (text.as_bytes().to_vec(), true),
                "{text}"
            );
            // With any tokenisation: here one byte per token, or one character if it is longer.
            assert_eq!(
                written(text, |bytes| bytes.len() == 1 || !bytes.is_ascii()),
                (text.as_bytes().to_vec(), true),
                "{text}"
            );
        }
        assert_eq!(
            written("{\"v\": 7.5}", |bytes| !bytes.contains(&b'.')),
            (b"{\"v\": 7".to_vec(), false)
        );
    }
}
