//! An engine at work on one entry: what it has compiled, what was proved of it, and what is left of
//! its budget. Knows no corpus.

use std::cell::OnceCell;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::EngineResult;
use super::along::{Ground, Walked};
use super::count::Counts;
use super::explain::{Explainer, Refusal, Relaxed};
use super::finding::{Finding, Proof, Reading, Why};
use super::prover::Watch;
use crate::plan::Effort;
use sobench_core::constraint::Constraint;
use sobench_core::error::Result;
use sobench_engine::{
    self as engine, Departure, Engine, EngineError, EngineName, EnginePolicy, Grammar, Vocabulary,
};

/// Findings of one proof and reading that are kept of one entry; more are counted.
const MAX_KEPT: usize = 3;

/// An engine, and the same engine with one departure undone in its policy each.
pub(crate) struct Bench {
    pub(crate) name: EngineName,
    pub(crate) engine: Arc<dyn Engine>,
    pub(super) relaxed: Vec<Relaxed>,
    /// The same over the vocabulary of bytes, where a finding is made small: what a text of bytes
    /// shows is as true of other tokens.
    pub(super) by_bytes: Option<Box<Bench>>,
}

impl Bench {
    /// Opens an engine, and the same engine for each of its departures that a policy can undo.
    ///
    /// # Errors
    /// As [`engine::open_bare`].
    pub(crate) fn open(
        name: EngineName,
        policy: &EnginePolicy,
        vocabulary: &Arc<Vocabulary>,
        bytes: &Arc<Vocabulary>,
    ) -> Result<Self> {
        let by_bytes = Some(Box::new(Self::over(name, policy, bytes, bytes)?));
        Ok(Self {
            by_bytes,
            ..Self::over(name, policy, vocabulary, bytes)?
        })
    }

    fn over(
        name: EngineName,
        policy: &EnginePolicy,
        vocabulary: &Arc<Vocabulary>,
        bytes: &Arc<Vocabulary>,
    ) -> Result<Self> {
        let relaxed = relaxations(name, policy)
            .into_iter()
            .map(|(departure, policy)| {
                // Which tokens are canonical is a matter of the vocabulary; all else is one of
                // texts.
                let vocabulary = if departure == Departure::CanonicalTokens {
                    vocabulary
                } else {
                    bytes
                };
                let engine = engine::open_bare(name, vocabulary, &policy)?;
                Ok(Relaxed {
                    departure,
                    engine,
                    vocabulary: Arc::clone(vocabulary),
                    grammar: OnceCell::new(),
                })
            });
        let relaxed = relaxed.collect::<Result<_>>()?;
        Ok(Self {
            name,
            engine: engine::open_bare(name, vocabulary, policy)?,
            relaxed,
            by_bytes: None,
        })
    }
}

/// The policies that undo one departure of an engine's policy each.
fn relaxations(name: EngineName, policy: &EnginePolicy) -> Vec<(Departure, EnginePolicy)> {
    let mut relaxations = name.relaxations(policy);
    if !policy.any_whitespace {
        relaxations.push((
            Departure::WhiteSpace,
            EnginePolicy {
                any_whitespace: true,
                ..policy.clone()
            },
        ));
    }
    relaxations
}

/// What was found of one entry under one engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Proved {
    pub counts: Counts,
    pub findings: Vec<Finding>,
    /// Masks that were computed, those of explanations, contradictions and minimising not counted.
    pub masks: u64,
    /// Texts that were walked along.
    pub texts: u64,
    /// Ends on which the oracles do not agree.
    pub open: u64,
    /// Differences between engines that led to no whole text.
    pub unresolved: u64,
    pub duplicates: Duplicates,
    /// Why there is nothing, or no more: the engine's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// Whether the constraint was not compiled at all.
    #[serde(default)]
    pub declined: bool,
}

/// Texts with two members of one name: no JSON Schema says what they mean, so that they are neither
/// valid nor invalid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Duplicates {
    pub tried: u64,
    pub let_through: u64,
}

impl Duplicates {
    pub(super) fn add(&mut self, passed: Option<bool>) {
        self.tried += u64::from(passed.is_some());
        self.let_through += u64::from(passed == Some(true));
    }
}

/// An engine at work on the entry.
pub(super) struct Contender {
    pub(super) name: EngineName,
    pub(super) engine: Arc<dyn Engine>,
    grammar: Option<Arc<dyn Grammar>>,
    relaxed: Vec<Relaxed>,
    constraint: Arc<Constraint>,
    pub(super) proved: Proved,
    /// Whether it lets the instance of this number through, written compactly.
    pub(super) accepted: Vec<bool>,
}

impl Contender {
    /// Compiles the constraint; a contender that cannot is done before it begins.
    pub(super) fn new(bench: &Bench, constraint: &Arc<Constraint>) -> Self {
        // What is known to take minutes is refused by its size, and not by the clock: the same for
        // everybody.
        let compiled = bench
            .engine
            .check_quick(constraint)
            .and_then(|()| bench.engine.compile(constraint));
        let stopped = compiled.as_ref().err().map(ToString::to_string);
        Self {
            name: bench.name,
            engine: Arc::clone(&bench.engine),
            relaxed: bench.relaxed.clone(),
            constraint: Arc::clone(constraint),
            proved: Proved {
                declined: stopped.is_some(),
                stopped,
                ..Proved::default()
            },
            grammar: compiled.ok(),
            accepted: Vec::new(),
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.proved.stopped.is_some()
    }

    /// The compiled constraint.
    ///
    /// # Errors
    /// There is none, which ends the contender.
    pub(super) fn grammar(&self) -> EngineResult<Arc<dyn Grammar>> {
        self.grammar.clone().ok_or_else(|| EngineError::Invalid {
            words: "the constraint was not compiled".to_owned(),
        })
    }

    /// What explains its findings on texts made of `accepted`, an instance that it lets through.
    ///
    /// # Errors
    /// As [`Contender::grammar`].
    pub(super) fn explainer<'a>(
        &'a self,
        accepted: Option<&'a Value>,
    ) -> EngineResult<Explainer<'a>> {
        let grammar = self
            .grammar
            .as_deref()
            .ok_or_else(|| EngineError::Invalid {
                words: "not compiled".to_owned(),
            })?;
        Ok(Explainer {
            engine: self.name,
            grammar,
            relaxed: &self.relaxed,
            constraint: &self.constraint,
            accepted,
        })
    }

    /// How a difference between two engines is to be taken.
    ///
    /// # Errors
    /// The library's own.
    pub(super) fn read(&self, finding: &Finding, ground: &Ground<'_>) -> EngineResult<Why> {
        let explainer = self.explainer(None)?;
        match (finding.proof, &finding.text) {
            (Proof::DiffersStrict, Some(text)) => {
                let before = ground.vocabulary.decode(&finding.prefix);
                // Where the text passes by other tokens, it is the token alone that is refused.
                if let Some(unforced) = explainer.unforced() {
                    let mut matcher = unforced.matcher()?;
                    let is_taken = finding
                        .prefix
                        .iter()
                        .chain(&finding.token)
                        .all(|token| matcher.commit(*token).is_ok());
                    if is_taken {
                        return Ok(Reading::Declared(vec![Departure::CanonicalTokens]).into());
                    }
                }
                let token = finding
                    .token
                    .map_or(0, |token| ground.vocabulary.bytes(token).len());
                let refusal = Refusal {
                    text,
                    committed: &finding.prefix,
                    before: before.len(),
                    reach: before.len() + token,
                };
                explainer.strict(&refusal, ground)
            }
            _ => Ok(explainer
                .loose(finding.breaks.as_deref().unwrap_or_default())
                .into()),
        }
    }

    pub(super) fn add(&mut self, walked: Walked) {
        self.proved.counts.add(&walked.counts);
        for finding in walked.findings {
            let like = |it: &&Finding| it.proof == finding.proof && it.reading == finding.reading;
            if self.proved.findings.iter().filter(like).count() < MAX_KEPT {
                self.proved.findings.push(finding);
            }
        }
        self.proved.masks += walked.masks;
        self.proved.open += walked.open;
    }

    /// Masks that are left of the budget up to and with a share, in percent.
    pub(super) fn left(&self, effort: Effort, share: u64) -> u64 {
        (effort.budget.saturating_mul(share) / 100).saturating_sub(self.proved.masks)
    }

    /// Does something with the engine, unless it has given out before; and sees to it that it is
    /// asked nothing more once it has.
    pub(super) fn attempt<T>(
        &mut self,
        watch: &mut dyn Watch,
        work: impl FnOnce(&mut Self) -> EngineResult<T>,
    ) -> Option<T> {
        if self.is_done() {
            return None;
        }
        watch.at(Some(self.name));
        work(self)
            .map_err(|error| self.proved.stopped = Some(error.to_string()))
            .ok()
    }
}
