//! The vocabulary that engines mask and the embedded server speaks: `cl100k_base`, the real one. Knows no engine.

use std::collections::HashSet;

use tiktoken_rs::{CoreBPE, cl100k_base_singleton};

use crate::error::{Error, Result};

/// A token's number in its vocabulary.
pub type TokenId = u32;

/// Ids of `cl100k_base`, unused ones included: ordinary tokens, then special ones up to `<|endofprompt|>`.
const CL100K_IDS: u32 = 100_277;

/// The token that ends an answer.
const CL100K_END: &str = "<|endoftext|>";

/// Token ids, the bytes each one stands for, and the tokenizer between them and text.
pub struct Vocabulary {
    bpe: &'static CoreBPE,
    /// All tokens' bytes in a row; `ends[id]` is where token `id` stops.
    bytes: Vec<u8>,
    ends: Vec<u32>,
    special: Vec<(TokenId, String)>,
    eos: TokenId,
}

impl Vocabulary {
    /// The embedded `cl100k_base`; needs no file and no network. Takes some 100 ms.
    ///
    /// # Errors
    /// An internal error if the embedded tables contradict themselves.
    pub fn cl100k() -> Result<Self> {
        let bpe = cl100k_base_singleton();
        let mut special: Vec<(TokenId, String)> = bpe
            .special_tokens()
            .into_iter()
            .filter_map(|name| Some((*bpe.encode_with_special_tokens(name).first()?, name.to_owned())))
            .collect();
        special.sort();
        let eos = special.iter().find(|(_, name)| name == CL100K_END).map(|(id, _)| *id);
        let eos = eos.ok_or_else(|| Error::internal(format!("vocabulary has no token {CL100K_END}")))?;
        let mut bytes = Vec::with_capacity(1 << 20);
        let mut ends = Vec::with_capacity(CL100K_IDS as usize);
        for id in 0..CL100K_IDS {
            if special.binary_search_by_key(&id, |(id, _)| *id).is_err()
                && let Ok(token) = bpe.decode_bytes(&[id])
            {
                bytes.extend_from_slice(&token);
            }
            ends.push(u32::try_from(bytes.len()).map_err(|_| Error::internal("vocabulary is larger than 4 GiB"))?);
        }
        Ok(Self { bpe, bytes, ends, special, eos })
    }

    /// The name by which reports call it.
    pub fn name(&self) -> &'static str {
        "cl100k_base"
    }

    /// Ids, unused ones included; every id is below it.
    #[allow(clippy::len_without_is_empty, reason = "there is no empty vocabulary")]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The token that ends an answer.
    pub fn eos(&self) -> TokenId {
        self.eos
    }

    /// Special tokens by id, with their names.
    pub fn special(&self) -> &[(TokenId, String)] {
        &self.special
    }

    /// The bytes of a token; empty for a special, unused or unknown id.
    #[inline]
    pub fn bytes(&self, token: TokenId) -> &[u8] {
        let id = token as usize;
        let Some(&end) = self.ends.get(id) else { return &[] };
        let start = if id == 0 { 0 } else { self.ends[id - 1] };
        &self.bytes[start as usize..end as usize]
    }

    /// The canonical tokens of a text. Names of special tokens in it are ordinary text.
    ///
    /// A text that the tokenizer's regex gives up on (megabytes of one kind of character) is encoded in halves, so that there are
    /// always tokens, if not the canonical ones.
    pub fn encode(&self, text: &str) -> Vec<TokenId> {
        if let Ok((tokens, _)) = self.bpe.encode(text, &HashSet::new()) {
            return tokens;
        }
        let middle = (text.len() / 2..text.len()).find(|&index| index > 0 && text.is_char_boundary(index));
        let Some(middle) = middle else { return Vec::new() };
        let (first, second) = text.split_at(middle);
        let mut tokens = self.encode(first);
        tokens.extend(self.encode(second));
        tokens
    }

    /// The bytes of a sequence; special tokens stand for none.
    pub fn decode(&self, tokens: &[TokenId]) -> Vec<u8> {
        tokens.iter().flat_map(|&token| self.bytes(token)).copied().collect()
    }

    /// How many tokens [`Vocabulary::encode`] makes of a text.
    pub fn count(&self, text: &str) -> usize {
        self.encode(text).len()
    }
}

/// One vocabulary for all tests of this binary: it takes a while to build without optimisation.
#[cfg(test)]
pub(crate) fn shared() -> std::sync::Arc<Vocabulary> {
    use std::sync::{Arc, OnceLock};
    static SHARED: OnceLock<Arc<Vocabulary>> = OnceLock::new();
    Arc::clone(SHARED.get_or_init(|| Arc::new(Vocabulary::cl100k().unwrap())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_survives_the_round_trip() {
        let vocabulary = shared();
        for text in [
            "",
            "{\"name\": \"Zoë\"}",
            "日本語 🦀",
            "<|endoftext|>",
            "a\u{0}b",
            &" ".repeat(300),
            &format!("{}x", " ".repeat(1 << 20)),
            &"ab".repeat(1 << 17),
        ] {
            let tokens = vocabulary.encode(text);
            assert_eq!(vocabulary.decode(&tokens), text.as_bytes());
            assert_eq!(vocabulary.count(text), tokens.len());
            assert!(!tokens.contains(&vocabulary.eos()), "text must not smuggle in special tokens");
        }
    }

    #[test]
    fn special_and_unused_ids_stand_for_no_bytes() {
        let vocabulary = shared();
        assert_eq!((vocabulary.len(), vocabulary.eos()), (100_277, 100_257));
        let names: Vec<&str> = vocabulary.special().iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, ["<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|endofprompt|>"]);
        for id in [100_256, 100_257, 100_261, 100_276, 100_277, u32::MAX] {
            assert_eq!(vocabulary.bytes(id), b"", "{id}");
        }
        assert_eq!(vocabulary.bytes(0), b"!");
        assert!((0..100_256).all(|id| !vocabulary.bytes(id).is_empty()));
    }
}
