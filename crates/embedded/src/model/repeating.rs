//! Repeats a given text token by token, as far as a mask allows.

use sobench_engine::{TokenId, Vocabulary};

/// Longest token to try, in bytes.
const LONGEST_TOKEN: usize = 32;

/// The text to repeat.
#[derive(Debug)]
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

    /// Whether the whole text is repeated.
    pub(super) fn is_done(&self) -> bool {
        self.position == self.text.len() && self.pending.is_empty()
    }

    /// Continues after these many bytes of the text.
    pub(super) fn seek(&mut self, position: usize) {
        self.position = position;
        self.pending.clear();
    }

    /// Starts of the text, by their lengths, with which `written` ends. The first one is empty.
    pub(super) fn overlaps(&self, written: &[u8]) -> Vec<usize> {
        let ends = |length: &usize| {
            self.text.is_char_boundary(*length)
                && written.ends_with(&self.text.as_bytes()[..*length])
        };
        (0..=self.text.len().min(written.len()))
            .filter(ends)
            .collect()
    }

    /// Leaves out the white space that is next. False if the next character is another one.
    pub(super) fn skip_space(&mut self) -> bool {
        let rest = &self.text[self.position..];
        let space = rest.len() - rest.trim_start().len();
        self.position += space;
        self.pending.is_empty() && space > 0
    }

    /// The longest allowed token that continues the text. `None` if none is allowed, or the text
    /// is done.
    pub(super) fn next(
        &mut self,
        vocabulary: &Vocabulary,
        allowed: impl Fn(TokenId) -> bool,
    ) -> Option<TokenId> {
        if let Some(token) = self.pending.pop() {
            return Some(token).filter(|token| allowed(*token));
        }
        let rest = &self.text[self.position..];
        let first = rest.chars().next()?;
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
        while let Some(token) =
            repeating.next(&vocabulary, |token| allowed(vocabulary.bytes(token)))
        {
            written.extend_from_slice(vocabulary.bytes(token));
        }
        (written, repeating.is_done())
    }

    #[test]
    fn refused_white_space_is_left_out() {
        let mut repeating = Repeating::new("a \n b");
        let vocabulary = shared();
        let mut written = Vec::new();
        let no_space = |bytes: &[u8]| !bytes.iter().any(u8::is_ascii_whitespace);
        while !repeating.is_done() {
            match repeating.next(&vocabulary, |token| no_space(vocabulary.bytes(token))) {
                Some(token) => written.extend_from_slice(vocabulary.bytes(token)),
                None => assert!(repeating.skip_space()),
            }
        }
        assert_eq!(written, b"ab");
        repeating.seek(0);
        assert!(!repeating.is_done() && !repeating.skip_space());
        assert_eq!(repeating.overlaps(b"ba "), [0, 2]);
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
