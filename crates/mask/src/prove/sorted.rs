//! A vocabulary in the order of its tokens' bytes: which tokens begin a text, and which a machine
//! of bytes can take. Knows no engine.

use std::collections::HashMap;

use sobench_engine::{TokenId, TokenMask, Vocabulary};

/// Tokens that stand for bytes, sorted by them.
pub(crate) struct Sorted {
    tokens: Vec<TokenId>,
    /// Bytes that a token has in common with the one before it.
    shared: Vec<usize>,
    /// The tokens of the very bytes; several ids may have the same.
    by_bytes: HashMap<Box<[u8]>, Vec<TokenId>>,
    longest: usize,
    ids: usize,
}

impl Sorted {
    /// Sorts a vocabulary; takes about as long as reading it.
    pub(crate) fn new(vocabulary: &Vocabulary) -> Self {
        let ids = vocabulary.len();
        let all = (0..ids)
            .map(|id| TokenId::try_from(id).expect("a vocabulary has fewer ids than a TokenId"));
        let mut tokens: Vec<TokenId> = all.filter(|id| !vocabulary.bytes(*id).is_empty()).collect();
        tokens.sort_by_key(|id| vocabulary.bytes(*id));
        let mut shared = Vec::with_capacity(tokens.len());
        let mut by_bytes: HashMap<Box<[u8]>, Vec<TokenId>> = HashMap::new();
        let mut before: &[u8] = &[];
        for token in &tokens {
            let bytes = vocabulary.bytes(*token);
            shared.push(
                bytes
                    .iter()
                    .zip(before)
                    .take_while(|(one, other)| one == other)
                    .count(),
            );
            by_bytes.entry(bytes.into()).or_default().push(*token);
            before = bytes;
        }
        let longest = by_bytes.keys().map(|bytes| bytes.len()).max().unwrap_or(0);
        Self {
            tokens,
            shared,
            by_bytes,
            longest,
            ids,
        }
    }

    /// Bytes of the longest token.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// The tokens whose bytes `text` begins with, the shortest first.
    pub(crate) fn beginning<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = TokenId> + 'a {
        let ends = 1..=self.longest.min(text.len());
        ends.filter_map(|end| self.by_bytes.get(&text[..end]))
            .flatten()
            .copied()
    }

    /// The tokens that a machine can take from `start`. `take` changes the machine by a byte, and
    /// says `false` where it cannot.
    pub(crate) fn taken_by<S: Clone>(
        &self,
        vocabulary: &Vocabulary,
        start: &S,
        mut take: impl FnMut(&mut S, u8) -> bool,
    ) -> TokenMask {
        let mut mask = TokenMask::new(self.ids);
        // The machine after each byte of the token at hand, and from which length on that token is
        // dead.
        let mut states = vec![start.clone()];
        let mut dead_from = usize::MAX;
        for (token, shared) in self.tokens.iter().zip(&self.shared) {
            if *shared >= dead_from {
                continue;
            }
            dead_from = usize::MAX;
            states.truncate(shared + 1);
            let bytes = vocabulary.bytes(*token);
            for (at, byte) in bytes.iter().enumerate().skip(*shared) {
                let mut state = states[at].clone();
                if !take(&mut state, *byte) {
                    dead_from = at + 1;
                    break;
                }
                states.push(state);
            }
            if dead_from == usize::MAX {
                mask.allow(*token);
            }
        }
        mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prove::json_prefix::JsonPrefix;
    use sobench_engine::vocabulary::shared;

    #[test]
    fn tokens_that_begin_a_text_and_no_others() {
        let (vocabulary, text) = (shared(), b"true, false");
        let sorted = Sorted::new(&vocabulary);
        let found: Vec<&[u8]> = sorted
            .beginning(text)
            .map(|token| vocabulary.bytes(token))
            .collect();
        assert_eq!(found, [&b"t"[..], b"tr", b"tru", b"true"]);
        assert_eq!(sorted.beginning(b"").count(), 0);
        let slowly = (0..vocabulary.len() as TokenId).filter(|id| {
            !vocabulary.bytes(*id).is_empty() && text.starts_with(vocabulary.bytes(*id))
        });
        assert_eq!(slowly.count(), found.len());
    }

    #[test]
    fn a_machine_takes_the_same_tokens_one_by_one() {
        let vocabulary = shared();
        let sorted = Sorted::new(&vocabulary);
        for begun in [
            &b""[..],
            b"{\"a",
            b"[1",
            b"{\"a\":[tr",
            b"\"\\",
            b"\"\xe6\x97",
        ] {
            let start = JsonPrefix::after(begun).unwrap();
            let mask = sorted.taken_by(&vocabulary, &start, JsonPrefix::push);
            for token in 0..vocabulary.len() as TokenId {
                let bytes = vocabulary.bytes(token);
                let mut state = start.clone();
                let lives = !bytes.is_empty() && bytes.iter().all(|byte| state.push(*byte));
                assert_eq!(mask.allows(token), lives, "{bytes:?} after {begun:?}");
            }
        }
    }
}
