//! Constrained-decoding libraries behind one trait, one library a folder.
//!
//! A library is wrapped twice before anything else sees it: [`guarded`] puts a panic and time
//! boundary around it, [`cache`] compiles each constraint once. A new library is one new folder
//! here with a `SPEC`, and one line in the registry below.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod auto;
pub mod cache;
pub mod departure;
pub mod guarded;
mod guidance;
mod mask;
mod name;
mod outlines;
mod policy;
pub mod vocabulary;
mod xgrammar;

use std::sync::Arc;

pub use departure::{Declared, Departure};
pub use mask::TokenMask;
pub use name::SERVER_ONLY;
pub use policy::EnginePolicy;
pub use vocabulary::{TokenId, Vocabulary};

use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_core::error::Result;
use sobench_core::registry;

registry! {
    /// A decoding engine of this program, by the name that `--guided-decoding-backend` and
    /// `--engine` take.
    #[derive(Default)]
    pub enum EngineName is "decoding engine" with EngineSpec {
        #[default]
        Guidance => guidance::SPEC,
        Xgrammar => xgrammar::SPEC,
        XgrammarCpp => xgrammar::CPP_SPEC,
        Outlines => outlines::SPEC,
        Auto => auto::SPEC,
    }
}

/// Everything that is known of an engine without opening it.
pub(crate) struct EngineSpec {
    pub(crate) name: &'static str,
    /// Opens it over a vocabulary; `None` where this build does not have it.
    open: Option<Open>,
    /// How to get a build that has it.
    build_hint: &'static str,
    /// Whether `sobench mask` measures it unless engines are named.
    measured: bool,
    /// The departures that its own documentation declares.
    departures: &'static [Declared],
    /// The keywords of JSON Schema that its documentation lists, where it says that all others have
    /// no effect.
    listed_keywords: &'static [&'static str],
    /// Policies under which it does not depart in one respect. A departure may have several, of
    /// which each does a little more.
    relaxations: fn(&EnginePolicy) -> Vec<(Departure, EnginePolicy)>,
}

type Open = fn(Arc<Vocabulary>, &EnginePolicy) -> Result<Arc<dyn Engine>>;

/// Compiles constraints. One instance serves all requests of a process.
pub trait Engine: Send + Sync {
    /// The name as in [`EngineName::name`].
    fn name(&self) -> &'static str;

    /// The library and its version, e.g. `llguidance 1.9.1` or `xgrammar-rs 0.2.8, port`.
    fn version(&self) -> &'static str;

    /// The choices of the policy that matter to this library, as name and value, for the record.
    fn settings(&self) -> Vec<(&'static str, String)>;

    /// What a server checks when a request comes in, before it compiles: cheap, and less than
    /// [`Engine::compile`] checks.
    ///
    /// # Errors
    /// As [`Engine::compile`].
    fn validate(&self, _constraint: &Constraint) -> std::result::Result<(), EngineError> {
        Ok(())
    }

    /// Refuses a constraint that this library is known to compile for minutes or in gigabytes.
    /// Asked before a compile that nothing but a timeout watches over; a process that can be killed
    /// is given everything.
    ///
    /// # Errors
    /// [`EngineError::TooLarge`].
    fn check_size(&self, _constraint: &Constraint) -> std::result::Result<(), EngineError> {
        Ok(())
    }

    /// As [`Engine::check_size`], of what is known to take more than about a second: asked where
    /// thousands are compiled one after the other, so that the constraint decides what is left out,
    /// and not the machine.
    ///
    /// # Errors
    /// [`EngineError::TooLarge`].
    fn check_quick(&self, constraint: &Constraint) -> std::result::Result<(), EngineError> {
        self.check_size(constraint)
    }

    /// The engine that a constraint goes to, and why; only `auto` has a choice. Decides nothing: a
    /// lock is not set by asking.
    fn route(&self, _constraint: &Constraint) -> Option<Route> {
        None
    }

    /// Compiles one constraint, as this library reads it. The first mask is not part of it.
    ///
    /// # Errors
    /// What the library cannot do, does not understand or finds too large, in its own words.
    fn compile(
        &self,
        constraint: &Constraint,
    ) -> std::result::Result<Arc<dyn Grammar>, EngineError>;

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

    /// Bytes that the compiled constraint takes, as the library counts them or as its tables add
    /// up; `None` where it cannot say.
    fn memory_bytes(&self) -> Option<u64> {
        None
    }
}

/// One answer being matched, token by token.
pub trait Matcher: Send {
    /// Writes which tokens may come next. The end token is set exactly when
    /// [`Matcher::is_accepting`]; once it has been committed it is the only one.
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
#[error("{words}")]
pub enum EngineError {
    /// The constraint is fine, the library does not implement `feature`.
    Unsupported { feature: String, words: String },
    /// The constraint makes no sense to the library, or a token does not fit.
    Invalid { words: String },
    /// A limit on size, time or effort was hit.
    TooLarge { words: String },
    /// The library panicked.
    Crashed { words: String },
    /// Nothing is wrong with the constraint: too much else is going on. Worth asking again, and
    /// never remembered.
    Busy { words: String },
}

impl EngineError {
    fn unsupported(feature: impl Into<String>, words: impl Into<String>) -> Self {
        Self::Unsupported {
            feature: feature.into(),
            words: words.into(),
        }
    }

    fn empty_choice() -> Self {
        Self::Invalid {
            words: "choice must name at least one string".into(),
        }
    }
}

/// What a matcher answers to a token: whether it was `taken`.
fn token_taken(taken: bool, token: TokenId) -> std::result::Result<(), EngineError> {
    if taken {
        Ok(())
    } else {
        Err(EngineError::Invalid {
            words: format!("token {token} may not come here"),
        })
    }
}

/// Refuses to take back more tokens than were committed.
fn check_rollback(tokens: usize, committed: usize) -> std::result::Result<(), EngineError> {
    if tokens <= committed {
        return Ok(());
    }
    Err(EngineError::Invalid {
        words: format!("cannot take back {tokens} tokens of {committed}"),
    })
}

/// Where `auto` sends a constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub engine: EngineName,
    /// The rule that decided, in a few words.
    pub why: String,
}

/// Opens an engine over a vocabulary, with the panic and time boundary around it.
///
/// # Errors
/// The library does not take the vocabulary, or is not built in.
pub fn open(
    name: EngineName,
    vocabulary: &Arc<Vocabulary>,
    policy: &EnginePolicy,
) -> Result<Arc<dyn Engine>> {
    let engine = open_bare(name, vocabulary, policy)?;
    Ok(Arc::new(guarded::GuardedEngine::new(
        engine,
        guarded::COMPILE_TIMEOUT,
    )))
}

/// Opens an engine without a boundary, for a process that something else watches over.
///
/// # Errors
/// As [`open`].
pub fn open_bare(
    name: EngineName,
    vocabulary: &Arc<Vocabulary>,
    policy: &EnginePolicy,
) -> Result<Arc<dyn Engine>> {
    let open = name.spec().open.ok_or_else(|| name.not_built_in())?;
    open(Arc::clone(vocabulary), policy)
}
