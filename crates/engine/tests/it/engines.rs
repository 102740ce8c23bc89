//! Every engine handles the shipped workloads of `fixtures/mask/workloads.jsonl`: it accepts valid
//! documents token by token and allows the end exactly at their end, it masks invalid
//! continuations, and caches, forks and rollbacks do not change masks.

mod continuations;
mod cut_answers;
mod departures;
mod refusals;
mod vocabulary;
mod workloads;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sobench_engine::cache::CompileCache;
use sobench_engine::guarded::GuardedEngine;
use sobench_engine::vocabulary::VocabularySource;
use sobench_engine::{
    Engine, EngineError, EngineName, EnginePolicy, Grammar, Matcher, TokenMask, Vocabulary,
};
use sobench_judge::{Evaluator, JudgeSettings};
use sobench_testkit::repository_path;

use departures::{Departure, KNOWN};
use workloads::{Workload, workloads};

/// A long timeout, so that a slow machine does not fail the tests.
const COMPILE_TIMEOUT: Duration = Duration::from_secs(3600);

/// An engine with its compile cache.
struct EngineUnderTest {
    name: EngineName,
    vocabulary: &'static Arc<Vocabulary>,
    compiled: CompileCache,
}

pub(crate) fn cl100k() -> &'static Arc<Vocabulary> {
    static SHARED: OnceLock<Arc<Vocabulary>> = OnceLock::new();
    SHARED.get_or_init(|| Arc::new(Vocabulary::cl100k().unwrap()))
}

/// The vocabulary of the fixtures with 600 ids.
pub(crate) fn small() -> &'static Arc<Vocabulary> {
    static SHARED: OnceLock<Arc<Vocabulary>> = OnceLock::new();
    let load = || {
        Arc::new(
            VocabularySource::File(repository_path("fixtures/tokenizer"))
                .load()
                .unwrap(),
        )
    };
    SHARED.get_or_init(load)
}

/// The engines of this build.
fn built_in_engines() -> impl Iterator<Item = EngineName> {
    EngineName::ALL
        .into_iter()
        .filter(|name| name.is_built_in())
}

pub(crate) fn open(name: EngineName, vocabulary: &Arc<Vocabulary>) -> Arc<dyn Engine> {
    let engine =
        sobench_engine::open_unguarded(name, vocabulary, &EnginePolicy::default()).unwrap();
    Arc::new(GuardedEngine::new(engine, COMPILE_TIMEOUT))
}

fn engines() -> &'static [EngineUnderTest] {
    static SHARED: OnceLock<Vec<EngineUnderTest>> = OnceLock::new();
    let engine = |name| {
        // Outlines walks the whole vocabulary for every state, which takes seconds per workload
        // with a large one.
        let vocabulary = if name == EngineName::Outlines {
            small()
        } else {
            cl100k()
        };
        EngineUnderTest {
            name,
            vocabulary,
            compiled: CompileCache::new(open(name, vocabulary), 256),
        }
    };
    SHARED.get_or_init(|| built_in_engines().map(engine).collect())
}

impl EngineUnderTest {
    /// Compiles the workload. `None` if the table of departures lists it as refused.
    fn compile(&self, workload: &Workload) -> Option<Arc<dyn Grammar>> {
        let compiled = self.compiled.compile(&workload.name, &workload.constraint);
        let refused = KNOWN
            .iter()
            .find(|known| known.engine == self.name && known.refuses(&workload.name));
        match (compiled, refused) {
            (Ok(grammar), None) => Some(grammar),
            (Err(EngineError::Unsupported { feature, message }), Some(_)) => {
                assert!(
                    !feature.is_empty() && !message.is_empty(),
                    "{:?} refuses {} without a message",
                    self.name,
                    workload.name
                );
                None
            }
            (Err(error), _) => panic!("{:?} refuses {}: {error:?}", self.name, workload.name),
            (Ok(_), Some(known)) => {
                panic!("no longer refused, remove it from the table: {known:?}")
            }
        }
    }

    fn matcher(&self, workload: &Workload) -> Option<Box<dyn Matcher>> {
        Some(self.compile(workload)?.matcher().unwrap())
    }

    fn mask(&self, matcher: &mut dyn Matcher) -> TokenMask {
        let mut mask = TokenMask::new(self.vocabulary.len());
        matcher.mask(&mut mask).unwrap();
        let end = mask.allows(self.vocabulary.eos());
        assert_eq!(
            end,
            matcher.is_accepting().unwrap(),
            "{:?}: the end is allowed exactly if the matcher is accepting",
            self.name
        );
        mask
    }

    /// Commits the text token by token. `is_complete` judges the text before each of them.
    fn walk(
        &self,
        matcher: &mut dyn Matcher,
        text: &str,
        mut is_complete: impl FnMut(&str) -> bool,
    ) -> Walk {
        let (mut committed, eos) = (0, self.vocabulary.eos());
        for token in self.vocabulary.encode(text) {
            let allowed = self.mask(matcher);
            let whole = text.get(..committed).is_some_and(&mut is_complete);
            match (allowed.allows(eos), whole) {
                (true, false) => return Walk::UnexpectedEnd(committed),
                (false, true) => return Walk::MissingEnd(committed),
                _ => {}
            }
            if !allowed.allows(token) {
                return Walk::StoppedAt(committed);
            }
            matcher.commit(token).unwrap();
            committed += self.vocabulary.bytes(token).len();
        }
        if !self.mask(matcher).allows(eos) {
            return Walk::StoppedAt(committed);
        }
        if !is_complete(text) {
            return Walk::UnexpectedEnd(committed);
        }
        matcher.commit(eos).unwrap();
        assert_eq!(
            self.mask(matcher).iter().collect::<Vec<_>>(),
            [eos],
            "after the end, only the end token is allowed"
        );
        Walk::Complete
    }
}

/// Result of a walk over a text.
#[derive(Debug, PartialEq, Eq)]
enum Walk {
    /// All tokens and the end were allowed.
    Complete,
    /// The next token after these bytes was not allowed, or the end if the whole text was
    /// committed.
    StoppedAt(usize),
    /// The end was allowed after these bytes although they are not a complete answer.
    UnexpectedEnd(usize),
    /// The end was not allowed after these bytes although they are a complete answer.
    MissingEnd(usize),
}

#[test]
fn valid_documents_are_accepted_and_invalid_ones_are_not() {
    let mut evaluator = Evaluator::new(JudgeSettings::default());
    let (mut failures, mut matched) = (Vec::new(), Vec::new());
    for engine in engines() {
        for workload in workloads() {
            let Some(grammar) = engine.compile(workload) else {
                continue;
            };
            for instance in &workload.instances {
                let constraint = evaluator.compile(&workload.constraint);
                let is_complete = |text: &str| constraint.accepts(text);
                let walked = engine.walk(
                    &mut *grammar.matcher().unwrap(),
                    &instance.text,
                    is_complete,
                );
                let as_expected = match walked {
                    Walk::Complete => instance.valid,
                    Walk::StoppedAt(_) => !instance.valid,
                    Walk::UnexpectedEnd(_) | Walk::MissingEnd(_) => false,
                };
                let known = KNOWN.iter().find(|known| {
                    known.engine == engine.name && known.is_about(workload, instance)
                });
                match known {
                    None if as_expected => {}
                    None => failures.push(format!(
                        "{:?}, {}, {:?}: {walked:?}",
                        engine.name, workload.name, instance.text
                    )),
                    Some(known) if as_expected => failures.push(format!(
                        "no longer departs, remove it from the table: {known:?}"
                    )),
                    Some(known) => matched.push(known),
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    for known in KNOWN.iter().filter(|known| {
        built_in_engines().any(|name| name == known.engine) && known.departure != Departure::Refuses
    }) {
        assert!(
            matched.iter().any(|matched| std::ptr::eq(*matched, known)),
            "matches no instance: {known:?}"
        );
    }
}

#[test]
fn a_cached_grammar_has_the_masks_of_a_cold_one() {
    for engine in engines() {
        for workload in workloads() {
            let Some(warm) = engine.compile(workload) else {
                continue;
            };
            let hits = engine.compiled.hits();
            let cached = engine.compile(workload).unwrap();
            assert!(Arc::ptr_eq(&warm, &cached) && engine.compiled.hits() > hits);
            let cold = engine
                .compiled
                .engine()
                .compile(&workload.constraint)
                .unwrap();
            let text = &workload
                .instances
                .iter()
                .find(|instance| instance.valid)
                .unwrap()
                .text;
            // Two from the cache: the second one uses the state that the first one has warmed.
            let mut matchers = [
                cold.matcher().unwrap(),
                cached.matcher().unwrap(),
                cached.matcher().unwrap(),
            ];
            for token in engine.vocabulary.encode(text) {
                let masks = matchers
                    .each_mut()
                    .map(|matcher| engine.mask(&mut **matcher));
                assert!(
                    masks[0] == masks[1] && masks[0] == masks[2],
                    "{:?}, {}",
                    engine.name,
                    workload.name
                );
                matchers
                    .iter_mut()
                    .for_each(|matcher| matcher.commit(token).unwrap());
            }
        }
    }
}

#[test]
fn forks_and_rollbacks_preserve_the_mask() {
    for engine in engines() {
        for workload in workloads() {
            let Some(mut matcher) = engine.matcher(workload) else {
                continue;
            };
            let location = format!("{:?}, {}", engine.name, workload.name);
            let text = &workload
                .instances
                .iter()
                .find(|instance| instance.valid)
                .unwrap()
                .text;
            let tokens = engine.vocabulary.encode(text);
            let (head, tail) = tokens.split_at(tokens.len() / 2);
            head.iter()
                .for_each(|&token| matcher.commit(token).unwrap());
            let before = engine.mask(&mut *matcher);
            let mut fork = matcher.fork();
            assert!(
                engine.mask(&mut *fork) == before,
                "{location}: a fork has the same mask"
            );
            tail.iter().for_each(|&token| fork.commit(token).unwrap());
            assert!(
                engine.mask(&mut *matcher) == before,
                "{location}: a fork is independent"
            );
            tail.iter()
                .for_each(|&token| matcher.commit(token).unwrap());
            let end = engine.mask(&mut *matcher);
            assert!(
                end == engine.mask(&mut *fork),
                "{location}: both reach the same state"
            );
            matcher.commit(engine.vocabulary.eos()).unwrap();
            matcher.rollback(1).unwrap();
            assert!(
                engine.mask(&mut *matcher) == end,
                "{location}: the end is rolled back"
            );
            matcher.commit(engine.vocabulary.eos()).unwrap();
            matcher.rollback(tail.len() + 1).unwrap();
            assert!(
                engine.mask(&mut *matcher) == before,
                "{location}: the tokens before it are rolled back"
            );
            matcher.rollback(0).unwrap();
            assert!(
                matcher.rollback(head.len() + 1).is_err(),
                "{location}: more than was committed"
            );
            tail.iter()
                .for_each(|&token| matcher.commit(token).unwrap());
            assert!(
                engine.mask(&mut *matcher) == end,
                "{location}: committed again"
            );
        }
    }
}

#[test]
fn a_refused_token_does_not_change_the_matcher() {
    for engine in engines() {
        for workload in workloads() {
            let Some(mut matcher) = engine.matcher(workload) else {
                continue;
            };
            let before = engine.mask(&mut *matcher);
            // No answer starts with this byte, the end or another special token.
            let wrong = engine.vocabulary.encode("\u{7f}")[0];
            let past = u32::try_from(engine.vocabulary.len()).unwrap();
            let special = engine.vocabulary.special().iter().map(|(id, _)| *id);
            for token in special.chain([wrong, past, u32::MAX]) {
                assert!(!before.allows(token));
                let refused = matcher.commit(token).unwrap_err();
                assert!(
                    matches!(refused, EngineError::Invalid { .. }),
                    "{:?}, {token}: {refused:?}",
                    engine.name
                );
                assert!(
                    engine.mask(&mut *matcher) == before,
                    "{:?}, {}, {token}",
                    engine.name,
                    workload.name
                );
            }
        }
    }
}
