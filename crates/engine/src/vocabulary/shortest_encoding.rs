//! Encodes bytes with the fewest tokens, for texts that the canonical tokenizer would change.

use super::{TokenId, Vocabulary};

/// Tokens sorted by their bytes, for prefix search.
pub(super) struct ShortestEncoder {
    sorted: Vec<TokenId>,
}

/// Cheapest encoding of the text from one byte to the end.
#[derive(Clone, Copy)]
struct Suffix {
    /// Omitted bytes, then number of tokens; compared in this order.
    cost: (usize, usize),
    /// The next token. `None` if the next byte is omitted.
    token: Option<TokenId>,
}

impl ShortestEncoder {
    /// Sorts the tokens that have bytes. Of tokens with equal bytes, the one with the highest id is
    /// kept: SentencePiece vocabularies start with byte tokens, which are fallbacks.
    pub(super) fn new(vocabulary: &Vocabulary) -> Self {
        let mut sorted: Vec<TokenId> = (0..)
            .take(vocabulary.len())
            .filter(|&id| !vocabulary.bytes(id).is_empty())
            .collect();
        sorted.sort_by(|&a, &b| vocabulary.bytes(a).cmp(vocabulary.bytes(b)).then(b.cmp(&a)));
        sorted.dedup_by(|later, kept| vocabulary.bytes(*later) == vocabulary.bytes(*kept));
        Self { sorted }
    }

    /// Encodes `text` with the fewest tokens, and returns whether they encode all of it. As few
    /// bytes as possible are omitted.
    pub(super) fn encode(&self, vocabulary: &Vocabulary, text: &[u8]) -> (Vec<TokenId>, bool) {
        let mut suffixes = vec![
            Suffix {
                cost: (0, 0),
                token: None
            };
            text.len() + 1
        ];
        for start in (0..text.len()).rev() {
            let (omitted, tokens) = suffixes[start + 1].cost;
            let mut best = Suffix {
                cost: (omitted + 1, tokens),
                token: None,
            };
            self.for_each_match(vocabulary, &text[start..], |token, length| {
                let (omitted, tokens) = suffixes[start + length].cost;
                // Prefers the longer of two equally good tokens, like a greedy tokenizer.
                if (omitted, tokens + 1) <= best.cost {
                    best = Suffix {
                        cost: (omitted, tokens + 1),
                        token: Some(token),
                    };
                }
            });
            suffixes[start] = best;
        }
        let (mut tokens, mut position) = (Vec::with_capacity(suffixes[0].cost.1), 0);
        while position < text.len() {
            match suffixes[position].token {
                Some(token) => {
                    tokens.push(token);
                    position += vocabulary.bytes(token).len();
                }
                None => position += 1,
            }
        }
        (tokens, suffixes[0].cost.0 == 0)
    }

    /// Calls `found` with every token that is a prefix of `text` and its length, shortest first.
    fn for_each_match(
        &self,
        vocabulary: &Vocabulary,
        text: &[u8],
        mut found: impl FnMut(TokenId, usize),
    ) {
        let mut range = &self.sorted[..];
        for (index, &byte) in text.iter().enumerate() {
            // All tokens in the range share the first `index` bytes. Shorter tokens are sorted
            // before longer ones.
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

    fn test_vocabulary(tokens: &[&str]) -> Vocabulary {
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
    fn the_encoding_is_shortest_where_a_greedy_one_fails() {
        let vocabulary = test_vocabulary(&["", "a", "ab", "abc", "cd", "d", "a", "bcd"]);
        let shortest_encoder = ShortestEncoder::new(&vocabulary);
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
                shortest_encoder.encode(&vocabulary, text.as_bytes()),
                expected,
                "{text}"
            );
        }
        let greedy_fails = test_vocabulary(&["", "ab", "abc", "cd"]);
        assert_eq!(
            ShortestEncoder::new(&greedy_fails).encode(&greedy_fails, b"abcd"),
            (vec![1, 3], true)
        );
    }

    #[test]
    fn a_real_vocabulary_encodes_any_bytes() {
        let (vocabulary, shortest_encoder) = (shared(), ShortestEncoder::new(&shared()));
        for bytes in [
            "Zoë likes 日本 \u{10fffd}".as_bytes(),
            &[0xff, 0x00, 0xfe],
            &(0..=255).collect::<Vec<u8>>(),
        ] {
            let (tokens, is_complete) = shortest_encoder.encode(&vocabulary, bytes);
            assert!(is_complete);
            assert_eq!(vocabulary.decode(&tokens), bytes);
        }
    }
}
