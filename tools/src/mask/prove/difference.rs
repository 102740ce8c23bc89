//! P5: a token that one engine allows and another refuses, resolved by completing the text with the
//! first engine.

use std::collections::HashSet;

use super::EngineResult;
use super::finding::{Finding, Origin, Proof};
use super::json_prefix::JsonPrefix;
use super::mask_walk::{WalkEnd, WalkGuide, WalkStrategy};
use super::oracles::{Judgement, Oracles};
use sobench_engine::{EngineError, EngineName, Matcher, TokenId, TokenMask, Vocabulary};
use sobench_pycompat::random::PythonRandom;

/// Maximum tokens resolved per difference, one per first byte.
const MAX_TOKENS: usize = 4;

/// Attempts to complete a text: the shortest completion first, then random ones.
const MAX_ATTEMPTS: usize = 3;

/// Maximum masks per attempt.
const MAX_STEPS: usize = 64;

/// Maximum resolutions of the same difference at the same kind of position per entry.
const MAX_PER_KIND: usize = 2;

/// An engine after the same tokens as another engine.
pub(super) struct EngineAtPrefix<'a> {
    pub(super) engine: EngineName,
    pub(super) matcher: &'a dyn Matcher,
    pub(super) mask: &'a TokenMask,
}

/// Resolved differences of an entry: both engines, the kind of position, the token's first byte,
/// and the repetition.
#[derive(Debug, Default)]
pub(super) struct AttemptLimits(HashSet<(EngineName, EngineName, &'static str, Option<u8>, usize)>);

impl AttemptLimits {
    fn is_exhausted(
        &mut self,
        one: EngineName,
        other: EngineName,
        place: &'static str,
        first: Option<u8>,
    ) -> bool {
        !(0..MAX_PER_KIND).any(|time| self.0.insert((one, other, place, first, time)))
    }
}

/// The resolved differences at one position.
#[derive(Debug, Default)]
pub(super) struct ResolvedDifferences {
    /// Findings, each with whether it concerns the other engine.
    pub(super) findings: Vec<(bool, Finding)>,
    /// Tokens without a completion that all oracles agree on.
    pub(super) unresolved: u64,
    /// Masks used for completions.
    pub(super) masks: u64,
}

/// Resolves the tokens that `loose` allows and `strict` refuses after `prefix`. Either engine may
/// be the wrong one.
///
/// # Errors
/// An error of the first engine.
pub(super) fn resolve_differences(
    loose: &EngineAtPrefix<'_>,
    (strict, strict_mask): (EngineName, &TokenMask),
    (prefix, origin): (&[TokenId], Origin),
    (vocabulary, guide, oracles): (&Vocabulary, &WalkGuide, &mut Oracles),
    random: &mut PythonRandom,
    tried: &mut AttemptLimits,
) -> EngineResult<ResolvedDifferences> {
    let mut resolved = ResolvedDifferences::default();
    let place =
        JsonPrefix::after(&vocabulary.decode(prefix)).map_or("", |state| state.position_name());
    for token in differing_tokens(loose.mask, strict_mask, vocabulary) {
        if tried.is_exhausted(
            loose.engine,
            strict,
            place,
            vocabulary.bytes(token).first().copied(),
        ) {
            continue;
        }
        let ends = resolve_token(
            loose,
            (prefix, token),
            (vocabulary, guide, &mut *oracles),
            random,
            &mut resolved.masks,
        )?;
        let Some((bytes, tail, judged)) = ends else {
            resolved.unresolved += 1;
            continue;
        };
        let (proof, is_about_other, breaks) = match judged {
            Judgement::Violates { rule } => (Proof::DiffersLoose, false, Some(rule)),
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
        resolved.findings.push((is_about_other, finding));
    }
    Ok(resolved)
}

/// Tokens in one mask but not in the other, one per first byte, in order of their ids.
fn differing_tokens(
    loose: &TokenMask,
    strict: &TokenMask,
    vocabulary: &Vocabulary,
) -> Vec<TokenId> {
    let (mut differing_tokens, mut first_bytes) = (Vec::new(), Vec::new());
    for token in loose
        .difference(strict)
        .iter()
        .filter(|token| *token != vocabulary.eos())
    {
        let Some(first) = vocabulary.bytes(token).first() else {
            continue;
        };
        if !first_bytes.contains(first) {
            first_bytes.push(*first);
            differing_tokens.push(token);
        }
        if differing_tokens.len() == MAX_TOKENS {
            break;
        }
    }
    differing_tokens
}

/// A complete text, the tokens after the differing one, and the judgement; `None` without a text
/// that the oracles agree on.
type Completion = Option<(Vec<u8>, Vec<TokenId>, Judgement)>;

fn resolve_token(
    loose: &EngineAtPrefix<'_>,
    (prefix, token): (&[TokenId], TokenId),
    (vocabulary, guide, oracles): (&Vocabulary, &WalkGuide, &mut Oracles),
    random: &mut PythonRandom,
    masks: &mut u64,
) -> EngineResult<Completion> {
    for attempt in 0..MAX_ATTEMPTS {
        let mut matcher = loose.matcher.fork();
        match matcher.commit(token) {
            Ok(()) => {}
            // P7 covers this contradiction.
            Err(EngineError::Invalid { .. }) => return Ok(None),
            Err(error) => return Err(error),
        }
        let strategy = if attempt == 0 {
            WalkStrategy::Shortest
        } else {
            WalkStrategy::Random
        };
        let walk = guide.walk(&mut *matcher, vocabulary, strategy, random, MAX_STEPS)?;
        *masks += walk.tokens.len() as u64 + 1;
        if walk.end != WalkEnd::Complete {
            continue;
        }
        let tokens: Vec<TokenId> = prefix
            .iter()
            .copied()
            .chain([token])
            .chain(walk.tokens.iter().copied())
            .collect();
        let bytes = vocabulary.decode(&tokens);
        let judged = oracles.judge_bytes(&bytes);
        if judged != Judgement::Undecided {
            return Ok(Some((bytes, walk.tokens, judged)));
        }
    }
    Ok(None)
}
