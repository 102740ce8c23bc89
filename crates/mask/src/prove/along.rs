//! Walks a matcher along a text and proves what its masks get wrong on the way: P1 to P4 and P6.
//! Knows no corpus, no process and no clock.
//!
//! Every mask is held against what is known without the engine: the text goes on with these tokens
//! (P1), it may end here or not (P2, P3), and no text of the syntax goes on with those (P4).

use std::sync::Arc;

use super::EngineResult;
use super::count::Counts;
use super::explain::{Explainer, Refusal};
use super::finding::{Finding, Origin, Proof, Reading, Why};
use super::judges::{Judged, Judges};
use super::sorted::Sorted;
use super::syntax::Syntax;
use sobench_core::constraint::Constraint;
use sobench_engine::{Departure, Grammar, Matcher, TokenId, TokenMask, Vocabulary};

/// Findings of one proof and reading that are kept of one walk; more are counted.
const MAX_KEPT: usize = 2;

/// Tokens of a mask that syntax rules out which are kept, of those that differ in their first byte.
const MAX_KEPT_TOKENS: usize = 4;

/// Tokens of a mask of which a grammar is asked, one after the other, whether a sentence goes on
/// with them.
const MAX_ASKED: usize = 32;

/// What does not change from one text of a constraint to the next.
pub(super) struct Ground<'a> {
    pub(super) vocabulary: &'a Vocabulary,
    pub(super) sorted: &'a Sorted,
    pub(super) judges: Judges,
    pub(super) syntax: Syntax,
}

impl<'a> Ground<'a> {
    pub(super) fn new(
        vocabulary: &'a Vocabulary,
        sorted: &'a Sorted,
        constraint: &Arc<Constraint>,
    ) -> Self {
        Self {
            vocabulary,
            sorted,
            judges: Judges::new(Arc::clone(constraint)),
            syntax: Syntax::of(constraint),
        }
    }
}

/// A text to walk along, be it whole or only the beginning of one.
#[derive(Clone, Copy)]
pub(super) struct Text<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) tokens: &'a [TokenId],
    /// The text, where it matches the constraint; else it proves nothing by itself.
    pub(super) matching: Option<&'a str>,
    pub(super) origin: Origin,
}

/// What came of a walk.
#[derive(Debug, Default)]
pub(super) struct Walked {
    pub(super) findings: Vec<Finding>,
    pub(super) counts: Counts,
    /// Masks that were computed.
    pub(super) masks: u64,
    /// Whether the text was let through to its end.
    pub(super) accepted: bool,
    /// Ends on which the oracles do not agree.
    pub(super) open: u64,
}

/// A token that was refused at a place where the text went on with another one, and the byte of the
/// text that it ends at.
type Pending = (Finding, usize);

impl Walked {
    /// One decision, which was wrong.
    pub(super) fn of(finding: Finding) -> Self {
        let mut walked = Self::default();
        walked.counts.decided(finding.proof, 1);
        walked.found(finding, 1);
        walked
    }

    /// Counts what was pending, each as it is read from the byte that it ends at.
    fn settle(&mut self, pending: Vec<Pending>, why: impl Fn(usize) -> Why) {
        for (finding, end) in pending {
            self.found(finding.taken(why(end)), 1);
        }
    }

    /// Counts decisions that were wrong, and keeps the finding unless there are enough like it.
    pub(super) fn found(&mut self, finding: Finding, times: u64) {
        self.counts.wrong(finding.proof, &finding.reading, times);
        let like = |it: &&Finding| it.proof == finding.proof && it.reading == finding.reading;
        if self.findings.iter().filter(like).count() < MAX_KEPT {
            self.findings.push(finding);
        }
    }
}

/// Walks along a text, as far as the engine lets it, in at most `budget` masks.
///
/// # Errors
/// The library's own: it crashed, or one of its limits was hit.
pub(super) fn along(
    grammar: &dyn Grammar,
    ground: &mut Ground<'_>,
    explainer: &Explainer<'_>,
    text: &Text<'_>,
    budget: u64,
) -> EngineResult<Walked> {
    let mut walked = Walked::default();
    let mut matcher = grammar.matcher()?;
    let mut mask = TokenMask::new(ground.vocabulary.len());
    let mut unforced = Unforced {
        explainer,
        is_lost: false,
        matcher: None,
        committed: 0,
    };
    let mut pending = Vec::new();
    let mut at = 0;
    for place in 0..=text.tokens.len() {
        if walked.masks == budget {
            walked.settle(pending, |_| Reading::Unclear.into());
            return Ok(walked);
        }
        matcher.mask(&mut mask)?;
        walked.masks += 1;
        let next = text.tokens.get(place).copied();
        let here = Here {
            text,
            at,
            committed: &text.tokens[..place],
            next,
            mask: &mask,
        };
        let stopped =
            here.refuses_token(ground, explainer, &mut unforced, &mut pending, &mut walked)?;
        here.end(ground, explainer, &mut walked)?;
        here.allows_token(ground, &mut walked);
        here.dead_end(&mut walked);
        let Some(token) = next.filter(|token| mask.allows(*token)) else {
            walked.accepted = next.is_none() && mask.allows(ground.vocabulary.eos());
            // What reaches beyond the place where the text is refused is refused for the same
            // reason.
            walked.settle(pending, |end| {
                stopped.clone().filter(|_| end > at).unwrap_or_default()
            });
            return Ok(walked);
        };
        matcher.commit(token)?;
        at += ground.vocabulary.bytes(token).len();
    }
    Ok(walked)
}

/// The same engine without forced tokens, following along where it is needed.
struct Unforced<'a> {
    explainer: &'a Explainer<'a>,
    /// Whether it did not take what was committed.
    is_lost: bool,
    matcher: Option<Box<dyn Matcher>>,
    committed: usize,
}

impl Unforced<'_> {
    /// Its mask after these tokens; `None` where there is none, or it does not take them.
    fn mask(&mut self, tokens: &[TokenId], ids: usize) -> EngineResult<Option<TokenMask>> {
        if self.is_lost {
            return Ok(None);
        }
        if self.matcher.is_none() {
            let Some(grammar) = self.explainer.unforced() else {
                return Ok(None);
            };
            self.matcher = Some(grammar.matcher()?);
        }
        let matcher = self.matcher.as_mut().expect("it was made just now");
        while self.committed < tokens.len() {
            if matcher.commit(tokens[self.committed]).is_err() {
                self.is_lost = true;
                return Ok(None);
            }
            self.committed += 1;
        }
        let mut mask = TokenMask::new(ids);
        matcher.mask(&mut mask)?;
        Ok(Some(mask))
    }
}

/// One place of a walk.
struct Here<'a> {
    text: &'a Text<'a>,
    /// Bytes that were committed.
    at: usize,
    committed: &'a [TokenId],
    /// The token that the walk goes on with.
    next: Option<TokenId>,
    mask: &'a TokenMask,
}

impl Here<'_> {
    fn finding(&self, proof: Proof, token: Option<TokenId>) -> Finding {
        Finding::new(proof, self.committed, token, self.text.origin)
    }

    /// P1: whatever the rest of a text that matches begins with has to be allowed. Returns why the
    /// text is refused, where it is; a token that is refused while the text goes on is pending
    /// until that is known.
    fn refuses_token(
        &self,
        ground: &Ground<'_>,
        explainer: &Explainer<'_>,
        unforced: &mut Unforced<'_>,
        pending: &mut Vec<Pending>,
        walked: &mut Walked,
    ) -> EngineResult<Option<Why>> {
        let Some(text) = self.text.matching else {
            return Ok(None);
        };
        let due: Vec<TokenId> = ground
            .sorted
            .beginning(&self.text.bytes[self.at..])
            .collect();
        walked.counts.decided(Proof::RefusesToken, due.len() as u64);
        let refused: Vec<TokenId> = due
            .into_iter()
            .filter(|token| !self.mask.allows(*token))
            .collect();
        let Some(longest) = refused
            .iter()
            .map(|token| ground.vocabulary.bytes(*token).len())
            .max()
        else {
            return Ok(None);
        };
        let goes_on = self.next.is_some_and(|token| self.mask.allows(token));
        let free = unforced.mask(self.committed, ground.vocabulary.len())?;
        let refusal = Refusal {
            text,
            committed: self.committed,
            before: self.at,
            reach: self.at + longest,
        };
        let why = if goes_on {
            None
        } else {
            Some(explainer.strict(&refusal, ground)?)
        };
        for token in refused {
            let finding = Finding {
                text: Some(text.to_owned()),
                ..self.finding(Proof::RefusesToken, Some(token))
            };
            let is_forced = free.as_ref().is_some_and(|free| free.allows(token));
            match &why {
                _ if is_forced => walked.found(
                    finding.taken(Reading::Declared(vec![Departure::CanonicalTokens]).into()),
                    1,
                ),
                Some(why) => walked.found(finding.taken(why.clone()), 1),
                None => pending.push((finding, self.at + ground.vocabulary.bytes(token).len())),
            }
        }
        Ok(why)
    }

    /// P2 and P3: the end is allowed exactly after what matches.
    fn end(
        &self,
        ground: &mut Ground<'_>,
        explainer: &Explainer<'_>,
        walked: &mut Walked,
    ) -> EngineResult<()> {
        let before = &self.text.bytes[..self.at];
        let is_allowed = self.mask.allows(ground.vocabulary.eos());
        if !is_allowed && !ground.syntax.is_whole(before) {
            walked.counts.decided(Proof::AllowsEnd, 1);
            return Ok(());
        }
        let text = std::str::from_utf8(before).ok();
        match ground.judges.judge_bytes(before) {
            Judged::Matches => {
                walked.counts.decided(Proof::RefusesEnd, 1);
                if let Some(text) = text.filter(|_| !is_allowed) {
                    let refusal = Refusal {
                        text,
                        committed: self.committed,
                        before: self.at,
                        reach: self.at,
                    };
                    let why = explainer.strict(&refusal, ground)?;
                    let finding = Finding {
                        text: Some(text.to_owned()),
                        ..self.finding(Proof::RefusesEnd, None)
                    };
                    walked.found(finding.taken(why), 1);
                }
            }
            Judged::Breaks { how } => {
                walked.counts.decided(Proof::AllowsEnd, 1);
                if is_allowed {
                    let reading = explainer.loose(&how);
                    let text = text.map(str::to_owned);
                    walked.found(
                        Finding {
                            text,
                            reading,
                            breaks: Some(how),
                            ..self.finding(Proof::AllowsEnd, None)
                        },
                        1,
                    );
                }
            }
            Judged::Open => walked.open += 1,
        }
        Ok(())
    }

    /// P4: no token is allowed with which no text of the syntax goes on.
    fn allows_token(&self, ground: &mut Ground<'_>, walked: &mut Walked) {
        let before = &self.text.bytes[..self.at];
        let eos = ground.vocabulary.eos();
        // Where the text is lost already, no token is to blame for it any more.
        if ground.syntax.refuses(before) == Some(true) {
            return;
        }
        let mut ruled_out: Vec<TokenId> = Vec::new();
        if let Some(possible) = ground.syntax.mask(before, ground.vocabulary, ground.sorted) {
            let allowed = self.mask.count() - usize::from(self.mask.allows(eos));
            walked.counts.decided(Proof::AllowsToken, allowed as u64);
            let beyond = self.mask.without(&possible);
            let is_sure = |token: &TokenId| {
                *token != eos && ground.syntax.is_sure_of(ground.vocabulary.bytes(*token))
            };
            ruled_out.extend(beyond.iter().filter(is_sure));
        } else {
            let step = self.mask.count().div_ceil(MAX_ASKED).max(1);
            for token in self.mask.iter().filter(|token| *token != eos).step_by(step) {
                let bytes = ground.vocabulary.bytes(token);
                match ground.syntax.refuses(&[before, bytes].concat()) {
                    Some(refuses) => {
                        walked.counts.decided(Proof::AllowsToken, 1);
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
            let first = ground.vocabulary.bytes(token).first().copied();
            let finding = self.finding(Proof::AllowsToken, Some(token));
            walked.counts.wrong(Proof::AllowsToken, &Reading::Error, 1);
            if first_bytes.len() < MAX_KEPT_TOKENS && !first_bytes.contains(&first) {
                first_bytes.push(first);
                walked.findings.push(finding);
            }
        }
    }

    /// P6: nothing at all is allowed.
    fn dead_end(&self, walked: &mut Walked) {
        walked.counts.decided(Proof::DeadEnd, 1);
        if self.mask.count() == 0 {
            walked.found(self.finding(Proof::DeadEnd, None), 1);
        }
    }
}
