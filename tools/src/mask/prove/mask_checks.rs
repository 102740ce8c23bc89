//! Walks a matcher along a text and checks every mask: P1 to P4 and P6.
//!
//! Each mask is compared with facts that do not depend on the engine: the text continues with these
//! tokens (P1), it may or may not end here (P2, P3), and no text of the syntax continues with those
//! tokens (P4).

use std::sync::Arc;

use super::EngineResult;
use super::decision_count::DecisionCounts;
use super::explain::{Explainer, Refusal};
use super::finding::{Explanation, Finding, Interpretation, Origin, Proof};
use super::oracles::{Judgement, Oracles};
use super::sorted_vocabulary::SortedVocabulary;
use super::syntax::Syntax;
use sobench_core::constraint::Constraint;
use sobench_engine::{Departure, Grammar, Matcher, TokenId, TokenMask, Vocabulary};

/// Maximum findings per proof and interpretation kept from one walk; further ones are counted.
const MAX_KEPT: usize = 2;

/// Maximum findings kept for tokens of one mask that the syntax rules out, one per first byte.
const MAX_KEPT_TOKENS: usize = 4;

/// Maximum tokens of a mask that are checked individually against a grammar.
const MAX_CHECKED_TOKENS: usize = 32;

/// Data shared by all texts of a constraint.
pub(super) struct ConstraintContext<'a> {
    pub(super) vocabulary: &'a Vocabulary,
    pub(super) sorted: &'a SortedVocabulary,
    pub(super) oracles: Oracles,
    pub(super) syntax: Syntax,
}

impl<'a> ConstraintContext<'a> {
    pub(super) fn new(
        vocabulary: &'a Vocabulary,
        sorted: &'a SortedVocabulary,
        constraint: &Arc<Constraint>,
    ) -> Self {
        Self {
            vocabulary,
            sorted,
            oracles: Oracles::new(Arc::clone(constraint)),
            syntax: Syntax::new(constraint),
        }
    }
}

/// A complete or partial text to walk along.
#[derive(Clone, Copy)]
pub(super) struct WalkText<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) tokens: &'a [TokenId],
    /// The text if it matches the constraint; otherwise it proves nothing by itself.
    pub(super) matching: Option<&'a str>,
    pub(super) origin: Origin,
}

/// The result of a walk.
#[derive(Debug, Default)]
pub(super) struct CheckedWalk {
    pub(super) findings: Vec<Finding>,
    pub(super) counts: DecisionCounts,
    /// Computed masks.
    pub(super) masks: u64,
    /// Whether the engine accepted the text to its end.
    pub(super) accepted: bool,
    /// Ends on which the oracles disagree.
    pub(super) undecided_ends: u64,
}

/// A refused token at a position where the text continued with another token, and the byte offset
/// at which the refused token ends.
type Pending = (Finding, usize);

impl CheckedWalk {
    /// A result with one wrong decision.
    pub(super) fn with_finding(finding: Finding) -> Self {
        let mut walked = Self::default();
        walked.counts.add_decided(finding.proof, 1);
        walked.record_error(finding, 1);
        walked
    }

    /// Records the pending findings, each with the explanation for its end offset.
    fn resolve_pending(&mut self, pending: Vec<Pending>, why: impl Fn(usize) -> Explanation) {
        for (finding, end) in pending {
            self.record_error(finding.explained_by(why(end)), 1);
        }
    }

    /// Counts wrong decisions, and keeps the finding unless there are enough like it.
    pub(super) fn record_error(&mut self, finding: Finding, times: u64) {
        self.counts
            .add_wrong(finding.proof, &finding.interpretation, times);
        let is_similar = |known: &&Finding| {
            known.proof == finding.proof && known.interpretation == finding.interpretation
        };
        if self.findings.iter().filter(is_similar).count() < MAX_KEPT {
            self.findings.push(finding);
        }
    }
}

/// Walks along a text as far as the engine accepts it, with at most `budget` masks.
///
/// # Errors
/// The library crashed or reached one of its limits.
pub(super) fn check_masks_along(
    grammar: &dyn Grammar,
    context: &mut ConstraintContext<'_>,
    explainer: &Explainer<'_>,
    text: &WalkText<'_>,
    budget: u64,
) -> EngineResult<CheckedWalk> {
    let mut walked = CheckedWalk::default();
    let mut matcher = grammar.matcher()?;
    let mut mask = TokenMask::new(context.vocabulary.len());
    let mut unforced = Unforced {
        explainer,
        has_diverged: false,
        matcher: None,
        committed: 0,
    };
    let mut pending = Vec::new();
    let mut at = 0;
    for place in 0..=text.tokens.len() {
        if walked.masks == budget {
            walked.resolve_pending(pending, |_| Interpretation::Unclear.into());
            return Ok(walked);
        }
        matcher.mask(&mut mask)?;
        walked.masks += 1;
        let next = text.tokens.get(place).copied();
        let position = WalkPosition {
            text,
            at,
            committed: &text.tokens[..place],
            next,
            mask: &mask,
        };
        let stopped = position.check_required_tokens(
            context,
            explainer,
            &mut unforced,
            &mut pending,
            &mut walked,
        )?;
        position.check_end(context, explainer, &mut walked)?;
        position.check_allowed_tokens(context, &mut walked);
        position.check_dead_end(&mut walked);
        let Some(token) = next.filter(|token| mask.allows(*token)) else {
            walked.accepted = next.is_none() && mask.allows(context.vocabulary.eos());
            // A token that extends beyond the refused position is refused for the same reason.
            walked.resolve_pending(pending, |end| {
                stopped.clone().filter(|_| end > at).unwrap_or_default()
            });
            return Ok(walked);
        };
        matcher.commit(token)?;
        at += context.vocabulary.bytes(token).len();
    }
    Ok(walked)
}

/// The same engine without forced tokens, advanced on demand.
struct Unforced<'a> {
    explainer: &'a Explainer<'a>,
    /// Whether it refused a committed token.
    has_diverged: bool,
    matcher: Option<Box<dyn Matcher>>,
    committed: usize,
}

impl Unforced<'_> {
    /// Its mask after these tokens; `None` if there is no such engine or it refuses a token.
    fn mask(&mut self, tokens: &[TokenId], ids: usize) -> EngineResult<Option<TokenMask>> {
        if self.has_diverged {
            return Ok(None);
        }
        if self.matcher.is_none() {
            let Some(grammar) = self.explainer.unforced() else {
                return Ok(None);
            };
            self.matcher = Some(grammar.matcher()?);
        }
        let matcher = self
            .matcher
            .as_mut()
            .expect("the matcher was created above");
        while self.committed < tokens.len() {
            if matcher.commit(tokens[self.committed]).is_err() {
                self.has_diverged = true;
                return Ok(None);
            }
            self.committed += 1;
        }
        let mut mask = TokenMask::new(ids);
        matcher.mask(&mut mask)?;
        Ok(Some(mask))
    }
}

/// A position in a walk.
struct WalkPosition<'a> {
    text: &'a WalkText<'a>,
    /// Committed bytes.
    at: usize,
    committed: &'a [TokenId],
    /// The next token of the walk.
    next: Option<TokenId>,
    mask: &'a TokenMask,
}

impl WalkPosition<'_> {
    fn finding(&self, proof: Proof, token: Option<TokenId>) -> Finding {
        Finding::new(proof, self.committed, token, self.text.origin)
    }

    /// P1: every token that is a prefix of the rest of a matching text must be allowed. Returns the
    /// explanation if the text is refused. A token that is refused while the text continues is
    /// pending until then.
    fn check_required_tokens(
        &self,
        context: &ConstraintContext<'_>,
        explainer: &Explainer<'_>,
        unforced: &mut Unforced<'_>,
        pending: &mut Vec<Pending>,
        walked: &mut CheckedWalk,
    ) -> EngineResult<Option<Explanation>> {
        let Some(text) = self.text.matching else {
            return Ok(None);
        };
        let required: Vec<TokenId> = context
            .sorted
            .prefix_tokens(&self.text.bytes[self.at..])
            .collect();
        walked
            .counts
            .add_decided(Proof::RefusesToken, required.len() as u64);
        let refused: Vec<TokenId> = required
            .into_iter()
            .filter(|token| !self.mask.allows(*token))
            .collect();
        let Some(longest) = refused
            .iter()
            .map(|token| context.vocabulary.bytes(*token).len())
            .max()
        else {
            return Ok(None);
        };
        let continues = self.next.is_some_and(|token| self.mask.allows(token));
        let unforced_mask = unforced.mask(self.committed, context.vocabulary.len())?;
        let refusal = Refusal {
            text,
            committed: self.committed,
            before: self.at,
            reach: self.at + longest,
        };
        let why = if continues {
            None
        } else {
            Some(explainer.explain_refusal(&refusal, context)?)
        };
        for token in refused {
            let finding = Finding {
                text: Some(text.to_owned()),
                ..self.finding(Proof::RefusesToken, Some(token))
            };
            let is_forced = unforced_mask
                .as_ref()
                .is_some_and(|unforced_mask| unforced_mask.allows(token));
            match &why {
                _ if is_forced => walked.record_error(
                    finding.explained_by(
                        Interpretation::Declared(vec![Departure::CanonicalTokens]).into(),
                    ),
                    1,
                ),
                Some(why) => walked.record_error(finding.explained_by(why.clone()), 1),
                None => pending.push((finding, self.at + context.vocabulary.bytes(token).len())),
            }
        }
        Ok(why)
    }

    /// P2 and P3: the end is allowed exactly after matching texts.
    fn check_end(
        &self,
        context: &mut ConstraintContext<'_>,
        explainer: &Explainer<'_>,
        walked: &mut CheckedWalk,
    ) -> EngineResult<()> {
        let before = &self.text.bytes[..self.at];
        let is_allowed = self.mask.allows(context.vocabulary.eos());
        if !is_allowed && !context.syntax.is_complete(before) {
            walked.counts.add_decided(Proof::AllowsEnd, 1);
            return Ok(());
        }
        let text = std::str::from_utf8(before).ok();
        match context.oracles.judge_bytes(before) {
            Judgement::Matches => {
                walked.counts.add_decided(Proof::RefusesEnd, 1);
                if let Some(text) = text.filter(|_| !is_allowed) {
                    let refusal = Refusal {
                        text,
                        committed: self.committed,
                        before: self.at,
                        reach: self.at,
                    };
                    let why = explainer.explain_refusal(&refusal, context)?;
                    let finding = Finding {
                        text: Some(text.to_owned()),
                        ..self.finding(Proof::RefusesEnd, None)
                    };
                    walked.record_error(finding.explained_by(why), 1);
                }
            }
            Judgement::Violates { rule } => {
                walked.counts.add_decided(Proof::AllowsEnd, 1);
                if is_allowed {
                    let interpretation =
                        explainer.explain_acceptance(&rule, text.unwrap_or_default(), context)?;
                    let text = text.map(str::to_owned);
                    walked.record_error(
                        Finding {
                            text,
                            interpretation,
                            breaks: Some(rule),
                            ..self.finding(Proof::AllowsEnd, None)
                        },
                        1,
                    );
                }
            }
            Judgement::Undecided => walked.undecided_ends += 1,
        }
        Ok(())
    }

    /// P4: no token is allowed that no text of the syntax continues with.
    fn check_allowed_tokens(&self, context: &mut ConstraintContext<'_>, walked: &mut CheckedWalk) {
        let before = &self.text.bytes[..self.at];
        let eos = context.vocabulary.eos();
        // After an impossible prefix, no further token is to blame.
        if context.syntax.refuses(before) == Some(true) {
            return;
        }
        let mut ruled_out: Vec<TokenId> = Vec::new();
        if let Some(possible) = context
            .syntax
            .mask(before, context.vocabulary, context.sorted)
        {
            let allowed = self.mask.count() - usize::from(self.mask.allows(eos));
            walked
                .counts
                .add_decided(Proof::AllowsToken, allowed as u64);
            let beyond = self.mask.difference(&possible);
            let tokens = beyond.iter().filter(|token| *token != eos);
            for token in tokens.take(context.syntax.max_ruled_out()) {
                let bytes = context.vocabulary.bytes(token);
                if context.syntax.can_rule_out(before, bytes) {
                    ruled_out.push(token);
                }
            }
        } else {
            let step = self.mask.count().div_ceil(MAX_CHECKED_TOKENS).max(1);
            for token in self.mask.iter().filter(|token| *token != eos).step_by(step) {
                let bytes = context.vocabulary.bytes(token);
                match context.syntax.refuses(&[before, bytes].concat()) {
                    Some(refuses) => {
                        walked.counts.add_decided(Proof::AllowsToken, 1);
                        if refuses || bytes.is_empty() {
                            ruled_out.push(token);
                        }
                    }
                    None => break,
                }
            }
        }
        let mut first_bytes = Vec::new();
        for token in ruled_out {
            let first = context.vocabulary.bytes(token).first().copied();
            let finding = self.finding(Proof::AllowsToken, Some(token));
            walked
                .counts
                .add_wrong(Proof::AllowsToken, &Interpretation::Error, 1);
            if first_bytes.len() < MAX_KEPT_TOKENS && !first_bytes.contains(&first) {
                first_bytes.push(first);
                walked.findings.push(finding);
            }
        }
    }

    /// P6: the mask is empty.
    fn check_dead_end(&self, walked: &mut CheckedWalk) {
        walked.counts.add_decided(Proof::DeadEnd, 1);
        if self.mask.count() == 0 {
            walked.record_error(self.finding(Proof::DeadEnd, None), 1);
        }
    }
}
