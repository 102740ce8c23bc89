//! Environment variables that complete the flags.

#![expect(
    clippy::disallowed_methods,
    reason = "here the program reads its environment"
)]

use std::io::{Error, ErrorKind, Result};
use std::path::PathBuf;

/// The variable's value, if it is set and not empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The API key of the server (`OPENAI_API_KEY`).
pub(crate) fn api_key() -> Option<String> {
    variable("OPENAI_API_KEY")
}

/// Whether results are saved as PyTorch benchmark records too. vLLM's switch: any text in it, `0`
/// included, is a yes.
pub(crate) fn wants_pytorch_records() -> bool {
    std::env::var_os("SAVE_TO_PYTORCH_BENCHMARK_FORMAT").is_some_and(|value| !value.is_empty())
}

/// The folder of sobench's own files of a kind, in the user's cache; it may not be there yet.
///
/// # Errors
/// The system has no cache folder.
pub(crate) fn cache_folder(kind: &str) -> Result<PathBuf> {
    let cache = dirs::cache_dir()
        .ok_or_else(|| Error::new(ErrorKind::NotFound, "there is no cache folder"))?;
    Ok(cache.join("sobench").join(kind))
}
