//! Environment variables that complete the flags.

#![expect(
    clippy::disallowed_methods,
    reason = "the module that reads the environment"
)]

use std::io::{Error, ErrorKind, Result};
use std::path::PathBuf;

use sobench_backend::ServerKind;
use sobench_core::secrets;

/// The value of a variable, if it is set and not empty.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The API key for a kind of server.
pub type KeyOf = fn(ServerKind) -> Option<String>;

/// The API key for a kind of server, from its variable.
pub fn api_key(kind: ServerKind) -> Option<String> {
    let key = variable(kind.credentials().variable)?;
    secrets::register(&key);
    Some(key)
}

/// Whether results are also saved as PyTorch benchmark records. As in vLLM, any value, including
/// `0`, enables it.
pub fn wants_pytorch_records() -> bool {
    std::env::var_os("SAVE_TO_PYTORCH_BENCHMARK_FORMAT").is_some_and(|value| !value.is_empty())
}

/// The folder of a kind of files in the user's cache. It may not exist yet.
///
/// # Errors
/// The system has no cache folder.
pub fn cache_folder(kind: &str) -> Result<PathBuf> {
    let cache = dirs::cache_dir()
        .ok_or_else(|| Error::new(ErrorKind::NotFound, "there is no cache folder"))?;
    Ok(cache.join("sobench").join(kind))
}
