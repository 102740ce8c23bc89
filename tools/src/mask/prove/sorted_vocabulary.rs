//! A vocabulary sorted by token bytes, for prefix lookups and masks of byte automata.

use std::collections::HashMap;

use sobench_engine::{TokenId, TokenMask, Vocabulary};

/// All tokens with bytes, sorted by them.
pub(crate) struct SortedVocabulary {
    tokens: Vec<TokenId>,
    /// Length of the prefix shared with the previous token.
    shared: Vec<usize>,
    /// Tokens by their exact bytes; several ids may share the same bytes.
    by_bytes: HashMap<Box<[u8]>, Vec<TokenId>>,
    longest_token_bytes: usize,
    ids: usize,
}

impl SortedVocabulary {
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
        let longest_token_bytes = by_bytes.keys().map(|bytes| bytes.len()).max().unwrap_or(0);
        Self {
            tokens,
            shared,
            by_bytes,
            longest_token_bytes,
            ids,
        }
    }

    /// Length of the longest token in bytes.
    pub(crate) fn longest_token_bytes(&self) -> usize {
        self.longest_token_bytes
    }

    /// The tokens whose bytes are a prefix of `text`, shortest first.
    pub(crate) fn prefix_tokens<'a>(
        &'a self,
        text: &'a [u8],
    ) -> impl Iterator<Item = TokenId> + 'a {
        let ends = 1..=self.longest_token_bytes.min(text.len());
        ends.filter_map(|end| self.by_bytes.get(&text[..end]))
            .flatten()
            .copied()
    }

    /// The mask of tokens that an automaton accepts from `start`. `take` advances a state by a
    /// byte, or returns `false`.
    pub(crate) fn accepted_by<S: Clone>(
        &self,
        vocabulary: &Vocabulary,
        start: &S,
        mut take: impl FnMut(&mut S, u8) -> bool,
    ) -> TokenMask {
        let mut mask = TokenMask::new(self.ids);
        // The state after each byte of the current token, and the length from which the token is
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
    use crate::mask::prove::json_prefix::JsonPrefix;
    use sobench_engine::vocabulary::shared;

    #[test]
    fn prefix_tokens_are_exactly_the_prefixes_of_the_text() {
        let (vocabulary, text) = (shared(), b"true, false");
        let sorted = SortedVocabulary::new(&vocabulary);
        let found: Vec<&[u8]> = sorted
            .prefix_tokens(text)
            .map(|token| vocabulary.bytes(token))
            .collect();
        assert_eq!(found, [&b"t"[..], b"tr", b"tru", b"true"]);
        assert_eq!(sorted.prefix_tokens(b"").count(), 0);
        let slowly = (0..vocabulary.len() as TokenId).filter(|id| {
            !vocabulary.bytes(*id).is_empty() && text.starts_with(vocabulary.bytes(*id))
        });
        assert_eq!(slowly.count(), found.len());
    }

    #[test]
    fn trie_walk_accepts_the_same_tokens_as_single_checks() {
        let vocabulary = shared();
        let sorted = SortedVocabulary::new(&vocabulary);
        for prefix in [
            &b""[..],
            b"{\"a",
            b"[1",
            b"{\"a\":[tr",
            b"\"\\",
            b"\"\xe6\x97",
        ] {
            let start = JsonPrefix::after(prefix).unwrap();
            let mask = sorted.accepted_by(&vocabulary, &start, JsonPrefix::push);
            for token in 0..vocabulary.len() as TokenId {
                let bytes = vocabulary.bytes(token);
                let mut state = start.clone();
                let lives = !bytes.is_empty() && bytes.iter().all(|byte| state.push(*byte));
                assert_eq!(mask.allows(token), lives, "{bytes:?} after {prefix:?}");
            }
        }
    }
}
