//! Conversion between text and token ids, and the ids of the vocabulary, to generate prompts of a
//! given length.

use super::{Tokenizer, Vocabulary};
use sobench_core::tokenizer_files::Config;

/// Tokens of cl100k that represent bytes. The special tokens have higher ids.
const CL100K_TOKENS: u32 = 100_256;

impl Tokenizer {
    /// The ids of the text's tokens, without any that a template or post-processor adds.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        match &self.vocabulary {
            Vocabulary::Embedded => tiktoken_rs::cl100k_base_singleton().encode_ordinary(text),
            Vocabulary::HuggingFace(tokenizer) => {
                encoded(tokenizer, text, false).get_ids().to_vec()
            }
        }
    }

    /// The text of these ids, special tokens included. Invalid UTF-8 becomes U+FFFD. Ids from
    /// [`Tokenizer::vocabulary_size`] on may be unknown and produce no text.
    pub fn decode(&self, ids: &[u32]) -> String {
        match &self.vocabulary {
            Vocabulary::Embedded => {
                let known: Vec<u32> = ids
                    .iter()
                    .copied()
                    .filter(|id| *id < CL100K_TOKENS)
                    .collect();
                let bytes = tiktoken_rs::cl100k_base_singleton()
                    .decode_bytes(&known)
                    .expect("every id below is a token");
                String::from_utf8_lossy(&bytes).into_owned()
            }
            // If the decoder fails, the text is empty. Callers report the wrong length.
            Vocabulary::HuggingFace(tokenizer) => tokenizer.decode(ids, false).unwrap_or_default(),
        }
    }

    /// Number of tokens without added ones: `vocab_size` of the transformers library.
    pub fn vocabulary_size(&self) -> u32 {
        match &self.vocabulary {
            Vocabulary::Embedded => CL100K_TOKENS,
            Vocabulary::HuggingFace(tokenizer) => {
                u32::try_from(tokenizer.get_vocab_size(false)).unwrap_or(u32::MAX)
            }
        }
    }

    /// The ids that the tokenizer's settings declare special (`all_special_ids`), in ascending
    /// order.
    pub fn special_ids(&self) -> &[u32] {
        &self.special_ids
    }

    /// Number of tokens added to every text, such as a start token (`num_special_tokens_to_add`).
    pub fn added_tokens(&self) -> usize {
        use tokenizers::PostProcessor;
        match &self.vocabulary {
            Vocabulary::Embedded => 0,
            Vocabulary::HuggingFace(tokenizer) => tokenizer
                .get_post_processor()
                .map_or(0, |processor| processor.added_tokens(false)),
        }
    }

    /// Number of tokens of the text, including those added to every text: the count of the
    /// transformers library, and of a server that adds them.
    pub fn count_with_added(&self, text: &str) -> usize {
        match &self.vocabulary {
            Vocabulary::Embedded => self.count(text),
            Vocabulary::HuggingFace(tokenizer) => encoded(tokenizer, text, true).len(),
        }
    }
}

pub(super) fn encoded(
    tokenizer: &tokenizers::Tokenizer,
    text: &str,
    with_added: bool,
) -> tokenizers::Encoding {
    tokenizer
        .encode_fast(text, with_added)
        .expect("opening encoded a character outside every vocabulary")
}

/// The ids of the special tokens that the settings declare.
pub(super) fn special(vocabulary: &tokenizers::Tokenizer, config: &Config) -> Vec<u32> {
    let named = config.special_tokens.iter().map(|(_, text)| text);
    let mut ids: Vec<u32> = named
        .chain(&config.more_special_tokens)
        .filter_map(|text| vocabulary.token_to_id(text))
        .collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_inverts_encoding() {
        let fixture = Tokenizer::open(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../fixtures/tokenizer"
        ))
        .unwrap();
        let embedded = Tokenizer::embedded();
        for tokenizer in [&fixture, &embedded] {
            for text in ["", "hello world", "{\"ünï\": [1, 2]}\n"] {
                let ids = tokenizer.encode(text);
                assert_eq!(
                    (tokenizer.decode(&ids).as_str(), ids.len()),
                    (text, tokenizer.count(text)),
                    "{}",
                    tokenizer.id()
                );
                assert_eq!(
                    tokenizer.count_with_added(text),
                    ids.len() + tokenizer.added_tokens()
                );
            }
        }
        assert_eq!(
            fixture.encode("hello world"),
            [264, 414, 271, 81, 84, 78, 70]
        );
        assert_eq!(
            (
                fixture.vocabulary_size(),
                fixture.special_ids(),
                fixture.added_tokens()
            ),
            (600, &[0, 2][..], 0)
        );
        assert_eq!(fixture.decode(&[0, 3]), "<|endoftext|>!");
        assert_eq!(
            (embedded.vocabulary_size(), embedded.special_ids()),
            (100_256, &[][..])
        );
        assert_eq!(
            embedded.decode(&[100_255, 100_300]),
            embedded.decode(&[100_255])
        );
    }

    #[test]
    fn special_tokens_come_from_the_settings() {
        let folder = tempfile::tempdir().unwrap();
        let vocabulary = include_bytes!("../../../../fixtures/tokenizer/tokenizer.json");
        std::fs::write(folder.path().join("tokenizer.json"), vocabulary).unwrap();
        for (settings, ids) in [
            ("{}", &[][..]),
            (r#"{"bos_token": "<|im_start|>", "pad_token": null}"#, &[1]),
            (
                r#"{"eos_token": {"content": "<|im_end|>"}, "extra_special_tokens": ["<|endoftext|>", "<|im_end|>"]}"#,
                &[0, 2],
            ),
            (
                r#"{"additional_special_tokens": [{"content": "<|im_start|>"}], "extra_special_tokens": {"image_token": "!"}}"#,
                &[1, 3],
            ),
        ] {
            std::fs::write(folder.path().join("tokenizer_config.json"), settings).unwrap();
            assert_eq!(
                Tokenizer::open(folder.path().to_str().unwrap())
                    .unwrap()
                    .special_ids(),
                ids,
                "{settings}"
            );
        }
    }

    #[test]
    fn part_of_a_character_decodes_to_a_replacement_character() {
        let embedded = Tokenizer::embedded();
        let ids = embedded.encode("🦀");
        assert!(
            ids.len() > 1,
            "the test needs a character of several tokens"
        );
        assert!(embedded.decode(&ids[..1]).contains('\u{fffd}'));
    }
}
