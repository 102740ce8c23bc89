//! What stands beside a `tokenizer.json`: special tokens and the chat template. Knows neither
//! vocabularies nor Jinja.

use std::path::Path;

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::input;

/// The largest file of a tokenizer that is read, in bytes; the largest published ones have about 35
/// MB.
pub const MAX_TOKENIZER_FILE_BYTES: u64 = 256 << 20;

/// The file that holds vocabulary and merges, which a tokenizer cannot do without.
pub const TOKENIZER_FILE: &str = "tokenizer.json";
/// Settings of the transformers library.
pub const CONFIG_FILE: &str = "tokenizer_config.json";
/// Where older repositories keep the special tokens.
pub const SPECIAL_TOKENS_FILE: &str = "special_tokens_map.json";
/// Where newer repositories keep the template; it wins over one in the settings.
pub const TEMPLATE_FILE: &str = "chat_template.jinja";
/// Of several named templates, the one for chats without tools.
const DEFAULT_TEMPLATE: &str = "default";

/// What the folder of a tokenizer says besides its vocabulary.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Config {
    pub chat_template: Option<String>,
    /// `bos_token`, `eos_token` and so on, with their text.
    pub special_tokens: Vec<(String, String)>,
    /// Special tokens that have no such name.
    pub more_special_tokens: Vec<String>,
}

impl Config {
    /// Reads the files that there are; none of them has to be there.
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

/// Every `*_token` with a text: either a string, or an object whose `content` is the string.
fn special_tokens(settings: &Map<String, Value>) -> Vec<(String, String)> {
    let named = settings.iter().filter(|(name, _)| name.ends_with("_token"));
    named
        .filter_map(|(name, value)| Some((name.clone(), token(value)?)))
        .collect()
}

/// `extra_special_tokens`, a list or an object of tokens, and what it was called before.
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

/// A token is its text, or an object whose `content` is.
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
            "chat_template is neither a text nor a list of named templates: {}",
            file.display()
        ))
        .hint(format!(
            "a list needs an entry named {DEFAULT_TEMPLATE:?} with a \"template\""
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

/// Whether there is such a file, be it a link that leads nowhere: to go on without it would change
/// every prompt.
fn is_there(file: &Path) -> bool {
    file.symlink_metadata().is_ok()
}

fn read_object(file: &Path) -> Result<Map<String, Value>> {
    if !is_there(file) {
        return Ok(Map::new());
    }
    serde_json::from_str(&text(file)?).map_err(|error| {
        Error::usage(format!("{}: not a JSON object: {error}", file.display()))
            .hint("it is read beside a tokenizer.json; mend it, or take it away")
    })
}

fn text(file: &Path) -> Result<String> {
    input::read_text(file, MAX_TOKENIZER_FILE_BYTES)
}

/// The `eos_token` that the files beside a `tokenizer.json` name.
///
/// # Errors
/// If one of them is there and cannot be read.
pub fn end_token(folder: &Path) -> Result<Option<String>> {
    let special_tokens = Config::read(folder)?.special_tokens;
    Ok(special_tokens
        .into_iter()
        .find(|(name, _)| name == "eos_token")
        .map(|(_, text)| text))
}

/// The bytes of one of a tokenizer's files, which is a text, without a byte-order mark.
///
/// # Errors
/// If it cannot be read, is no text, or is larger than [`MAX_TOKENIZER_FILE_BYTES`].
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
    fn reads_every_form_in_use() {
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
    fn refuses_what_it_cannot_read() {
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
