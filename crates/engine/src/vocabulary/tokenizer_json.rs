//! Loads a vocabulary from a `tokenizer.json` of the tokenizers library.

mod end_token;
mod token_spelling;

use std::path::Path;

use serde_json::{Map, Value};

use super::{Encoder, Tables, TokenId, Vocabulary};
use sobench_core::error::{Error, Result};
use sobench_core::tokenizer_files::{TOKENIZER_FILE, read_limited};
use token_spelling::TokenSpelling;

/// Maximum number of ids in a vocabulary, four times the largest published ones.
pub const MAX_VOCABULARY_IDS: usize = 1 << 20;

/// Loads `path`, a `tokenizer.json` or its folder. `eos` overrides the end token of the files next
/// to it.
pub(super) fn load(path: &Path, eos: Option<&str>) -> Result<Vocabulary> {
    let file = if path.is_dir() {
        path.join(TOKENIZER_FILE)
    } else {
        path.to_path_buf()
    };
    let hint = "use a tokenizer.json of the tokenizers library";
    let read_error = |what: String| {
        Error::usage(format!(
            "cannot read the vocabulary {}: {what}",
            file.display()
        ))
        .hint(hint)
    };
    let mut json: Value = serde_json::from_slice(&read_limited(&file)?)
        .map_err(|error| read_error(error.to_string()))?;
    let spelling = TokenSpelling::from_tokenizer(&json).map_err(&read_error)?;
    disable_text_changes(&mut json);
    let mut tokenizer = tokenizers::Tokenizer::from_bytes(json.to_string().as_bytes())
        .map_err(|error| read_error(error.to_string()))?;
    tokenizer.set_encode_special_tokens(true);

    let vocabulary = tokenizer.get_vocab(true);
    let ids = vocabulary.values().max().map_or(0, |&id| id as usize + 1);
    if ids == 0 || ids > MAX_VOCABULARY_IDS {
        return Err(read_error(format!(
            "vocabulary size is not from 1 to {MAX_VOCABULARY_IDS} ids: {ids}"
        )));
    }
    let folder = file.parent().unwrap_or(Path::new(""));
    let end = end_token::find(
        folder,
        eos,
        |name| tokenizer.token_to_id(name),
        |id| tokenizer.id_to_token(id),
    )?;
    let tables = tables(&tokenizer, &spelling, unknown_token(&json), ids, end);
    let name = format!("{}, {ids} ids", short_name(&file));
    Vocabulary::new(name, Encoder::HuggingFace(Box::new(tokenizer)), tables)
}

/// Disables truncation, padding and prefix spaces: an answer is encoded from its first byte.
fn disable_text_changes(json: &mut Value) {
    for key in ["truncation", "padding"] {
        json[key] = Value::Null;
    }
    let is_prefix = |normalizer: &Value| normalizer["type"] == "Prepend";
    if is_prefix(&json["normalizer"]) {
        json["normalizer"] = Value::Null;
    } else if let Some(steps) = json
        .pointer_mut("/normalizer/normalizers")
        .and_then(Value::as_array_mut)
    {
        steps.retain(|step| !is_prefix(step));
    }
    let part = json
        .pointer("/pre_tokenizer/pretokenizers")
        .map_or("/pre_tokenizer", |_| "/pre_tokenizer/pretokenizers");
    match json.pointer_mut(part) {
        Some(Value::Array(steps)) => steps
            .iter_mut()
            .filter_map(Value::as_object_mut)
            .for_each(disable_prefix_space),
        Some(Value::Object(step)) => disable_prefix_space(step),
        _ => {}
    }
}

fn disable_prefix_space(pre_tokenizer: &mut Map<String, Value>) {
    match pre_tokenizer.get("type").and_then(Value::as_str) {
        Some("Metaspace") => {
            pre_tokenizer.remove("add_prefix_space");
            pre_tokenizer.insert("prepend_scheme".into(), "never".into());
        }
        Some("ByteLevel") => {
            pre_tokenizer.insert("add_prefix_space".into(), false.into());
        }
        _ => {}
    }
}

/// The token for unknown text, by name or by id. It has no bytes.
fn unknown_token(json: &Value) -> Option<UnknownToken> {
    let model = &json["model"];
    model["unk_token"]
        .as_str()
        .map(|name| UnknownToken::Name(name.to_owned()))
        .or_else(|| {
            model["unk_id"]
                .as_u64()
                .and_then(|id| TokenId::try_from(id).ok())
                .map(UnknownToken::Id)
        })
}

enum UnknownToken {
    Name(String),
    Id(TokenId),
}

fn tables(
    tokenizer: &tokenizers::Tokenizer,
    spelling: &TokenSpelling,
    unknown: Option<UnknownToken>,
    ids: usize,
    end: (TokenId, String),
) -> Tables {
    let added = tokenizer.get_added_tokens_decoder();
    let eos = end.0;
    let mut special = vec![end];
    special.extend(
        added
            .iter()
            .filter(|(id, token)| token.special && **id != eos)
            .map(|(&id, token)| (id, token.content.clone())),
    );
    let unknown = unknown.and_then(|unknown| match unknown {
        UnknownToken::Name(name) => Some((tokenizer.token_to_id(&name)?, name)),
        UnknownToken::Id(id) => Some((id, tokenizer.id_to_token(id)?)),
    });
    special.extend(unknown);
    special.sort();
    special.dedup_by_key(|(id, _)| *id);
    let mut tokens = vec![Vec::new(); ids];
    for (id, bytes) in (0..).zip(&mut tokens) {
        if special.binary_search_by_key(&id, |(id, _)| *id).is_err()
            && let Some(text) = tokenizer.id_to_token(id)
        {
            *bytes = if added.contains_key(&id) {
                spelling.added_token_bytes(&text)
            } else {
                spelling.bytes(&text)
            };
        }
    }
    Tables {
        tokens,
        special,
        eos,
    }
}

/// File name with its folder: `Llama-3.1-8B/tokenizer.json`.
fn short_name(file: &Path) -> String {
    let parts = [file.parent().and_then(Path::file_name), file.file_name()];
    let parts: Vec<_> = parts
        .into_iter()
        .flatten()
        .map(|part| part.to_string_lossy())
        .collect();
    parts.join("/")
}

#[cfg(test)]
mod tests;
