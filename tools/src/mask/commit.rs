//! Commits of tokens, in which a refused token is a result and not an error.

use sobench_engine::{EngineError, Matcher, TokenId};

/// The result of a call into an engine.
pub(super) type EngineResult<T> = Result<T, EngineError>;

/// Whether a token was accepted; a crash is an error.
pub(super) fn was_committed(committed: EngineResult<()>) -> EngineResult<bool> {
    match committed {
        Ok(()) => Ok(true),
        Err(EngineError::Invalid { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Commits the tokens; returns whether all were accepted.
///
/// # Errors
/// The library's own, except for a refused token.
pub(super) fn commits_all(matcher: &mut dyn Matcher, tokens: &[TokenId]) -> EngineResult<bool> {
    for token in tokens {
        if !was_committed(matcher.commit(*token))? {
            return Ok(false);
        }
    }
    Ok(true)
}
