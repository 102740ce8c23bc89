//! Matcher for grammars compiled by llguidance.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use llguidance::Matcher as LlMatcher;

use super::errors::{classify, is_lexer_failure};
use crate::{
    EngineError, Grammar, Matcher, TokenId, TokenMask, Vocabulary, check_rollback, commit_result,
};

/// Maximum number of copies of a grammar's lexer. Fewer on machines with fewer threads. Matchers of
/// one copy share its automaton, which grows with use, behind one lock: sharing keeps masks warm,
/// and several copies reduce lock contention.
const MAX_LEXER_COPIES: usize = 16;

/// Number of matchers after which a lexer copy is replaced, to limit the growth of its automaton.
const MATCHERS_PER_LEXER: usize = 4096;

/// A compiled grammar. It reports no size: the library counts only the lexer's tables, which grow
/// with use.
pub(super) struct GuidanceGrammar(Arc<Core>);

impl GuidanceGrammar {
    /// Takes a matcher in the start state that shares no lexer with other matchers.
    pub(super) fn new(pristine: LlMatcher, vocabulary: &Vocabulary) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self::with_copies(pristine, vocabulary, threads.min(MAX_LEXER_COPIES))
    }

    fn with_copies(pristine: LlMatcher, vocabulary: &Vocabulary, copies: usize) -> Self {
        let (ids, eos) = (vocabulary.len(), vocabulary.eos());
        Self(Arc::new(Core {
            pristine: Mutex::new(pristine),
            copies: Mutex::new(vec![None; copies]),
            ids,
            eos,
        }))
    }

    fn start(&self) -> GuidanceMatcher {
        GuidanceMatcher {
            core: Arc::clone(&self.0),
            copy: self.0.start(),
            tokens: Vec::new(),
            ended: false,
        }
    }
}

/// A matcher that stays in the start state, and the lexer copies in use.
struct Core {
    pristine: Mutex<LlMatcher>,
    copies: Mutex<Vec<Option<LexerCopy>>>,
    ids: usize,
    eos: TokenId,
}

#[derive(Clone)]
struct LexerCopy {
    matcher: LlMatcher,
    health: Arc<Health>,
}

#[derive(Default)]
struct Health {
    broken: AtomicBool,
    served: AtomicUsize,
}

impl LexerCopy {
    /// Number of live matchers on this copy, the copy itself included.
    fn users(&self) -> usize {
        Arc::strong_count(&self.health)
    }

    fn needs_replacement(&self) -> bool {
        self.health.broken.load(Ordering::SeqCst)
            || self.health.served.load(Ordering::Relaxed) >= MATCHERS_PER_LEXER
    }
}

impl Core {
    fn new_copy(&self) -> LexerCopy {
        let pristine = self.pristine.lock().unwrap_or_else(PoisonError::into_inner);
        LexerCopy {
            matcher: pristine.deep_clone(),
            health: Arc::default(),
        }
    }

    /// Returns a matcher in the start state on the lexer copy with the fewest users. Sequential
    /// answers therefore use the first copy, which is warm.
    fn start(&self) -> LexerCopy {
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        let least_used = copies
            .iter_mut()
            .min_by_key(|slot| slot.as_ref().map_or(1, LexerCopy::users));
        let slot = least_used.expect("there is at least one copy");
        let copy = match slot {
            Some(copy) if !copy.needs_replacement() => copy,
            _ => slot.insert(self.new_copy()),
        };
        copy.health.served.fetch_add(1, Ordering::Relaxed);
        copy.clone()
    }
}

impl Grammar for GuidanceGrammar {
    fn matcher(&self) -> Result<Box<dyn Matcher>, EngineError> {
        Ok(Box::new(self.start()))
    }
}

#[derive(Clone)]
struct GuidanceMatcher {
    core: Arc<Core>,
    copy: LexerCopy,
    /// Committed tokens without the end token, to replay them on a fresh lexer after a failure.
    tokens: Vec<TokenId>,
    ended: bool,
}

impl GuidanceMatcher {
    /// Runs a step. If the shared lexer is broken, switches to a fresh one and runs the step again.
    /// The lexer can be poisoned by another matcher's panic, or run out of its effort limit after
    /// many steps without a mask: only a mask renews the limit.
    fn run<T, E: Display>(
        &mut self,
        step: impl Fn(&mut LlMatcher) -> Result<T, E>,
    ) -> Result<T, EngineError> {
        let result = match self.run_once(&step) {
            Err(error) if is_lexer_failure(&error) => {
                self.copy = self.core.start();
                self.replay().and_then(|()| self.run_once(&step))
            }
            result => result,
        };
        result.map_err(|error| classify(&error))
    }

    /// Runs a step, and marks the lexer copy as broken if the step breaks it.
    fn run_once<T, E: Display>(
        &mut self,
        step: impl Fn(&mut LlMatcher) -> Result<T, E>,
    ) -> Result<T, String> {
        step(&mut self.copy.matcher).map_err(|error| {
            let error = error.to_string();
            if is_lexer_failure(&error) || matches!(classify(&error), EngineError::Crashed { .. }) {
                self.copy.health.broken.store(true, Ordering::SeqCst);
            }
            error
        })
    }

    /// Replays the committed tokens on a matcher in the start state, computing a mask before each
    /// one.
    fn replay(&mut self) -> Result<(), String> {
        for token in self.tokens.clone() {
            self.run_once(|matcher| {
                matcher
                    .compute_mask_or_eos()
                    .and_then(|_| matcher.consume_token(token))
            })?;
        }
        Ok(())
    }
}

/// Tries to consume a token and returns whether it was accepted. With a broken lexer, the library
/// rejects every token without an error; only a forced `consume_token` reports the failure.
fn try_consume(matcher: &mut LlMatcher, token: TokenId) -> Result<bool, String> {
    if matcher
        .try_consume_tokens(&[token])
        .map_err(|error| error.to_string())?
        == 1
    {
        return Ok(true);
    }
    let forced = matcher
        .clone()
        .consume_token(token)
        .map_err(|error| error.to_string());
    forced
        .err()
        .filter(|error| is_lexer_failure(error))
        .map_or(Ok(false), Err)
}

impl Matcher for GuidanceMatcher {
    fn mask(&mut self, mask: &mut TokenMask) -> Result<(), EngineError> {
        if self.ended {
            mask.set_only(self.core.eos);
            return Ok(());
        }
        mask.set_words(self.run(LlMatcher::compute_mask_or_eos)?.into());
        Ok(())
    }

    fn commit(&mut self, token: TokenId) -> Result<(), EngineError> {
        // The library fails a matcher on an id past the vocabulary.
        let accepted = if self.ended || token as usize >= self.core.ids {
            false
        } else if token == self.core.eos {
            // Tracked here and not passed to the library, which records some end tokens in its
            // history and others not.
            self.ended = self.is_accepting()?;
            self.ended
        } else {
            self.run(|matcher| try_consume(matcher, token))?
        };
        if accepted && !self.ended {
            self.tokens.push(token);
        }
        commit_result(accepted, token)
    }

    fn is_accepting(&mut self) -> Result<bool, EngineError> {
        if self.ended {
            Ok(true)
        } else {
            self.run(LlMatcher::is_accepting)
        }
    }

    fn forced_tokens(&mut self) -> Vec<TokenId> {
        if self.ended {
            return Vec::new();
        }
        self.run(|matcher| Ok::<_, EngineError>(matcher.compute_ff_tokens()))
            .unwrap_or_default()
    }

    fn rollback(&mut self, tokens: usize) -> Result<(), EngineError> {
        let committed = self.tokens.len() + usize::from(self.ended);
        check_rollback(tokens, committed)?;
        let inner = tokens - usize::from(self.ended && tokens > 0);
        self.run(|matcher| matcher.rollback(inner))?;
        self.tokens.truncate(self.tokens.len() - inner);
        self.ended &= tokens == 0;
        Ok(())
    }

    fn fork(&self) -> Box<dyn Matcher> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use llguidance::api::TopLevelGrammar;

    use super::*;
    use crate::guidance::tests::engine;
    use crate::vocabulary::shared;

    /// Two copies of the lexer on every machine.
    const COPIES: usize = 2;

    fn grammar(regex: &str) -> GuidanceGrammar {
        let parser = engine()
            .factory
            .create_parser(TopLevelGrammar::from_regex(regex));
        GuidanceGrammar::with_copies(LlMatcher::new(parser), &shared(), COPIES)
    }

    fn mask(matcher: &mut GuidanceMatcher) -> TokenMask {
        let mut mask = TokenMask::default();
        matcher.mask(&mut mask).unwrap();
        mask
    }

    fn commit_text(matcher: &mut GuidanceMatcher, text: &str) {
        shared()
            .encode(text)
            .into_iter()
            .for_each(|token| matcher.commit(token).unwrap());
    }

    #[test]
    fn a_crash_of_the_shared_lexer_does_not_affect_other_matchers() {
        let grammar = grammar("[ab]{8}c");
        let mut matchers: Vec<GuidanceMatcher> = (0..=COPIES).map(|_| grammar.start()).collect();
        let mut rogue = matchers.pop().unwrap();
        matchers
            .iter_mut()
            .for_each(|matcher| commit_text(matcher, "abba"));
        let before: Vec<TokenMask> = matchers.iter_mut().map(mask).collect();
        let error = rogue.run(LlMatcher::test_trigger_lexer_error).unwrap_err();
        assert_eq!(
            error,
            EngineError::Crashed {
                message: "panic: synthetic error".into()
            }
        );
        // The first matcher shares its lexer with the rogue.
        assert!(matchers[0].copy.health.broken.load(Ordering::SeqCst));
        let mut fork = matchers[0].clone();
        for (matcher, before) in matchers.iter_mut().zip(&before) {
            assert_eq!(&mask(matcher), before);
            commit_text(matcher, "baab");
            assert_eq!(matcher.is_accepting(), Ok(false));
            commit_text(matcher, "c");
            assert_eq!(matcher.is_accepting(), Ok(true));
        }
        assert_eq!(mask(&mut fork), before[0]);
        commit_text(&mut grammar.start(), "abbabbabc");
    }

    #[test]
    fn commits_without_masks_reach_the_same_state() {
        let schema = serde_json::json!({"type": "string", "maxLength": 300, "pattern": r"^(?:\S+\s+){0,29}\S+$"});
        let parser = engine()
            .factory
            .create_parser(TopLevelGrammar::from_json_schema(schema));
        let grammar = GuidanceGrammar::with_copies(LlMatcher::new(parser), &shared(), COPIES);
        let text = format!("\"{}", "some words and others ".repeat(7));
        let (mut masked, mut unmasked) = (grammar.start(), grammar.start());
        assert_eq!(mask(&mut masked), mask(&mut unmasked));
        let [masked_health, unmasked_health] =
            [&masked, &unmasked].map(|matcher| Arc::clone(&matcher.copy.health));
        for token in shared().encode(&text) {
            masked.commit(token).unwrap();
            mask(&mut masked);
            unmasked.commit(token).unwrap();
        }
        assert_eq!(mask(&mut masked), mask(&mut unmasked));
        let is_broken = |health: &Health| health.broken.load(Ordering::SeqCst);
        assert!(is_broken(&unmasked_health) && !is_broken(&masked_health));
        assert!(
            !is_broken(&grammar.start().copy.health),
            "a broken lexer is not reused"
        );
    }

    #[test]
    fn a_lexer_copy_is_replaced_after_its_limit_of_matchers() {
        let grammar = grammar("a+");
        let first = grammar.start();
        first
            .copy
            .health
            .served
            .store(MATCHERS_PER_LEXER, Ordering::SeqCst);
        let later: Vec<GuidanceMatcher> = (0..2 * COPIES).map(|_| grammar.start()).collect();
        assert!(
            later
                .iter()
                .all(|matcher| !Arc::ptr_eq(&matcher.copy.health, &first.copy.health))
        );
    }

    /// Effort that the lexer of this matcher has spent since its creation, including the mask of
    /// this state.
    fn lexer_cost(matcher: &mut GuidanceMatcher) -> u64 {
        mask(matcher);
        matcher.copy.matcher.last_step_stats().unwrap().lexer_cost
    }

    #[test]
    fn sequential_answers_share_a_warm_lexer_and_a_new_compile_is_cold() {
        let compile = || grammar(r"(a|bc)+d{3,7}[x-z]+@\w+\.com");
        let first = compile();
        let cold = lexer_cost(&mut first.start());
        let mut answer = first.start();
        commit_text(&mut answer, "aabcddddxyz");
        let warm = lexer_cost(&mut answer);
        assert!(warm > cold, "{warm} after {cold}");
        drop(answer);
        let (mut one, mut other) = (first.start(), first.start());
        assert_eq!(
            (lexer_cost(&mut one), lexer_cost(&mut other)),
            (warm, cold),
            "concurrent matchers do not share"
        );
        assert_eq!(mask(&mut one), mask(&mut other));
        assert_eq!(
            lexer_cost(&mut compile().start()),
            cold,
            "the lexer belongs to the compiled constraint"
        );
    }
}
