//! P6: finds the shortest prefix after which no end can be reached.

use super::EngineResult;
use sobench_engine::{EngineError, Grammar, Matcher, TokenId, TokenMask, Vocabulary};

/// Maximum masks of one search for an end.
const MAX_MASKS: u64 = 256;

/// Maximum tokens tried at one position; with more, the result is unknown.
const MAX_BRANCHES: usize = 16;

/// The length of the shortest prefix of `tokens`, whose last mask is empty, from which the search
/// finds no end; and the number of masks used.
///
/// # Errors
/// An error of the library.
pub(super) fn earliest_dead_prefix(
    grammar: &dyn Grammar,
    vocabulary: &Vocabulary,
    tokens: &[TokenId],
) -> EngineResult<(usize, u64)> {
    let mut masks = 0;
    let mut length = tokens.len();
    while length > 0 {
        let mut matcher = grammar.matcher()?;
        for token in &tokens[..length - 1] {
            matcher.commit(*token)?;
        }
        let max_masks = masks + MAX_MASKS;
        if !has_no_end(&mut *matcher, vocabulary, &mut masks, max_masks)? {
            break;
        }
        length -= 1;
    }
    Ok((length, masks))
}

/// Whether the search finds no end from here.
///
/// # Errors
/// An error of the library.
pub(super) fn is_dead(matcher: &mut dyn Matcher, vocabulary: &Vocabulary) -> EngineResult<bool> {
    has_no_end(matcher, vocabulary, &mut 0, MAX_MASKS)
}

/// Whether all continuations were tried without reaching an end.
fn has_no_end(
    matcher: &mut dyn Matcher,
    vocabulary: &Vocabulary,
    masks: &mut u64,
    max_masks: u64,
) -> EngineResult<bool> {
    // Each level of the search takes a mask, so the limit on masks also limits its depth.
    if *masks >= max_masks {
        return Ok(false);
    }
    let mut mask = TokenMask::new(vocabulary.len());
    matcher.mask(&mut mask)?;
    *masks += 1;
    if mask.allows(vocabulary.eos()) || mask.count() > MAX_BRANCHES {
        return Ok(false);
    }
    for token in mask.iter() {
        let mut fork = matcher.fork();
        match fork.commit(token) {
            Ok(()) if !has_no_end(&mut *fork, vocabulary, masks, max_masks)? => return Ok(false),
            Ok(()) | Err(EngineError::Invalid { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
