//! P7: whether an engine contradicts itself at a place. Knows no constraint and no oracle.

use super::EngineResult;
use super::finding::Contradiction;
use sobench_engine::{Engine, EngineError, Grammar, Matcher, TokenId, TokenMask, Vocabulary};
use sobench_pycompat::random::PythonRandom;

use sobench_core::constraint::Constraint;

/// Allowed and refused tokens that are tried at a place.
const TOKENS_TRIED: usize = 3;

/// A contradiction, and the token that shows it, where one does.
pub(super) type Found = (Contradiction, Option<TokenId>);

/// A matcher where it stands, and its mask there.
pub(super) type Stood = (Box<dyn Matcher>, TokenMask);

/// A matcher after these tokens, and its mask there, which is counted; `None` where one of them is
/// not taken.
///
/// # Errors
/// The library's own.
pub(super) fn stand(
    grammar: &dyn Grammar,
    vocabulary: &Vocabulary,
    tokens: &[TokenId],
    masks: &mut u64,
) -> EngineResult<Option<Stood>> {
    let mut matcher = grammar.matcher()?;
    let Some(mask) = led_to(&mut *matcher, vocabulary, tokens)? else {
        return Ok(None);
    };
    *masks += 1;
    Ok(Some((matcher, mask)))
}

/// Whether the tokens are taken, one after the other.
///
/// # Errors
/// The library's own, except that it refuses a token.
pub(super) fn takes(matcher: &mut dyn Matcher, tokens: &[TokenId]) -> EngineResult<bool> {
    for token in tokens {
        if !taken(matcher.commit(*token))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Tries everything that a matcher promises where it stands; it is left as it was. Returns
/// contradictions, and how many promises were tried.
///
/// # Errors
/// The library's own: it crashed, or one of its limits was hit.
pub(super) fn here(
    matcher: &mut dyn Matcher,
    vocabulary: &Vocabulary,
    random: &mut PythonRandom,
) -> EngineResult<(Vec<Found>, u64)> {
    let mut found = Vec::new();
    let mut tried = 2;
    let before = masked(matcher, vocabulary)?;
    if before.allows(vocabulary.eos()) != matcher.is_accepting()? {
        found.push((Contradiction::EndAndAccepting, None));
    }
    if masked(&mut *matcher.fork(), vocabulary)? != before {
        found.push((Contradiction::Fork, None));
    }
    for token in sampled(&before, vocabulary, true, random) {
        tried += 2;
        let mut fork = matcher.fork();
        if taken(fork.commit(token))? {
            match fork.rollback(1) {
                Ok(()) if masked(&mut *fork, vocabulary)? != before => {
                    found.push((Contradiction::Rollback, Some(token)))
                }
                // What cannot be rolled back says so; that is no contradiction.
                Ok(())
                | Err(
                    EngineError::Invalid { .. }
                    | EngineError::Unsupported { .. }
                    | EngineError::TooLarge { .. },
                ) => {}
                Err(error) => return Err(error),
            }
        } else {
            found.push((Contradiction::AllowedNotTaken, Some(token)));
        }
    }
    for token in sampled(&before, vocabulary, false, random) {
        tried += 1;
        let mut fork = matcher.fork();
        if taken(fork.commit(token))? {
            found.push((Contradiction::TakenNotAllowed, Some(token)));
        } else if masked(&mut *fork, vocabulary)? != before {
            found.push((Contradiction::RefusedTokenMoves, Some(token)));
        }
    }
    Ok((found, tried))
}

/// Whether the same tokens lead to the same mask on a new matcher, and with other matchers of the
/// same grammar masked in between; with `compiles`, on the constraint compiled once more, too.
/// `expected` is the mask where they led before.
///
/// # Errors
/// As [`here`].
pub(super) fn again(
    engine: &dyn Engine,
    constraint: &Constraint,
    grammar: &dyn Grammar,
    vocabulary: &Vocabulary,
    (tokens, expected): (&[TokenId], &TokenMask),
    compiles: bool,
) -> EngineResult<(Vec<Found>, u64)> {
    let mut found = Vec::new();
    let mut check = |contradiction, mask: Option<TokenMask>| {
        if mask.as_ref() != Some(expected) {
            found.push((contradiction, None));
        }
    };
    check(
        Contradiction::Cached,
        led_to(&mut *grammar.matcher()?, vocabulary, tokens)?,
    );
    if compiles {
        check(
            Contradiction::Compiled,
            led_to(
                &mut *engine.compile(constraint)?.matcher()?,
                vocabulary,
                tokens,
            )?,
        );
    }
    check(
        Contradiction::Batch,
        led_to_between(grammar, vocabulary, tokens)?,
    );
    Ok((found, 2 + u64::from(compiles)))
}

/// The mask after the tokens; `None` where one of them is not taken.
fn led_to(
    matcher: &mut dyn Matcher,
    vocabulary: &Vocabulary,
    tokens: &[TokenId],
) -> EngineResult<Option<TokenMask>> {
    if takes(matcher, tokens)? {
        masked(matcher, vocabulary).map(Some)
    } else {
        Ok(None)
    }
}

/// As [`led_to`], while a second matcher, one token behind, is masked before each step.
fn led_to_between(
    grammar: &dyn Grammar,
    vocabulary: &Vocabulary,
    tokens: &[TokenId],
) -> EngineResult<Option<TokenMask>> {
    let (mut matcher, mut behind) = (grammar.matcher()?, grammar.matcher()?);
    let mut before = None;
    for token in tokens {
        masked(&mut *behind, vocabulary)?;
        if let Some(before) = before.replace(*token)
            && !taken(behind.commit(before))?
        {
            return Ok(None);
        }
        if !taken(matcher.commit(*token))? {
            return Ok(None);
        }
    }
    masked(&mut *matcher, vocabulary).map(Some)
}

fn masked(matcher: &mut dyn Matcher, vocabulary: &Vocabulary) -> EngineResult<TokenMask> {
    let mut mask = TokenMask::new(vocabulary.len());
    matcher.mask(&mut mask)?;
    Ok(mask)
}

/// Whether a token was taken; a crash is an error.
fn taken(committed: EngineResult<()>) -> EngineResult<bool> {
    match committed {
        Ok(()) => Ok(true),
        Err(EngineError::Invalid { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Some tokens that are allowed, or that are not, the end left out.
fn sampled(
    mask: &TokenMask,
    vocabulary: &Vocabulary,
    allowed: bool,
    random: &mut PythonRandom,
) -> Vec<TokenId> {
    let is_meant = |token: &TokenId| {
        *token != vocabulary.eos()
            && mask.allows(*token) == allowed
            && !vocabulary.bytes(*token).is_empty()
    };
    let all: Vec<TokenId> = (0..vocabulary.len())
        .filter_map(|id| TokenId::try_from(id).ok())
        .filter(is_meant)
        .collect();
    let places = random.sample(all.len(), TOKENS_TRIED.min(all.len()));
    places.into_iter().map(|place| all[place]).collect()
}
