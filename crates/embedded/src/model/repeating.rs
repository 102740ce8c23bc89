//! A text that the model was told to write, token by token as a mask lets it. Knows neither n-grams
//! nor where the text is from.

use sobench_engine::{TokenId, Vocabulary};

/// Longest token that is looked for, in bytes.
const LONGEST_TOKEN: usize = 32;

/// What is left of the text.
pub(super) struct Repeating {
    text: String,
    at: usize,
    /// Tokens of a character that has several.
    begun: Vec<TokenId>,
}

impl Repeating {
    pub(super) fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            at: 0,
            begun: Vec::new(),
        }
    }

    /// The longest allowed token with which the text goes on, the end token after it; `None` where
    /// none is allowed.
    pub(super) fn next(
        &mut self,
        vocabulary: &Vocabulary,
        allowed: impl Fn(TokenId) -> bool,
    ) -> Option<TokenId> {
        if let Some(token) = self.begun.pop() {
            return Some(token).filter(|token| allowed(*token));
        }
        let rest = &self.text[self.at..];
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
                self.at += end;
                return Some(token);
            }
        }
        // A character of several tokens.
        let mut tokens = vocabulary.encode(&rest[..first.len_utf8()]);
        tokens.reverse();
        let token = tokens.pop().filter(|token| allowed(*token))?;
        self.at += first.len_utf8();
        self.begun = tokens;
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
    fn a_text_is_written_as_far_as_it_is_allowed() {
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
            // Whatever the spelling in tokens: here a byte each, or a character where it is more.
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
