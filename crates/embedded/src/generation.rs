//! Generates one answer, step by step: computes the mask, draws and commits a token, and decodes
//! its text.
//!
//! With drafts, a step draws several tokens. The matcher is advanced along the draft, which gives
//! the mask of each of its positions. The model draws under these masks as without drafts, so that
//! the answer is the same. The draft ends at the first token that the masks do not allow or that the
//! model does not draw; the matcher is then rolled back, and gets the drawn token.

use std::collections::VecDeque;
use std::sync::Arc;

use super::drafts::{DraftCounts, Drafter};
use super::mask_faults::{MaskFaults, MatcherChange};
use super::model::{Step, Writer};
use super::stop_strings::StopStrings;
use super::timetable::timed;
use sobench_core::constraint::Constraint;
use sobench_engine::{EngineError, Matcher, TokenId, TokenMask, Vocabulary};

/// End of an answer, with OpenAI's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FinishReason {
    /// The model ended it, or a stop string occurred.
    Stop,
    /// It reached `max_tokens`.
    Length,
    /// The model ended it, and it has tool calls. Set by the parser of calls.
    ToolCalls,
}

impl FinishReason {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
        }
    }
}

/// The text of the tokens of one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    /// Complete characters only. Empty while a character is incomplete, and for the end token.
    pub(super) text: String,
    pub(super) finish: Option<FinishReason>,
    /// The stop string that ended the answer, if any.
    pub(super) stop: Option<Arc<str>>,
    /// Tokens of reasoning up to and including this piece.
    pub(super) reasoning_tokens: u32,
}

impl Piece {
    /// Adds the text of the next token.
    fn append(&mut self, next: Self) {
        self.text.push_str(&next.text);
        *self = Self {
            text: std::mem::take(&mut self.text),
            ..next
        };
    }
}

/// A part of an answer: a script for the model, and the constraint under which it writes.
///
/// An unconstrained part ends with its script, a constrained one at the end of its constraint. The
/// last part ends with the answer.
#[derive(Default)]
pub(super) struct Part {
    pub(super) script: Vec<Step>,
    pub(super) matcher: Option<Box<dyn Matcher>>,
    /// The constraint of the matcher, to distinguish it from those of other answers.
    pub(super) constraint: Option<Arc<Constraint>>,
    pub(super) is_reasoning: bool,
}

/// What one step did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StepWork {
    /// Number of generated tokens.
    pub(super) tokens: u32,
    /// The time of each mask in nanoseconds.
    pub(super) mask_ns: Vec<u64>,
    pub(super) drafts: DraftCounts,
}

/// How the matcher of the current part goes back over a rejected draft.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Undo {
    /// Not known yet: a fork is kept in case that the library cannot roll back.
    #[default]
    Untried,
    Rollback,
    Fork,
}

/// The draft of one step.
#[derive(Default)]
struct Draft {
    tokens: Vec<TokenId>,
    /// Number of its tokens in the matcher. They precede the tokens drawn in this step.
    in_matcher: usize,
    /// The matcher before the draft, unless it can be rolled back.
    before: Option<Box<dyn Matcher>>,
}

/// Limits of an answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    /// At least 1.
    pub(super) max_tokens: u32,
    /// End tokens of the model before this number of tokens are ignored. The end of a grammar is
    /// not.
    pub(super) min_tokens: u32,
    /// The answer continues after an end token.
    pub(super) ignore_eos: bool,
    pub(super) stop_strings: StopStrings,
}

/// A running answer.
pub(super) struct Generation {
    vocabulary: Arc<Vocabulary>,
    writer: Writer,
    matcher: Option<Box<dyn Matcher>>,
    constraint: Option<Arc<Constraint>>,
    /// The masks of the positions of one step. More are added for drafts.
    masks: Vec<TokenMask>,
    /// Number of masks that are computed for this step.
    masks_ready: usize,
    drafter: Option<Drafter>,
    draft: Draft,
    undo: Undo,
    mask_faults: MaskFaults,
    limits: Limits,
    tokens: u32,
    constrained_tokens: u32,
    reasoning_tokens: u32,
    is_reasoning: bool,
    /// Parts after the current one.
    rest: VecDeque<Part>,
    /// Bytes of an incomplete character.
    held: Vec<u8>,
    work: StepWork,
    /// The error of a token that was drawn after others of its step.
    failure: Option<EngineError>,
}

impl Generation {
    /// An answer of one part.
    #[cfg(test)]
    pub(super) fn new(
        vocabulary: Arc<Vocabulary>,
        writer: Writer,
        matcher: Option<Box<dyn Matcher>>,
        limits: Limits,
    ) -> Self {
        let part = Part {
            matcher,
            ..Part::default()
        };
        Self::from_parts(
            vocabulary,
            writer,
            vec![part],
            limits,
            None,
            MaskFaults::default(),
        )
    }

    /// An answer of these parts, at least one. With a matcher the last part is constrained until the
    /// matcher's end. With `ignore_eos` it then continues without a constraint, as in vLLM.
    pub(super) fn from_parts(
        vocabulary: Arc<Vocabulary>,
        writer: Writer,
        parts: Vec<Part>,
        limits: Limits,
        drafter: Option<Drafter>,
        mask_faults: MaskFaults,
    ) -> Self {
        let limits = Limits {
            max_tokens: limits.max_tokens.max(1),
            ..limits
        };
        let mut generation = Self {
            vocabulary,
            writer,
            matcher: None,
            constraint: None,
            masks: Vec::new(),
            masks_ready: 0,
            drafter,
            draft: Draft::default(),
            undo: Undo::default(),
            mask_faults,
            limits,
            tokens: 0,
            constrained_tokens: 0,
            reasoning_tokens: 0,
            is_reasoning: false,
            rest: parts.into(),
            held: Vec::new(),
            work: StepWork::default(),
            failure: None,
        };
        generation.enter_next_part();
        generation
    }

    fn enter_next_part(&mut self) {
        let Part {
            script,
            matcher,
            constraint,
            is_reasoning,
        } = self.rest.pop_front().unwrap_or_default();
        self.writer.follow(script);
        self.mask_faults.start_part(matcher.as_deref());
        self.set_matcher(matcher);
        self.constraint = constraint;
        self.is_reasoning = is_reasoning;
    }

    /// Replaces the matcher. The draft and the masks of the other one no longer apply.
    fn set_matcher(&mut self, matcher: Option<Box<dyn Matcher>>) {
        self.matcher = matcher;
        self.undo = Undo::default();
        self.clear_draft();
    }

    fn clear_draft(&mut self) {
        self.draft.tokens.clear();
        self.draft.in_matcher = 0;
        self.draft.before = None;
        self.masks_ready = 0;
    }

    /// Number of generated tokens, including the end token, as counted by vLLM.
    pub(super) fn tokens(&self) -> u32 {
        self.tokens
    }

    /// Whether the next token is masked.
    pub(super) fn is_constrained(&self) -> bool {
        self.matcher.is_some()
    }

    /// What the last step did.
    pub(super) fn take_work(&mut self) -> StepWork {
        std::mem::take(&mut self.work)
    }

    pub(super) fn mask_faults(&mut self) -> &mut MaskFaults {
        &mut self.mask_faults
    }

    /// Whether this answer wants the masks of another one, and can get those of `other`.
    pub(super) fn swaps_with(&self, other: &Self) -> bool {
        self.mask_faults.wants_swap()
            && other.mask_faults.can_swap()
            && self.matcher.is_some()
            && other.matcher.is_some()
            && self.constraint != other.constraint
    }

    /// Gives two answers each other's masks, from the start of their constraints.
    pub(super) fn swap_masks(&mut self, other: &mut Self) {
        let [own, others] = [&mut *self, &mut *other].map(|answer| answer.mask_faults.take_start());
        self.set_matcher(others);
        other.set_matcher(own);
        std::mem::swap(&mut self.constraint, &mut other.constraint);
    }

    /// Generates the tokens of one step: one, or more with drafts. Must not be called after a piece
    /// with a finish reason.
    ///
    /// # Errors
    /// The engine reached a limit, crashed, or allows no token.
    pub(super) fn step(&mut self) -> Result<Piece, EngineError> {
        self.work = StepWork::default();
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        self.clear_draft();
        self.change_matcher();
        self.start_draft()?;
        let mut piece = Piece::default();
        for position in 0.. {
            let (token, is_draft) = match self.choose(position) {
                Ok(Some(chosen)) => chosen,
                Ok(None) => break,
                Err(error) if position == 0 => return Err(error),
                Err(error) => {
                    // The tokens before it are sent first.
                    self.failure = Some(error);
                    break;
                }
            };
            self.work.drafts.accepted += u32::from(is_draft);
            piece.append(self.write(token));
            if piece.finish.is_some() || !is_draft {
                break;
            }
        }
        Ok(piece)
    }

    /// Changes the matcher by a fault, if it is time.
    fn change_matcher(&mut self) {
        if self.matcher.is_none() {
            return;
        }
        match self.mask_faults.change_matcher(self.constrained_tokens) {
            MatcherChange::Keep => {}
            MatcherChange::Remove => self.set_matcher(None),
            MatcherChange::Replace(matcher) => self.set_matcher(Some(matcher)),
        }
    }

    /// Drafts the tokens of this step, and advances the matcher along those that the masks allow.
    fn start_draft(&mut self) -> Result<(), EngineError> {
        let Some(drafter) = &self.drafter else {
            return Ok(());
        };
        if self.mask_faults.delays_masks() {
            return Ok(());
        }
        let left = self.limits.max_tokens.saturating_sub(self.tokens);
        let left = match &self.matcher {
            Some(_) => left.min(
                self.mask_faults
                    .tokens_until_change(self.constrained_tokens),
            ),
            None => left,
        };
        // The last token of a step is the model's own.
        let drafted = drafter.draft(left.saturating_sub(1) as usize);
        self.draft.tokens.extend_from_slice(drafted);
        let proposed = self.draft.tokens.len();
        if self.matcher.is_some() && proposed > 0 {
            self.advance_along_draft()?;
        }
        let count = |tokens: usize| u32::try_from(tokens).unwrap_or(u32::MAX);
        let allowed = self.draft.tokens.len();
        self.work.drafts.drafted = count(allowed);
        self.work.drafts.masked_out = count(proposed - allowed);
        Ok(())
    }

    /// Commits the draft up to the first token that the masks do not allow, and drops the rest.
    fn advance_along_draft(&mut self) -> Result<(), EngineError> {
        if self.undo != Undo::Rollback {
            self.draft.before = self.matcher.as_deref().map(Matcher::fork);
        }
        for position in 0..self.draft.tokens.len() {
            let token = self.draft.tokens[position];
            let advanced = self.compute_mask(position).and_then(|()| {
                let is_allowed = self.masks[position].allows(token);
                match &mut self.matcher {
                    Some(matcher) if is_allowed => matcher.commit(token).map(|()| true),
                    _ => Ok(false),
                }
            });
            match advanced {
                Ok(true) => self.draft.in_matcher += 1,
                Err(error) if position == 0 => return Err(error),
                // An error along the draft returns if the answer gets there.
                Ok(false) | Err(_) => {
                    self.draft.tokens.truncate(position);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Computes the mask of this position of the step, unless it is computed.
    fn compute_mask(&mut self, position: usize) -> Result<(), EngineError> {
        let Some(matcher) = &mut self.matcher else {
            return Ok(());
        };
        if position < self.masks_ready {
            return Ok(());
        }
        while self.masks.len() <= position {
            self.masks.push(TokenMask::new(self.vocabulary.len()));
        }
        let mask = &mut self.masks[position];
        let (masked, mask_ns) = timed(|| matcher.mask(mask));
        self.work.mask_ns.push(mask_ns);
        masked?;
        self.mask_faults.delay_mask(mask);
        self.masks_ready = position + 1;
        Ok(())
    }

    /// The token at this position of the step, of the next part if the current one has ended, and
    /// whether it is that of the draft. `None` if the part ended after other tokens of the step.
    fn choose(&mut self, position: usize) -> Result<Option<(TokenId, bool)>, EngineError> {
        let no_token = || EngineError::Invalid {
            message: "the constraint allows no token here".into(),
        };
        loop {
            let is_last = self.rest.is_empty();
            if self.matcher.is_none() {
                if is_last || !self.writer.is_script_done() {
                    let token = self.writer.next(None).ok_or_else(no_token)?;
                    return Ok(Some((
                        token,
                        self.draft.tokens.get(position) == Some(&token),
                    )));
                }
            } else {
                self.compute_mask(position)?;
                let mask = &self.masks[position];
                let token = self.writer.next(Some(mask)).ok_or_else(no_token)?;
                if is_last || token != self.vocabulary.eos() {
                    return Ok(Some((token, self.commit(position, token)?)));
                }
            }
            self.enter_next_part();
            if position > 0 {
                return Ok(None);
            }
        }
    }

    /// Commits the token drawn at this position of the step, in place of the rest of the draft.
    /// Returns whether it is that of the draft.
    fn commit(&mut self, position: usize, token: TokenId) -> Result<bool, EngineError> {
        let drafted = self.draft.tokens.get(position).copied();
        let drafted = drafted.filter(|_| position < self.draft.in_matcher);
        if drafted == Some(token) {
            return Ok(true);
        }
        self.undo_draft(position)?;
        let Some(matcher) = &mut self.matcher else {
            return Ok(false);
        };
        let with_draft = match drafted.filter(|_| self.mask_faults.may_keep_rejected_draft()) {
            Some(drafted) => {
                let mut with_draft = matcher.fork();
                with_draft.commit(drafted)?;
                Some(with_draft)
            }
            None => None,
        };
        match matcher.commit(token) {
            // Drawn under another mask.
            Err(EngineError::Invalid { .. }) if self.mask_faults.delays_masks() => {
                return Ok(false);
            }
            committed => committed?,
        }
        if let Some(mut with_draft) = with_draft {
            let [mut mask, mut other] = [(); 2].map(|()| TokenMask::new(self.vocabulary.len()));
            matcher.mask(&mut mask)?;
            with_draft.mask(&mut other)?;
            if mask != other {
                self.mask_faults.keep_rejected_draft();
                *matcher = with_draft;
            }
        }
        Ok(false)
    }

    /// Takes the draft out of the matcher, except for its first `kept` tokens.
    fn undo_draft(&mut self, kept: usize) -> Result<(), EngineError> {
        let excess = self.draft.in_matcher.saturating_sub(kept);
        if excess == 0 {
            return Ok(());
        }
        self.draft.in_matcher = kept;
        if self.undo != Undo::Fork
            && let Some(matcher) = &mut self.matcher
        {
            match matcher.rollback(excess) {
                Ok(()) => {
                    self.undo = Undo::Rollback;
                    return Ok(());
                }
                Err(error) if self.draft.before.is_none() => return Err(error),
                Err(_) => {}
            }
        }
        self.undo = Undo::Fork;
        let Some(mut matcher) = self.draft.before.take() else {
            return Ok(());
        };
        for token in &self.draft.tokens[..kept] {
            matcher.commit(*token)?;
        }
        self.matcher = Some(matcher);
        Ok(())
    }

    /// Adds a drawn token to the answer, and returns its text.
    fn write(&mut self, token: TokenId) -> Piece {
        self.tokens += 1;
        self.work.tokens += 1;
        self.constrained_tokens += u32::from(self.matcher.is_some());
        self.reasoning_tokens += u32::from(self.is_reasoning);
        let ended = token == self.vocabulary.eos();
        if let Some(drafter) = &mut self.drafter
            && !ended
        {
            drafter.push(token);
        }
        self.held.extend_from_slice(self.vocabulary.bytes(token));
        let is_early = self.matcher.is_none() && self.tokens <= self.limits.min_tokens;
        let finish = if ended && !self.limits.ignore_eos && !is_early {
            Some(FinishReason::Stop)
        } else if self.tokens >= self.limits.max_tokens {
            Some(FinishReason::Length)
        } else {
            self.mask_faults
                .shortens(self.tokens)
                .then_some(FinishReason::Stop)
        };
        if ended {
            self.matcher = None;
        }
        let text = if finish.is_some() {
            self.all_text()
        } else {
            self.complete_text()
        };
        let filtered = self.limits.stop_strings.filter(text, finish.is_some());
        let finish = if filtered.stop.is_some() {
            Some(FinishReason::Stop)
        } else {
            finish
        };
        Piece {
            text: filtered.text,
            finish,
            stop: filtered.stop,
            reasoning_tokens: self.reasoning_tokens,
        }
    }

    /// The complete characters of the held bytes. Invalid bytes are replaced, as decoders do.
    fn complete_text(&mut self) -> String {
        let complete = match std::str::from_utf8(&self.held) {
            Ok(_) => return self.all_text(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => {
                // Invalid before the end: return everything except a possible start of a character
                // at the end.
                let keep = (1..=3.min(self.held.len())).rev().find(|&n| {
                    let tail = &self.held[self.held.len() - n..];
                    std::str::from_utf8(tail)
                        .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
                });
                self.held.len() - keep.unwrap_or(0)
            }
        };
        let rest = self.held.split_off(complete);
        let text = self.all_text();
        self.held = rest;
        text
    }

    fn all_text(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        String::from_utf8(held)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use serde_json::{Value, json};

    use super::super::model::{LanguageModel, Sampling};
    use super::*;
    use crate::faults::{Fault, Planting, RequestTraits};
    use crate::stats::Tally;
    use crate::testing::{MaskOnly, no_stats, shared_model};
    use sobench_core::constraint::{AlwaysTrue, Constraint, GrammarDialect};
    use sobench_engine::vocabulary::shared;
    use sobench_engine::{self as engine, Engine, EngineName, EnginePolicy};

    /// Answers per workload. Optimised builds run as many as a benchmark.
    const RUNS: u64 = if cfg!(debug_assertions) { 30 } else { 1000 };

    struct Harness {
        engine: Arc<dyn Engine>,
        model: Arc<LanguageModel>,
    }

    fn harness() -> &'static Harness {
        static HARNESS: OnceLock<Harness> = OnceLock::new();
        HARNESS.get_or_init(|| Harness {
            engine: engine::open(EngineName::Guidance, &shared(), &EnginePolicy::default())
                .unwrap(),
            model: shared_model(),
        })
    }

    struct Answered {
        text: String,
        finish: FinishReason,
        tokens: u32,
    }

    fn start(
        prompt: &str,
        constraint: Option<&Constraint>,
        seed: u64,
        max_tokens: u32,
        ignore_eos: bool,
    ) -> Generation {
        let matcher = constraint.map(|constraint| {
            harness()
                .engine
                .compile(constraint)
                .unwrap()
                .matcher()
                .unwrap()
        });
        let writer = harness()
            .model
            .writer(prompt, Sampling::default(), seed, max_tokens);
        Generation::new(
            shared(),
            writer,
            matcher,
            Limits {
                max_tokens,
                ignore_eos,
                ..Limits::default()
            },
        )
    }

    fn finish(mut generation: Generation) -> Answered {
        let mut text = String::new();
        loop {
            let piece = generation.step().unwrap();
            text.push_str(&piece.text);
            if let Some(finish) = piece.finish {
                return Answered {
                    text,
                    finish,
                    tokens: generation.tokens(),
                };
            }
        }
    }

    fn profile() -> Value {
        let mut properties = json!({});
        for name in [
            "name", "email", "street", "city", "state", "zip", "phone", "website", "company",
        ] {
            properties[name] = json!({"type": "string"});
        }
        properties["age"] = json!({"type": "integer"});
        json!({"type": "object", "properties": properties, "required": ["name", "email"]})
    }

    fn nested() -> Value {
        let text = json!({"type": "string"});
        let number = json!({"type": "string", "pattern": "^\\+?[1-9]\\d{1,14}$"});
        json!({
            "type": "object",
            "properties": {
                "userId": text,
                "personalInfo": {
                    "type": "object",
                    "properties": {
                        "firstName": text, "lastName": text, "age": {"type": "integer", "minimum": 0},
                        "phoneNumbers": {"type": "array", "items": {
                            "type": "object",
                            "properties": {"type": {"type": "string", "enum": ["home", "work", "mobile"]}, "number": number},
                            "required": ["type", "number"],
                        }},
                    },
                    "required": ["firstName", "lastName"],
                },
                "address": {
                    "type": "object",
                    "properties": {
                        "street": text, "city": text, "state": text,
                        "postalCode": {"type": "string", "pattern": "^\\d{5}(-\\d{4})?$"}, "country": text,
                    },
                    "required": ["street", "city", "state", "postalCode", "country"],
                },
                "preferences": {
                    "type": "object",
                    "properties": {"newsletterSubscribed": {"type": "boolean"}, "favoriteCategories": {"type": "array", "items": text}},
                    "required": ["newsletterSubscribed"],
                },
                "accountStatus": {"type": "string", "enum": ["active", "inactive", "suspended"]},
                "registrationDate": {"type": "string", "format": "date-time"},
            },
            "required": ["userId", "personalInfo", "address", "accountStatus", "registrationDate"],
        })
    }

    type Judge = Box<dyn Fn(&str) -> bool>;

    struct Workload {
        name: &'static str,
        prompt: String,
        constraint: Constraint,
        judge: Judge,
        /// Minimum share of correct constrained answers, and maximum share of correct unconstrained
        /// ones.
        least: f64,
        most: f64,
    }

    fn json_workload(name: &'static str, schema: Value, least: f64) -> Workload {
        let prompt = format!(
            "Generate an example of a brief user profile given the following schema: {schema}"
        );
        let validator = jsonschema::options()
            .should_validate_formats(true)
            .build(&schema)
            .unwrap();
        let judge = move |text: &str| parsed(text).is_some_and(|value| validator.is_valid(&value));
        Workload {
            name,
            prompt,
            constraint: Constraint::JsonSchema(Arc::new(schema)),
            judge: Box::new(judge),
            least,
            most: 0.08,
        }
    }

    /// Parses JSON and refuses objects with repeated member names, which no grammar here forbids.
    fn parsed(text: &str) -> Option<Value> {
        serde_json::from_str::<Unique>(text).ok()?;
        serde_json::from_str(text).ok()
    }

    struct Unique;

    impl<'de> serde::Deserialize<'de> for Unique {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_any(UniqueVisitor)
        }
    }

    struct UniqueVisitor;

    impl<'de> serde::de::Visitor<'de> for UniqueVisitor {
        type Value = Unique;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("JSON without repeated names")
        }
        fn visit_unit<E>(self) -> Result<Unique, E> {
            Ok(Unique)
        }
        fn visit_bool<E>(self, _: bool) -> Result<Unique, E> {
            Ok(Unique)
        }
        fn visit_u64<E>(self, _: u64) -> Result<Unique, E> {
            Ok(Unique)
        }
        fn visit_i64<E>(self, _: i64) -> Result<Unique, E> {
            Ok(Unique)
        }
        fn visit_f64<E>(self, _: f64) -> Result<Unique, E> {
            Ok(Unique)
        }
        fn visit_str<E>(self, _: &str) -> Result<Unique, E> {
            Ok(Unique)
        }
        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<Unique, A::Error> {
            while items.next_element::<Unique>()?.is_some() {}
            Ok(Unique)
        }
        fn visit_map<A: serde::de::MapAccess<'de>>(
            self,
            mut members: A,
        ) -> Result<Unique, A::Error> {
            let mut names = std::collections::HashSet::new();
            while let Some((name, _)) = members.next_entry::<String, Unique>()? {
                if !names.insert(name) {
                    return Err(serde::de::Error::custom("a name twice"));
                }
            }
            Ok(Unique)
        }
    }

    fn regex_judge(pattern: &str) -> Judge {
        let regex = regex::Regex::new(&format!("^(?:{pattern})$")).unwrap();
        Box::new(move |text: &str| {
            regex
                .find(text)
                .is_some_and(|found| found.len() == text.len())
        })
    }

    fn workloads() -> Vec<Workload> {
        let mut unique = profile();
        unique["properties"]["__optional_field_f81d4fae-7dec-41d0-a765-00a0c91e6bf6"] = json!({"type": "string", "description": "An unique optional field to avoid cached schemas"});
        let sql = "start: select_statement\nselect_statement: \"SELECT \" column \" from \" table \" where \" condition\n\
                   column: \"col_1 \" | \"col_2 \"\ntable: \"table_1 \" | \"table_2 \"\ncondition: column \"= \" number\n\
                   number: \"1 \" | \"2 \"\n";
        let email = r"\w+@\w+\.com\n";
        let judged = |name, prompt: &str, constraint, judge| Workload {
            name,
            prompt: prompt.into(),
            constraint,
            judge,
            least: 1.0,
            most: 0.15,
        };
        let choice = |text: &str| ["Positive", "Negative"].contains(&text);
        vec![
            json_workload("json", profile(), 1.0),
            json_workload("json-unique", unique, 1.0),
            json_workload("nested", nested(), 0.95),
            judged(
                "regex",
                "Generate an email address for Alan Turing, who works in Enigma. End in .com and new line. Example result: \
                 alan.turing@enigma.com\n",
                Constraint::Regex(email.into()),
                regex_judge(email),
            ),
            judged(
                "choice",
                "Classify this sentiment: vLLM is wonderful!",
                Constraint::Choice(["Positive".to_owned(), "Negative".to_owned()].into()),
                Box::new(choice),
            ),
            judged(
                "grammar",
                "Generate an SQL query to show the 'username' and 'email' from the 'users' table.",
                Constraint::Grammar {
                    dialect: GrammarDialect::Lark,
                    text: sql.into(),
                },
                regex_judge("SELECT col_[12]  from table_[12]  where col_[12] = [12] "),
            ),
            judged(
                "json_object",
                "Tell me about the weather as JSON.",
                Constraint::JsonObject(AlwaysTrue),
                Box::new(|text: &str| parsed(text).is_some_and(|value| value.is_object())),
            ),
        ]
    }

    #[test]
    fn the_judge_refuses_repeated_names() {
        assert!(parsed(r#"{"a": {"a": [1, -2.5, "x", null, true]}}"#).is_some());
        assert!(parsed(r#"{"a": {"b": 1, "b": 2}}"#).is_none());
    }

    #[test]
    fn masks_make_answers_correct() {
        for Workload {
            name,
            prompt,
            constraint,
            judge,
            least,
            most,
        } in workloads()
        {
            let share = |constraint: Option<&Constraint>| {
                let correct = (0..RUNS).filter(|seed| {
                    let answer = finish(start(&prompt, constraint, *seed, 128, false));
                    assert!(
                        answer.tokens <= 128
                            && (answer.tokens == 128) >= (answer.finish == FinishReason::Length)
                    );
                    let is_correct = judge(&answer.text);
                    assert!(
                        constraint.is_none() || is_correct || answer.finish == FinishReason::Length,
                        "{name}: {:?}",
                        answer.text
                    );
                    is_correct
                });
                correct.count() as f64 / RUNS as f64
            };
            let (constrained, unconstrained) = (share(Some(&constraint)), share(None));
            assert!(constrained >= least, "{name}: {constrained}");
            assert!(unconstrained <= most, "{name}: {unconstrained}");
        }
    }

    #[test]
    fn greedy_answers_end_too() {
        for Workload {
            name,
            prompt,
            constraint,
            judge,
            ..
        } in workloads()
        {
            let matcher = harness()
                .engine
                .compile(&constraint)
                .unwrap()
                .matcher()
                .unwrap();
            let greedy = Sampling {
                temperature: 0.0,
                ..Sampling::default()
            };
            let writer = harness().model.writer(&prompt, greedy, 0, 128);
            let answer = finish(Generation::new(
                shared(),
                writer,
                Some(matcher),
                Limits {
                    max_tokens: 128,
                    ..Limits::default()
                },
            ));
            assert!(judge(&answer.text), "{name}: {:?}", answer.text);
        }
    }

    #[test]
    fn min_tokens_delays_the_models_end_but_not_the_grammars() {
        let ended = finish(start("", None, 3, 400, false));
        assert_eq!(
            ended.finish,
            FinishReason::Stop,
            "this seed gives an answer that ends"
        );
        let mut longer = start("", None, 3, 400, false);
        longer.limits.min_tokens = ended.tokens + 5;
        assert!(finish(longer).tokens > ended.tokens + 5);
        let mut constrained = start("", Some(&Constraint::Regex("ab".into())), 3, 400, false);
        constrained.limits.min_tokens = 100;
        assert_eq!(finish(constrained).text, "ab");
    }

    #[test]
    fn a_stop_string_ends_the_answer_and_is_removed() {
        let mut stopped = start("", Some(&Constraint::Regex("ab\\.cd".into())), 3, 40, false);
        stopped.limits.stop_strings = StopStrings::new(&[".".to_owned()]);
        let answer = finish(stopped);
        assert_eq!(
            (answer.text.as_str(), answer.finish),
            ("ab", FinishReason::Stop)
        );
    }

    #[test]
    fn incomplete_characters_are_held_back() {
        let mut generation = start("", None, 0, 8, false);
        for (bytes, text, held) in [
            (&b"a\xf0\x9f"[..], "a", 2),
            (b"\xa6\x80", "\u{1f980}", 0),
            (b"\xff\xe6\x97", "\u{fffd}", 2),
            (b"x", "\u{fffd}x", 0),
        ] {
            generation.held.extend_from_slice(bytes);
            assert_eq!(
                (generation.complete_text().as_str(), generation.held.len()),
                (text, held),
                "{bytes:?}"
            );
        }
    }

    #[test]
    fn a_mask_without_tokens_is_an_error() {
        let mut generation = start("", Some(&Constraint::Regex("a".into())), 0, 8, false);
        generation.matcher = Some(Box::new(MaskOnly(|_: &mut TokenMask| {})));
        assert!(generation.step().is_err());
    }

    /// The text of an answer under `constraint` with a fault, and whether it was injected.
    fn faulty(
        fault: &str,
        constraint: &Constraint,
        seed: u64,
        drafted: usize,
        prepare: impl FnOnce(&mut Generation),
    ) -> (String, bool) {
        let tally = Arc::<Tally>::default();
        let planting = Planting::new(&[Fault::parse(fault).unwrap()], Arc::clone(&tally));
        let traits = RequestTraits {
            is_constrained: true,
            has_drafts: true,
            ..RequestTraits::default()
        };
        let faults = planting.draw(seed, &traits).take_batch_faults();
        let matcher = harness()
            .engine
            .compile(constraint)
            .unwrap()
            .matcher()
            .unwrap();
        let prompt = "one two";
        let mut generation = Generation::from_parts(
            shared(),
            harness()
                .model
                .writer(prompt, Sampling::default(), seed, 200),
            vec![Part {
                matcher: Some(matcher),
                ..Part::default()
            }],
            Limits {
                max_tokens: 200,
                ..Limits::default()
            },
            (drafted > 0).then(|| Drafter::new(shared().encode(prompt), drafted)),
            MaskFaults::new(faults, false),
        );
        prepare(&mut generation);
        let text = finish(generation).text;
        let mut stats = no_stats();
        tally.fill(&mut stats);
        (text, !stats.faults.is_empty())
    }

    const LONG: &str = "a choice of several words that takes more tokens than five";

    fn long_choice() -> Constraint {
        Constraint::Choice([LONG.to_owned()].into())
    }

    #[test]
    fn a_mask_that_fails_open_ends_after_its_tokens() {
        for seed in 0..5 {
            for drafted in [0, 3] {
                let (text, is_injected) =
                    faulty("fail-open:4", &long_choice(), seed, drafted, |_| {});
                let kept = text
                    .bytes()
                    .zip(LONG.bytes())
                    .take_while(|(found, expected)| found == expected)
                    .count();
                assert!(is_injected && text != LONG && kept >= 4, "{text:?}");
            }
        }
        let (text, is_injected) = faulty("fail-open:100", &long_choice(), 0, 0, |_| {});
        assert_eq!((text.as_str(), is_injected), (LONG, false));
    }

    #[test]
    fn a_restarted_grammar_repeats_the_start_of_the_answer() {
        let restarted = |preempted: bool| {
            let (text, is_injected) =
                faulty("restart-grammar", &long_choice(), 2, 2, |generation| {
                    if preempted {
                        generation.step().unwrap();
                        generation.mask_faults().preempted();
                    }
                });
            assert!(is_injected && text.ends_with(LONG), "{text:?}");
            text.len() - LONG.len()
        };
        let before = restarted(false);
        assert!(before > 0 && before < LONG.len());
        let (short, is_injected) = faulty(
            "restart-grammar",
            &Constraint::Regex("a".into()),
            0,
            0,
            |_| {},
        );
        assert_eq!((short.as_str(), is_injected), ("a", false));
        // The first step is outside of the text, so that only the whole answer follows.
        assert_eq!(restarted(true), 0);
    }

    #[test]
    fn late_masks_repeat_parts_of_the_answer() {
        for seed in 0..5 {
            let (text, is_injected) = faulty("mask-off-by-one", &long_choice(), seed, 3, |_| {});
            assert!(is_injected && text != LONG, "{text:?}");
        }
    }

    #[test]
    fn a_bad_rollback_leaves_the_matcher_one_token_off() {
        let pattern = "(a11x|b22y|c33z){12}";
        let judge = regex_judge(pattern);
        let constraint = Constraint::Regex(pattern.into());
        let mut invalid = 0;
        for seed in 0..20 {
            let (text, is_injected) = faulty("bad-rollback", &constraint, seed, 3, |_| {});
            assert!(is_injected || judge(&text), "{text:?}");
            invalid += usize::from(!judge(&text));
            let (text, _) = faulty("hang", &constraint, seed, 3, |_| {});
            assert!(judge(&text), "{text:?}");
        }
        assert!(invalid >= 15, "{invalid} of 20");
    }

    #[test]
    fn a_matcher_that_cannot_roll_back_is_forked() {
        /// A matcher without rollback.
        struct ForkOnly(Box<dyn Matcher>);
        impl Matcher for ForkOnly {
            fn mask(&mut self, mask: &mut TokenMask) -> Result<(), EngineError> {
                self.0.mask(mask)
            }
            fn commit(&mut self, token: TokenId) -> Result<(), EngineError> {
                self.0.commit(token)
            }
            fn is_accepting(&mut self) -> Result<bool, EngineError> {
                self.0.is_accepting()
            }
            fn forced_tokens(&mut self) -> Vec<TokenId> {
                self.0.forced_tokens()
            }
            fn rollback(&mut self, _: usize) -> Result<(), EngineError> {
                Err(EngineError::Invalid {
                    message: "no rollback".into(),
                })
            }
            fn fork(&self) -> Box<dyn Matcher> {
                Box::new(Self(self.0.fork()))
            }
        }
        let constraint = Constraint::Regex("((yes|no|maybe) ){15}".into());
        for seed in 0..10 {
            let plain = finish(start("yes no", Some(&constraint), seed, 100, false)).text;
            let mut drafting = start("yes no", Some(&constraint), seed, 100, false);
            drafting.drafter = Some(Drafter::new(shared().encode("yes no"), 3));
            drafting.matcher = drafting
                .matcher
                .take()
                .map(|matcher| Box::new(ForkOnly(matcher)) as Box<dyn Matcher>);
            let mut text = String::new();
            let mut rejected = 0;
            loop {
                let piece = drafting.step().unwrap();
                text.push_str(&piece.text);
                let drafts = drafting.take_work().drafts;
                rejected += drafts.drafted - drafts.accepted;
                if piece.finish.is_some() {
                    break;
                }
            }
            assert_eq!(text, plain);
            assert!(rejected > 0 && drafting.undo == Undo::Fork, "{seed}");
        }
    }
}
