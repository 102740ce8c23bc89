//! P7: checks whether an engine contradicts itself.

use super::EngineResult;
use super::finding::Contradiction;
use crate::mask::commit::{commits_all, was_committed};
use sobench_engine::{Engine, Grammar, Matcher, TokenId, TokenMask, Vocabulary};
use sobench_pycompat::random::PythonRandom;

use sobench_core::constraint::Constraint;

/// Allowed and refused tokens tried at a position.
const TOKENS_TRIED: usize = 3;

/// A contradiction, and the token that shows it, if any.
pub(super) type FoundContradiction = (Contradiction, Option<TokenId>);

/// A matcher and its current mask.
pub(super) type MatcherAndMask = (Box<dyn Matcher>, TokenMask);

/// A matcher after these tokens and its mask, which is counted in `masks`; `None` if a token is
/// refused.
///
/// # Errors
/// An error of the library.
pub(super) fn matcher_after(
    grammar: &dyn Grammar,
    vocabulary: &Vocabulary,
    tokens: &[TokenId],
    masks: &mut u64,
) -> EngineResult<Option<MatcherAndMask>> {
    let mut matcher = grammar.matcher()?;
    let Some(mask) = mask_after(&mut *matcher, vocabulary, tokens)? else {
        return Ok(None);
    };
    *masks += 1;
    Ok(Some((matcher, mask)))
}

/// Checks the consistency of a matcher at its position, without moving it. Returns contradictions
/// and the number of checks.
///
/// # Errors
/// The library crashed or reached one of its limits.
pub(super) fn check_matcher(
    matcher: &mut dyn Matcher,
    vocabulary: &Vocabulary,
    random: &mut PythonRandom,
) -> EngineResult<(Vec<FoundContradiction>, u64)> {
    let mut found = Vec::new();
    let mut tried = 2;
    let before = mask_of(matcher, vocabulary)?;
    if before.allows(vocabulary.eos()) != matcher.is_accepting()? {
        found.push((Contradiction::EndAndAccepting, None));
    }
    if mask_of(&mut *matcher.fork(), vocabulary)? != before {
        found.push((Contradiction::Fork, None));
    }
    for token in sampled(&before, vocabulary, true, random) {
        tried += 1;
        if !was_committed(matcher.fork().commit(token))? {
            found.push((Contradiction::AllowedNotTaken, Some(token)));
        }
    }
    for token in sampled(&before, vocabulary, false, random) {
        tried += 1;
        let mut fork = matcher.fork();
        if was_committed(fork.commit(token))? {
            found.push((Contradiction::TakenNotAllowed, Some(token)));
        } else if mask_of(&mut *fork, vocabulary)? != before {
            found.push((Contradiction::RefusedTokenMoves, Some(token)));
        }
    }
    Ok((found, tried))
}

/// Checks that the same tokens lead to `expected` with a new matcher and with interleaved matchers
/// of the same grammar; if `compiles`, also with the constraint compiled again.
///
/// # Errors
/// As [`check_matcher`].
pub(super) fn check_repeated(
    engine: &dyn Engine,
    constraint: &Constraint,
    grammar: &dyn Grammar,
    vocabulary: &Vocabulary,
    (tokens, expected): (&[TokenId], &TokenMask),
    compiles: bool,
) -> EngineResult<(Vec<FoundContradiction>, u64)> {
    let mut found = Vec::new();
    let mut check = |contradiction, mask: Option<TokenMask>| {
        if mask.as_ref() != Some(expected) {
            found.push((contradiction, None));
        }
    };
    check(
        Contradiction::Cached,
        mask_after(&mut *grammar.matcher()?, vocabulary, tokens)?,
    );
    if compiles {
        check(
            Contradiction::Compiled,
            mask_after(
                &mut *engine.compile(constraint)?.matcher()?,
                vocabulary,
                tokens,
            )?,
        );
    }
    check(
        Contradiction::Batch,
        mask_after_interleaved(grammar, vocabulary, tokens)?,
    );
    Ok((found, 2 + u64::from(compiles)))
}

/// The mask after the tokens; `None` if a token is refused.
fn mask_after(
    matcher: &mut dyn Matcher,
    vocabulary: &Vocabulary,
    tokens: &[TokenId],
) -> EngineResult<Option<TokenMask>> {
    if commits_all(matcher, tokens)? {
        mask_of(matcher, vocabulary).map(Some)
    } else {
        Ok(None)
    }
}

/// As [`mask_after`], while a second matcher, one token behind, is masked before each step.
fn mask_after_interleaved(
    grammar: &dyn Grammar,
    vocabulary: &Vocabulary,
    tokens: &[TokenId],
) -> EngineResult<Option<TokenMask>> {
    let (mut matcher, mut behind) = (grammar.matcher()?, grammar.matcher()?);
    let mut before = None;
    for token in tokens {
        mask_of(&mut *behind, vocabulary)?;
        if let Some(before) = before.replace(*token)
            && !was_committed(behind.commit(before))?
        {
            return Ok(None);
        }
        if !was_committed(matcher.commit(*token))? {
            return Ok(None);
        }
    }
    mask_of(&mut *matcher, vocabulary).map(Some)
}

/// The mask of a matcher.
///
/// # Errors
/// The library's own.
pub(super) fn mask_of(
    matcher: &mut dyn Matcher,
    vocabulary: &Vocabulary,
) -> EngineResult<TokenMask> {
    let mut mask = TokenMask::new(vocabulary.len());
    matcher.mask(&mut mask)?;
    Ok(mask)
}

/// A sample of allowed or refused tokens, without the end.
pub(super) fn sampled(
    mask: &TokenMask,
    vocabulary: &Vocabulary,
    allowed: bool,
    random: &mut PythonRandom,
) -> Vec<TokenId> {
    let all: Vec<TokenId> = (0..vocabulary.len())
        .filter_map(|id| TokenId::try_from(id).ok())
        .filter(|token: &TokenId| {
            *token != vocabulary.eos()
                && mask.allows(*token) == allowed
                && !vocabulary.bytes(*token).is_empty()
        })
        .collect();
    let places = random.sample(all.len(), TOKENS_TRIED.min(all.len()));
    places.into_iter().map(|place| all[place]).collect()
}
