//! A set of tokens, one bit an id. Knows no engine and no vocabulary.

use super::TokenId;

/// Which tokens may come next: bit `id % 32` of word `id / 32`. Bits past the vocabulary are zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenMask {
    words: Vec<u32>,
}

impl TokenMask {
    /// An empty mask for ids below `tokens`.
    pub fn new(tokens: usize) -> Self {
        Self {
            words: vec![0; tokens.div_ceil(32)],
        }
    }

    /// Whether `token` may come next; an id past the vocabulary may not.
    #[inline]
    pub fn allows(&self, token: TokenId) -> bool {
        self.words
            .get(token as usize / 32)
            .is_some_and(|word| word >> (token % 32) & 1 == 1)
    }

    /// Adds a token.
    ///
    /// # Panics
    /// If `token` is past the vocabulary that the mask was made for.
    // The inner loop of engines that list their tokens; not left to how the compiler divides the
    // crate.
    #[inline]
    pub fn allow(&mut self, token: TokenId) {
        self.words[token as usize / 32] |= 1 << (token % 32);
    }

    /// How many tokens may come next.
    pub fn count(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// The allowed tokens by id, from `start` on.
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

    /// The allowed tokens by id.
    pub fn iter(&self) -> impl Iterator<Item = TokenId> + '_ {
        self.iter_from(0)
    }

    /// The tokens that may come next here and not by `other`, by id.
    pub fn without(&self, other: &Self) -> Self {
        let theirs = other.words.iter().copied().chain(std::iter::repeat(0));
        Self {
            words: self
                .words
                .iter()
                .zip(theirs)
                .map(|(word, theirs)| word & !theirs)
                .collect(),
        }
    }

    /// The words of a mask for ids below `tokens`, for a library that writes all of them itself;
    /// [`TokenMask::cut`] follows.
    #[inline]
    pub(super) fn fit(&mut self, tokens: usize) -> &mut [u32] {
        if self.words.len() != tokens.div_ceil(32) {
            *self = Self::new(tokens);
        }
        &mut self.words
    }

    /// Clears the bits past the last token, where a library has set whole words.
    #[inline]
    pub(super) fn cut(&mut self, tokens: usize) {
        let used = tokens % 32;
        if let (true, Some(last)) = (used != 0, self.words.last_mut()) {
            *last &= (1 << used) - 1;
        }
    }

    /// Takes over the words of a library's own mask.
    pub(super) fn replace(&mut self, words: Vec<u32>) {
        self.words = words;
    }

    /// Forgets all tokens, for ids below `tokens`; the words are kept where they suffice.
    pub(super) fn clear(&mut self, tokens: usize) {
        self.words.clear();
        self.words.resize(tokens.div_ceil(32), 0);
    }

    /// Allows `token` and nothing else.
    pub(super) fn only(&mut self, token: TokenId) {
        self.words.fill(0);
        self.allow(token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_was_put_in_and_nothing_past_the_end() {
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
        assert_eq!(mask.without(&other).iter().collect::<Vec<_>>(), [0, 32, 69]);
        assert_eq!(other.without(&mask).count(), 0);
        mask.only(5);
        assert_eq!(mask.iter().collect::<Vec<_>>(), [5]);
    }
}
