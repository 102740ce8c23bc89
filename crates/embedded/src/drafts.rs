//! Drafts for speculative decoding: what followed the latest tokens when they last occurred, in the
//! prompt or in the answer so far. It is prompt lookup decoding (Saxena 2023), which vLLM calls
//! `ngram`.

use sobench_engine::TokenId;

/// The longest sequence of tokens that is looked up. Shorter ones are looked up if it does not
/// occur.
const MAX_NGRAM: usize = 3;

/// Number of latest tokens that are searched, so that a step of a long prompt stays short.
const SEARCHED_TOKENS: usize = 16_384;

/// Drafts the tokens of one answer.
#[derive(Clone, Debug)]
pub(super) struct Drafter {
    /// The tokens of the prompt and of the answer so far, without end tokens.
    history: Vec<TokenId>,
    most: usize,
}

/// Drafts of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DraftCounts {
    /// Drafted tokens that the masks allow.
    pub(super) drafted: u32,
    /// Drafted tokens after the first one that the masks do not allow, with it.
    pub(super) masked_out: u32,
    /// Drafted tokens that the model also drew.
    pub(super) accepted: u32,
}

impl Drafter {
    /// Drafts at most `most` tokens per step of the answer to a prompt.
    pub(super) fn new(prompt: Vec<TokenId>, most: usize) -> Self {
        Self {
            history: prompt,
            most,
        }
    }

    /// Adds a token of the answer.
    pub(super) fn push(&mut self, token: TokenId) {
        self.history.push(token);
    }

    /// The next tokens, at most `limit`. Empty if the latest token has not occurred before.
    pub(super) fn draft(&self, limit: usize) -> &[TokenId] {
        let start = self.history.len().saturating_sub(SEARCHED_TOKENS);
        let searched = &self.history[start..];
        for length in (1..=MAX_NGRAM.min(searched.len())).rev() {
            let latest = &searched[searched.len() - length..];
            let earlier = &searched[..searched.len() - 1];
            let found = earlier.windows(length).rposition(|tokens| tokens == latest);
            if let Some(index) = found {
                let rest = &searched[index + length..];
                return &rest[..rest.len().min(limit).min(self.most)];
            }
        }
        &[]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_latest_occurrence_is_continued() {
        for (history, draft) in [
            (&[1, 2, 3, 4, 9, 2, 3, 5, 1, 2, 3][..], &[4, 9, 2][..]),
            (&[7, 1, 8, 1, 9, 1], &[9, 1]),
            (&[5, 5], &[5]),
            (&[1, 2, 3], &[]),
            (&[1], &[]),
            (&[], &[]),
        ] {
            let drafter = Drafter::new(history.to_vec(), 3);
            assert_eq!(drafter.draft(10), draft, "{history:?}");
        }
    }

    #[test]
    fn drafts_are_limited_and_follow_the_answer() {
        let mut drafter = Drafter::new(vec![1, 2, 3, 4], 8);
        drafter.push(1);
        assert_eq!(drafter.draft(2), [2, 3]);
        drafter.push(2);
        assert_eq!(drafter.draft(8), [3, 4, 1, 2]);
        assert!(drafter.draft(0).is_empty());
    }
}
