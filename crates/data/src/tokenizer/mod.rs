//! Token counts and chat templates of tokenizers, from local files or the Hub.

mod ids;
pub mod python_json;
mod template;

use std::fmt;
use std::path::{Path, PathBuf};

use crate::hub;
use crate::hub::{HubSettings, RepoKind};
use sobench_core::case::Message;
use sobench_core::error::{Error, Result};
use sobench_core::tokenizer_files::{self, Config, TOKENIZER_FILE, read_limited};
use template::ChatTemplate;

/// The instant that `strftime_now` of a chat template prints: 2024-07-26, the default date of
/// Llama's own templates. A fixed day keeps prompts the same from run to run.
pub const TEMPLATE_UNIX_TIME_S: i64 = 1_721_952_000;

/// The files used from a model repository.
const FILES: [&str; 4] = [
    TOKENIZER_FILE,
    tokenizer_files::CONFIG_FILE,
    tokenizer_files::SPECIAL_TOKENS_FILE,
    tokenizer_files::TEMPLATE_FILE,
];

/// Counts tokens and applies a chat template. Can be shared between threads.
pub struct Tokenizer {
    id: String,
    vocabulary: Vocabulary,
    template: Option<ChatTemplate>,
    /// Ids that the tokenizer's settings declare special, in ascending order.
    special_ids: Vec<u32>,
}

enum Vocabulary {
    /// tiktoken's cl100k, which is compiled in and built on first use.
    Embedded,
    HuggingFace(Box<tokenizers::Tokenizer>),
}

impl Tokenizer {
    /// cl100k, compiled in, without a chat template.
    pub fn embedded() -> Self {
        Self {
            id: "cl100k_base (embedded)".to_owned(),
            vocabulary: Vocabulary::Embedded,
            template: None,
            special_ids: Vec::new(),
        }
    }

    /// A folder with a `tokenizer.json`, such a file itself, or the id of a model on the Hub.
    ///
    /// # Errors
    /// No such file, folder or repository exists, or a file cannot be read.
    pub fn open(name_or_path: &str) -> Result<Self> {
        Self::open_with(name_or_path, &HubSettings::from_env())
    }

    /// [`Tokenizer::open`] with explicit Hub settings.
    ///
    /// # Errors
    /// As for [`Tokenizer::open`].
    pub fn open_with(name_or_path: &str, hub: &HubSettings) -> Result<Self> {
        let path = Path::new(name_or_path);
        if path.is_dir() {
            return Self::from_files(name_or_path, &path.join(TOKENIZER_FILE));
        }
        if path.exists() {
            return Self::from_files(name_or_path, path);
        }
        if !hub::is_repo_id(name_or_path) {
            return Err(Error::usage(format!("no such tokenizer file or folder: {name_or_path}"))
                .hint("give --tokenizer a folder with a tokenizer.json, a tokenizer.json, or the id of a model on the Hub"));
        }
        let choose = |files: &[String]| {
            files
                .iter()
                .filter(|file| FILES.contains(&file.as_str()))
                .cloned()
                .collect()
        };
        let snapshot = hub::fetch(hub, RepoKind::Model, name_or_path, choose)?;
        match snapshot.files.iter().find(|(name, _)| name == TOKENIZER_FILE) {
            Some((_, path)) => Self::from_files(name_or_path, path),
            None => Err(Error::usage(format!("no {TOKENIZER_FILE} in the model repository {name_or_path}"))
                .hint("give --tokenizer a repository or folder with a tokenizer.json; no other format is supported")),
        }
    }

    /// Sets additional variables of the chat template.
    #[must_use]
    pub fn with_template_variables(
        mut self,
        variables: serde_json::Map<String, serde_json::Value>,
    ) -> Self {
        if let Some(template) = &mut self.template {
            template.set_variables(variables);
        }
        self
    }

    /// The name or path from which the tokenizer was opened. Results report it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Number of tokens of the text, without added special tokens. Special tokens spelled out in
    /// the text count as one, except with the embedded tokenizer, which has none.
    pub fn count(&self, text: &str) -> usize {
        match &self.vocabulary {
            Vocabulary::Embedded => tiktoken_rs::cl100k_base_singleton().count_ordinary(text),
            Vocabulary::HuggingFace(tokenizer) => ids::encoded(tokenizer, text, false).len(),
        }
    }

    /// The source of the chat template, if the tokenizer has one.
    pub fn chat_template(&self) -> Option<&str> {
        self.template.as_ref().map(ChatTemplate::source)
    }

    /// The date, such as `2024-07-26`, that the template prints as the current one. `None` if it
    /// prints no date.
    pub fn template_date(&self) -> Option<String> {
        let prints_date = self.chat_template()?.contains("strftime_now");
        prints_date.then(|| {
            sobench_core::dates::strftime("%F", TEMPLATE_UNIX_TIME_S)
                .expect("the directive is known")
        })
    }

    /// The prompt for these messages, as by `apply_chat_template(messages, tokenize=False)` of the
    /// transformers library.
    ///
    /// # Errors
    /// The tokenizer has no template, or the template refuses the messages.
    pub fn apply_chat_template(
        &self,
        messages: &[Message],
        add_generation_prompt: bool,
    ) -> Result<String> {
        let Some(template) = &self.template else {
            return Err(Error::usage(format!("messages need a chat template, and this tokenizer has none: {}", self.id))
                .hint("give --tokenizer a tokenizer with a template, or use a chat backend, which sends messages unchanged"));
        };
        let prompt = template.apply(messages, add_generation_prompt, TEMPLATE_UNIX_TIME_S);
        prompt.map_err(|error| Error {
            what: format!("{}: {}", error.what, self.id),
            ..error
        })
    }

    fn from_files(id: &str, file: &Path) -> Result<Self> {
        let bytes = read_limited(file)?;
        let vocabulary = parse(&bytes).map_err(|error| {
            Error::usage(format!(
                "cannot read the tokenizer {}: {error}",
                file.display()
            ))
            .hint("use a tokenizer.json of the tokenizers library")
        })?;
        let folder = file.parent().map_or_else(PathBuf::new, Path::to_path_buf);
        let config = Config::read(&folder)?;
        let special_ids = ids::special(&vocabulary, &config);
        let template = config
            .chat_template
            .map(|source| ChatTemplate::new(source, config.special_tokens));
        Ok(Self {
            id: id.to_owned(),
            vocabulary: Vocabulary::HuggingFace(Box::new(vocabulary)),
            template,
            special_ids,
        })
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer")
            .field("id", &self.id)
            .field("has_template", &self.template.is_some())
            .finish_non_exhaustive()
    }
}

/// Reads a `tokenizer.json`. Its truncation and padding settings would falsify counts and are
/// removed.
fn parse(bytes: &[u8]) -> std::result::Result<tokenizers::Tokenizer, String> {
    let mut tokenizer =
        tokenizers::Tokenizer::from_bytes(bytes).map_err(|error| error.to_string())?;
    tokenizer
        .with_truncation(None)
        .map_err(|error| error.to_string())?;
    tokenizer.with_padding(None);
    // A vocabulary without an unknown token fails on text outside it. Fail now and not in the
    // middle of a run.
    tokenizer
        .encode_fast("a \u{10fffd}\u{0}", false)
        .map_err(|error| error.to_string())?;
    Ok(tokenizer)
}

#[cfg(test)]
mod tests;
