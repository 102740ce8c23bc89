//! Finds the end token of a tokenizer's folder.

use std::path::Path;

use serde_json::Value;

use crate::TokenId;
use sobench_core::error::{Error, Result};
use sobench_core::tokenizer_files::{end_token, read_limited};

/// File of the transformers library with the ids of end tokens.
const GENERATION_FILE: &str = "generation_config.json";

/// End tokens of published models, for a `tokenizer.json` without other files.
const WELL_KNOWN: [&str; 6] = [
    "</s>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|im_end|>",
    "<|end_of_text|>",
    "<eos>",
];

/// Returns the id and name of the end token: `requested`; otherwise `eos_token` of the files next
/// to the tokenizer; otherwise the first `eos_token_id` of `generation_config.json`; otherwise the
/// first well-known name in the vocabulary.
///
/// # Errors
/// The token is not in the vocabulary, or none is found.
pub(super) fn find(
    folder: &Path,
    requested: Option<&str>,
    token_id: impl Fn(&str) -> Option<TokenId>,
    token_name: impl Fn(TokenId) -> Option<String>,
) -> Result<(TokenId, String)> {
    const HINT: &str = "set the end token with --eos-token";
    let find_by_name = |name: &str| {
        let missing =
            || Error::usage(format!("no such end token in the vocabulary: {name}")).hint(HINT);
        Ok((token_id(name).ok_or_else(missing)?, name.to_owned()))
    };
    if let Some(name) = requested {
        return find_by_name(name);
    }
    if let Some(name) = end_token(folder)? {
        return find_by_name(&name);
    }
    if let Some(id) = generation_config_end(folder)? {
        let missing = || {
            Error::usage(format!(
                "eos_token_id of {GENERATION_FILE} is not in the vocabulary: {id}"
            ))
            .hint(HINT)
        };
        let token = TokenId::try_from(id)
            .ok()
            .and_then(|id| Some((id, token_name(id)?)));
        return token.ok_or_else(missing);
    }
    let known = WELL_KNOWN
        .into_iter()
        .find_map(|name| Some((token_id(name)?, name.to_owned())));
    known.ok_or_else(|| {
        let folder = if folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            folder
        };
        Error::usage(format!(
            "no end token found for the vocabulary: {}",
            folder.display()
        ))
        .hint(HINT)
    })
}

fn generation_config_end(folder: &Path) -> Result<Option<u64>> {
    let file = folder.join(GENERATION_FILE);
    // A dangling link is an error, not a missing file.
    if file.symlink_metadata().is_err() {
        return Ok(None);
    }
    let settings: Value = serde_json::from_slice(&read_limited(&file)?).map_err(|error| {
        Error::usage(format!("{}: not JSON: {error}", file.display()))
            .hint("fix or remove the file")
    })?;
    let ids = &settings["eos_token_id"];
    Ok(ids.as_u64().or_else(|| ids[0].as_u64()))
}
