//! Choices that change what an engine accepts or what it costs. Knows no library; each engine says
//! which of them matter to it.

use serde::{Deserialize, Serialize};

/// What is chosen for the engines of a run, and recorded with its results. The defaults are what
/// vLLM does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnginePolicy {
    /// JSON may hold white space between its tokens; otherwise it is written in the library's one
    /// way.
    pub any_whitespace: bool,
    /// xgrammar's `strict_mode`: objects and arrays take no members that the schema does not name.
    /// `false` is JSON Schema's rule ("compliant").
    pub xgrammar_strict: bool,
    /// llguidance forces the tokenizer's canonical tokens where text is forced; `false` is its
    /// `no_forcing`.
    pub guidance_forcing: bool,
    /// llguidance computes masks in slices of the vocabulary for JSON.
    pub guidance_slicer: bool,
    /// References within one another that outlines-core follows; beyond them it leaves out the
    /// member that refers.
    #[serde(default = "outlines_references")]
    pub outlines_references: usize,
    /// `auto` stays with the engine of its first constraint, as a vLLM server does.
    pub auto_lock: bool,
    /// Threads of one compile, where a library can use several.
    pub compile_threads: usize,
}

impl Default for EnginePolicy {
    fn default() -> Self {
        Self {
            any_whitespace: true,
            xgrammar_strict: true,
            guidance_forcing: true,
            guidance_slicer: true,
            outlines_references: outlines_references(),
            auto_lock: false,
            compile_threads: 1,
        }
    }
}

/// outlines-core's own (`json_schema`, Recursion).
fn outlines_references() -> usize {
    3
}
