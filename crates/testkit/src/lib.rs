//! Shared by the integration tests of several crates: paths of the repository, scripted servers,
//! random numbers.

#![allow(
    clippy::disallowed_methods,
    reason = "tests make servers, and wait for them"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

pub mod constrained;
pub mod random;
pub mod scripted;

use std::path::{Path, PathBuf};

/// A path below the repository's root.
pub fn in_package(path: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate is two folders below the root");
    root.join(path)
}
