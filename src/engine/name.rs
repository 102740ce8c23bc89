//! The names of decoding engines. Knows no library.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A decoding engine of this program, by the name that `--guided-decoding-backend` and `--engine` take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineName {
    /// The `llguidance` crate.
    Guidance,
    /// The `xgrammar-rs` crate, a port of xgrammar to Rust.
    Xgrammar,
    /// The original xgrammar in C++; only where the feature `engine-xgrammar-cpp` is built in.
    XgrammarCpp,
    /// The `outlines-core` crate.
    Outlines,
    /// vLLM's rule: whichever of the others takes the constraint first.
    Auto,
}

/// Engines without a library that could be built in.
pub const SERVER_ONLY: [&str; 2] = ["lm-format-enforcer", "llama.cpp"];

impl EngineName {
    /// Every engine, those that are not built in included.
    pub const ALL: [Self; 5] = [Self::Guidance, Self::Xgrammar, Self::XgrammarCpp, Self::Outlines, Self::Auto];

    /// Whether this build has it.
    pub fn is_built_in(self) -> bool {
        self != Self::XgrammarCpp || cfg!(feature = "engine-xgrammar-cpp")
    }

    /// Reads a name for use in this process.
    ///
    /// # Errors
    /// A usage error that tells apart an engine that is not built in, one that only a server can offer, and a name nobody knows.
    pub fn parse(name: &str) -> Result<Self> {
        let known: Vec<&str> = Self::ALL.into_iter().filter(|engine| engine.is_built_in()).map(Self::name).collect();
        if SERVER_ONLY.contains(&name) {
            return Err(Error::usage(format!("decoding engine exists only inside a server: {name}"))
                .hint(format!("built in are {}; a server that runs it is measured with sobench --base-url", known.join(", "))));
        }
        let engine = Self::ALL.into_iter().find(|engine| engine.name() == name);
        let engine = engine.ok_or_else(|| {
            Error::usage(format!("unknown decoding engine: {name}")).hint(format!("this build has {}", known.join(", ")))
        })?;
        if engine.is_built_in() {
            return Ok(engine);
        }
        Err(Error::usage(format!("decoding engine is not in this build: {name}"))
            .hint("build with --features engine-xgrammar-cpp, which needs cmake and clang++"))
    }

    /// The name that flags, requests and reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Guidance => "guidance",
            Self::Xgrammar => "xgrammar",
            Self::XgrammarCpp => "xgrammar-cpp",
            Self::Outlines => "outlines",
            Self::Auto => "auto",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_resolve_or_say_why_not() {
        for engine in EngineName::ALL {
            assert_eq!(EngineName::parse(engine.name()).is_ok(), engine.is_built_in(), "{engine:?}");
            assert_eq!(serde_json::to_value(engine).unwrap(), engine.name());
        }
        for (name, words) in
            [("lm-format-enforcer", "only inside a server"), ("llama.cpp", "only inside"), ("guidence", "unknown")]
        {
            let error = EngineName::parse(name).unwrap_err();
            assert!(error.what.contains(words) && error.what.ends_with(name), "{error}");
            assert!(error.hint.is_some_and(|hint| hint.contains("guidance")));
        }
    }
}
