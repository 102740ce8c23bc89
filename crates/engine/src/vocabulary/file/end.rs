//! Which token ends an answer, as far as a tokenizer's folder says. Knows no tokens but those it is
//! asked to look up.

use std::path::Path;

use serde_json::Value;

use crate::TokenId;
use sobench_core::error::{Error, Result};
use sobench_core::tokenizer_files::{end_token, read_limited};

/// Where the transformers library keeps the ids that end an answer.
const GENERATION_FILE: &str = "generation_config.json";

/// End tokens of published models, for a `tokenizer.json` that stands alone.
const WELL_KNOWN: [&str; 6] = [
    "</s>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|im_end|>",
    "<|end_of_text|>",
    "<eos>",
];

/// The end token's id and name: the one that is `asked` for; else `eos_token` of the files beside
/// the tokenizer; else the first `eos_token_id` of `generation_config.json`; else the first
/// well-known name that is a token.
///
/// # Errors
/// No such token, or none of these.
pub(super) fn find(
    folder: &Path,
    asked: Option<&str>,
    id_of: impl Fn(&str) -> Option<TokenId>,
    name_of: impl Fn(TokenId) -> Option<String>,
) -> Result<(TokenId, String)> {
    const HINT: &str = "name the token that ends an answer with --eos-token";
    let named = |name: &str| {
        let missing =
            || Error::usage(format!("the vocabulary has no such end token: {name}")).hint(HINT);
        Ok((id_of(name).ok_or_else(missing)?, name.to_owned()))
    };
    if let Some(name) = asked {
        return named(name);
    }
    if let Some(name) = end_token(folder)? {
        return named(&name);
    }
    if let Some(id) = generation_end(folder)? {
        let missing = || {
            Error::usage(format!(
                "{GENERATION_FILE} ends answers with an id that is no token: {id}"
            ))
            .hint(HINT)
        };
        let token = TokenId::try_from(id)
            .ok()
            .and_then(|id| Some((id, name_of(id)?)));
        return token.ok_or_else(missing);
    }
    let known = WELL_KNOWN
        .into_iter()
        .find_map(|name| Some((id_of(name)?, name.to_owned())));
    known.ok_or_else(|| {
        let folder = if folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            folder
        };
        Error::usage(format!(
            "the vocabulary does not say which token ends an answer: {}",
            folder.display()
        ))
        .hint(HINT)
    })
}

fn generation_end(folder: &Path) -> Result<Option<u64>> {
    let file = folder.join(GENERATION_FILE);
    // A link that leads nowhere is an error, and not a file that is not there.
    if file.symlink_metadata().is_err() {
        return Ok(None);
    }
    let settings: Value = serde_json::from_slice(&read_limited(&file)?).map_err(|error| {
        Error::usage(format!("{}: not JSON: {error}", file.display()))
            .hint("mend it, or take it away")
    })?;
    let ids = &settings["eos_token_id"];
    Ok(ids.as_u64().or_else(|| ids[0].as_u64()))
}
