//! The requirements of an acceptance, as in their file.

use std::path::PathBuf;

use crate::commands::bench::args::BenchArgs;
use crate::commands::preflight::args::PreflightArgs;

/// What a server must do.
#[derive(Clone, Debug)]
pub struct Requirements {
    pub name: String,
    /// Of the file, in hex.
    pub sha256: String,
    pub text: String,
    /// At least one.
    pub parts: Vec<Part>,
}

/// A run, a preflight or a file of limits, and its rules.
#[derive(Clone, Debug)]
pub struct Part {
    /// Of no other part.
    pub name: String,
    pub flags: PartFlags,
    /// The flags as on a command line.
    pub arguments: Vec<String>,
    pub require: Vec<String>,
    pub fail_on: Vec<String>,
    /// The runs that `fail_on` compares with.
    pub baseline: Option<String>,
    pub runs: Option<usize>,
    pub looks: Option<usize>,
}

/// The flags of a part.
#[derive(Clone, Debug)]
pub enum PartFlags {
    Run(Box<BenchArgs>),
    Preflight(Box<PreflightArgs>),
    /// The saved limits of the server.
    Limits(PathBuf),
}
