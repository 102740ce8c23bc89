//! Vocabularies: token ids, their bytes, and encoding of text.

mod shortest_encoding;
mod source;
mod tokenizer_json;

use std::collections::HashSet;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tiktoken_rs::{CoreBPE, cl100k_base_singleton};

pub use source::VocabularySource;
pub use tokenizer_json::MAX_VOCABULARY_IDS;

use shortest_encoding::ShortestEncoder;
use sobench_core::error::{Error, Result};

/// Id of a token in its vocabulary.
pub type TokenId = u32;

/// Number of ids of `cl100k_base`, including unused ones: ordinary tokens, then special ones up to
/// `<|endofprompt|>`.
const CL100K_IDS: u32 = 100_277;

/// The end token of tiktoken's vocabularies.
const TIKTOKEN_END: &str = "<|endoftext|>";

/// Token ids, their bytes, and the tokenizer.
pub struct Vocabulary {
    name: String,
    encoder: Encoder,
    /// Concatenated bytes of all tokens. `ends[id]` is the end of token `id`.
    bytes: Vec<u8>,
    ends: Vec<u32>,
    special: Vec<(TokenId, String)>,
    eos: TokenId,
    /// Built on first use.
    shortest_encoder: OnceLock<ShortestEncoder>,
    fallback_encodings: AtomicU64,
}

/// Tokenizer that produces the canonical tokens of a text.
enum Encoder {
    Tiktoken(&'static CoreBPE),
    HuggingFace(Box<tokenizers::Tokenizer>),
    /// Every byte is one token.
    Bytes,
}

/// The parts of a vocabulary: the bytes of every id, and the special tokens, which have none.
struct Tables {
    tokens: Vec<Vec<u8>>,
    special: Vec<(TokenId, String)>,
    eos: TokenId,
}

impl Vocabulary {
    /// Loads the embedded `cl100k_base`, without files or network. Takes about 100 ms.
    ///
    /// # Errors
    /// An internal error if the embedded tables are inconsistent.
    pub fn cl100k() -> Result<Self> {
        Self::tiktoken("cl100k_base", cl100k_base_singleton(), CL100K_IDS, None)
    }

    /// A vocabulary of the 256 single bytes, whose ids are their values, and an end token. A
    /// constraint allows the same texts over every vocabulary that contains all bytes, and
    /// libraries compile it much faster over this one.
    pub fn single_bytes() -> Self {
        let tokens: Vec<Vec<u8>> = (0..=u8::MAX)
            .map(|byte| vec![byte])
            .chain([Vec::new()])
            .collect();
        let eos = TokenId::from(u8::MAX) + 1;
        let tables = Tables {
            tokens,
            special: vec![(eos, TIKTOKEN_END.to_owned())],
            eos,
        };
        Self::new("bytes".to_owned(), Encoder::Bytes, tables).expect("it is smaller than 4 GiB")
    }

    fn tiktoken(name: &str, bpe: &'static CoreBPE, ids: u32, eos: Option<&str>) -> Result<Self> {
        let mut special: Vec<(TokenId, String)> = bpe
            .special_tokens()
            .into_iter()
            .filter_map(|name| {
                Some((
                    *bpe.encode_with_special_tokens(name).first()?,
                    name.to_owned(),
                ))
            })
            .collect();
        special.sort();
        let end = eos.unwrap_or(TIKTOKEN_END);
        let eos = special
            .iter()
            .find(|(_, name)| name == end)
            .map(|(id, _)| *id)
            .ok_or_else(|| {
                let names: Vec<&str> = special.iter().map(|(_, name)| name.as_str()).collect();
                Error::usage(format!("no such special token in {name}: {end}"))
                    .hint(format!("use one of {}", names.join(", ")))
            })?;
        let token = |id| {
            let is_special = special.binary_search_by_key(&id, |(id, _)| *id).is_ok();
            if is_special {
                Vec::new()
            } else {
                bpe.decode_bytes(&[id]).unwrap_or_default()
            }
        };
        let tokens = (0..ids).map(token).collect();
        Self::new(
            name.to_owned(),
            Encoder::Tiktoken(bpe),
            Tables {
                tokens,
                special,
                eos,
            },
        )
    }

    fn new(name: String, encoder: Encoder, tables: Tables) -> Result<Self> {
        let mut bytes = Vec::with_capacity(tables.tokens.iter().map(Vec::len).sum());
        let mut ends = Vec::with_capacity(tables.tokens.len());
        for token in &tables.tokens {
            bytes.extend_from_slice(token);
            ends.push(
                u32::try_from(bytes.len()).map_err(|_| {
                    Error::usage(format!("vocabulary is larger than 4 GiB: {name}"))
                })?,
            );
        }
        let Tables { special, eos, .. } = tables;
        Ok(Self {
            name,
            encoder,
            bytes,
            ends,
            special,
            eos,
            shortest_encoder: OnceLock::new(),
            fallback_encodings: AtomicU64::new(0),
        })
    }

    /// Name in reports, e.g. `cl100k_base` or `Llama-3.1-8B/tokenizer.json, 128256 ids`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of ids, including unused ones.
    #[allow(clippy::len_without_is_empty, reason = "there is no empty vocabulary")]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The end token.
    pub fn eos(&self) -> TokenId {
        self.eos
    }

    /// Special tokens with their names, in order of id. Includes the end token.
    pub fn special(&self) -> &[(TokenId, String)] {
        &self.special
    }

    /// Bytes of a token. Empty for a special, unused or unknown id.
    #[inline]
    pub fn bytes(&self, token: TokenId) -> &[u8] {
        let id = token as usize;
        let Some(&end) = self.ends.get(id) else {
            return &[];
        };
        let start = if id == 0 { 0 } else { self.ends[id - 1] };
        &self.bytes[start as usize..end as usize]
    }

    /// Encodes a text. The tokens are canonical, or the fewest possible if the canonical tokens
    /// decode to another text (because of a normalizer or a prefix). Names of special tokens are
    /// encoded as ordinary text. Parts that cannot be encoded are omitted; see
    /// [`Vocabulary::encode_exactly`].
    ///
    /// If tiktoken's regex fails on a text (megabytes of one kind of character), the text is
    /// encoded in halves, and the tokens may not be canonical.
    pub fn encode(&self, text: &str) -> Vec<TokenId> {
        self.encode_with_gaps(text).0
    }

    /// As [`Vocabulary::encode`]. `None` if the vocabulary cannot encode the whole text.
    pub fn encode_exactly(&self, text: &str) -> Option<Vec<TokenId>> {
        let (tokens, whole) = self.encode_with_gaps(text);
        whole.then_some(tokens)
    }

    /// Number of texts so far that were encoded with non-canonical tokens.
    pub fn fallback_encodings(&self) -> u64 {
        self.fallback_encodings.load(Ordering::Relaxed)
    }

    /// Bytes of a token sequence. Special tokens have none.
    pub fn decode(&self, tokens: &[TokenId]) -> Vec<u8> {
        tokens
            .iter()
            .flat_map(|&token| self.bytes(token))
            .copied()
            .collect()
    }

    /// Number of tokens of a text.
    pub fn count(&self, text: &str) -> usize {
        self.encode(text).len()
    }

    /// Returns the tokens, and whether they encode the whole text.
    fn encode_with_gaps(&self, text: &str) -> (Vec<TokenId>, bool) {
        let tokenizer = match &self.encoder {
            Encoder::Tiktoken(bpe) => return (encode_tiktoken(bpe, text), true),
            Encoder::Bytes => return (text.bytes().map(TokenId::from).collect(), true),
            Encoder::HuggingFace(tokenizer) => tokenizer,
        };
        if let Ok(encoding) = tokenizer.encode_fast(text, false)
            && self.decode_to(encoding.get_ids(), text.as_bytes())
        {
            return (encoding.get_ids().to_vec(), true);
        }
        self.fallback_encodings.fetch_add(1, Ordering::Relaxed);
        self.shortest_encoder
            .get_or_init(|| ShortestEncoder::new(self))
            .encode(self, text.as_bytes())
    }

    /// Whether the tokens decode to `text`.
    fn decode_to(&self, tokens: &[TokenId], text: &[u8]) -> bool {
        let rest = tokens.iter().try_fold(text, |rest, &token| {
            let bytes = self.bytes(token);
            if bytes.is_empty() {
                None
            } else {
                rest.strip_prefix(bytes)
            }
        });
        rest.is_some_and(<[u8]>::is_empty)
    }
}

fn encode_tiktoken(bpe: &CoreBPE, text: &str) -> Vec<TokenId> {
    if let Ok((tokens, _)) = bpe.encode(text, &HashSet::new()) {
        return tokens;
    }
    let middle =
        (text.len() / 2..text.len()).find(|&index| index > 0 && text.is_char_boundary(index));
    let Some(middle) = middle else {
        return Vec::new();
    };
    let (first, second) = text.split_at(middle);
    let mut tokens = encode_tiktoken(bpe, first);
    tokens.extend(encode_tiktoken(bpe, second));
    tokens
}

/// Vocabulary shared by all tests of this binary. Building it is slow without optimization.
#[cfg(any(test, feature = "testing"))]
pub fn shared() -> std::sync::Arc<Vocabulary> {
    use std::sync::Arc;
    static SHARED: OnceLock<Arc<Vocabulary>> = OnceLock::new();
    Arc::clone(
        SHARED
            .get_or_init(|| Arc::new(Vocabulary::cl100k().expect("the vocabulary is compiled in"))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_bytes_encode_every_text() {
        let bytes = Vocabulary::single_bytes();
        let tokens = bytes.encode_exactly("aé\0").unwrap();
        assert_eq!(tokens, [97, 0xc3, 0xa9, 0]);
        assert_eq!(
            (bytes.decode(&tokens), bytes.len(), bytes.eos()),
            ("aé\0".into(), 257, 256)
        );
        assert!(bytes.bytes(256).is_empty());
    }

    #[test]
    fn text_round_trips() {
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
            assert!(
                !tokens.contains(&vocabulary.eos()),
                "text must not encode to special tokens"
            );
        }
        assert_eq!(vocabulary.fallback_encodings(), 0);
    }

    #[test]
    fn special_and_unused_ids_have_no_bytes() {
        let vocabulary = shared();
        assert_eq!((vocabulary.len(), vocabulary.eos()), (100_277, 100_257));
        let names: Vec<&str> = vocabulary
            .special()
            .iter()
            .map(|(_, name)| name.as_str())
            .collect();
        assert_eq!(
            names,
            [
                "<|endoftext|>",
                "<|fim_prefix|>",
                "<|fim_middle|>",
                "<|fim_suffix|>",
                "<|endofprompt|>"
            ]
        );
        for id in [100_256, 100_257, 100_261, 100_276, 100_277, u32::MAX] {
            assert_eq!(vocabulary.bytes(id), b"", "{id}");
        }
        assert_eq!(vocabulary.bytes(0), b"!");
        assert!((0..100_256).all(|id| !vocabulary.bytes(id).is_empty()));
    }
}
