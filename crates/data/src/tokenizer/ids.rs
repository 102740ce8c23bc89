//! Text to token ids and back, and which ids there are: what prompts of a wanted length are made
//! with. Knows no prompt.

use super::{Tokenizer, Vocabulary};
use sobench_core::tokenizer_files::Config;

/// Tokens of cl100k that stand for bytes; its special tokens come above.
const CL100K_TOKENS: u32 = 100_256;

impl Tokenizer {
    /// The ids of the text's tokens, without any that a template or post-processor would add.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        match &self.vocabulary {
            Vocabulary::Embedded => tiktoken_rs::cl100k_base_singleton().encode_ordinary(text),
            Vocabulary::HuggingFace(tokenizer) => {
                encoded(tokenizer, text, false).get_ids().to_vec()
            }
        }
    }

    /// The text that these ids spell, special tokens included; bytes that make no UTF-8 become
    /// U+FFFD. Ids below [`Tokenizer::vocabulary_size`] are known, and unknown ones spell nothing.
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
            // A decoder that fails has no text to give; the length that comes of it is looked at
            // and told.
            Vocabulary::HuggingFace(tokenizer) => tokenizer.decode(ids, false).unwrap_or_default(),
        }
    }

    /// Tokens without those added on top: `vocab_size` of the transformers library.
    pub fn vocabulary_size(&self) -> u32 {
        match &self.vocabulary {
            Vocabulary::Embedded => CL100K_TOKENS,
            Vocabulary::HuggingFace(tokenizer) => {
                u32::try_from(tokenizer.get_vocab_size(false)).unwrap_or(u32::MAX)
            }
        }
    }

    /// The ids that the tokenizer's settings name as special (`all_special_ids`), in rising order.
    pub fn special_ids(&self) -> &[u32] {
        &self.special_ids
    }

    /// Tokens that are added to every text, such as one for its begin
    /// (`num_special_tokens_to_add`).
    pub fn added_tokens(&self) -> usize {
        use tokenizers::PostProcessor;
        match &self.vocabulary {
            Vocabulary::Embedded => 0,
            Vocabulary::HuggingFace(tokenizer) => tokenizer
                .get_post_processor()
                .map_or(0, |processor| processor.added_tokens(false)),
        }
    }

    /// Tokens of the text with those that are added to every text: what the transformers library
    /// counts, and a server that adds them reads.
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
        .expect("opening tried it on a character outside every vocabulary")
}

/// The ids of the special tokens that the settings name.
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
    fn text_goes_to_ids_and_back() {
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
    fn special_tokens_have_names_or_none() {
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
    fn part_of_a_character_is_a_replacement_character() {
        let embedded = Tokenizer::embedded();
        let ids = embedded.encode("🦀");
        assert!(
            ids.len() > 1,
            "the test needs a character of several tokens"
        );
        assert!(embedded.decode(&ids[..1]).contains('\u{fffd}'));
    }
}
