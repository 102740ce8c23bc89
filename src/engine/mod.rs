//! Constrained-decoding libraries behind one trait, one library a file. Knows tokens and masks, neither HTTP nor models.
//!
//! A library is wrapped twice before anything else sees it: [`guarded`] puts a panic and time boundary around it, [`cache`]
//! compiles each constraint once. A new library is one new file here, one name in [`EngineName`], one arm in [`open`].

pub mod cache;
pub mod guarded;
mod guidance;
mod mask;
pub mod vocabulary;

use std::sync::Arc;

pub use mask::TokenMask;
pub use vocabulary::{TokenId, Vocabulary};

use crate::constraint::{Constraint, GrammarDialect};
use crate::error::{Error, Result};

/// A decoding engine of this build, by the name that `--guided-decoding-backend` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineName {
    /// The `llguidance` crate.
    Guidance,
}

impl EngineName {
    /// Every engine of this build.
    pub const ALL: &'static [Self] = &[Self::Guidance];

    /// Reads a `--guided-decoding-backend` value for the embedded server. `auto` is the one engine that is built in.
    ///
    /// # Errors
    /// A usage error that tells apart an engine still to come, one that only a server can offer, and a name nobody knows.
    pub fn parse(name: &str) -> Result<Self> {
        let missing = |what: &str, hint: &str| Err(Error::usage(format!("{what}: {name}")).hint(hint));
        match name {
            "guidance" | "auto" => Ok(Self::Guidance),
            "xgrammar" | "outlines" => missing(
                "decoding engine is not in this build of the embedded server yet",
                "use --guided-decoding-backend guidance, or name a server that runs it with --base-url",
            ),
            "lm-format-enforcer" | "llama.cpp" => missing(
                "decoding engine exists only inside a server",
                "name a server that runs it with --base-url, or use --guided-decoding-backend guidance",
            ),
            _ => missing("unknown decoding engine", "the embedded server knows guidance and auto"),
        }
    }

    /// The name that flags, requests and reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Guidance => "guidance",
        }
    }
}

/// Compiles constraints. One instance serves all requests of a process.
pub trait Engine: Send + Sync {
    /// The name as in [`EngineName::name`].
    fn name(&self) -> &'static str;

    /// The library and its version, e.g. `llguidance 1.9.1`.
    fn version(&self) -> &'static str;

    /// Compiles one constraint, as this library reads it.
    ///
    /// # Errors
    /// What the library cannot do, does not understand or finds too large, in its own words.
    fn compile(&self, constraint: &Constraint) -> std::result::Result<Arc<dyn Grammar>, EngineError>;

    /// The grammar notations that [`Engine::compile`] reads.
    fn grammar_dialects(&self) -> &'static [GrammarDialect];
}

/// A compiled constraint, shared by all requests that carry it.
pub trait Grammar: Send + Sync {
    /// A matcher at the start of an answer.
    ///
    /// # Errors
    /// [`EngineError::Crashed`] where the library panics while it starts.
    fn matcher(&self) -> std::result::Result<Box<dyn Matcher>, EngineError>;
}

/// One answer being matched, token by token.
pub trait Matcher: Send {
    /// Writes which tokens may come next. The end token is set exactly when [`Matcher::is_accepting`]; once it has been
    /// committed it is the only one.
    ///
    /// # Errors
    /// The library hit one of its limits, or crashed.
    fn mask(&mut self, mask: &mut TokenMask) -> std::result::Result<(), EngineError>;

    /// Takes one token. A refused token leaves the matcher as it was.
    ///
    /// # Errors
    /// [`EngineError::Invalid`] for a token that may not come here.
    fn commit(&mut self, token: TokenId) -> std::result::Result<(), EngineError>;

    /// Whether the answer may end here.
    ///
    /// # Errors
    /// The library crashed.
    fn is_accepting(&mut self) -> std::result::Result<bool, EngineError>;

    /// The tokens that must come next whatever the model thinks, possibly none.
    fn forced_tokens(&mut self) -> Vec<TokenId>;

    /// Takes back the last `tokens` committed tokens.
    ///
    /// # Errors
    /// More tokens than were committed, or a grammar that the library cannot roll back.
    fn rollback(&mut self, tokens: usize) -> std::result::Result<(), EngineError>;

    /// An independent matcher in the same state.
    fn fork(&self) -> Box<dyn Matcher>;
}

/// Why an engine would not compile or go on. `words` are the library's own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The constraint is fine, the library does not implement `feature`.
    #[error("{words}")]
    Unsupported { feature: String, words: String },
    /// The constraint makes no sense to the library, or a token does not fit.
    #[error("{words}")]
    Invalid { words: String },
    /// A limit on size, time or effort was hit.
    #[error("{words}")]
    TooLarge { words: String },
    /// The library panicked.
    #[error("{words}")]
    Crashed { words: String },
}

/// Opens an engine over a vocabulary, with the panic and time boundary around it.
///
/// # Errors
/// The library does not take the vocabulary.
pub fn open(name: EngineName, vocabulary: Arc<Vocabulary>) -> Result<Arc<dyn Engine>> {
    let engine: Arc<dyn Engine> = match name {
        EngineName::Guidance => Arc::new(guidance::Guidance::new(vocabulary)?),
    };
    Ok(Arc::new(guarded::GuardedEngine::new(engine, guarded::COMPILE_TIMEOUT)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_resolve_or_say_why_not() {
        for name in ["guidance", "auto"] {
            assert_eq!(EngineName::parse(name), Ok(EngineName::Guidance));
        }
        for (name, words) in [("xgrammar", "not in this build"), ("llama.cpp", "only inside a server"), ("guidence", "unknown")] {
            let error = EngineName::parse(name).unwrap_err();
            assert!(error.what.contains(words) && error.what.ends_with(name), "{error}");
            assert!(error.hint.is_some());
        }
        assert!(EngineName::ALL.iter().all(|engine| EngineName::parse(engine.name()) == Ok(*engine)));
    }
}
