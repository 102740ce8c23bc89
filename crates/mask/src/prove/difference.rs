//! P5: a token that one engine allows and another does not, closed by a text that the first lets
//! through. Knows no corpus.

use std::collections::HashSet;

use super::EngineResult;
use super::finding::{Finding, Origin, Proof};
use super::json_prefix::JsonPrefix;
use super::judges::{Judged, Judges};
use super::walks::{End, Guide, Manner};
use sobench_engine::{EngineError, EngineName, Matcher, TokenId, TokenMask, Vocabulary};
use sobench_pycompat::random::PythonRandom;

/// Tokens of one difference that are closed, of those that differ in their first byte.
const MAX_TOKENS: usize = 4;

/// Ways that are tried to close one token: the shortest, then at random.
const WAYS: usize = 3;

/// Masks of one way.
const MAX_STEPS: usize = 64;

/// The same difference at the same kind of place is closed so many times in one entry.
const MAX_ALIKE: usize = 2;

/// An engine where it stands after the same tokens as another one.
pub(super) struct Standing<'a> {
    pub(super) engine: EngineName,
    pub(super) matcher: &'a dyn Matcher,
    pub(super) mask: &'a TokenMask,
}

/// What was closed of an entry before: both engines, the kind of place, the token's first byte, and
/// how often.
#[derive(Debug, Default)]
pub(super) struct Tried(HashSet<(EngineName, EngineName, &'static str, Option<u8>, usize)>);

impl Tried {
    fn is_enough(
        &mut self,
        one: EngineName,
        other: EngineName,
        place: &'static str,
        first: Option<u8>,
    ) -> bool {
        !(0..MAX_ALIKE).any(|time| self.0.insert((one, other, place, first, time)))
    }
}

/// What the differences at one place come to.
#[derive(Debug, Default)]
pub(super) struct Closed {
    /// Each with whether it is about the other engine.
    pub(super) findings: Vec<(bool, Finding)>,
    /// Tokens for which no way led to a text that all oracles agree on.
    pub(super) unresolved: u64,
    /// Masks of the ways.
    pub(super) masks: u64,
}

/// Closes what `loose` allows and `strict` does not after `prefix`. Whichever of the two is wrong
/// is said; they are only called so.
///
/// # Errors
/// The first engine's own.
pub(super) fn close(
    loose: &Standing<'_>,
    (strict, strict_mask): (EngineName, &TokenMask),
    (prefix, origin): (&[TokenId], Origin),
    (vocabulary, guide, judges): (&Vocabulary, &Guide, &mut Judges),
    random: &mut PythonRandom,
    tried: &mut Tried,
) -> EngineResult<Closed> {
    let mut closed = Closed::default();
    let place = JsonPrefix::after(&vocabulary.decode(prefix)).map_or("", |state| state.place());
    for token in chosen(loose.mask, strict_mask, vocabulary) {
        if tried.is_enough(
            loose.engine,
            strict,
            place,
            vocabulary.bytes(token).first().copied(),
        ) {
            continue;
        }
        let ends = close_one(
            loose,
            (prefix, token),
            (vocabulary, guide, &mut *judges),
            random,
            &mut closed.masks,
        )?;
        let Some((bytes, tail, judged)) = ends else {
            closed.unresolved += 1;
            continue;
        };
        let (proof, is_about_other, breaks) = match judged {
            Judged::Breaks { how } => (Proof::DiffersLoose, false, Some(how)),
            _ => (Proof::DiffersStrict, true, None),
        };
        let other = Some(if is_about_other { loose.engine } else { strict });
        let text = String::from_utf8(bytes).ok();
        let finding = Finding {
            text,
            tail,
            other,
            breaks,
            ..Finding::new(proof, prefix, Some(token), origin)
        };
        closed.findings.push((is_about_other, finding));
    }
    Ok(closed)
}

/// Tokens in one mask and not in the other, one for each first byte, in an order that their ids
/// decide.
fn chosen(loose: &TokenMask, strict: &TokenMask, vocabulary: &Vocabulary) -> Vec<TokenId> {
    let (mut chosen, mut first_bytes) = (Vec::new(), Vec::new());
    for token in loose
        .without(strict)
        .iter()
        .filter(|token| *token != vocabulary.eos())
    {
        let Some(first) = vocabulary.bytes(token).first() else {
            continue;
        };
        if !first_bytes.contains(first) {
            first_bytes.push(*first);
            chosen.push(token);
        }
        if chosen.len() == MAX_TOKENS {
            break;
        }
    }
    chosen
}

/// A whole text that goes on with the token, the tokens after it, and what the oracles say; `None`
/// where no way leads to one that they agree on.
type Ends = Option<(Vec<u8>, Vec<TokenId>, Judged)>;

fn close_one(
    loose: &Standing<'_>,
    (prefix, token): (&[TokenId], TokenId),
    (vocabulary, guide, judges): (&Vocabulary, &Guide, &mut Judges),
    random: &mut PythonRandom,
    masks: &mut u64,
) -> EngineResult<Ends> {
    for way in 0..WAYS {
        let mut matcher = loose.matcher.fork();
        match matcher.commit(token) {
            Ok(()) => {}
            // That is a contradiction, and P7's matter.
            Err(EngineError::Invalid { .. }) => return Ok(None),
            Err(error) => return Err(error),
        }
        let manner = if way == 0 {
            Manner::Shortest
        } else {
            Manner::Random
        };
        let walk = guide.walk(&mut *matcher, vocabulary, manner, random, MAX_STEPS)?;
        *masks += walk.tokens.len() as u64 + 1;
        if walk.end != End::Whole {
            continue;
        }
        let tokens: Vec<TokenId> = prefix
            .iter()
            .copied()
            .chain([token])
            .chain(walk.tokens.iter().copied())
            .collect();
        let bytes = vocabulary.decode(&tokens);
        let judged = judges.judge_bytes(&bytes);
        if judged != Judged::Open {
            return Ok(Some((bytes, walk.tokens, judged)));
        }
    }
    Ok(None)
}
