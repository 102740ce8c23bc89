//! Faults that change the masks or the end of one answer in the batch.

use super::faults::{FaultKind, RequestFaults};
use sobench_engine::{Matcher, TokenMask};

/// Number of constrained tokens before a grammar restarts without a preemption.
const TOKENS_BEFORE_RESTART: u32 = 4;

/// Number of running sequences from which answers are shortened, and the tokens of all of them
/// together by then.
const SHORTENING_SEQUENCES: usize = 4;
const SHORTENED_TOKENS: usize = 128;

/// Tokens of an answer that ends early in any case.
const SHORTEST_TOKENS: usize = 4;

/// The faults of one answer, and the state that they need.
#[derive(Default)]
pub(super) struct MaskFaults {
    faults: RequestFaults,
    /// Keeps a matcher in the start state of each part, for this request or for others.
    keeps_start: bool,
    /// The matcher of the current part in its start state.
    start: Option<Box<dyn Matcher>>,
    /// The mask of the token before.
    previous_mask: Option<TokenMask>,
    was_preempted: bool,
    has_restarted: bool,
    running: usize,
}

/// What happens to the matcher before a step.
pub(super) enum MatcherChange {
    Keep,
    Remove,
    Replace(Box<dyn Matcher>),
}

impl MaskFaults {
    /// `swaps` says whether this or another request may get the masks of another one.
    pub(super) fn new(faults: RequestFaults, swaps: bool) -> Self {
        Self {
            keeps_start: swaps || faults.has(FaultKind::RestartGrammar),
            faults,
            ..Self::default()
        }
    }

    /// A part starts, with this matcher.
    pub(super) fn start_part(&mut self, matcher: Option<&dyn Matcher>) {
        self.start = matcher.filter(|_| self.keeps_start).map(Matcher::fork);
        self.previous_mask = None;
    }

    /// The sequence was preempted.
    pub(super) fn preempted(&mut self) {
        self.was_preempted = true;
    }

    /// Sets the number of running sequences.
    pub(super) fn set_running(&mut self, sequences: usize) {
        self.running = sequences;
    }

    /// The change of the matcher after this number of constrained tokens.
    pub(super) fn change_matcher(&mut self, constrained_tokens: u32) -> MatcherChange {
        if self.tokens_until_change(constrained_tokens) == 0 {
            self.faults.inject(FaultKind::FailOpen);
            return MatcherChange::Remove;
        }
        let is_time = constrained_tokens >= TOKENS_BEFORE_RESTART
            || self.was_preempted && constrained_tokens > 0;
        if self.faults.has(FaultKind::RestartGrammar)
            && !self.has_restarted
            && is_time
            && let Some(matcher) = &self.start
        {
            self.has_restarted = true;
            self.faults.inject(FaultKind::RestartGrammar);
            return MatcherChange::Replace(matcher.fork());
        }
        MatcherChange::Keep
    }

    /// The number of tokens from here on until a fault changes the matcher, at most.
    pub(super) fn tokens_until_change(&self, constrained_tokens: u32) -> u32 {
        let tokens = self.faults.argument(FaultKind::FailOpen);
        tokens.map_or(u32::MAX, |tokens| {
            (tokens as u32).saturating_sub(constrained_tokens)
        })
    }

    /// Replaces a mask by that of the token before.
    pub(super) fn delay_mask(&mut self, mask: &mut TokenMask) {
        if !self.delays_masks() {
            return;
        }
        match &mut self.previous_mask {
            Some(previous) => {
                std::mem::swap(previous, mask);
                self.faults.inject(FaultKind::MaskOffByOne);
            }
            None => self.previous_mask = Some(mask.clone()),
        }
    }

    /// Whether masks are those of the token before. Then the matcher may refuse tokens, and there
    /// are no drafts.
    pub(super) fn delays_masks(&self) -> bool {
        self.faults.has(FaultKind::MaskOffByOne)
    }

    /// Whether a rejected draft stays in the matcher, if that changes the mask.
    pub(super) fn may_keep_rejected_draft(&self) -> bool {
        self.faults.has(FaultKind::BadRollback)
    }

    /// A rejected draft stays in the matcher.
    pub(super) fn keep_rejected_draft(&mut self) {
        self.faults.inject(FaultKind::BadRollback);
    }

    /// Whether the answer ends after this number of tokens.
    pub(super) fn shortens(&mut self, tokens: u32) -> bool {
        let is_early = tokens as usize >= SHORTEST_TOKENS;
        if is_early && self.faults.inject(FaultKind::Shorten) {
            return true;
        }
        if !self.faults.has(FaultKind::ShortenUnderLoad) || self.running < SHORTENING_SEQUENCES {
            return false;
        }
        let most = (SHORTENED_TOKENS / self.running).max(1);
        tokens as usize >= most && self.faults.inject(FaultKind::ShortenUnderLoad)
    }

    /// Whether the masks are to be swapped with those of another sequence. False after a swap.
    pub(super) fn wants_swap(&self) -> bool {
        self.start.is_some() && self.faults.has(FaultKind::SwapMasks)
    }

    /// Whether the masks can be swapped with those of a sequence that wants it.
    pub(super) fn can_swap(&self) -> bool {
        self.start.is_some() && !self.faults.has(FaultKind::SwapMasks)
    }

    /// Takes the matcher in its start state, for a swap.
    pub(super) fn take_start(&mut self) -> Option<Box<dyn Matcher>> {
        self.faults.inject(FaultKind::SwapMasks);
        self.start.take()
    }
}
