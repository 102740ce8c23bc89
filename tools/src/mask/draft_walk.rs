//! Walks along a text as servers with speculative decoding, draft trees and jump-forward decoding
//! do.
//!
//! At every position, a draft is masked and committed token by token, and rolled back. The matcher
//! is then compared with one that never drafted, which walks up to one draft ahead, so that masks
//! along the draft are compared too. Each duration covers calls into the engine only.

use std::collections::VecDeque;

use super::clock::measure;
use super::commit::{EngineResult, commits_all, was_committed};
use super::drafts::{DraftCheck, DraftDifference, DraftRow};
use super::row::last_characters;
use sobench_engine::{EngineError, Grammar, Matcher, TokenId, TokenMask, Vocabulary};

/// Maximum draft trees of a text, evenly spread: each commits the text up to its position again.
const MAX_TREES: usize = 8;

/// Spreads the choice of a token over the vocabulary; a prime.
const TOKEN_STRIDE: usize = 7919;

/// A text to walk along.
pub(super) struct DraftText<'a> {
    /// Index of the instance in its entry.
    pub(super) instance: usize,
    pub(super) text: &'a str,
    pub(super) tokens: &'a [TokenId],
    /// Whether the tokens are those that the tokenizer writes.
    pub(super) is_canonical: bool,
}

/// Walks along a text with drafts of `length` tokens. Errors of the engine at a position that it
/// also reaches without drafts end the walk; the ordinary walk reports them.
///
/// # Errors
/// The library crashed.
pub(super) fn draft_along(
    grammar: &dyn Grammar,
    vocabulary: &Vocabulary,
    text: &DraftText<'_>,
    length: usize,
) -> EngineResult<DraftRow> {
    let mut sequence = text.tokens.to_vec();
    sequence.push(vocabulary.eos());
    let offsets = std::iter::once(0)
        .chain(text.tokens.iter().scan(0, |byte, token| {
            *byte += vocabulary.bytes(*token).len();
            Some(*byte)
        }))
        .collect();
    let matcher = match grammar.matcher() {
        Err(error) if is_crash(&error) => return Err(error),
        Err(_) => return Ok(DraftRow::default()),
        Ok(matcher) => matcher,
    };
    let walk = DraftWalk {
        grammar,
        vocabulary,
        text,
        length,
        sequence,
        offsets,
        undrafted: Undrafted::new(matcher),
        buffers: vec![TokenMask::new(vocabulary.len()); length],
        is_unreliable: false,
        row: DraftRow {
            texts: 1,
            ..DraftRow::default()
        },
    };
    walk.run()
}

/// The state at a position of a matcher that never drafted.
struct Step {
    mask: TokenMask,
    mask_ns: u64,
    may_end: bool,
    /// Whether the next token of the text is accepted; at the end of the text, whether the end is.
    takes_next: bool,
}

/// A matcher that never drafts, and its states from the current position to one draft ahead.
struct Undrafted {
    matcher: Box<dyn Matcher>,
    steps: VecDeque<Step>,
    /// Position of the first of `steps`.
    first: usize,
    end: Option<UndraftedEnd>,
}

/// Why there are no further states.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UndraftedEnd {
    /// The end of the text, or a refused token.
    Text,
    /// The engine failed at the position after the last state.
    Failed,
}

impl Undrafted {
    fn new(matcher: Box<dyn Matcher>) -> Self {
        Self {
            matcher,
            steps: VecDeque::new(),
            first: 0,
            end: None,
        }
    }

    /// The state at a position, if it was reached and is not before the current position.
    fn step(&self, position: usize) -> Option<&Step> {
        self.steps.get(position.checked_sub(self.first)?)
    }

    /// The number of tokens from `position` on that are accepted, up to `limit`.
    fn accepted_from(&self, position: usize, limit: usize) -> usize {
        (position..position + limit)
            .take_while(|at| self.step(*at).is_some_and(|step| step.takes_next))
            .count()
    }

    /// Walks up to and including `position`.
    fn walk_to(
        &mut self,
        position: usize,
        sequence: &[TokenId],
        vocabulary: &Vocabulary,
    ) -> EngineResult<()> {
        while self.end.is_none() && self.first + self.steps.len() <= position {
            let at = self.first + self.steps.len();
            match self.next_step(sequence[at], vocabulary) {
                Ok(step) => {
                    if !step.takes_next || at + 1 == sequence.len() {
                        self.end = Some(UndraftedEnd::Text);
                    }
                    self.steps.push_back(step);
                }
                Err(error) if is_crash(&error) => return Err(error),
                Err(_) => self.end = Some(UndraftedEnd::Failed),
            }
        }
        Ok(())
    }

    fn next_step(&mut self, next: TokenId, vocabulary: &Vocabulary) -> EngineResult<Step> {
        let mut mask = TokenMask::new(vocabulary.len());
        let (masked, mask_ns) = measure(|| self.matcher.mask(&mut mask));
        masked?;
        let may_end = self.matcher.is_accepting()?;
        let takes_next = if next == vocabulary.eos() {
            may_end
        } else {
            was_committed(self.matcher.commit(next))?
        };
        Ok(Step {
            mask,
            mask_ns,
            may_end,
            takes_next,
        })
    }

    /// Forgets the state before the next position.
    fn advance(&mut self) {
        self.steps.pop_front();
        self.first += 1;
    }
}

/// A matcher of a server with jump-forward decoding: it commits forced tokens without masks.
struct Jumper {
    matcher: Box<dyn Matcher>,
    /// The next position at which it asks for forced tokens.
    next: usize,
}

/// Tokens after a position, and the state that they lead to without a fork or a rollback.
struct Branch {
    tokens: Vec<TokenId>,
    mask: TokenMask,
    may_end: bool,
}

impl Branch {
    fn leads_to(&self, matcher: &mut dyn Matcher, mask: &mut TokenMask) -> EngineResult<bool> {
        matcher.mask(mask)?;
        Ok(*mask == self.mask && matcher.is_accepting()? == self.may_end)
    }
}

/// One draft of a matcher.
#[derive(Default)]
struct Drafted {
    masks: usize,
    accepted: usize,
    mask_ns: u64,
    commit_ns: u64,
}

impl Drafted {
    /// Masks and commits the tokens up to the first refused one.
    fn run(
        &mut self,
        matcher: &mut dyn Matcher,
        tokens: &[TokenId],
        buffers: &mut [TokenMask],
    ) -> EngineResult<()> {
        for (token, buffer) in tokens.iter().zip(buffers) {
            let (masked, ns) = measure(|| matcher.mask(buffer));
            masked?;
            self.masks += 1;
            self.mask_ns = self.mask_ns.saturating_add(ns);
            let (committed, ns) = measure(|| matcher.commit(*token));
            if !was_committed(committed)? {
                break;
            }
            self.accepted += 1;
            self.commit_ns = self.commit_ns.saturating_add(ns);
        }
        Ok(())
    }
}

struct DraftWalk<'a> {
    grammar: &'a dyn Grammar,
    vocabulary: &'a Vocabulary,
    text: &'a DraftText<'a>,
    length: usize,
    /// The tokens of the text and the end token.
    sequence: Vec<TokenId>,
    /// Byte offset of each position.
    offsets: Vec<usize>,
    undrafted: Undrafted,
    /// Masks along a draft.
    buffers: Vec<TokenMask>,
    /// Whether a rollback was refused or wrong. From then on, a fork is kept before each draft, so
    /// that the text is not committed again at every position.
    is_unreliable: bool,
    row: DraftRow,
}

impl DraftWalk<'_> {
    fn run(mut self) -> EngineResult<DraftRow> {
        match self.walk() {
            Err(error) if is_crash(&error) => return Err(error),
            // The same tokens were accepted before: a new matcher at this position cannot be made.
            Err(error) => {
                let position = self.undrafted.first;
                self.record(DraftCheck::Failed, position, 0, Some(error.to_string()));
            }
            Ok(()) => {}
        }
        Ok(self.row)
    }

    fn walk(&mut self) -> EngineResult<()> {
        let mut drafting = self.grammar.matcher()?;
        let mut jumper = Some(Jumper {
            matcher: self.grammar.matcher()?,
            next: 0,
        });
        for position in 0..self.sequence.len() {
            self.undrafted
                .walk_to(position + self.length, &self.sequence, self.vocabulary)?;
            if self.undrafted.step(position).is_none() {
                break;
            }
            jumper = self.count_forced(jumper, position)?;
            drafting = self.check_position(drafting, position)?;
            if position + 1 == self.sequence.len() {
                break;
            }
            let takes_next = self.step(position).takes_next;
            let committed = drafting.commit(self.sequence[position]);
            let accepted = self.tolerate(was_committed(committed), position, 0)?;
            if accepted != Some(takes_next) {
                if accepted.is_some() {
                    self.record(DraftCheck::NextToken, position, 0, None);
                }
                drafting = self.replayed(position + usize::from(takes_next))?;
            }
            self.undrafted.advance();
        }
        Ok(())
    }

    fn step(&self, position: usize) -> &Step {
        self.undrafted
            .step(position)
            .expect("the position was reached without drafts")
    }

    /// Drafts, rolls back and compares. Returns the matcher at the same position.
    fn check_position(
        &mut self,
        mut drafting: Box<dyn Matcher>,
        position: usize,
    ) -> EngineResult<Box<dyn Matcher>> {
        let mut end = self.sequence.len().min(position + self.length);
        if self.undrafted.end == Some(UndraftedEnd::Failed) {
            end = end.min(self.undrafted.first + self.undrafted.steps.len());
        }
        let along = self.sequence[position..end].to_vec();
        let expected = self.undrafted.accepted_from(position, along.len());
        drafting = self.with_spare(drafting, position, |walk, matcher| {
            walk.draft_and_roll_back(matcher, position, &along, expected, true)
        })?;
        if let Some((leaving, place)) = self.leaving_draft(position) {
            drafting = self.with_spare(drafting, position, |walk, matcher| {
                walk.draft_and_roll_back(matcher, position, &leaving, place, false)
            })?;
        }
        if position.is_multiple_of(self.offsets.len().div_ceil(MAX_TREES)) {
            drafting = self.with_spare(drafting, position, |walk, matcher| {
                walk.check_tree(matcher, position)
            })?;
        }
        Ok(drafting)
    }

    /// Runs `work`, which returns whether the matcher is at its position again. If it is not, it is
    /// replaced.
    fn with_spare(
        &mut self,
        mut drafting: Box<dyn Matcher>,
        position: usize,
        work: impl FnOnce(&mut Self, &mut dyn Matcher) -> EngineResult<bool>,
    ) -> EngineResult<Box<dyn Matcher>> {
        let spare = self.is_unreliable.then(|| drafting.fork());
        if work(self, &mut *drafting)? {
            return Ok(drafting);
        }
        self.is_unreliable = true;
        spare.map_or_else(|| self.replayed(position), Ok)
    }

    /// A new matcher at a position.
    fn replayed(&self, position: usize) -> EngineResult<Box<dyn Matcher>> {
        let mut matcher = self.grammar.matcher()?;
        for token in &self.sequence[..position] {
            matcher.commit(*token)?;
        }
        Ok(matcher)
    }

    /// A draft that leaves the language, and the number of its accepted tokens. The refused token is
    /// at another place of the draft at each position; `None` if that place is not reached, or every
    /// token is allowed there.
    fn leaving_draft(&self, position: usize) -> Option<(Vec<TokenId>, usize)> {
        let place = position % self.length;
        let at = position + place;
        let step = self.undrafted.step(at)?;
        if self.undrafted.accepted_from(position, place) < place {
            return None;
        }
        let refused = self.token_from(at, |token| !step.mask.allows(token))?;
        let end = self.sequence.len().min(position + self.length);
        let mut tokens = self.sequence[position..at].to_vec();
        tokens.push(refused);
        tokens.extend_from_slice(self.sequence.get(at + 1..end).unwrap_or_default());
        Some((tokens, place))
    }

    /// A token with bytes that fulfils the condition, from another part of the vocabulary at each
    /// position.
    fn token_from(&self, position: usize, is_meant: impl Fn(TokenId) -> bool) -> Option<TokenId> {
        let ids = self.vocabulary.len();
        let start = position.wrapping_mul(TOKEN_STRIDE) % ids;
        (start..ids)
            .chain(0..start)
            .filter_map(|id| TokenId::try_from(id).ok())
            .find(|token| !self.vocabulary.bytes(*token).is_empty() && is_meant(*token))
    }

    /// Drafts, compares, rolls back and compares. Returns whether the matcher is at its position
    /// again.
    fn draft_and_roll_back(
        &mut self,
        matcher: &mut dyn Matcher,
        position: usize,
        tokens: &[TokenId],
        expected: usize,
        is_along: bool,
    ) -> EngineResult<bool> {
        let mut drafted = Drafted::default();
        let result = drafted.run(matcher, tokens, &mut self.buffers);
        let accepted = drafted.accepted;
        let counts = if is_along {
            &mut self.row.along
        } else {
            &mut self.row.leaving
        };
        counts.drafts += 1;
        counts.tokens += tokens.len() as u64;
        counts.accepted += accepted as u64;
        if self.tolerate(result, position, accepted)?.is_none() {
            return Ok(false);
        }
        if !self.buffers[..drafted.masks].iter().enumerate().all(
            |(place, mask): (usize, &TokenMask)| {
                let step = self.undrafted.step(position + place);
                step.is_none_or(|step| step.mask == *mask)
            },
        ) {
            self.record(DraftCheck::DraftMask, position, accepted, None);
        }
        if accepted != expected {
            self.record(DraftCheck::Acceptance, position, accepted, None);
        }
        if accepted > 0 {
            let Some(rollback_ns) = self.roll_back(matcher, accepted)? else {
                return Ok(false);
            };
            if is_along && accepted == self.length {
                let times = &mut self.row.times;
                times.masks.record(drafted.mask_ns);
                times.commits.record(drafted.commit_ns);
                times.rollback.record(rollback_ns);
            }
        }
        self.row.positions += u64::from(is_along);
        let state = self.mask_and_end(matcher);
        let Some((has_mask, has_end)) = self.tolerate(state, position, accepted)?.map(|may_end| {
            let step = self.step(position);
            (self.buffers[0] == step.mask, may_end == step.may_end)
        }) else {
            return Ok(false);
        };
        if !has_mask {
            self.record(DraftCheck::Mask, position, accepted, None);
        }
        if !has_end {
            self.record(DraftCheck::End, position, accepted, None);
        }
        Ok(has_mask && has_end)
    }

    /// Computes the mask into the first buffer, and whether the text may end.
    fn mask_and_end(&mut self, matcher: &mut dyn Matcher) -> EngineResult<bool> {
        matcher.mask(&mut self.buffers[0])?;
        matcher.is_accepting()
    }

    /// Rolls back and returns the duration in ns; `None` if the engine refuses.
    fn roll_back(&mut self, matcher: &mut dyn Matcher, tokens: usize) -> EngineResult<Option<u64>> {
        let (result, ns) = measure(|| matcher.rollback(tokens));
        let error = match result {
            Ok(()) => return Ok(Some(ns)),
            Err(error) if is_crash(&error) => return Err(error),
            Err(error) => error,
        };
        let refused = &mut self.row.refused_rollbacks;
        refused.rollbacks += 1;
        // The limit is searched once per text, and again for fewer tokens than it.
        if refused.limit.is_none_or(|limit| tokens <= limit) {
            let limit = (1..tokens)
                .rev()
                .find(|fewer| matcher.fork().rollback(*fewer).is_ok())
                .unwrap_or(0);
            refused.limit = Some(limit);
            refused.message.get_or_insert_with(|| error.to_string());
        }
        Ok(None)
    }

    /// Two branches by fork, and then by rollback. Returns whether the matcher is at its position
    /// again.
    fn check_tree(&mut self, matcher: &mut dyn Matcher, position: usize) -> EngineResult<bool> {
        let Some(branches) = self.branches(position)? else {
            return Ok(true);
        };
        self.row.trees.trees += 1;
        let by_fork = self.check_forks(matcher, position, &branches);
        if self.tolerate(by_fork, position, 0)?.is_none() {
            return Ok(false);
        }
        for branch in &branches {
            let length = branch.tokens.len();
            let mut mask = TokenMask::new(self.vocabulary.len());
            let reached = commits_all(matcher, &branch.tokens)
                .and_then(|all| Ok(all && branch.leads_to(matcher, &mut mask)?));
            let Some(is_equal) = self.tolerate(reached, position, length)? else {
                return Ok(false);
            };
            self.row.trees.branches += 1;
            if !is_equal {
                self.record(DraftCheck::Branch, position, length, None);
                return Ok(false);
            }
            if self.roll_back(matcher, length)?.is_none() {
                return Ok(false);
            }
        }
        let state = self.mask_and_end(matcher);
        let Some(may_end) = self.tolerate(state, position, 0)? else {
            return Ok(false);
        };
        let step = self.step(position);
        let is_restored = self.buffers[0] == step.mask && may_end == step.may_end;
        if !is_restored {
            self.record(DraftCheck::Branch, position, 0, None);
        }
        Ok(is_restored)
    }

    /// Commits both branches in turns, each to its own fork, and compares them and the matcher that
    /// was forked.
    fn check_forks(
        &mut self,
        matcher: &mut dyn Matcher,
        position: usize,
        branches: &[Branch; 2],
    ) -> EngineResult<()> {
        let mut mask = TokenMask::new(self.vocabulary.len());
        let mut forks = Vec::new();
        for branch in branches {
            let (fork, ns) = measure(|| matcher.fork());
            self.row.times.fork.record(ns);
            forks.push((fork, branch, true));
        }
        for place in 0..self.length {
            for (fork, branch, all) in &mut forks {
                if let Some(token) = branch.tokens.get(place) {
                    *all &= was_committed(fork.commit(*token))?;
                }
            }
        }
        for (mut fork, branch, all) in forks {
            self.row.trees.branches += 1;
            if !(all && branch.leads_to(&mut *fork, &mut mask)?) {
                self.record(DraftCheck::Fork, position, branch.tokens.len(), None);
            }
        }
        if self.mask_and_end(matcher)? != self.step(position).may_end
            || self.buffers[0] != self.step(position).mask
        {
            self.record(DraftCheck::Fork, position, 0, None);
        }
        Ok(())
    }

    /// The branch along the text, and one that starts with another allowed token; `None` if there
    /// are not two.
    fn branches(&self, position: usize) -> EngineResult<Option<[Branch; 2]>> {
        let rest = self.text.tokens.len().saturating_sub(position);
        let accepted = self
            .undrafted
            .accepted_from(position, self.length.min(rest));
        let step = self.step(position);
        let Some(reached) = self
            .undrafted
            .step(position + accepted)
            .filter(|_| accepted > 0)
        else {
            return Ok(None);
        };
        let along = Branch {
            tokens: self.sequence[position..position + accepted].to_vec(),
            mask: reached.mask.clone(),
            may_end: reached.may_end,
        };
        let next = self.sequence[position];
        let other = self.token_from(position, |token| {
            token != next && token != self.vocabulary.eos() && step.mask.allows(token)
        });
        let Some(other) = other else { return Ok(None) };
        match self.direct_branch(position, other) {
            Ok(branch) => Ok(branch.map(|other| [along, other])),
            Err(error) if is_crash(&error) => Err(error),
            // The engine fails there without a fork or a rollback.
            Err(_) => Ok(None),
        }
    }

    /// The branch that starts with `first` and goes on with any allowed tokens, reached by a new
    /// matcher; `None` if it commits less than its masks allow.
    fn direct_branch(&self, position: usize, first: TokenId) -> EngineResult<Option<Branch>> {
        let mut matcher = self.replayed(position)?;
        let (mut tokens, mut next) = (Vec::new(), Some(first));
        let mut mask = TokenMask::new(self.vocabulary.len());
        while let Some(token) = next {
            if !was_committed(matcher.commit(token))? {
                return Ok(None);
            }
            tokens.push(token);
            matcher.mask(&mut mask)?;
            next = (tokens.len() < self.length)
                .then(|| {
                    self.token_from(position + tokens.len(), |token| {
                        token != self.vocabulary.eos() && mask.allows(token)
                    })
                })
                .flatten();
        }
        Ok(Some(Branch {
            may_end: matcher.is_accepting()?,
            tokens,
            mask,
        }))
    }

    /// Counts forced tokens, and moves a matcher that jumps over them. Returns `None` once it
    /// differs.
    fn count_forced(
        &mut self,
        jumper: Option<Jumper>,
        position: usize,
    ) -> EngineResult<Option<Jumper>> {
        let step = self.step(position);
        let (mask_ns, takes_next) = (step.mask_ns, step.takes_next);
        let only = Some(&step.mask)
            .filter(|mask| mask.count() == 1)
            .and_then(|mask| mask.iter().next())
            .filter(|token| *token != self.vocabulary.eos());
        let forced = &mut self.row.forced;
        forced.positions += 1;
        forced.mask_ns = forced.mask_ns.saturating_add(mask_ns);
        forced.one_allowed += u64::from(only.is_some());
        let jumped = |walk: &mut Self| {
            let forced = &mut walk.row.forced;
            forced.jumped += 1;
            forced.saved_ns = forced.saved_ns.saturating_add(mask_ns);
        };
        let Some(mut jumper) = jumper else {
            self.compare_forced(only.as_slice(), position);
            return Ok(None);
        };
        if position < jumper.next {
            jumped(self);
            return Ok(Some(jumper));
        }
        let (tokens, ns) = measure(|| jumper.matcher.forced_tokens());
        let forced = &mut self.row.forced;
        forced.ask_ns = forced.ask_ns.saturating_add(ns);
        let run = if tokens.is_empty() {
            self.compare_forced(only.as_slice(), position);
            0
        } else {
            self.compare_forced(&tokens, position)
        };
        if run > 0 {
            jumped(self);
            self.row.forced.jumps += 1;
        }
        let commits = if run > 0 {
            run
        } else {
            usize::from(takes_next)
        };
        let next = &self.sequence[position..position + commits];
        let mut mask = TokenMask::new(self.vocabulary.len());
        let moved = if run > 0 {
            commits_all(&mut *jumper.matcher, next)
        } else {
            let masked = jumper.matcher.mask(&mut mask);
            let is_equal = masked.map(|()| mask == self.step(position).mask);
            is_equal.and_then(|equal| Ok(equal && commits_all(&mut *jumper.matcher, next)?))
        };
        match self.tolerate(moved, position, run)? {
            Some(true) => {
                jumper.next = position + commits.max(1);
                Ok(Some(jumper))
            }
            Some(false) => {
                self.record(DraftCheck::Jump, position, run, None);
                Ok(None)
            }
            None => Ok(None),
        }
    }

    /// Counts forced tokens by whether the tokenizer writes them for the same text. Returns how many
    /// of them are the next tokens of the text.
    fn compare_forced(&mut self, tokens: &[TokenId], position: usize) -> usize {
        let following = &self.text.tokens[position.min(self.text.tokens.len())..];
        let equal = tokens
            .iter()
            .zip(following)
            .take_while(|(forced, next)| forced == next)
            .count();
        let others = (tokens.len() - equal) as u64;
        let bytes = self.vocabulary.decode(&tokens[equal..]);
        let rest = &self.text.text.as_bytes()[self.offsets[position + equal]..];
        let forced = &mut self.row.forced;
        if self.text.is_canonical {
            forced.canonical += equal as u64;
        } else {
            forced.uncompared += equal as u64;
        }
        if self.text.is_canonical && !bytes.is_empty() && rest.starts_with(&bytes) {
            forced.not_canonical += others;
        } else {
            forced.uncompared += others;
        }
        equal
    }

    /// A result that is `None` for an error of the engine, which is recorded. A crash is an error.
    fn tolerate<T>(
        &mut self,
        result: EngineResult<T>,
        position: usize,
        drafted: usize,
    ) -> EngineResult<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) if is_crash(&error) => Err(error),
            Err(error) => {
                let message = Some(error.to_string());
                self.record(DraftCheck::Failed, position, drafted, message);
                Ok(None)
            }
        }
    }

    fn record(
        &mut self,
        check: DraftCheck,
        position: usize,
        drafted: usize,
        message: Option<String>,
    ) {
        *self.row.differences.entry(check).or_default() += 1;
        if self.row.first_difference.is_none() {
            let byte = self.offsets[position];
            self.row.first_difference = Some(DraftDifference {
                check,
                instance: self.text.instance,
                position,
                byte,
                drafted,
                before: last_characters(self.text.text, byte),
                message,
            });
        }
    }
}

/// Whether the process must not continue with this library.
fn is_crash(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::Crashed { .. } | EngineError::Busy { .. }
    )
}

#[cfg(test)]
mod tests;
