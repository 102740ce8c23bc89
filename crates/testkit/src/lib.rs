//! Helpers shared by the tests of several crates: repository paths, scripted servers, contracts,
//! random numbers.

#![allow(
    clippy::disallowed_methods,
    reason = "tests start servers and wait for them"
)]
#![allow(clippy::unwrap_used, reason = "a failed precondition fails the test")]

pub mod chat;
pub mod constrained;
pub mod contract;
pub mod random;
pub mod reasoning_server;
pub mod scripted;
pub mod support;
pub mod tool_server;

use std::path::{Path, PathBuf};

/// A path below the repository root.
pub fn repository_path(path: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate is two folders below the root");
    root.join(path)
}
