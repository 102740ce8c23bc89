//! Engine settings that change the accepted language or the cost.

use serde::{Deserialize, Serialize};

/// Engine settings of a run, recorded with its results. The defaults are those of vLLM.
#[derive(Clone, Debug, PartialEq, Eq, schemars::JsonSchema, Serialize, Deserialize)]
pub struct EnginePolicy {
    /// Allow white space between JSON tokens. Otherwise JSON has the library's fixed layout.
    pub any_whitespace: bool,
    /// xgrammar's `strict_mode`: no object members and array items that the schema does not name.
    /// `false` is the behaviour of JSON Schema ("compliant").
    pub xgrammar_strict: bool,
    /// llguidance restricts forced text to the tokenizer's canonical tokens. `false` is its
    /// `no_forcing`.
    pub guidance_forcing: bool,
    /// llguidance computes masks for JSON in slices of the vocabulary.
    pub guidance_slicer: bool,
    /// Maximum depth of nested references in outlines-core. It omits members with deeper
    /// references.
    #[serde(default = "default_outlines_references")]
    pub outlines_references: usize,
    /// `auto` keeps the engine of its first constraint, as a vLLM server does.
    pub auto_lock: bool,
    /// Threads of one compile, for libraries that support several.
    pub compile_threads: usize,
}

impl Default for EnginePolicy {
    fn default() -> Self {
        Self {
            any_whitespace: true,
            xgrammar_strict: true,
            guidance_forcing: true,
            guidance_slicer: true,
            outlines_references: default_outlines_references(),
            auto_lock: false,
            compile_threads: 1,
        }
    }
}

/// The default of outlines-core (`json_schema`, Recursion).
fn default_outlines_references() -> usize {
    3
}
