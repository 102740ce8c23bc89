//! Set of tokens as a bit mask.

use super::TokenId;

/// Allowed tokens: bit `id % 32` of word `id / 32`. Bits past the vocabulary are zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenMask {
    words: Vec<u32>,
}

impl TokenMask {
    /// Creates an empty mask for ids below `tokens`.
    pub fn new(tokens: usize) -> Self {
        Self {
            words: vec![0; tokens.div_ceil(32)],
        }
    }

    /// Whether `token` is allowed. Ids past the vocabulary are not.
    #[inline]
    pub fn allows(&self, token: TokenId) -> bool {
        self.words
            .get(token as usize / 32)
            .is_some_and(|word| word >> (token % 32) & 1 == 1)
    }

    /// Allows a token.
    ///
    /// # Panics
    /// If `token` is past the vocabulary of the mask.
    // The inner loop of engines that list their tokens. Inlined explicitly, because inlining across
    // codegen units is not guaranteed.
    #[inline]
    pub fn allow(&mut self, token: TokenId) {
        self.words[token as usize / 32] |= 1 << (token % 32);
    }

    /// Number of allowed tokens.
    pub fn count(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// Allowed tokens in order of id, from `start` on.
    pub fn iter_from(&self, start: TokenId) -> impl Iterator<Item = TokenId> + '_ {
        let first = start as usize / 32;
        self.words
            .iter()
            .enumerate()
            .skip(first)
            .flat_map(move |(index, &word)| {
                let mut rest = if index == first {
                    word & (u32::MAX << (start % 32))
                } else {
                    word
                };
                std::iter::from_fn(move || {
                    (rest != 0).then(|| {
                        let bit = rest.trailing_zeros();
                        rest &= rest - 1;
                        index as TokenId * 32 + bit
                    })
                })
            })
    }

    /// Allowed tokens in order of id.
    pub fn iter(&self) -> impl Iterator<Item = TokenId> + '_ {
        self.iter_from(0)
    }

    /// Tokens that are allowed here and not in `other`.
    pub fn difference(&self, other: &Self) -> Self {
        let other_words = other.words.iter().copied().chain(std::iter::repeat(0));
        Self {
            words: self
                .words
                .iter()
                .zip(other_words)
                .map(|(word, other)| word & !other)
                .collect(),
        }
    }

    /// The words of a mask for ids below `tokens`, to be filled by a library. Call
    /// [`TokenMask::clear_past_end`] afterwards.
    #[inline]
    pub(super) fn words_mut(&mut self, tokens: usize) -> &mut [u32] {
        if self.words.len() != tokens.div_ceil(32) {
            *self = Self::new(tokens);
        }
        &mut self.words
    }

    /// Clears the bits past the last token after a library has set whole words.
    #[inline]
    pub(super) fn clear_past_end(&mut self, tokens: usize) {
        let used = tokens % 32;
        if let (true, Some(last)) = (used != 0, self.words.last_mut()) {
            *last &= (1 << used) - 1;
        }
    }

    /// Replaces the words by those of a library's mask.
    pub(super) fn set_words(&mut self, words: Vec<u32>) {
        self.words = words;
    }

    /// Clears all tokens and resizes the mask for ids below `tokens`, reusing the allocation.
    pub(super) fn clear(&mut self, tokens: usize) {
        self.words.clear();
        self.words.resize(tokens.div_ceil(32), 0);
    }

    /// Allows only `token`.
    pub(super) fn set_only(&mut self, token: TokenId) {
        self.words.fill(0);
        self.allow(token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_contain_exactly_the_allowed_tokens() {
        let mut mask = TokenMask::new(70);
        for token in [0, 31, 32, 69] {
            mask.allow(token);
        }
        assert_eq!(mask.iter().collect::<Vec<_>>(), [0, 31, 32, 69]);
        assert_eq!(mask.iter_from(1).collect::<Vec<_>>(), [31, 32, 69]);
        assert_eq!(mask.iter_from(32).collect::<Vec<_>>(), [32, 69]);
        assert_eq!(
            (
                mask.count(),
                mask.allows(69),
                mask.allows(68),
                mask.allows(100_000)
            ),
            (4, true, false, false)
        );
        let mut other = TokenMask::new(40);
        other.allow(31);
        assert_eq!(
            mask.difference(&other).iter().collect::<Vec<_>>(),
            [0, 32, 69]
        );
        assert_eq!(other.difference(&mask).count(), 0);
        mask.set_only(5);
        assert_eq!(mask.iter().collect::<Vec<_>>(), [5]);
    }
}
