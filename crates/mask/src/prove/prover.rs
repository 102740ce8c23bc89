//! Proves what can be proved of one entry under several engines at once. Knows no process and no
//! file.
//!
//! In this order, each in at most its share of the budget: the instances of the corpus, their
//! mutants, walks through each engine's own masks, differences between engines, contradictions. All
//! is decided by the seed and the budget, which counts masks and not time.

use std::sync::Arc;

use serde_json::Value;

use super::along::{Ground, Text, Walked, along};
use super::contender::{Bench, Contender, Proved};
use super::difference::{Standing, Tried, close};
use super::explain::passes;
use super::finding::{Finding, Mutation, Origin, Proof};
use super::judges::Judged;
use super::mutant::{Mutant, mutants};
use super::sorted::Sorted;
use super::walks::{End, Guide, Manner};
use super::{consistency, dead_end};
use crate::corpus::{Content, Entry};
use crate::plan::Effort;
use crate::spelling::spell_compact;
use sobench_core::constraint::Constraint;
use sobench_engine::{EngineName, Matcher, TokenId, TokenMask, Vocabulary};
use sobench_pycompat::random::PythonRandom;

/// Instances of an entry that are rewritten.
const MAX_REWRITTEN: usize = 3;

/// Walks through each engine's own masks.
const WALKS: u64 = 8;

/// Masks of one walk.
const WALK_STEPS: usize = 96;

/// Places along an instance at which each engine is held against itself.
const PLACES: usize = 3;

/// Of so many entries one is compiled once more, to see whether its masks are the same.
const COMPILED_AGAIN: usize = 4;

/// Shares of the budget, in percent, each with those before it: instances, mutants, walks,
/// differences.
const INSTANCES: u64 = 25;
const MUTANTS: u64 = 50;
const WALKED: u64 = 75;
const DIFFERENCES: u64 = 95;

/// What is the same for all entries of a worker.
pub(crate) struct Tools<'a> {
    pub(crate) vocabulary: &'a Vocabulary,
    pub(crate) sorted: &'a Sorted,
    pub(crate) guide: &'a Guide,
    /// The same for the vocabulary of bytes.
    pub(crate) by_bytes: Option<&'a Tools<'a>>,
}

/// Whoever wants to know how it goes.
pub(crate) trait Watch {
    /// This engine is at work now; none where it is our own oracles.
    fn at(&mut self, engine: Option<EngineName>);
    /// So much is known of an engine by now.
    fn so_far(&mut self, engine: EngineName, proved: &Proved);
}

/// Proves what can be proved, for each engine in the order given.
pub(crate) fn prove(
    engines: &[&Bench],
    tools: &Tools<'_>,
    entry: &Entry,
    effort: Effort,
    watch: &mut dyn Watch,
) -> Vec<(EngineName, Proved)> {
    watch.at(None);
    let constraint = Arc::new(entry.constraint.clone());
    let mut ground = Ground::new(tools.vocabulary, tools.sorted, &constraint);
    let contender = |engine: &&Bench| {
        watch.at(Some(engine.name));
        Contender::new(engine, &constraint)
    };
    let contenders = engines.iter().map(contender).collect();
    let mut work = Work {
        tools,
        entry,
        effort,
        constraint,
        ground: &mut ground,
        contenders,
        watch,
        texts: Vec::new(),
        first: None,
    };
    for phase in [
        Work::instances,
        Work::mutants,
        Work::walks,
        Work::differences,
        Work::contradictions,
    ] {
        phase(&mut work);
        work.tell();
    }
    work.contenders
        .into_iter()
        .map(|contender| (contender.name, contender.proved))
        .collect()
}

struct Work<'a, 'g> {
    tools: &'a Tools<'a>,
    entry: &'a Entry,
    effort: Effort,
    constraint: Arc<Constraint>,
    ground: &'a mut Ground<'g>,
    contenders: Vec<Contender>,
    watch: &'a mut dyn Watch,
    /// Texts that some engine let through, to hold the engines against each other.
    texts: Vec<(Vec<TokenId>, Origin)>,
    /// The first instance that the vocabulary can spell, by its number.
    first: Option<(usize, Vec<TokenId>)>,
}

/// A text of the entry, with its canonical tokens.
struct Source {
    text: String,
    tokens: Vec<TokenId>,
    matches: bool,
}

impl Source {
    fn text(&self, origin: Origin) -> Text<'_> {
        Text {
            bytes: self.text.as_bytes(),
            tokens: &self.tokens,
            matching: self.matches.then_some(&*self.text),
            origin,
        }
    }
}

impl Work<'_, '_> {
    fn tell(&mut self) {
        for contender in &self.contenders {
            self.watch.so_far(contender.name, &contender.proved);
        }
    }

    fn source(&mut self, text: String) -> Option<Source> {
        let tokens = self.tools.vocabulary.encode_exactly(&text)?;
        self.watch.at(None);
        let matches = self.ground.judges.judge(&text) == Judged::Matches;
        Some(Source {
            text,
            tokens,
            matches,
        })
    }

    /// Every instance, written compactly; a text as it stands.
    fn sources(&mut self) -> Vec<Option<Source>> {
        let entry = self.entry;
        entry
            .instances
            .iter()
            .map(|instance| self.source(spell_compact(&instance.content).into_owned()))
            .collect()
    }

    /// Walks one engine along a text; whether it let it through.
    fn walk_along(
        &mut self,
        text: &Text<'_>,
        share: u64,
        contender: usize,
        accepted: Option<&Value>,
    ) -> bool {
        let (ground, effort) = (&mut *self.ground, self.effort);
        let is_through = self.contenders[contender].attempt(self.watch, |contender| {
            let left = contender.left(effort, share);
            let walked = along(
                &*contender.grammar()?,
                ground,
                &contender.explainer(accepted)?,
                text,
                left,
            )?;
            let is_through = walked.accepted;
            contender.proved.texts += 1;
            contender.add(walked);
            Ok(is_through)
        });
        is_through.unwrap_or(false)
    }

    fn instances(&mut self) {
        for (index, source) in self.sources().into_iter().enumerate() {
            let origin = Origin::Instance(index);
            for contender in 0..self.contenders.len() {
                let accepted = source.as_ref().is_some_and(|source| {
                    self.walk_along(&source.text(origin), INSTANCES, contender, None)
                });
                self.contenders[contender].accepted.push(accepted);
            }
            if let (None, Some(source)) = (&self.first, &source) {
                self.first = Some((index, source.tokens.clone()));
            }
            let is_accepted = self
                .contenders
                .iter()
                .any(|contender| contender.accepted[index]);
            self.texts.extend(
                source
                    .filter(|_| is_accepted)
                    .map(|source| (source.tokens, origin)),
            );
        }
    }

    /// Mutants that still match, of instances that the engine lets through: what it refuses then is
    /// what was rewritten.
    fn mutants(&mut self) {
        let mut rewritten = 0;
        for (index, instance) in self.entry.instances.iter().enumerate() {
            let Content::Json(json) = &instance.content else {
                continue;
            };
            if rewritten == MAX_REWRITTEN
                || !self
                    .contenders
                    .iter()
                    .any(|contender| contender.accepted[index])
            {
                continue;
            }
            let Ok(value) = serde_json::from_str::<Value>(json.get()) else {
                continue;
            };
            rewritten += 1;
            for mutant in mutants(&value) {
                self.mutant(&mutant, index, &value);
            }
        }
    }

    fn mutant(&mut self, mutant: &Mutant, index: usize, value: &Value) {
        let Some(source) = self.source(mutant.text.clone()) else {
            return;
        };
        let is_twice = mutant.mutation == Mutation::Duplicate;
        if !is_twice && !source.matches {
            return;
        }
        for at in 0..self.contenders.len() {
            if !self.contenders[at].accepted[index] {
                continue;
            }
            if is_twice {
                let vocabulary = self.tools.vocabulary;
                let passed = self.contenders[at].attempt(self.watch, |contender| {
                    passes(&*contender.grammar()?, &source.text, vocabulary)
                });
                self.contenders[at].proved.duplicates.add(passed);
            } else {
                self.walk_along(
                    &source.text(Origin::Mutant(index, mutant.mutation)),
                    MUTANTS,
                    at,
                    Some(value),
                );
            }
        }
    }

    fn walks(&mut self) {
        for contender in 0..self.contenders.len() {
            for number in 0..WALKS {
                let seed = self.effort.seed.wrapping_mul(WALKS).wrapping_add(number);
                if self
                    .walk(
                        contender,
                        seed,
                        if number == 0 {
                            Manner::Shortest
                        } else {
                            Manner::Random
                        },
                    )
                    .is_none()
                {
                    break;
                }
            }
        }
    }

    /// One walk through an engine's own masks, and what it came to held against all engines. `None`
    /// where that engine is done.
    fn walk(&mut self, at: usize, seed: u64, manner: Manner) -> Option<()> {
        let (tools, effort) = (self.tools, self.effort);
        let origin = Origin::Walk(seed);
        let walk = self.contenders[at].attempt(self.watch, |contender| {
            let steps = WALK_STEPS
                .min(usize::try_from(contender.left(effort, WALKED) / 2).unwrap_or(usize::MAX));
            let mut random = PythonRandom::new(seed);
            let grammar = contender.grammar()?;
            let walk = tools.guide.walk(
                &mut *grammar.matcher()?,
                tools.vocabulary,
                manner,
                &mut random,
                steps,
            )?;
            contender.proved.masks += walk.tokens.len() as u64 + 1;
            if walk.end == End::Dead {
                let (length, masks) =
                    dead_end::earliest(&*grammar, tools.vocabulary, &walk.tokens)?;
                let finding = Finding::new(Proof::DeadEnd, &walk.tokens[..length], None, origin);
                contender.add(Walked {
                    masks,
                    ..Walked::of(finding)
                });
            }
            Ok(walk)
        })?;
        let bytes = tools.vocabulary.decode(&walk.tokens);
        let is_whole = walk.end == End::Whole;
        self.watch.at(None);
        let whole = std::str::from_utf8(&bytes).ok().filter(|_| is_whole);
        let matching = whole.filter(|text| self.ground.judges.judge(text) == Judged::Matches);
        let completed = if is_whole {
            None
        } else {
            self.ground.syntax.completed(&bytes)
        };
        let completed = completed
            .and_then(|text| String::from_utf8(text).ok())
            .and_then(|text| self.source(text));
        if let Some(source) = completed.filter(|source| source.matches) {
            self.walk_others(at, &source.text(Origin::Other));
        }
        if let Some(tokens) = matching.and_then(|text| tools.vocabulary.encode_exactly(text)) {
            self.walk_others(
                at,
                &Text {
                    bytes: &bytes,
                    tokens: &tokens,
                    matching,
                    origin: Origin::Other,
                },
            );
        }
        self.walk_along(
            &Text {
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

    /// Walks every engine but this one along a text.
    fn walk_others(&mut self, but: usize, text: &Text<'_>) {
        for other in (0..self.contenders.len()).filter(|other| *other != but) {
            self.walk_along(text, WALKED, other, None);
        }
    }

    /// Holds every two engines against each other along the texts that one of them let through, at
    /// places in an order that the seed decides.
    fn differences(&mut self) {
        if self.contenders.len() < 2 {
            return;
        }
        let mut places: Vec<(usize, usize)> = Vec::new();
        for (text, (tokens, _)) in self.texts.iter().enumerate() {
            places.extend((0..=tokens.len()).map(|place| (text, place)));
        }
        let order = PythonRandom::new(self.effort.seed).sample(places.len(), places.len());
        let mut tried = Tried::default();
        for place in order {
            if self
                .contenders
                .iter()
                .filter(|it| !it.is_done() && it.left(self.effort, DIFFERENCES) > 0)
                .count()
                < 2
            {
                return;
            }
            let (text, place) = places[place];
            let (tokens, origin) = &self.texts[text];
            let (prefix, origin) = (tokens[..place].to_vec(), *origin);
            self.differences_at(&prefix, origin, &mut tried);
        }
    }

    fn differences_at(&mut self, prefix: &[TokenId], origin: Origin, tried: &mut Tried) {
        let (tools, effort) = (self.tools, self.effort);
        let mut stood: Vec<(usize, Box<dyn Matcher>, TokenMask)> = Vec::new();
        for at in 0..self.contenders.len() {
            let standing = self.contenders[at].attempt(self.watch, |contender| {
                if contender.left(effort, DIFFERENCES) == 0 {
                    return Ok(None);
                }
                consistency::stand(
                    &*contender.grammar()?,
                    tools.vocabulary,
                    prefix,
                    &mut contender.proved.masks,
                )
            });
            stood.extend(
                standing
                    .flatten()
                    .map(|(matcher, mask)| (at, matcher, mask)),
            );
        }
        for (one, matcher, mask) in &stood {
            for (other, _, other_mask) in stood.iter().filter(|(other, ..)| other != one) {
                let standing = Standing {
                    engine: self.contenders[*one].name,
                    matcher: &**matcher,
                    mask,
                };
                let against = (self.contenders[*other].name, other_mask);
                let mut random = PythonRandom::new(effort.seed);
                let judges = &mut self.ground.judges;
                let closed = self.contenders[*one].attempt(self.watch, |contender| {
                    let tools = (tools.vocabulary, tools.guide, judges);
                    let closed = close(
                        &standing,
                        against,
                        (prefix, origin),
                        tools,
                        &mut random,
                        tried,
                    )?;
                    contender.proved.masks += closed.masks;
                    contender.proved.unresolved += closed.unresolved;
                    Ok(closed)
                });
                for (is_about_other, finding) in
                    closed.into_iter().flat_map(|closed| closed.findings)
                {
                    self.difference(if is_about_other { *other } else { *one }, finding);
                }
            }
        }
    }

    fn difference(&mut self, at: usize, finding: Finding) {
        let ground = &*self.ground;
        self.contenders[at].attempt(self.watch, |contender| {
            let why = contender.read(&finding, ground)?;
            contender.add(Walked::of(finding.taken(why)));
            Ok(())
        });
    }

    fn contradictions(&mut self) {
        let Some((index, tokens)) = self.first.take() else {
            return;
        };
        // Compiling costs more than all else here, and what it does wrong it does to many
        // constraints.
        let drawn = PythonRandom::new(self.effort.seed.wrapping_add(tokens.len() as u64))
            .choice(COMPILED_AGAIN)
            == 0;
        for (number, place) in places(tokens.len(), self.effort.seed)
            .into_iter()
            .enumerate()
        {
            for at in 0..self.contenders.len() {
                if self.contenders[at].accepted[index] {
                    self.contradictions_at(
                        at,
                        &tokens[..place],
                        Origin::Instance(index),
                        drawn && number == 0,
                    );
                }
            }
        }
    }

    fn contradictions_at(&mut self, at: usize, prefix: &[TokenId], origin: Origin, compiles: bool) {
        let (vocabulary, constraint, seed) = (
            self.tools.vocabulary,
            Arc::clone(&self.constraint),
            self.effort.seed,
        );
        self.contenders[at].attempt(self.watch, |contender| {
            let grammar = contender.grammar()?;
            let stood =
                consistency::stand(&*grammar, vocabulary, prefix, &mut contender.proved.masks)?;
            let Some((mut matcher, mask)) = stood else {
                return Ok(());
            };
            let (mut found, tried) =
                consistency::here(&mut *matcher, vocabulary, &mut PythonRandom::new(seed))?;
            let (later, more) = consistency::again(
                &*contender.engine,
                &constraint,
                &*grammar,
                vocabulary,
                (prefix, &mask),
                compiles,
            )?;
            found.extend(later);
            let mut walked = Walked::default();
            walked.counts.decided(Proof::Contradicts, tried + more);
            for (contradiction, token) in found {
                let finding = Finding::new(Proof::Contradicts, prefix, token, origin);
                walked.found(
                    Finding {
                        contradiction: Some(contradiction),
                        ..finding
                    },
                    1,
                );
            }
            contender.add(walked);
            Ok(())
        });
    }
}

/// Some places of a text of so many tokens, the beginning among them.
fn places(tokens: usize, seed: u64) -> Vec<usize> {
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
