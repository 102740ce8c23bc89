//! P6: from where on no end can be reached any more. Knows no constraint and no oracle.

use super::EngineResult;
use sobench_engine::{EngineError, Grammar, Matcher, TokenId, TokenMask, Vocabulary};

/// Masks of one search for an end.
const MAX_MASKS: u64 = 256;

/// Tokens at one place that are all tried; where there are more, it is not known.
const MAX_BRANCHES: usize = 16;

/// The length of the shortest beginning of `tokens`, after which nothing is allowed, from which no
/// end can be reached, as far as that can be searched; and the masks that it took to know.
///
/// # Errors
/// The library's own.
pub(super) fn earliest(
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
        let most = masks + MAX_MASKS;
        if !is_doomed(&mut *matcher, vocabulary, &mut masks, most)? {
            break;
        }
        length -= 1;
    }
    Ok((length, masks))
}

/// Whether no end can be reached from here, as far as that can be searched.
///
/// # Errors
/// The library's own.
pub(super) fn is_dead(matcher: &mut dyn Matcher, vocabulary: &Vocabulary) -> EngineResult<bool> {
    is_doomed(matcher, vocabulary, &mut 0, MAX_MASKS)
}

/// Whether every way from here was tried, and none leads to an end.
fn is_doomed(
    matcher: &mut dyn Matcher,
    vocabulary: &Vocabulary,
    masks: &mut u64,
    most: u64,
) -> EngineResult<bool> {
    // Each level of the search takes a mask, so that the limit on masks is one on its depth.
    if *masks >= most {
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
            Ok(()) if !is_doomed(&mut *fork, vocabulary, masks, most)? => return Ok(false),
            Ok(()) | Err(EngineError::Invalid { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
