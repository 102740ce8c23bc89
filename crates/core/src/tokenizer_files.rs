//! Reads the files next to `tokenizer.json`: special tokens and the chat template.

use std::path::Path;

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::input;

/// Maximum size of a tokenizer file in bytes; the largest published ones have about 35 MB.
pub const MAX_TOKENIZER_FILE_BYTES: u64 = 256 << 20;

/// Vocabulary and merges; required.
pub const TOKENIZER_FILE: &str = "tokenizer.json";
/// Settings of the transformers library.
pub const CONFIG_FILE: &str = "tokenizer_config.json";
/// Special tokens in older repositories.
pub const SPECIAL_TOKENS_FILE: &str = "special_tokens_map.json";
/// Chat template in newer repositories; takes precedence over the one in the settings.
pub const TEMPLATE_FILE: &str = "chat_template.jinja";
/// Among named templates, the one for chats without tools.
const DEFAULT_TEMPLATE: &str = "default";

/// Chat template and special tokens of a tokenizer.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Config {
    pub chat_template: Option<String>,
    /// Names (`bos_token`, `eos_token` and so on) with their text.
    pub special_tokens: Vec<(String, String)>,
    /// Special tokens without a name.
    pub more_special_tokens: Vec<String>,
}

impl Config {
    /// Reads the files of a folder; all are optional.
    pub fn read(folder: &Path) -> Result<Self> {
        let settings = read_object(&folder.join(CONFIG_FILE))?;
        let mut special_tokens = special_tokens(&settings);
        let older = read_object(&folder.join(SPECIAL_TOKENS_FILE))?;
        let more_special_tokens = more_special_tokens(&settings)
            .into_iter()
            .chain(more_special_tokens(&older))
            .collect();
        for (name, text) in self::special_tokens(&older) {
            if !settings.contains_key(&name) {
                special_tokens.push((name, text));
            }
        }
        let template_file = folder.join(TEMPLATE_FILE);
        let chat_template = if is_there(&template_file) {
            Some(text(&template_file)?)
        } else {
            default_template(&settings, &folder.join(CONFIG_FILE))?
        };
        Ok(Self {
            chat_template,
            special_tokens,
            more_special_tokens,
        })
    }
}

/// All `*_token` members that have a text: a string, or an object with a string `content`.
fn special_tokens(settings: &Map<String, Value>) -> Vec<(String, String)> {
    let named = settings.iter().filter(|(name, _)| name.ends_with("_token"));
    named
        .filter_map(|(name, value)| Some((name.clone(), token(value)?)))
        .collect()
}

/// `extra_special_tokens`, a list or object of tokens, and its former name.
fn more_special_tokens(settings: &Map<String, Value>) -> Vec<String> {
    let members = ["extra_special_tokens", "additional_special_tokens"]
        .into_iter()
        .filter_map(|name| settings.get(name));
    members
        .flat_map(|member| match member {
            Value::Array(items) => items.iter().filter_map(token).collect(),
            Value::Object(named) => named.values().filter_map(token).collect(),
            _ => Vec::new(),
        })
        .collect()
}

/// The text of a token: a string, or an object with a string `content`.
fn token(value: &Value) -> Option<String> {
    Some(
        value
            .as_str()
            .or_else(|| value.get("content")?.as_str())?
            .to_owned(),
    )
}

/// `chat_template` is one template, or a list of `{name, template}`.
fn default_template(settings: &Map<String, Value>, file: &Path) -> Result<Option<String>> {
    let wrong = || {
        Error::usage(format!(
            "chat_template is neither a string nor a list of named templates: {}",
            file.display()
        ))
        .hint(format!(
            "add an entry named {DEFAULT_TEMPLATE:?} with a \"template\" to the list"
        ))
    };
    match settings.get("chat_template") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(template)) => Ok(Some(template.clone())),
        Some(Value::Array(entries)) => {
            let named = entries
                .iter()
                .find(|entry| entry["name"] == DEFAULT_TEMPLATE);
            let template = named
                .and_then(|entry| entry["template"].as_str())
                .ok_or_else(wrong)?;
            Ok(Some(template.to_owned()))
        }
        Some(_) => Err(wrong()),
    }
}

/// Whether the file exists. A broken link counts, so that reading it fails: without the file every
/// prompt would change.
fn is_there(file: &Path) -> bool {
    file.symlink_metadata().is_ok()
}

fn read_object(file: &Path) -> Result<Map<String, Value>> {
    if !is_there(file) {
        return Ok(Map::new());
    }
    serde_json::from_str(&text(file)?).map_err(|error| {
        Error::usage(format!("{}: not a JSON object: {error}", file.display()))
            .hint("correct or remove this file next to tokenizer.json")
    })
}

fn text(file: &Path) -> Result<String> {
    input::read_text(file, MAX_TOKENIZER_FILE_BYTES)
}

/// The `eos_token` in the files next to `tokenizer.json`.
///
/// # Errors
/// One of them exists and cannot be read.
pub fn end_token(folder: &Path) -> Result<Option<String>> {
    let special_tokens = Config::read(folder)?.special_tokens;
    Ok(special_tokens
        .into_iter()
        .find(|(name, _)| name == "eos_token")
        .map(|(_, text)| text))
}

/// Reads a tokenizer file, which is text, without a byte order mark.
///
/// # Errors
/// It cannot be read, is not text, or is larger than [`MAX_TOKENIZER_FILE_BYTES`].
pub fn read_limited(path: &Path) -> Result<Vec<u8>> {
    input::read_text_bytes(path, MAX_TOKENIZER_FILE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(files: &[(&str, &str)], template: Option<&str>, special_tokens: &[(&str, &str)]) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let config = Config::read(folder.path()).unwrap();
        assert_eq!(config.chat_template.as_deref(), template);
        let read: Vec<_> = config
            .special_tokens
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()))
            .collect();
        assert_eq!(read, special_tokens);
    }

    #[test]
    fn every_known_layout_is_read() {
        check(&[], None, &[]);
        check(
            &[(
                CONFIG_FILE,
                r#"{"chat_template":"t","bos_token":"<s>","eos_token":{"content":"</s>","lstrip":false},"unk_token":null}"#,
            )],
            Some("t"),
            &[("bos_token", "<s>"), ("eos_token", "</s>")],
        );
        check(
            &[
                (
                    CONFIG_FILE,
                    r#"{"chat_template":[{"name":"tool_use","template":"u"},{"name":"default","template":"d"}],"bos_token":null}"#,
                ),
                (
                    SPECIAL_TOKENS_FILE,
                    r#"{"bos_token":"<old>","eos_token":"<end>","additional_special_tokens":["<a>"]}"#,
                ),
            ],
            Some("d"),
            &[("eos_token", "<end>")],
        );
        check(
            &[
                (CONFIG_FILE, r#"{"chat_template":"settings"}"#),
                (TEMPLATE_FILE, "file"),
            ],
            Some("file"),
            &[],
        );
    }

    #[test]
    fn invalid_settings_are_refused() {
        for text in [
            r#"{"chat_template":1}"#,
            r#"{"chat_template":[{"name":"rag","template":"r"}]}"#,
            "[]",
            "{",
        ] {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join(CONFIG_FILE), text).unwrap();
            let error = Config::read(folder.path()).unwrap_err();
            assert!(error.what.contains(CONFIG_FILE), "{error}");
        }
    }
}
