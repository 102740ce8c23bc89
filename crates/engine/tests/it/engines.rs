//! Promise: every decoding engine keeps the shipped workloads of `fixtures/mask/workloads.jsonl`:
//! allowed documents pass token by token and may end at their end and only there, wrong
//! continuations are masked out, caches, forks and rollbacks change nothing.

mod continuations;
mod departures;
mod refusals;
mod vocabulary;
mod workloads;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sobench_core::verdict::Verdict;
use sobench_engine::cache::CompileCache;
use sobench_engine::guarded::GuardedEngine;
use sobench_engine::vocabulary::VocabularySource;
use sobench_engine::{
    self as engine, Engine, EngineError, EngineName, EnginePolicy, Grammar, Matcher, TokenMask,
    Vocabulary,
};
use sobench_judge::{EvaluateOptions, Evaluator};
use sobench_testkit::in_package;

use departures::{Departure, KNOWN};
use workloads::{Workload, workloads};

/// Compiles here take as long as they take: what a busy machine needs is no finding.
const PATIENCE: Duration = Duration::from_secs(3600);

/// An engine with what it has compiled so far.
struct Contestant {
    name: EngineName,
    vocabulary: &'static Arc<Vocabulary>,
    compiled: CompileCache,
}

pub(crate) fn cl100k() -> &'static Arc<Vocabulary> {
    static SHARED: OnceLock<Arc<Vocabulary>> = OnceLock::new();
    SHARED.get_or_init(|| Arc::new(Vocabulary::cl100k().unwrap()))
}

/// The small vocabulary of the fixtures, 600 ids.
pub(crate) fn small() -> &'static Arc<Vocabulary> {
    static SHARED: OnceLock<Arc<Vocabulary>> = OnceLock::new();
    let load = || {
        Arc::new(
            VocabularySource::File(in_package("fixtures/tokenizer"))
                .load()
                .unwrap(),
        )
    };
    SHARED.get_or_init(load)
}

/// The engines of this build.
fn names() -> impl Iterator<Item = EngineName> {
    EngineName::ALL
        .into_iter()
        .filter(|name| name.is_built_in())
}

pub(crate) fn open(name: EngineName, vocabulary: &Arc<Vocabulary>) -> Arc<dyn Engine> {
    let engine = engine::open_bare(name, vocabulary, &EnginePolicy::default()).unwrap();
    Arc::new(GuardedEngine::new(engine, PATIENCE))
}

fn contestants() -> &'static [Contestant] {
    static SHARED: OnceLock<Vec<Contestant>> = OnceLock::new();
    let contestant = |name| {
        // Outlines walks the whole vocabulary for every state, which takes it seconds a workload
        // with a large one.
        let vocabulary = if name == EngineName::Outlines {
            small()
        } else {
            cl100k()
        };
        Contestant {
            name,
            vocabulary,
            compiled: CompileCache::new(open(name, vocabulary), 256),
        }
    };
    SHARED.get_or_init(|| names().map(contestant).collect())
}

impl Contestant {
    /// The compiled workload; `None` for one that the table of departures says is refused.
    fn compile(&self, workload: &Workload) -> Option<Arc<dyn Grammar>> {
        let compiled = self.compiled.compile(&workload.name, &workload.constraint);
        let refused = KNOWN
            .iter()
            .find(|known| known.engine == self.name && known.refuses(&workload.name));
        match (compiled, refused) {
            (Ok(grammar), None) => Some(grammar),
            (Err(EngineError::Unsupported { feature, words }), Some(_)) => {
                assert!(
                    !feature.is_empty() && !words.is_empty(),
                    "{:?} refuses {} without a word",
                    self.name,
                    workload.name
                );
                None
            }
            (Err(error), _) => panic!("{:?} refuses {}: {error:?}", self.name, workload.name),
            (Ok(_), Some(known)) => panic!("no longer refused, take it off the table: {known:?}"),
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
            "{:?}: the end is allowed exactly where it is accepted",
            self.name
        );
        mask
    }

    /// Takes the text token by token. `is_whole` judges what stands before each of them.
    fn walk(
        &self,
        matcher: &mut dyn Matcher,
        text: &str,
        mut is_whole: impl FnMut(&str) -> bool,
    ) -> Walk {
        let (mut taken, eos) = (0, self.vocabulary.eos());
        for token in self.vocabulary.encode(text) {
            let allowed = self.mask(matcher);
            let whole = text.get(..taken).is_some_and(&mut is_whole);
            match (allowed.allows(eos), whole) {
                (true, false) => return Walk::EarlyEnd(taken),
                (false, true) => return Walk::NoEnd(taken),
                _ => {}
            }
            if !allowed.allows(token) {
                return Walk::Stopped(taken);
            }
            matcher.commit(token).unwrap();
            taken += self.vocabulary.bytes(token).len();
        }
        if !self.mask(matcher).allows(eos) {
            return Walk::Stopped(taken);
        }
        if !is_whole(text) {
            return Walk::EarlyEnd(taken);
        }
        matcher.commit(eos).unwrap();
        assert_eq!(
            self.mask(matcher).iter().collect::<Vec<_>>(),
            [eos],
            "after the end there is only the end"
        );
        Walk::Whole
    }
}

/// How far a text came.
#[derive(Debug, PartialEq, Eq)]
enum Walk {
    /// Every token was allowed, and the end after the last.
    Whole,
    /// After so many bytes the next token was not allowed; where it is the text's length, the end
    /// was not.
    Stopped(usize),
    /// After so many bytes the end was allowed although they are no whole answer.
    EarlyEnd(usize),
    /// After so many bytes the end was not allowed although they are one.
    NoEnd(usize),
}

#[test]
fn allowed_documents_pass_and_others_do_not() {
    let mut evaluator = Evaluator::new(EvaluateOptions::default());
    let (mut broken, mut departed) = (Vec::new(), Vec::new());
    for contestant in contestants() {
        for workload in workloads() {
            let Some(grammar) = contestant.compile(workload) else {
                continue;
            };
            for instance in &workload.instances {
                let is_whole = |text: &str| {
                    evaluator.judge_text(&workload.constraint, None, text) == Verdict::Valid
                };
                let walked =
                    contestant.walk(&mut *grammar.matcher().unwrap(), &instance.text, is_whole);
                let kept = match walked {
                    Walk::Whole => instance.valid,
                    Walk::Stopped(_) => !instance.valid,
                    Walk::EarlyEnd(_) | Walk::NoEnd(_) => false,
                };
                let known = KNOWN.iter().find(|known| {
                    known.engine == contestant.name && known.is_about(workload, instance)
                });
                match known {
                    None if kept => {}
                    None => broken.push(format!(
                        "{:?}, {}, {:?}: {walked:?}",
                        contestant.name, workload.name, instance.text
                    )),
                    Some(known) if kept => {
                        broken.push(format!("no longer so, take it off the table: {known:?}"))
                    }
                    Some(known) => departed.push(known),
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    for known in KNOWN.iter().filter(|known| {
        names().any(|name| name == known.engine) && known.departure != Departure::Refuses
    }) {
        assert!(
            departed
                .iter()
                .any(|departed| std::ptr::eq(*departed, known)),
            "matches no instance: {known:?}"
        );
    }
}

#[test]
fn a_grammar_from_the_cache_masks_as_a_cold_one() {
    for contestant in contestants() {
        for workload in workloads() {
            let Some(warm) = contestant.compile(workload) else {
                continue;
            };
            let hits = contestant.compiled.hits();
            let cached = contestant.compile(workload).unwrap();
            assert!(Arc::ptr_eq(&warm, &cached) && contestant.compiled.hits() > hits);
            let cold = contestant
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
            // Twice from the cache: the second answer finds what the first has warmed.
            let mut matchers = [
                cold.matcher().unwrap(),
                cached.matcher().unwrap(),
                cached.matcher().unwrap(),
            ];
            for token in contestant.vocabulary.encode(text) {
                let masks = matchers
                    .each_mut()
                    .map(|matcher| contestant.mask(&mut **matcher));
                assert!(
                    masks[0] == masks[1] && masks[0] == masks[2],
                    "{:?}, {}",
                    contestant.name,
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
fn forks_and_rollbacks_leave_the_mask_as_it_was() {
    for contestant in contestants() {
        for workload in workloads() {
            let Some(mut matcher) = contestant.matcher(workload) else {
                continue;
            };
            let place = format!("{:?}, {}", contestant.name, workload.name);
            let text = &workload
                .instances
                .iter()
                .find(|instance| instance.valid)
                .unwrap()
                .text;
            let tokens = contestant.vocabulary.encode(text);
            let (head, tail) = tokens.split_at(tokens.len() / 2);
            head.iter()
                .for_each(|&token| matcher.commit(token).unwrap());
            let before = contestant.mask(&mut *matcher);
            let mut fork = matcher.fork();
            assert!(
                contestant.mask(&mut *fork) == before,
                "{place}: a fork stands where it came from"
            );
            tail.iter().for_each(|&token| fork.commit(token).unwrap());
            assert!(
                contestant.mask(&mut *matcher) == before,
                "{place}: a fork goes its own way"
            );
            tail.iter()
                .for_each(|&token| matcher.commit(token).unwrap());
            let end = contestant.mask(&mut *matcher);
            assert!(
                end == contestant.mask(&mut *fork),
                "{place}: both came to the same end"
            );
            matcher.commit(contestant.vocabulary.eos()).unwrap();
            matcher.rollback(1).unwrap();
            assert!(
                contestant.mask(&mut *matcher) == end,
                "{place}: the end is taken back"
            );
            matcher.commit(contestant.vocabulary.eos()).unwrap();
            matcher.rollback(tail.len() + 1).unwrap();
            assert!(
                contestant.mask(&mut *matcher) == before,
                "{place}: and with it what stood before"
            );
            matcher.rollback(0).unwrap();
            assert!(
                matcher.rollback(head.len() + 1).is_err(),
                "{place}: more than was taken"
            );
            tail.iter()
                .for_each(|&token| matcher.commit(token).unwrap());
            assert!(
                contestant.mask(&mut *matcher) == end,
                "{place}: again to the end"
            );
        }
    }
}

#[test]
fn a_refused_token_leaves_the_matcher_as_it_was() {
    for contestant in contestants() {
        for workload in workloads() {
            let Some(mut matcher) = contestant.matcher(workload) else {
                continue;
            };
            let before = contestant.mask(&mut *matcher);
            // No answer begins with these: neither with the byte nor with the end or another
            // special token.
            let wrong = contestant.vocabulary.encode("\u{7f}")[0];
            let past = u32::try_from(contestant.vocabulary.len()).unwrap();
            let special = contestant.vocabulary.special().iter().map(|(id, _)| *id);
            for token in special.chain([wrong, past, u32::MAX]) {
                assert!(!before.allows(token));
                let refused = matcher.commit(token).unwrap_err();
                assert!(
                    matches!(refused, EngineError::Invalid { .. }),
                    "{:?}, {token}: {refused:?}",
                    contestant.name
                );
                assert!(
                    contestant.mask(&mut *matcher) == before,
                    "{:?}, {}, {token}",
                    contestant.name,
                    workload.name
                );
            }
        }
    }
}
