//! Stepping through a grammar that llguidance compiled. Knows of the vocabulary how many ids it
//! has, and which one is the end.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use llguidance::Matcher as LlMatcher;

use super::words::{classified, is_of_broken_lexer};
use crate::{
    EngineError, Grammar, Matcher, TokenId, TokenMask, Vocabulary, check_rollback, token_taken,
};

/// Copies of a grammar's lexer at most; fewer where the machine has fewer threads. Matchers of one
/// copy share its automaton, which grows as it is used, behind one lock: sharing keeps masks warm,
/// several copies keep threads from waiting for each other.
const MAX_LEXER_COPIES: usize = 16;

/// Matchers that a lexer copy serves before a fresh one takes its place, so that its automaton
/// cannot grow for ever.
const MATCHERS_PER_LEXER: usize = 4096;

/// A compiled grammar. Its size is not told: the library counts its lexer's tables only, and those
/// grow with use.
pub(super) struct GuidanceGrammar(Arc<Core>);

impl GuidanceGrammar {
    /// Takes a matcher that stands at the start and shares nothing with any other.
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

/// A compiled grammar: one matcher that never takes a step, and copies of it whose lexers are in
/// use.
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
    /// Matchers that are alive on this copy, which itself counts as one.
    fn users(&self) -> usize {
        Arc::strong_count(&self.health)
    }

    fn is_spent(&self) -> bool {
        self.health.broken.load(Ordering::SeqCst)
            || self.health.served.load(Ordering::Relaxed) >= MATCHERS_PER_LEXER
    }
}

impl Core {
    fn fresh(&self) -> LexerCopy {
        let pristine = self.pristine.lock().unwrap_or_else(PoisonError::into_inner);
        LexerCopy {
            matcher: pristine.deep_clone(),
            health: Arc::default(),
        }
    }

    /// A matcher at the start, sharing the lexer of the copy with the fewest users. One answer
    /// after the other thus stays on the first copy and finds it warm.
    fn start(&self) -> LexerCopy {
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        let idlest = copies
            .iter_mut()
            .min_by_key(|slot| slot.as_ref().map_or(1, LexerCopy::users));
        let slot = idlest.expect("there is at least one copy");
        let copy = match slot {
            Some(copy) if !copy.is_spent() => copy,
            _ => slot.insert(self.fresh()),
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
    /// What was committed, without the end token: to start again on a fresh lexer when ours broke.
    tokens: Vec<TokenId>,
    ended: bool,
}

impl GuidanceMatcher {
    /// Runs a step. If the shared lexer is broken, moves to a fresh one and runs the step again:
    /// another matcher's panic may have poisoned it, or more steps than its effort is meant for may
    /// have come without a mask, which alone renews that.
    fn run<T, E: Display>(
        &mut self,
        step: impl Fn(&mut LlMatcher) -> Result<T, E>,
    ) -> Result<T, EngineError> {
        let result = match self.run_once(&step) {
            Err(error) if is_of_broken_lexer(&error) => {
                self.copy = self.core.start();
                self.catch_up().and_then(|()| self.run_once(&step))
            }
            result => result,
        };
        result.map_err(|error| classified(&error))
    }

    /// Runs a step; nobody starts any more on a lexer that it breaks.
    fn run_once<T, E: Display>(
        &mut self,
        step: impl Fn(&mut LlMatcher) -> Result<T, E>,
    ) -> Result<T, String> {
        step(&mut self.copy.matcher).map_err(|error| {
            let error = error.to_string();
            if is_of_broken_lexer(&error)
                || matches!(classified(&error), EngineError::Crashed { .. })
            {
                self.copy.health.broken.store(true, Ordering::SeqCst);
            }
            error
        })
    }

    /// Commits everything again on a matcher at the start, masked at every step as an answer is.
    fn catch_up(&mut self) -> Result<(), String> {
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

/// Tries to take a token: whether it was taken. Where its lexer is broken the library refuses every
/// token, and says so only when made to take one.
fn took(matcher: &mut LlMatcher, token: TokenId) -> Result<bool, String> {
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
        .filter(|error| is_of_broken_lexer(error))
        .map_or(Ok(false), Err)
}

impl Matcher for GuidanceMatcher {
    fn mask(&mut self, mask: &mut TokenMask) -> Result<(), EngineError> {
        if self.ended {
            mask.only(self.core.eos);
            return Ok(());
        }
        mask.replace(self.run(LlMatcher::compute_mask_or_eos)?.into());
        Ok(())
    }

    fn commit(&mut self, token: TokenId) -> Result<(), EngineError> {
        // The library gives up a matcher that is asked about an id past the vocabulary.
        let taken = if self.ended || token as usize >= self.core.ids {
            false
        } else if token == self.core.eos {
            // Kept here and not told to the library, which would take some ends into its history
            // and others not.
            self.ended = self.is_accepting()?;
            self.ended
        } else {
            self.run(|matcher| took(matcher, token))?
        };
        if taken && !self.ended {
            self.tokens.push(token);
        }
        token_taken(taken, token)
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
        let held = self.tokens.len() + usize::from(self.ended);
        check_rollback(tokens, held)?;
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

    /// Two copies of the lexer, whatever the machine.
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

    fn take(matcher: &mut GuidanceMatcher, text: &str) {
        shared()
            .encode(text)
            .into_iter()
            .for_each(|token| matcher.commit(token).unwrap());
    }

    #[test]
    fn a_neighbour_that_crashes_the_shared_lexer_does_no_harm() {
        let grammar = grammar("[ab]{8}c");
        let mut matchers: Vec<GuidanceMatcher> = (0..=COPIES).map(|_| grammar.start()).collect();
        let mut rogue = matchers.pop().unwrap();
        matchers
            .iter_mut()
            .for_each(|matcher| take(matcher, "abba"));
        let before: Vec<TokenMask> = matchers.iter_mut().map(mask).collect();
        let error = rogue.run(LlMatcher::test_trigger_lexer_error).unwrap_err();
        assert_eq!(
            error,
            EngineError::Crashed {
                words: "panic: synthetic error".into()
            }
        );
        // The first has shared its lexer with the rogue.
        assert!(matchers[0].copy.health.broken.load(Ordering::SeqCst));
        let mut fork = matchers[0].clone();
        for (matcher, before) in matchers.iter_mut().zip(&before) {
            assert_eq!(&mask(matcher), before);
            take(matcher, "baab");
            assert_eq!(matcher.is_accepting(), Ok(false));
            take(matcher, "c");
            assert_eq!(matcher.is_accepting(), Ok(true));
        }
        assert_eq!(mask(&mut fork), before[0]);
        take(&mut grammar.start(), "abbabbabc");
    }

    #[test]
    fn tokens_that_come_without_masks_lead_where_they_do_with_masks() {
        let schema = serde_json::json!({"type": "string", "maxLength": 300, "pattern": r"^(?:\S+\s+){0,29}\S+$"});
        let parser = engine()
            .factory
            .create_parser(TopLevelGrammar::from_json_schema(schema));
        let grammar = GuidanceGrammar::with_copies(LlMatcher::new(parser), &shared(), COPIES);
        let text = format!("\"{}", "some words and others ".repeat(7));
        let (mut masked, mut unmasked) = (grammar.start(), grammar.start());
        assert_eq!(mask(&mut masked), mask(&mut unmasked));
        let [of_masked, of_unmasked] = [&masked, &unmasked].map(|it| Arc::clone(&it.copy.health));
        for token in shared().encode(&text) {
            masked.commit(token).unwrap();
            mask(&mut masked);
            unmasked.commit(token).unwrap();
        }
        assert_eq!(mask(&mut masked), mask(&mut unmasked));
        let is_broken = |health: &Health| health.broken.load(Ordering::SeqCst);
        assert!(is_broken(&of_unmasked) && !is_broken(&of_masked));
        assert!(
            !is_broken(&grammar.start().copy.health),
            "what broke serves nobody"
        );
    }

    #[test]
    fn a_lexer_is_replaced_after_so_many_matchers() {
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

    /// What the lexer under this matcher has spent since it was made, the mask of this state
    /// included.
    fn lexer_cost(matcher: &mut GuidanceMatcher) -> u64 {
        mask(matcher);
        matcher.copy.matcher.last_step_stats().unwrap().lexer_cost
    }

    #[test]
    fn answers_one_after_the_other_share_a_warm_lexer_and_a_new_compile_is_cold() {
        let compile = || grammar(r"(a|bc)+d{3,7}[x-z]+@\w+\.com");
        let first = compile();
        let cold = lexer_cost(&mut first.start());
        let mut answer = first.start();
        take(&mut answer, "aabcddddxyz");
        let warm = lexer_cost(&mut answer);
        assert!(warm > cold, "{warm} after {cold}");
        drop(answer);
        let (mut one, mut other) = (first.start(), first.start());
        assert_eq!(
            (lexer_cost(&mut one), lexer_cost(&mut other)),
            (warm, cold),
            "two at once do not share"
        );
        assert_eq!(mask(&mut one), mask(&mut other));
        assert_eq!(
            lexer_cost(&mut compile().start()),
            cold,
            "nothing outlives a compiled constraint"
        );
    }
}
