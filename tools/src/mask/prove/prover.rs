//! Searches one entry for errors of several engines.
//!
//! In this order, each within its share of the budget: instances of the corpus, their mutants,
//! walks through each engine's masks, differences between engines, contradictions and rollbacks. The
//! result depends only on the seed and the budget, which counts masks, not time.

use std::sync::Arc;

use serde_json::Value;

use super::difference::{AttemptLimits, EngineAtPrefix, resolve_differences};
use super::engine_session::{EngineSession, ProofEngine, Proved};
use super::explain::accepts_text;
use super::finding::{Finding, Mutation, Origin, Proof};
use super::mask_checks::{CheckedWalk, ConstraintContext, WalkText, check_masks_along};
use super::mask_walk::{WalkEnd, WalkGuide, WalkStrategy};
use super::mutant::{Mutant, mutants};
use super::oracles::Judgement;
use super::sorted_vocabulary::SortedVocabulary;
use super::{consistency, dead_end, rollback};
use crate::mask::corpus::{Content, Entry};
use crate::mask::plan::Effort;
use crate::mask::spelling::spell_compact;
use sobench_core::constraint::Constraint;
use sobench_engine::{EngineName, Matcher, TokenId, TokenMask, Vocabulary};
use sobench_pycompat::random::PythonRandom;

/// Instances per entry that are rewritten.
const MAX_REWRITTEN: usize = 3;

/// JSON values of a structural tag per instance that are rewritten.
const MAX_REWRITTEN_PARTS: usize = 2;

/// Walks through each engine's own masks.
const WALKS: u64 = 8;

/// Maximum masks of one walk.
const WALK_STEPS: usize = 96;

/// Positions of an instance at which each engine is checked for consistency.
const PLACES: usize = 3;

/// One in this many entries is compiled again to compare its masks.
const COMPILED_AGAIN: usize = 4;

/// Cumulative shares of the budget in percent: instances, mutants, walks, differences.
const INSTANCES: u64 = 25;
const MUTANTS: u64 = 50;
const WALKED: u64 = 75;
const DIFFERENCES: u64 = 95;

/// Lookup tables of a vocabulary, shared by all entries of a worker.
pub(crate) struct VocabularyTools<'a> {
    pub(crate) vocabulary: &'a Vocabulary,
    pub(crate) sorted: &'a SortedVocabulary,
    pub(crate) guide: &'a WalkGuide,
    /// The same for the vocabulary of bytes.
    pub(crate) by_bytes: Option<&'a VocabularyTools<'a>>,
}

/// Receives the progress of a search.
pub(crate) trait ProofObserver {
    /// This engine runs now; `None` for the oracles.
    fn engine_changed(&mut self, engine: Option<EngineName>);
    /// Intermediate results of an engine.
    fn so_far(&mut self, engine: EngineName, proved: &Proved);
}

/// Searches for errors of each engine, in the given order.
pub(crate) fn prove(
    engines: &[&ProofEngine],
    tools: &VocabularyTools<'_>,
    entry: &Entry,
    effort: Effort,
    observer: &mut dyn ProofObserver,
) -> Vec<(EngineName, Proved)> {
    observer.engine_changed(None);
    let constraint = Arc::new(entry.constraint.clone());
    let mut context = ConstraintContext::new(tools.vocabulary, tools.sorted, &constraint);
    let session = |engine: &&ProofEngine| {
        observer.engine_changed(Some(engine.name));
        EngineSession::new(engine, &constraint)
    };
    let sessions = engines.iter().map(session).collect();
    let mut prover = EntryProver {
        tools,
        entry,
        effort,
        constraint,
        context: &mut context,
        sessions,
        observer,
        texts: Vec::new(),
        first: None,
    };
    for phase in [
        EntryProver::check_instances,
        EntryProver::check_mutants,
        EntryProver::run_walks,
        EntryProver::compare_engines,
        EntryProver::check_consistency,
    ] {
        phase(&mut prover);
        prover.report_progress();
    }
    prover
        .sessions
        .into_iter()
        .map(|session| (session.name, session.proved))
        .collect()
}

struct EntryProver<'a, 'g> {
    tools: &'a VocabularyTools<'a>,
    entry: &'a Entry,
    effort: Effort,
    constraint: Arc<Constraint>,
    context: &'a mut ConstraintContext<'g>,
    sessions: Vec<EngineSession>,
    observer: &'a mut dyn ProofObserver,
    /// Texts accepted by some engine, for comparing the engines.
    texts: Vec<(Vec<TokenId>, Origin)>,
    /// The first instance that the vocabulary can encode, with its index.
    first: Option<(usize, Vec<TokenId>)>,
}

/// A text of the entry with its canonical tokens.
struct Source {
    text: String,
    tokens: Vec<TokenId>,
    matches: bool,
}

impl Source {
    fn text(&self, origin: Origin) -> WalkText<'_> {
        WalkText {
            bytes: self.text.as_bytes(),
            tokens: &self.tokens,
            matching: self.matches.then_some(&*self.text),
            origin,
        }
    }
}

impl EntryProver<'_, '_> {
    fn report_progress(&mut self) {
        for session in &self.sessions {
            self.observer.so_far(session.name, &session.proved);
        }
    }

    fn source(&mut self, text: String) -> Option<Source> {
        let tokens = self.tools.vocabulary.encode_exactly(&text)?;
        self.observer.engine_changed(None);
        let matches = self.context.oracles.judge(&text) == Judgement::Matches;
        Some(Source {
            text,
            tokens,
            matches,
        })
    }

    /// Every instance; JSON in compact spelling.
    fn sources(&mut self) -> Vec<Option<Source>> {
        let entry = self.entry;
        entry
            .instances
            .iter()
            .map(|instance| self.source(spell_compact(&instance.content).into_owned()))
            .collect()
    }

    /// Checks one engine along a text; returns whether it accepted the text.
    fn check_session_along(
        &mut self,
        text: &WalkText<'_>,
        share: u64,
        session: usize,
        accepted: Option<&Value>,
    ) -> bool {
        let (context, effort) = (&mut *self.context, self.effort);
        let is_accepted = self.sessions[session].attempt(self.observer, |session| {
            let left = session.budget_left(effort, share);
            let walked = check_masks_along(
                &*session.grammar()?,
                context,
                &session.explainer(accepted)?,
                text,
                left,
            )?;
            let is_accepted = walked.accepted;
            session.proved.texts += 1;
            session.add(walked);
            Ok(is_accepted)
        });
        is_accepted.unwrap_or(false)
    }

    fn check_instances(&mut self) {
        for (index, source) in self.sources().into_iter().enumerate() {
            let origin = Origin::Instance(index);
            for session in 0..self.sessions.len() {
                let accepted = source.as_ref().is_some_and(|source| {
                    self.check_session_along(&source.text(origin), INSTANCES, session, None)
                });
                self.sessions[session].accepted.push(accepted);
            }
            if let (None, Some(source)) = (&self.first, &source) {
                self.first = Some((index, source.tokens.clone()));
            }
            let is_accepted = self.sessions.iter().any(|session| session.accepted[index]);
            self.texts.extend(
                source
                    .filter(|_| is_accepted)
                    .map(|source| (source.tokens, origin)),
            );
        }
    }

    /// Checks mutants that still match, of instances that the engine accepts: a refusal is then due
    /// to the mutation.
    fn check_mutants(&mut self) {
        let mut rewritten = 0;
        for (index, instance) in self.entry.instances.iter().enumerate() {
            if rewritten == MAX_REWRITTEN
                || !self.sessions.iter().any(|session| session.accepted[index])
            {
                continue;
            }
            match &instance.content {
                Content::Json(json) => {
                    let Ok(value) = serde_json::from_str::<Value>(json.get()) else {
                        continue;
                    };
                    rewritten += 1;
                    for mutant in mutants(&value) {
                        self.check_mutant(&mutant, index, Some(&value));
                    }
                }
                Content::Text(text) => {
                    rewritten += usize::from(self.check_mutants_in_tag(text, index));
                }
            }
        }
    }

    /// Rewrites JSON values in a text of a structural tag; returns whether it has any.
    fn check_mutants_in_tag(&mut self, text: &str, index: usize) -> bool {
        if self.constraint.structural_tag().is_none() {
            return false;
        }
        let parts = self.context.oracles.json_parts(text);
        for part in parts.iter().take(MAX_REWRITTEN_PARTS) {
            let Ok(value) = serde_json::from_str::<Value>(&text[part.range.clone()]) else {
                continue;
            };
            for mutant in mutants(&value) {
                let (before, after) = (&text[..part.range.start], &text[part.range.end..]);
                let mutant = Mutant {
                    text: format!("{before}{}{after}", mutant.text),
                    ..mutant
                };
                self.check_mutant(&mutant, index, None);
            }
        }
        !parts.is_empty()
    }

    fn check_mutant(&mut self, mutant: &Mutant, index: usize, value: Option<&Value>) {
        let Some(source) = self.source(mutant.text.clone()) else {
            return;
        };
        let is_duplicate = mutant.mutation == Mutation::Duplicate;
        if !is_duplicate && !source.matches {
            return;
        }
        for at in 0..self.sessions.len() {
            if !self.sessions[at].accepted[index] {
                continue;
            }
            if is_duplicate {
                let vocabulary = self.tools.vocabulary;
                let passed = self.sessions[at].attempt(self.observer, |session| {
                    accepts_text(&*session.grammar()?, &source.text, vocabulary)
                });
                self.sessions[at].proved.duplicates.add(passed);
            } else {
                self.check_session_along(
                    &source.text(Origin::Mutant(index, mutant.mutation)),
                    MUTANTS,
                    at,
                    value,
                );
            }
        }
    }

    fn run_walks(&mut self) {
        for session in 0..self.sessions.len() {
            for number in 0..WALKS {
                let seed = self.effort.seed.wrapping_mul(WALKS).wrapping_add(number);
                if self
                    .run_walk(
                        session,
                        seed,
                        if number == 0 {
                            WalkStrategy::Shortest
                        } else {
                            WalkStrategy::Random
                        },
                    )
                    .is_none()
                {
                    break;
                }
            }
        }
    }

    /// One walk through an engine's own masks; its text is then checked with all engines. `None` if
    /// that engine is stopped.
    fn run_walk(&mut self, at: usize, seed: u64, strategy: WalkStrategy) -> Option<()> {
        let (tools, effort) = (self.tools, self.effort);
        let origin = Origin::Walk(seed);
        let walk = self.sessions[at].attempt(self.observer, |session| {
            let steps = WALK_STEPS.min(
                usize::try_from(session.budget_left(effort, WALKED) / 2).unwrap_or(usize::MAX),
            );
            let mut random = PythonRandom::new(seed);
            let grammar = session.grammar()?;
            let walk = tools.guide.walk(
                &mut *grammar.matcher()?,
                tools.vocabulary,
                strategy,
                &mut random,
                steps,
            )?;
            session.proved.masks += walk.tokens.len() as u64 + 1;
            if walk.end == WalkEnd::DeadEnd {
                let (length, masks) =
                    dead_end::earliest_dead_prefix(&*grammar, tools.vocabulary, &walk.tokens)?;
                let finding = Finding::new(Proof::DeadEnd, &walk.tokens[..length], None, origin);
                session.add(CheckedWalk {
                    masks,
                    ..CheckedWalk::with_finding(finding)
                });
            }
            Ok(walk)
        })?;
        let bytes = tools.vocabulary.decode(&walk.tokens);
        let is_complete = walk.end == WalkEnd::Complete;
        self.observer.engine_changed(None);
        let whole = std::str::from_utf8(&bytes).ok().filter(|_| is_complete);
        let matching = whole.filter(|text| self.context.oracles.judge(text) == Judgement::Matches);
        let completed = if is_complete {
            None
        } else {
            self.context.syntax.shortest_completion(&bytes)
        };
        let completed = completed
            .and_then(|text| String::from_utf8(text).ok())
            .and_then(|text| self.source(text));
        if let Some(source) = completed.filter(|source| source.matches) {
            self.check_others_along(at, &source.text(Origin::Other));
        }
        if let Some(tokens) = matching.and_then(|text| tools.vocabulary.encode_exactly(text)) {
            self.check_others_along(
                at,
                &WalkText {
                    bytes: &bytes,
                    tokens: &tokens,
                    matching,
                    origin: Origin::Other,
                },
            );
        }
        self.check_session_along(
            &WalkText {
                bytes: &bytes,
                tokens: &walk.tokens,
                matching,
                origin,
            },
            WALKED,
            at,
            None,
        );
        self.texts.push((walk.tokens, origin));
        Some(())
    }

    /// Checks every engine but `but` along a text.
    fn check_others_along(&mut self, but: usize, text: &WalkText<'_>) {
        for other in (0..self.sessions.len()).filter(|other| *other != but) {
            self.check_session_along(text, WALKED, other, None);
        }
    }

    /// Compares every two engines along the accepted texts, at positions in a seeded random order.
    fn compare_engines(&mut self) {
        if self.sessions.len() < 2 {
            return;
        }
        let mut places: Vec<(usize, usize)> = Vec::new();
        for (text, (tokens, _)) in self.texts.iter().enumerate() {
            places.extend((0..=tokens.len()).map(|place| (text, place)));
        }
        let order = PythonRandom::new(self.effort.seed).sample(places.len(), places.len());
        let mut tried = AttemptLimits::default();
        for place in order {
            if self
                .sessions
                .iter()
                .filter(|session| {
                    !session.is_stopped() && session.budget_left(self.effort, DIFFERENCES) > 0
                })
                .count()
                < 2
            {
                return;
            }
            let (text, place) = places[place];
            let (tokens, origin) = &self.texts[text];
            let (prefix, origin) = (tokens[..place].to_vec(), *origin);
            self.compare_engines_at(&prefix, origin, &mut tried);
        }
    }

    fn compare_engines_at(
        &mut self,
        prefix: &[TokenId],
        origin: Origin,
        tried: &mut AttemptLimits,
    ) {
        let (tools, effort) = (self.tools, self.effort);
        let mut matchers: Vec<(usize, Box<dyn Matcher>, TokenMask)> = Vec::new();
        for at in 0..self.sessions.len() {
            let opened = self.sessions[at].attempt(self.observer, |session| {
                if session.budget_left(effort, DIFFERENCES) == 0 {
                    return Ok(None);
                }
                consistency::matcher_after(
                    &*session.grammar()?,
                    tools.vocabulary,
                    prefix,
                    &mut session.proved.masks,
                )
            });
            matchers.extend(opened.flatten().map(|(matcher, mask)| (at, matcher, mask)));
        }
        for (one, matcher, mask) in &matchers {
            for (other, _, other_mask) in matchers.iter().filter(|(other, ..)| other != one) {
                let opened = EngineAtPrefix {
                    engine: self.sessions[*one].name,
                    matcher: &**matcher,
                    mask,
                };
                let against = (self.sessions[*other].name, other_mask);
                let mut random = PythonRandom::new(effort.seed);
                let oracles = &mut self.context.oracles;
                let resolved = self.sessions[*one].attempt(self.observer, |session| {
                    let tools = (tools.vocabulary, tools.guide, oracles);
                    let resolved = resolve_differences(
                        &opened,
                        against,
                        (prefix, origin),
                        tools,
                        &mut random,
                        tried,
                    )?;
                    session.proved.masks += resolved.masks;
                    session.proved.unresolved += resolved.unresolved;
                    Ok(resolved)
                });
                for (is_about_other, finding) in
                    resolved.into_iter().flat_map(|resolved| resolved.findings)
                {
                    self.add_difference(if is_about_other { *other } else { *one }, finding);
                }
            }
        }
    }

    fn add_difference(&mut self, at: usize, finding: Finding) {
        let context = &*self.context;
        self.sessions[at].attempt(self.observer, |session| {
            let why = session.interpret(&finding, context)?;
            session.add(CheckedWalk::with_finding(finding.explained_by(why)));
            Ok(())
        });
    }

    fn check_consistency(&mut self) {
        let Some((index, tokens)) = self.first.take() else {
            return;
        };
        // Compiling is the most expensive step here, and its errors show on many constraints.
        let drawn = PythonRandom::new(self.effort.seed.wrapping_add(tokens.len() as u64))
            .choice(COMPILED_AGAIN)
            == 0;
        for (number, place) in sample_positions(tokens.len(), self.effort.seed)
            .into_iter()
            .enumerate()
        {
            for at in 0..self.sessions.len() {
                if self.sessions[at].accepted[index] {
                    let origin = Origin::Instance(index);
                    self.check_consistency_at(at, &tokens[..place], origin, drawn && number == 0);
                    self.check_rollbacks_at(at, &tokens, place, origin);
                }
            }
        }
    }

    fn check_consistency_at(
        &mut self,
        at: usize,
        prefix: &[TokenId],
        origin: Origin,
        compiles: bool,
    ) {
        let (vocabulary, constraint, seed) = (
            self.tools.vocabulary,
            Arc::clone(&self.constraint),
            self.effort.seed,
        );
        self.sessions[at].attempt(self.observer, |session| {
            let grammar = session.grammar()?;
            let matchers = consistency::matcher_after(
                &*grammar,
                vocabulary,
                prefix,
                &mut session.proved.masks,
            )?;
            let Some((mut matcher, mask)) = matchers else {
                return Ok(());
            };
            let (mut found, tried) = consistency::check_matcher(
                &mut *matcher,
                vocabulary,
                &mut PythonRandom::new(seed),
            )?;
            let (later, more) = consistency::check_repeated(
                &*session.engine,
                &constraint,
                &*grammar,
                vocabulary,
                (prefix, &mask),
                compiles,
            )?;
            found.extend(later);
            let mut walked = CheckedWalk::default();
            walked.counts.add_decided(Proof::Contradicts, tried + more);
            for (contradiction, token) in found {
                let finding = Finding::new(Proof::Contradicts, prefix, token, origin);
                walked.record_error(
                    Finding {
                        contradiction: Some(contradiction),
                        ..finding
                    },
                    1,
                );
            }
            session.add(walked);
            Ok(())
        });
    }

    /// Rolls back tokens of a text, its end included, after the first `place` tokens.
    fn check_rollbacks_at(&mut self, at: usize, tokens: &[TokenId], place: usize, origin: Origin) {
        let (vocabulary, effort) = (self.tools.vocabulary, self.effort);
        let prefix = &tokens[..place];
        let mut following = tokens[place..].to_vec();
        following.push(vocabulary.eos());
        self.sessions[at].attempt(self.observer, |session| {
            let (found, tried) = rollback::check_rollbacks(
                &*session.grammar()?,
                vocabulary,
                prefix,
                &following,
                effort.rollback_tokens,
                &mut PythonRandom::new(effort.seed),
            )?;
            let mut walked = CheckedWalk::default();
            walked.counts.add_decided(Proof::Rollback, tried);
            for (tokens, wrong) in found {
                let finding = Finding::wrong_rollback(prefix, &tokens, wrong, origin);
                walked.record_error(finding, 1);
            }
            session.add(walked);
            Ok(())
        });
    }
}

/// A sample of positions in a text of `tokens` tokens, including the start.
fn sample_positions(tokens: usize, seed: u64) -> Vec<usize> {
    let mut places = vec![0];
    places.extend(
        PythonRandom::new(seed)
            .sample(tokens, (PLACES - 1).min(tokens))
            .into_iter()
            .map(|place| place + 1),
    );
    places.sort_unstable();
    places
}
