//! Constrained-decoding libraries behind one trait, one folder per library.
//!
//! Each library is wrapped twice: [`guarded`] adds a panic guard and a time limit, [`cache`]
//! compiles each constraint once. To add a library, add a folder with a `SPEC` here, and one line
//! in the registry below.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod auto;
pub mod cache;
pub mod departure;
mod engine_name;
mod error;
pub mod guarded;
mod guidance;
mod input;
mod mask;
mod outlines;
mod policy;
pub mod vocabulary;
mod xgrammar;

use std::sync::Arc;

pub use departure::{DeclaredDeparture, Departure};
pub use engine_name::SERVER_ONLY_ENGINES;
pub use error::EngineError;
pub use mask::TokenMask;
pub use policy::EnginePolicy;
pub use vocabulary::{TokenId, Vocabulary};

use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_core::error::Result;
use sobench_core::registry;

registry! {
    /// Decoding engine of this program, named as in `--guided-decoding-backend` and `--engine`.
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

/// Static properties of an engine.
pub(crate) struct EngineSpec {
    pub(crate) name: &'static str,
    /// Opens the engine over a vocabulary. `None` if it is not in this build.
    open: Option<Open>,
    /// How to build with it.
    build_hint: &'static str,
    /// Whether `sobench mask` measures it by default.
    measured_by_default: bool,
    /// Departures that its documentation declares.
    departures: &'static [DeclaredDeparture],
    /// JSON Schema keywords that its documentation lists, if the documentation says that all others
    /// have no effect.
    listed_keywords: &'static [&'static str],
    /// Policies that disable one departure each. A departure may have several policies, each more
    /// permissive than the one before.
    relaxations: fn(&EnginePolicy) -> Vec<(Departure, EnginePolicy)>,
}

type Open = fn(Arc<Vocabulary>, &EnginePolicy) -> Result<Arc<dyn Engine>>;

/// Compiles constraints. One instance serves all requests of a process.
pub trait Engine: Send + Sync {
    /// The name as in [`EngineName::name`].
    fn name(&self) -> &'static str;

    /// Library and version, e.g. `llguidance 1.9.1` or `xgrammar-rs 0.2.8, port`.
    fn version(&self) -> &'static str;

    /// Policy settings that apply to this library, as name and value, for the run record.
    fn settings(&self) -> Vec<(&'static str, String)>;

    /// Validates a constraint like a server does before it compiles: cheaper and less strict than
    /// [`Engine::compile`].
    ///
    /// # Errors
    /// As [`Engine::compile`].
    fn validate(&self, _constraint: &Constraint) -> std::result::Result<(), EngineError> {
        Ok(())
    }

    /// Refuses a constraint that this library is known to compile for minutes or in gigabytes of
    /// memory. Used before compiles that are limited only by a timeout. A process that can be
    /// killed compiles everything.
    ///
    /// # Errors
    /// [`EngineError::TooLarge`].
    fn check_size(&self, _constraint: &Constraint) -> std::result::Result<(), EngineError> {
        Ok(())
    }

    /// As [`Engine::check_size`], with limits for compiles of about a second. Used to compile
    /// thousands of constraints in sequence: the constraint, and not the machine, determines which
    /// are skipped.
    ///
    /// # Errors
    /// [`EngineError::TooLarge`].
    fn check_size_strict(&self, constraint: &Constraint) -> std::result::Result<(), EngineError> {
        self.check_size(constraint)
    }

    /// The engine that compiles a constraint, and the reason. Only `auto` has a choice. Does not
    /// set the lock.
    fn route(&self, _constraint: &Constraint) -> Option<Route> {
        None
    }

    /// Compiles one constraint. The first mask is not part of it.
    ///
    /// # Errors
    /// Unsupported, invalid or too large constraints, with the library's message.
    fn compile(
        &self,
        constraint: &Constraint,
    ) -> std::result::Result<Arc<dyn Grammar>, EngineError>;

    /// The grammar notations that [`Engine::compile`] reads.
    fn grammar_dialects(&self) -> &'static [GrammarDialect];
}

/// Compiled constraint, shared by all requests that carry it.
pub trait Grammar: Send + Sync {
    /// Creates a matcher in the start state.
    ///
    /// # Errors
    /// [`EngineError::Crashed`] if the library panics.
    fn matcher(&self) -> std::result::Result<Box<dyn Matcher>, EngineError>;

    /// Memory of the compiled constraint in bytes, as counted by the library or computed from its
    /// tables. `None` if unknown.
    fn memory_bytes(&self) -> Option<u64> {
        None
    }
}

/// State of one answer during decoding.
pub trait Matcher: Send {
    /// Computes the mask of allowed tokens. The end token is allowed exactly if
    /// [`Matcher::is_accepting`]; after it is committed, it is the only allowed token.
    ///
    /// # Errors
    /// The library reached one of its limits, or crashed.
    fn mask(&mut self, mask: &mut TokenMask) -> std::result::Result<(), EngineError>;

    /// Commits one token. A refused token does not change the matcher.
    ///
    /// # Errors
    /// [`EngineError::Invalid`] for a token that is not allowed.
    fn commit(&mut self, token: TokenId) -> std::result::Result<(), EngineError>;

    /// Whether the answer may end here.
    ///
    /// # Errors
    /// The library crashed.
    fn is_accepting(&mut self) -> std::result::Result<bool, EngineError>;

    /// The tokens that must come next for every model. May be empty.
    fn forced_tokens(&mut self) -> Vec<TokenId>;

    /// Rolls back the last `tokens` committed tokens.
    ///
    /// # Errors
    /// More tokens than were committed, or a grammar that the library cannot roll back.
    fn rollback(&mut self, tokens: usize) -> std::result::Result<(), EngineError>;

    /// Creates an independent matcher in the same state.
    fn fork(&self) -> Box<dyn Matcher>;
}

/// Result of a commit: an error unless the token was `accepted`.
fn commit_result(accepted: bool, token: TokenId) -> std::result::Result<(), EngineError> {
    if accepted {
        Ok(())
    } else {
        Err(EngineError::Invalid {
            message: format!("token {token} is not allowed here"),
        })
    }
}

/// Refuses to roll back more tokens than were committed.
fn check_rollback(tokens: usize, committed: usize) -> std::result::Result<(), EngineError> {
    if tokens <= committed {
        return Ok(());
    }
    Err(EngineError::Invalid {
        message: format!("cannot roll back {tokens} tokens, only {committed} are committed"),
    })
}

/// Engine that `auto` selects for a constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub engine: EngineName,
    /// Reason for the selection.
    pub why: String,
}

/// Opens an engine over a vocabulary, with the panic guard and the time limit.
///
/// # Errors
/// The library rejects the vocabulary, or is not in this build.
pub fn open(
    name: EngineName,
    vocabulary: &Arc<Vocabulary>,
    policy: &EnginePolicy,
) -> Result<Arc<dyn Engine>> {
    let engine = open_unguarded(name, vocabulary, policy)?;
    Ok(Arc::new(guarded::GuardedEngine::new(
        engine,
        guarded::COMPILE_TIMEOUT,
    )))
}

/// Opens an engine without guards, for a process that is supervised by another one.
///
/// # Errors
/// As [`open`].
pub fn open_unguarded(
    name: EngineName,
    vocabulary: &Arc<Vocabulary>,
    policy: &EnginePolicy,
) -> Result<Arc<dyn Engine>> {
    let open = name.spec().open.ok_or_else(|| name.not_built_in())?;
    open(Arc::clone(vocabulary), policy)
}
