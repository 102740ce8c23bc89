//! P8: checks whether rollback restores the mask, the end and the acceptance of the next token.
//!
//! Every check starts with a new matcher and compares it with itself, so that an error of forks, of
//! the compile cache or of other matchers (P7) is not counted as one of rollback.

use super::EngineResult;
use super::consistency::{mask_of, sampled};
use super::finding::Contradiction;
use crate::mask::commit::{commits_all, was_committed};
use sobench_engine::{EngineError, Grammar, Matcher, TokenId, TokenMask, Vocabulary};
use sobench_pycompat::random::PythonRandom;

/// Rolled-back tokens, and what differs afterwards.
pub(super) type WrongRollback = (Vec<TokenId>, Contradiction);

/// Commits and rolls back 1 to `longest` of the tokens that follow the prefix, and single allowed
/// tokens. Returns the shortest wrong rollback of each of the two, and the number of checks.
///
/// # Errors
/// The library crashed or reached one of its limits.
pub(super) fn check_rollbacks(
    grammar: &dyn Grammar,
    vocabulary: &Vocabulary,
    prefix: &[TokenId],
    following: &[TokenId],
    longest: usize,
    random: &mut PythonRandom,
) -> EngineResult<(Vec<WrongRollback>, u64)> {
    let leading = (1..=longest.min(following.len())).map(|length| following[..length].to_vec());
    let single = allowed_tokens(grammar, vocabulary, prefix, random)?
        .into_iter()
        .map(|token| vec![token]);
    let (mut found, mut tried) = (Vec::new(), 0);
    let candidates: [Vec<Vec<TokenId>>; 2] = [leading.collect(), single.collect()];
    for candidates in candidates {
        for tokens in candidates {
            tried += 1;
            if let Some(wrong) = check_rollback(grammar, vocabulary, prefix, &tokens)? {
                found.push((tokens, wrong));
                break;
            }
        }
    }
    Ok((found, tried))
}

/// Rolled-back tokens after the prefix with the same error: leading parts of `tokens`, single
/// allowed tokens, or as many tokens as these along the masks.
///
/// # Errors
/// As [`check_rollbacks`].
pub(super) fn find_similar(
    grammar: &dyn Grammar,
    vocabulary: &Vocabulary,
    prefix: &[TokenId],
    (tokens, wrong): (&[TokenId], Contradiction),
    random: &mut PythonRandom,
) -> EngineResult<Option<Vec<TokenId>>> {
    let (found, _) = check_rollbacks(grammar, vocabulary, prefix, tokens, tokens.len(), random)?;
    if let Some((tokens, _)) = found.into_iter().find(|(_, found)| *found == wrong) {
        return Ok(Some(tokens));
    }
    let walked = walked_tokens(grammar, vocabulary, prefix, tokens.len(), random)?;
    let is_wrong = check_rollback(grammar, vocabulary, prefix, &walked)? == Some(wrong);
    Ok(is_wrong.then_some(walked))
}

/// Commits and rolls back the tokens. Returns what differs; `None` if nothing does, if a token is
/// refused, or if the engine refuses the rollback.
///
/// # Errors
/// As [`check_rollbacks`].
pub(super) fn check_rollback(
    grammar: &dyn Grammar,
    vocabulary: &Vocabulary,
    prefix: &[TokenId],
    tokens: &[TokenId],
) -> EngineResult<Option<Contradiction>> {
    let Some(next) = tokens.first() else {
        return Ok(None);
    };
    let mut matcher = grammar.matcher()?;
    if !commits_all(&mut *matcher, prefix)? {
        return Ok(None);
    }
    let before = state(&mut *matcher, vocabulary)?;
    for token in tokens {
        // A server computes the mask before each token of a draft.
        mask_of(&mut *matcher, vocabulary)?;
        if !was_committed(matcher.commit(*token))? {
            return Ok(None);
        }
    }
    match matcher.rollback(tokens.len()) {
        Ok(()) => {}
        // An unsupported rollback is no error of a mask.
        Err(
            EngineError::Invalid { .. }
            | EngineError::Unsupported { .. }
            | EngineError::TooLarge { .. },
        ) => return Ok(None),
        Err(error) => return Err(error),
    }
    let after = state(&mut *matcher, vocabulary)?;
    Ok(if after.0 != before.0 {
        Some(Contradiction::Rollback)
    } else if after.1 != before.1 {
        Some(Contradiction::RollbackEnd)
    } else if !was_committed(matcher.commit(*next))? {
        Some(Contradiction::RollbackToken)
    } else {
        None
    })
}

/// The mask, and whether the text may end.
fn state(matcher: &mut dyn Matcher, vocabulary: &Vocabulary) -> EngineResult<(TokenMask, bool)> {
    Ok((mask_of(matcher, vocabulary)?, matcher.is_accepting()?))
}

/// A sample of the tokens that are allowed after the prefix.
fn allowed_tokens(
    grammar: &dyn Grammar,
    vocabulary: &Vocabulary,
    prefix: &[TokenId],
    random: &mut PythonRandom,
) -> EngineResult<Vec<TokenId>> {
    let mut matcher = grammar.matcher()?;
    if !commits_all(&mut *matcher, prefix)? {
        return Ok(Vec::new());
    }
    let mask = mask_of(&mut *matcher, vocabulary)?;
    Ok(sampled(&mask, vocabulary, true, random))
}

/// At most `length` tokens along the masks after the prefix.
fn walked_tokens(
    grammar: &dyn Grammar,
    vocabulary: &Vocabulary,
    prefix: &[TokenId],
    length: usize,
    random: &mut PythonRandom,
) -> EngineResult<Vec<TokenId>> {
    let mut tokens = Vec::new();
    while tokens.len() < length {
        let text = [prefix, &tokens].concat();
        let Some(token) = allowed_tokens(grammar, vocabulary, &text, random)?.pop() else {
            break;
        };
        tokens.push(token);
    }
    Ok(tokens)
}
