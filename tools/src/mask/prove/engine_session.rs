//! One engine on one entry: the compiled constraint, the results so far, and the remaining budget.

use std::cell::OnceCell;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::EngineResult;
use super::decision_count::DecisionCounts;
use super::explain::{Explainer, Refusal, RelaxedEngine};
use super::finding::{Explanation, Finding, Interpretation, Proof};
use super::mask_checks::{CheckedWalk, ConstraintContext};
use super::prover::ProofObserver;
use crate::mask::plan::Effort;
use sobench_core::constraint::Constraint;
use sobench_core::error::Result;
use sobench_engine::{
    self as engine, Departure, Engine, EngineError, EngineName, EnginePolicy, Grammar, Vocabulary,
};

/// Maximum findings per proof and interpretation kept per entry; further ones are counted.
const MAX_KEPT: usize = 3;

/// An engine, with variants that undo one departure each.
pub(crate) struct ProofEngine {
    pub(crate) name: EngineName,
    pub(crate) engine: Arc<dyn Engine>,
    pub(super) relaxed: Vec<RelaxedEngine>,
    /// The same engine over the vocabulary of bytes, for shrinking: a result on bytes usually holds
    /// for other tokens.
    pub(super) by_bytes: Option<Box<ProofEngine>>,
}

impl ProofEngine {
    /// Opens an engine and its variants for each departure that a policy can undo.
    ///
    /// # Errors
    /// As [`engine::open_unguarded`].
    pub(crate) fn open(
        name: EngineName,
        policy: &EnginePolicy,
        vocabulary: &Arc<Vocabulary>,
        bytes: &Arc<Vocabulary>,
    ) -> Result<Self> {
        let by_bytes = Some(Box::new(Self::open_with_vocabulary(
            name, policy, bytes, bytes,
        )?));
        Ok(Self {
            by_bytes,
            ..Self::open_with_vocabulary(name, policy, vocabulary, bytes)?
        })
    }

    fn open_with_vocabulary(
        name: EngineName,
        policy: &EnginePolicy,
        vocabulary: &Arc<Vocabulary>,
        bytes: &Arc<Vocabulary>,
    ) -> Result<Self> {
        let relaxed = relaxations(name, policy)
            .into_iter()
            .map(|(departure, policy)| {
                // Canonical tokens depend on the vocabulary; all other departures concern texts.
                let vocabulary = if departure == Departure::CanonicalTokens {
                    vocabulary
                } else {
                    bytes
                };
                let engine = engine::open_unguarded(name, vocabulary, &policy)?;
                Ok(RelaxedEngine {
                    departure,
                    engine,
                    vocabulary: Arc::clone(vocabulary),
                    grammar: OnceCell::new(),
                })
            });
        let relaxed = relaxed.collect::<Result<_>>()?;
        Ok(Self {
            name,
            engine: engine::open_unguarded(name, vocabulary, policy)?,
            relaxed,
            by_bytes: None,
        })
    }
}

/// The policies that undo one departure each.
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

/// Proof results of one entry under one engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Proved {
    pub counts: DecisionCounts,
    pub findings: Vec<Finding>,
    /// Computed masks, excluding those for explanations, contradictions and shrinking.
    pub masks: u64,
    /// Checked texts.
    pub texts: u64,
    /// Ends on which the oracles disagree.
    #[serde(rename = "open")]
    pub undecided_ends: u64,
    /// Differences between engines without a complete text.
    pub unresolved: u64,
    pub duplicates: Duplicates,
    /// Why the search stopped early: the engine's message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// Whether the engine declined the constraint.
    #[serde(default)]
    pub declined: bool,
}

/// Texts with a repeated member name: JSON Schema does not define their meaning, so they are
/// neither valid nor invalid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Duplicates {
    pub tried: u64,
    #[serde(rename = "let_through")]
    pub accepted: u64,
}

impl Duplicates {
    pub(super) fn add(&mut self, passed: Option<bool>) {
        self.tried += u64::from(passed.is_some());
        self.accepted += u64::from(passed == Some(true));
    }
}

/// One engine's session on an entry.
pub(super) struct EngineSession {
    pub(super) name: EngineName,
    pub(super) engine: Arc<dyn Engine>,
    grammar: Option<Arc<dyn Grammar>>,
    relaxed: Vec<RelaxedEngine>,
    constraint: Arc<Constraint>,
    pub(super) proved: Proved,
    /// Whether it accepts each instance, in compact spelling.
    pub(super) accepted: Vec<bool>,
}

impl EngineSession {
    /// Compiles the constraint; a session that fails to compile is stopped immediately.
    pub(super) fn new(proof_engine: &ProofEngine, constraint: &Arc<Constraint>) -> Self {
        // Constraints known to compile for minutes are refused by size, not by time, so that
        // results are deterministic.
        let compiled = proof_engine
            .engine
            .check_size_strict(constraint)
            .and_then(|()| proof_engine.engine.compile(constraint));
        let stopped = compiled.as_ref().err().map(ToString::to_string);
        Self {
            name: proof_engine.name,
            engine: Arc::clone(&proof_engine.engine),
            relaxed: proof_engine.relaxed.clone(),
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

    pub(super) fn is_stopped(&self) -> bool {
        self.proved.stopped.is_some()
    }

    /// The compiled constraint.
    ///
    /// # Errors
    /// The constraint was not compiled, which stops the session.
    pub(super) fn grammar(&self) -> EngineResult<Arc<dyn Grammar>> {
        self.grammar.clone().ok_or_else(|| EngineError::Invalid {
            message: "the constraint was not compiled".to_owned(),
        })
    }

    /// The explainer for texts derived from `accepted`, an instance that the engine accepts.
    ///
    /// # Errors
    /// As [`EngineSession::grammar`].
    pub(super) fn explainer<'a>(
        &'a self,
        accepted: Option<&'a Value>,
    ) -> EngineResult<Explainer<'a>> {
        let grammar = self
            .grammar
            .as_deref()
            .ok_or_else(|| EngineError::Invalid {
                message: "not compiled".to_owned(),
            })?;
        Ok(Explainer {
            engine: self.name,
            grammar,
            relaxed: &self.relaxed,
            constraint: &self.constraint,
            accepted,
        })
    }

    /// Interprets a difference between two engines.
    ///
    /// # Errors
    /// An error of the library.
    pub(super) fn interpret(
        &self,
        finding: &Finding,
        context: &ConstraintContext<'_>,
    ) -> EngineResult<Explanation> {
        let explainer = self.explainer(None)?;
        match (finding.proof, &finding.text) {
            (Proof::DiffersStrict, Some(text)) => {
                let before = context.vocabulary.decode(&finding.prefix);
                // If the text is accepted in other tokens, only the token is refused.
                if let Some(unforced) = explainer.unforced() {
                    let mut matcher = unforced.matcher()?;
                    let is_taken = finding
                        .prefix
                        .iter()
                        .chain(&finding.token)
                        .all(|token| matcher.commit(*token).is_ok());
                    if is_taken {
                        return Ok(
                            Interpretation::Declared(vec![Departure::CanonicalTokens]).into()
                        );
                    }
                }
                let token = finding
                    .token
                    .map_or(0, |token| context.vocabulary.bytes(token).len());
                let refusal = Refusal {
                    text,
                    committed: &finding.prefix,
                    before: before.len(),
                    reach: before.len() + token,
                };
                explainer.explain_refusal(&refusal, context)
            }
            _ => {
                let rule = finding.breaks.as_deref().unwrap_or_default();
                let text = finding.text.as_deref().unwrap_or_default();
                Ok(explainer.explain_acceptance(rule, text, context)?.into())
            }
        }
    }

    pub(super) fn add(&mut self, walked: CheckedWalk) {
        self.proved.counts.add(&walked.counts);
        for finding in walked.findings {
            let is_similar = |known: &&Finding| {
                known.proof == finding.proof && known.interpretation == finding.interpretation
            };
            if self.proved.findings.iter().filter(is_similar).count() < MAX_KEPT {
                self.proved.findings.push(finding);
            }
        }
        self.proved.masks += walked.masks;
        self.proved.undecided_ends += walked.undecided_ends;
    }

    /// Masks left of the budget up to a cumulative share, in percent.
    pub(super) fn budget_left(&self, effort: Effort, share: u64) -> u64 {
        (effort.budget.saturating_mul(share) / 100).saturating_sub(self.proved.masks)
    }

    /// Runs `work` unless the session is stopped; an error stops the session.
    pub(super) fn attempt<T>(
        &mut self,
        observer: &mut dyn ProofObserver,
        work: impl FnOnce(&mut Self) -> EngineResult<T>,
    ) -> Option<T> {
        if self.is_stopped() {
            return None;
        }
        observer.engine_changed(Some(self.name));
        work(self)
            .map_err(|error| self.proved.stopped = Some(error.to_string()))
            .ok()
    }
}
