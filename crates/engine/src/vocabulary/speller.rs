//! Spells bytes with a vocabulary's tokens where the canonical tokenizer would change the text.
//! Knows no tokenizer.

use super::{TokenId, Vocabulary};

/// Tokens in the order of their bytes, to find those that a text goes on with.
pub(super) struct Speller {
    sorted: Vec<TokenId>,
}

/// The cheapest way from some byte to the text's end.
#[derive(Clone, Copy)]
struct Way {
    /// Bytes left out, then tokens: what is compared.
    cost: (usize, usize),
    /// The next token; `None` where the next byte is left out.
    token: Option<TokenId>,
}

impl Speller {
    /// Sorts the tokens that stand for bytes. Of tokens with the same bytes the one with the
    /// highest id is kept: SentencePiece vocabularies begin with the tokens for single bytes, which
    /// are meant for what has no other token.
    pub(super) fn new(vocabulary: &Vocabulary) -> Self {
        let mut sorted: Vec<TokenId> = (0..)
            .take(vocabulary.len())
            .filter(|&id| !vocabulary.bytes(id).is_empty())
            .collect();
        sorted.sort_by(|&a, &b| vocabulary.bytes(a).cmp(vocabulary.bytes(b)).then(b.cmp(&a)));
        sorted.dedup_by(|later, kept| vocabulary.bytes(*later) == vocabulary.bytes(*kept));
        Self { sorted }
    }

    /// The fewest tokens that spell `text`, and whether they spell all of it; bytes that no tokens
    /// can spell are left out, as few as can be.
    pub(super) fn spell(&self, vocabulary: &Vocabulary, text: &[u8]) -> (Vec<TokenId>, bool) {
        let mut ways = vec![
            Way {
                cost: (0, 0),
                token: None
            };
            text.len() + 1
        ];
        for start in (0..text.len()).rev() {
            let (gaps, tokens) = ways[start + 1].cost;
            let mut best = Way {
                cost: (gaps + 1, tokens),
                token: None,
            };
            self.for_each_match(vocabulary, &text[start..], |token, length| {
                let (gaps, tokens) = ways[start + length].cost;
                // The longer of two equally good tokens, as a greedy tokenizer would take.
                if (gaps, tokens + 1) <= best.cost {
                    best = Way {
                        cost: (gaps, tokens + 1),
                        token: Some(token),
                    };
                }
            });
            ways[start] = best;
        }
        let (mut tokens, mut at) = (Vec::with_capacity(ways[0].cost.1), 0);
        while at < text.len() {
            match ways[at].token {
                Some(token) => {
                    tokens.push(token);
                    at += vocabulary.bytes(token).len();
                }
                None => at += 1,
            }
        }
        (tokens, ways[0].cost.0 == 0)
    }

    /// Calls `found` with every token that `text` begins with and its length, shortest first.
    fn for_each_match(
        &self,
        vocabulary: &Vocabulary,
        text: &[u8],
        mut found: impl FnMut(TokenId, usize),
    ) {
        let mut range = &self.sorted[..];
        for (index, &byte) in text.iter().enumerate() {
            // All tokens in the range have these first `index` bytes; shorter ones stand before
            // longer ones.
            let next = |&id: &TokenId| {
                vocabulary
                    .bytes(id)
                    .get(index)
                    .map_or(-1, |&byte| i32::from(byte))
            };
            let from = range.partition_point(|id| next(id) < i32::from(byte));
            let until = range.partition_point(|id| next(id) <= i32::from(byte));
            range = &range[from..until];
            match range.first() {
                None => return,
                Some(&id) if vocabulary.bytes(id).len() == index + 1 => found(id, index + 1),
                Some(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::{Encoder, Tables, shared};

    fn of(tokens: &[&str]) -> Vocabulary {
        let tokens = tokens
            .iter()
            .map(|token| token.as_bytes().to_vec())
            .collect();
        let encoder = Encoder::Tiktoken(tiktoken_rs::cl100k_base_singleton());
        Vocabulary::new(
            "test".into(),
            encoder,
            Tables {
                tokens,
                special: vec![(0, "<end>".into())],
                eos: 0,
            },
        )
        .unwrap()
    }

    #[test]
    fn spells_with_the_fewest_tokens_even_where_greed_would_fail() {
        let vocabulary = of(&["", "a", "ab", "abc", "cd", "d", "a", "bcd"]);
        let speller = Speller::new(&vocabulary);
        for (text, expected) in [
            ("", (vec![], true)),
            ("abcd", (vec![3, 5], true)),
            ("abccd", (vec![3, 4], true)),
            ("aa", (vec![6, 6], true)),
            ("abab", (vec![2, 2], true)),
            ("abxcd", (vec![2, 4], false)),
            ("x", (vec![], false)),
        ] {
            assert_eq!(
                speller.spell(&vocabulary, text.as_bytes()),
                expected,
                "{text}"
            );
        }
        let no_greed = of(&["", "ab", "abc", "cd"]);
        assert_eq!(
            Speller::new(&no_greed).spell(&no_greed, b"abcd"),
            (vec![1, 3], true)
        );
    }

    #[test]
    fn a_real_vocabulary_spells_any_bytes() {
        let (vocabulary, speller) = (shared(), Speller::new(&shared()));
        for bytes in [
            "Zoë likes 日本 \u{10fffd}".as_bytes(),
            &[0xff, 0x00, 0xfe],
            &(0..=255).collect::<Vec<u8>>(),
        ] {
            let (tokens, whole) = speller.spell(&vocabulary, bytes);
            assert!(whole);
            assert_eq!(vocabulary.decode(&tokens), bytes);
        }
    }
}
