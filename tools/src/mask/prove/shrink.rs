//! Shrinks a finding: removes keywords and members of the schema and pieces of the text while an
//! error of the same kind reproduces.
//!
//! Every attempt compiles the constraint and walks along the text again, so the shrunk finding was
//! observed, not inferred.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::engine_session::{EngineSession, ProofEngine};
use super::finding::{Finding, Origin, Proof};
use super::mask_checks::{ConstraintContext, WalkText, check_masks_along};
use super::oracles::Judgement;
use super::prover::{ProofObserver, VocabularyTools};
use super::witness::{self, WitnessStatus};
use super::{consistency, rollback};
use crate::mask::clock::Stopwatch;
use sobench_core::constraint::Constraint;
use sobench_engine::{Grammar, TokenId};
use sobench_pycompat::random::PythonRandom;
use sobench_reduce::{Attempts, smallest};

/// Maximum masks of one attempt.
const MAX_MASKS: u64 = 4096;

/// Limits of shrinking one finding, applied once over bytes and, if that fails, once over the
/// engine's tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShrinkLimits {
    /// Compiles.
    pub(crate) tries: usize,
    /// Time limit. It affects how small a finding gets, not whether it reproduces.
    pub(crate) time: Duration,
}

/// A finding with its constraint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FindingCase {
    pub(crate) constraint: Constraint,
    pub(crate) finding: Finding,
}

/// A constraint, and the text to walk along.
type ConstraintAndText = (Constraint, Vec<u8>);

/// Shrinks a case within the limits; `None` if the finding does not reproduce.
pub(crate) fn shrink(
    engine: &ProofEngine,
    tools: &VocabularyTools<'_>,
    case: FindingCase,
    limits: ShrinkLimits,
    observer: &mut dyn ProofObserver,
) -> Option<FindingCase> {
    let by_bytes = smaller_by_bytes(engine, tools, &case, limits, observer);
    let mut shrinker = Shrinker::new(engine, tools, &case.finding, limits, observer);
    let smallest = by_bytes
        .and_then(|smaller| shrinker.case(smaller))
        .or_else(|| {
            let text = shrinker.text(&case.finding);
            let smallest = smallest(&mut shrinker, case.constraint.clone(), text)?;
            shrinker.case(smallest)
        });
    [smallest, Some(case)]
        .into_iter()
        .flatten()
        .find(|case| recheck(engine, tools, case) == WitnessStatus::Holds)
}

/// Constraint and text shrunk over the vocabulary of bytes, where compiling is fast. The result is
/// then verified over the engine's own vocabulary.
fn smaller_by_bytes(
    engine: &ProofEngine,
    tools: &VocabularyTools<'_>,
    case: &FindingCase,
    limits: ShrinkLimits,
    observer: &mut dyn ProofObserver,
) -> Option<ConstraintAndText> {
    let (engine, by_bytes) = (engine.by_bytes.as_deref()?, tools.by_bytes?);
    let ids = |tokens: &[TokenId]| {
        tools
            .vocabulary
            .decode(tokens)
            .into_iter()
            .map(TokenId::from)
            .collect()
    };
    let mut finding = Finding {
        prefix: ids(&case.finding.prefix),
        ..case.finding.clone()
    };
    if finding.proof == Proof::Rollback {
        // The end token has no bytes.
        let of_bytes = |token: &TokenId| {
            if *token == tools.vocabulary.eos() {
                vec![by_bytes.vocabulary.eos()]
            } else {
                ids(&[*token])
            }
        };
        let mut tokens = finding
            .rolled_back()
            .iter()
            .flat_map(of_bytes)
            .collect::<Vec<_>>();
        finding.token = (!tokens.is_empty()).then(|| tokens.remove(0));
        finding.tail = tokens;
    }
    let mut shrinker = Shrinker::new(engine, by_bytes, &finding, limits, observer);
    let text = shrinker.text(&finding);
    smallest(&mut shrinker, case.constraint.clone(), text)
}

/// Rechecks a case with an engine.
pub(crate) fn recheck(
    engine: &ProofEngine,
    tools: &VocabularyTools<'_>,
    case: &FindingCase,
) -> WitnessStatus {
    let constraint = Arc::new(case.constraint.clone());
    witness::check(
        &*engine.engine,
        &constraint,
        &case.finding,
        tools.vocabulary,
        tools.sorted,
    )
}

/// Whether a finding shows that the engine is too strict.
fn is_strict(finding: &Finding) -> bool {
    matches!(
        finding.proof,
        Proof::RefusesToken | Proof::RefusesEnd | Proof::DiffersStrict
    )
}

/// Whether a smaller finding is of the same kind as the first. A difference of two engines
/// reproduces with one engine once the text is known.
fn is_alike(first: &Finding, smaller: &Finding) -> bool {
    let is_proof = match first.proof {
        Proof::DiffersStrict => matches!(smaller.proof, Proof::RefusesToken | Proof::RefusesEnd),
        Proof::DiffersLoose => smaller.proof == Proof::AllowsEnd,
        proof => smaller.proof == proof,
    };
    is_proof
        && (&smaller.interpretation, &smaller.breaks, smaller.cause)
            == (&first.interpretation, &first.breaks, first.cause)
}

struct Shrinker<'a> {
    engine: &'a ProofEngine,
    tools: &'a VocabularyTools<'a>,
    /// The finding to shrink.
    first: Finding,
    left: usize,
    time: Duration,
    stopwatch: Stopwatch,
    observer: &'a mut dyn ProofObserver,
}

impl<'a> Shrinker<'a> {
    fn new(
        engine: &'a ProofEngine,
        tools: &'a VocabularyTools<'a>,
        finding: &Finding,
        limits: ShrinkLimits,
        observer: &'a mut dyn ProofObserver,
    ) -> Self {
        Self {
            engine,
            tools,
            first: finding.clone(),
            left: limits.tries,
            time: limits.time,
            stopwatch: Stopwatch::start(),
            observer,
        }
    }

    fn case(&mut self, (constraint, text): ConstraintAndText) -> Option<FindingCase> {
        let finding = self.reproduce(&constraint, &text)?;
        Some(FindingCase {
            constraint,
            finding,
        })
    }

    /// The bytes to walk along: the text of the proof, or the prefix.
    fn text(&self, finding: &Finding) -> Vec<u8> {
        let text = finding.text.clone().map(String::into_bytes);
        text.unwrap_or_else(|| self.tools.vocabulary.decode(&finding.prefix))
    }

    /// A finding of the same kind on this constraint along this text.
    fn reproduce(&mut self, constraint: &Constraint, bytes: &[u8]) -> Option<Finding> {
        self.observer.engine_changed(None);
        let constraint = Arc::new(constraint.clone());
        let vocabulary = self.tools.vocabulary;
        let text = std::str::from_utf8(bytes).ok();
        // The original tokens are kept if the bytes are the same, since other tokens may lead to
        // other masks.
        let same = vocabulary.decode(&self.first.prefix) == bytes;
        let tokens: Vec<TokenId> = if same {
            self.first.prefix.clone()
        } else {
            vocabulary.encode_exactly(text?)?
        };
        let mut context = ConstraintContext::new(vocabulary, self.tools.sorted, &constraint);
        let matching = text.filter(|text| {
            is_strict(&self.first) && context.oracles.judge(text) == Judgement::Matches
        });
        // Judging is cheap compared with compiling.
        let is_hopeless = match self.first.proof {
            _ if is_strict(&self.first) => matching.is_none(),
            Proof::AllowsEnd | Proof::DiffersLoose => !matches!(
                context.oracles.judge_bytes(bytes),
                Judgement::Violates { .. }
            ),
            _ => false,
        };
        if is_hopeless {
            return None;
        }
        self.left = self.left.saturating_sub(1);
        self.observer.engine_changed(Some(self.engine.name));
        let session = EngineSession::new(self.engine, &constraint);
        let grammar = session.grammar().ok()?;
        if self.first.proof == Proof::Contradicts {
            return self.contradiction(&session, &constraint, &tokens);
        }
        if self.first.proof == Proof::Rollback {
            return self.wrong_rollback(&*grammar, &tokens);
        }
        let text = WalkText {
            bytes,
            tokens: &tokens,
            matching,
            origin: Origin::Other,
        };
        let walked = check_masks_along(
            &*grammar,
            &mut context,
            &session.explainer(None).ok()?,
            &text,
            MAX_MASKS,
        )
        .ok()?;
        walked
            .findings
            .into_iter()
            .find(|finding| is_alike(&self.first, finding))
    }

    fn contradiction(
        &self,
        session: &EngineSession,
        constraint: &Constraint,
        tokens: &[TokenId],
    ) -> Option<Finding> {
        let (vocabulary, grammar) = (self.tools.vocabulary, session.grammar().ok()?);
        let (mut matcher, mask) =
            consistency::matcher_after(&*grammar, vocabulary, tokens, &mut 0).ok()??;
        let (mut all, _) =
            consistency::check_matcher(&mut *matcher, vocabulary, &mut PythonRandom::new(0))
                .ok()?;
        all.extend(
            consistency::check_repeated(
                &*session.engine,
                constraint,
                &*grammar,
                vocabulary,
                (tokens, &mask),
                true,
            )
            .ok()?
            .0,
        );
        let (contradiction, token) = all
            .into_iter()
            .find(|(contradiction, _)| Some(*contradiction) == self.first.contradiction)?;
        let finding = Finding::new(Proof::Contradicts, tokens, token, Origin::Other);
        Some(Finding {
            contradiction: Some(contradiction),
            ..finding
        })
    }

    fn wrong_rollback(&self, grammar: &dyn Grammar, prefix: &[TokenId]) -> Option<Finding> {
        let wrong = self.first.contradiction?;
        let rolled_back = self.first.rolled_back();
        let tokens = rollback::find_similar(
            grammar,
            self.tools.vocabulary,
            prefix,
            (&rolled_back, wrong),
            &mut PythonRandom::new(0),
        )
        .ok()??;
        Some(Finding::wrong_rollback(
            prefix,
            &tokens,
            wrong,
            Origin::Other,
        ))
    }
}

impl Attempts for Shrinker<'_> {
    fn reproduces(&mut self, constraint: &Constraint, text: &[u8]) -> bool {
        self.reproduce(constraint, text).is_some()
    }

    fn are_left(&self) -> bool {
        self.left > 0 && self.stopwatch.elapsed() < self.time
    }
}
