//! Sources of vocabularies: built-in names and paths of `tokenizer.json` files.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tiktoken_rs::cl100k_base_singleton;

use super::{CL100K_IDS, Vocabulary, tokenizer_json};
use sobench_core::error::{Error, Result};

/// Source of a vocabulary. Serialized as the text that [`VocabularySource::parse`] accepts.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Hash, schemars::JsonSchema, Serialize, Deserialize,
)]
#[serde(from = "String", into = "String")]
pub enum VocabularySource {
    /// `cl100k_base` of tiktoken, compiled in: 100,277 ids.
    #[default]
    Cl100k,
    /// A `tokenizer.json` of the tokenizers library, or its folder.
    File(PathBuf),
}

impl VocabularySource {
    /// Parses `cl100k_base` (or `cl100k`) or a path.
    ///
    /// # Errors
    /// A usage error if the text is neither a built-in name nor an existing path.
    pub fn parse(text: &str) -> Result<Self> {
        match Self::from(text.to_owned()) {
            Self::File(path) if !path.exists() => Err(Error::usage(format!(
                "no such vocabulary: {text}"
            ))
            .hint(
                "set --tokenizer to cl100k_base, or the path of a tokenizer.json or of its folder",
            )),
            source => Ok(source),
        }
    }

    /// Loads the vocabulary with its own end token. The built-in one takes 100 ms.
    ///
    /// # Errors
    /// The file cannot be read, is too large, has tokens without fixed bytes, or has no end token.
    pub fn load(&self) -> Result<Vocabulary> {
        self.load_with_eos(None)
    }

    /// Loads the vocabulary. `eos` overrides the end token of the files.
    ///
    /// # Errors
    /// As [`VocabularySource::load`], or the end token does not exist.
    pub fn load_with_eos(&self, eos: Option<&str>) -> Result<Vocabulary> {
        match self {
            Self::Cl100k => Vocabulary::tiktoken(
                self.embedded_name(),
                cl100k_base_singleton(),
                CL100K_IDS,
                eos,
            ),
            Self::File(path) => tokenizer_json::load(path, eos),
        }
    }

    /// The built-in name or the path.
    pub fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            embedded => embedded.embedded_name().to_owned(),
        }
    }

    fn embedded_name(&self) -> &'static str {
        match self {
            Self::Cl100k => "cl100k_base",
            Self::File(_) => "tokenizer.json",
        }
    }
}

impl From<String> for VocabularySource {
    fn from(text: String) -> Self {
        match text.as_str() {
            "cl100k_base" | "cl100k" => Self::Cl100k,
            path => Self::File(Path::new(path).to_path_buf()),
        }
    }
}

impl From<VocabularySource> for String {
    fn from(source: VocabularySource) -> Self {
        source.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths_are_distinguished() {
        let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/tokenizer");
        for (text, expected) in [
            ("cl100k", VocabularySource::Cl100k),
            ("cl100k_base", VocabularySource::Cl100k),
            (fixture, VocabularySource::File(fixture.into())),
        ] {
            let source = VocabularySource::parse(text).unwrap();
            assert_eq!(source, expected);
            let written = serde_json::to_string(&source).unwrap();
            assert_eq!(
                serde_json::from_str::<VocabularySource>(&written).unwrap(),
                source,
                "{written}"
            );
        }
        let error = VocabularySource::parse("p50k").unwrap_err();
        assert!(
            error.what.ends_with("p50k")
                && error.hint.is_some_and(|hint| hint.contains("cl100k_base"))
        );
    }

    #[test]
    fn the_end_token_can_be_overridden() {
        let vocabulary = VocabularySource::Cl100k
            .load_with_eos(Some("<|endofprompt|>"))
            .unwrap();
        assert_eq!(vocabulary.eos(), 100_276);
        let error = VocabularySource::Cl100k
            .load_with_eos(Some("</s>"))
            .err()
            .unwrap();
        assert!(
            error.what.ends_with("</s>")
                && error
                    .hint
                    .is_some_and(|hint| hint.contains("<|endoftext|>"))
        );
    }
}
