//! The synthetic language model: a small four-gram model over the real vocabulary, sampled under a
//! mask.
//!
//! It is trained on a corpus written for sobench. Each document is weighted by its similarity to
//! the prompt, and the next token depends on the last three tokens. A mask removes tokens, and the
//! rest is sampled proportionally. The model has no other information about a request.

mod corpus;
mod ending;
mod json_state;
mod ngram;
mod repeating;
mod sampling;
mod script;

use std::sync::Arc;

use corpus::Relevance;
use ending::{AnswerProgress, TokenTraits};
use ngram::{Context, Local, Ngrams, START};
use repeating::Repeating;
use script::{FILL_BUDGET, KEPT_BYTES, Running, Script, WORDS_PER_START};

pub(super) use sampling::Sampling;
pub(crate) use script::Step;

use crate::seeds::Draws;
use sobench_engine::{TokenId, TokenMask, Vocabulary};

/// Weight of a closing token that the n-grams do not predict, before multiplication with its ending
/// factor.
const CLOSER_WEIGHT: f32 = 0.002;

/// Number of short common words used as candidates if a mask allows no token of the corpus.
const MAX_FILLERS: usize = 512;

/// Number of tokens considered if a mask allows no such word either.
const MAX_SCANNED: usize = 64;

/// Number of draws for a token that does not end the answer.
const MAX_REDRAWS: usize = 16;

/// The model, shared by all answers.
pub(super) struct LanguageModel {
    vocabulary: Arc<Vocabulary>,
    ngrams: Ngrams,
    relevance: Relevance,
    token_traits: TokenTraits,
    fillers: Vec<TokenId>,
}

impl LanguageModel {
    pub(super) fn new(vocabulary: Arc<Vocabulary>) -> Self {
        let documents = corpus::documents(corpus::CORPUS);
        let filler = |token: &TokenId| {
            let bytes = vocabulary.bytes(*token);
            let word = bytes.strip_prefix(b" ").unwrap_or(bytes);
            let letters = (2..=6).contains(&word.len()) && word.iter().all(u8::is_ascii_lowercase);
            letters || (1..=3).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_digit)
        };
        // A byte-pair vocabulary is in order of merging, so that tokens with small ids are common.
        let fillers = (0..)
            .take(vocabulary.len())
            .filter(filler)
            .take(MAX_FILLERS)
            .collect();
        Self {
            ngrams: Ngrams::new(&documents, &vocabulary),
            relevance: Relevance::new(&documents),
            token_traits: TokenTraits::new(&vocabulary),
            fillers,
            vocabulary,
        }
    }

    /// Starts an answer of at most `budget` tokens. Equal arguments and masks give equal answers.
    pub(super) fn writer(
        self: &Arc<Self>,
        prompt: &str,
        sampling: Sampling,
        seed: u64,
        budget: u32,
    ) -> Writer {
        Writer {
            weights: self.relevance.weights(prompt),
            sums: vec![0.0; self.ngrams.len()],
            touched: Vec::new(),
            candidates: Vec::new(),
            context: START,
            progress: AnswerProgress::default(),
            random: Draws::of_model(seed),
            model: Arc::clone(self),
            sampling,
            budget,
            script: Script::default(),
        }
    }
}

/// A running answer.
pub(super) struct Writer {
    model: Arc<LanguageModel>,
    /// The weight of each document of the corpus.
    weights: Vec<f32>,
    /// Scratch space: the probability of each corpus token, and the tokens with a probability above
    /// 0.
    sums: Vec<f32>,
    touched: Vec<Local>,
    candidates: Vec<(TokenId, f32)>,
    context: Context,
    progress: AnswerProgress,
    random: Draws,
    sampling: Sampling,
    budget: u32,
    /// What it intends to write, as long as the masks allow it.
    script: Script,
}

impl Writer {
    /// Makes the writer follow these steps, as far as the masks allow, in place of earlier ones.
    pub(super) fn follow(&mut self, steps: Vec<Step>) {
        self.script = Script::new(steps);
        self.progress = AnswerProgress::default();
    }

    /// Whether the script has no further step.
    pub(super) fn is_script_done(&mut self) -> bool {
        self.script.current().is_none()
    }

    /// The next token, from `mask` if there is one. `None` if the mask is empty.
    pub(super) fn next(&mut self, mask: Option<&TokenMask>) -> Option<TokenId> {
        let token = match self.scripted(mask) {
            Some(token) => token,
            None => self.drawn(mask)?,
        };
        self.take(token);
        Some(token)
    }

    fn drawn(&mut self, mask: Option<&TokenMask>) -> Option<TokenId> {
        match mask {
            Some(mask) if mask.count() < 2 => mask.iter().next(),
            _ => self.draw(mask),
        }
    }

    /// The next token of the script. Drops the script if the mask does not allow its next step.
    fn scripted(&mut self, mask: Option<&TokenMask>) -> Option<TokenId> {
        let mut script = std::mem::take(&mut self.script);
        let token = self.step_token(&mut script, mask);
        if token.is_none() {
            script.clear();
        }
        self.script = script;
        token
    }

    fn step_token(&mut self, script: &mut Script, mask: Option<&TokenMask>) -> Option<TokenId> {
        let model = Arc::clone(&self.model);
        let allowed = |token: TokenId| mask.is_none_or(|mask| mask.allows(token));
        loop {
            match script.current()? {
                Running::Write { text, skips_space } => {
                    let token = text.next(&model.vocabulary, allowed);
                    if token.is_some() || !(*skips_space && text.skip_space()) {
                        return token;
                    }
                }
                Running::Words { left } => {
                    if left.is_multiple_of(WORDS_PER_START) {
                        self.progress = AnswerProgress::default();
                    }
                    *left -= 1;
                    return self.drawn_inside(mask);
                }
                Running::Fill {
                    end,
                    is_json,
                    tokens,
                    written,
                    is_ending,
                } => {
                    if *tokens == 0 {
                        self.progress = AnswerProgress::default();
                        self.budget = self.budget.min(FILL_BUDGET);
                    }
                    // White space at the start of a value is not the start of its end.
                    let is_blank = written.trim_ascii().is_empty();
                    let may_end = !is_blank && (!*is_json || self.progress.is_balanced());
                    let ending = if *is_ending || may_end {
                        ending_token(end, written, is_ending, &model.vocabulary, allowed)
                    } else {
                        None
                    };
                    if *is_ending && ending.is_none() {
                        // A drawn token has completed the end.
                        continue;
                    }
                    let token = match ending {
                        None if is_blank && *tokens > 0 => self.drawn_not_blank(mask)?,
                        None => self.drawn_inside(mask)?,
                        Some(token) => token,
                    };
                    *tokens += 1;
                    written.extend_from_slice(model.vocabulary.bytes(token));
                    written.drain(..written.len().saturating_sub(KEPT_BYTES));
                    return Some(token);
                }
                Running::End => {
                    script.clear();
                    return Some(model.vocabulary.eos()).filter(|token| allowed(*token));
                }
            }
        }
    }

    /// A drawn token that does not end the answer. `None` if only the end is likely or allowed.
    fn drawn_inside(&mut self, mask: Option<&TokenMask>) -> Option<TokenId> {
        let end = self.model.vocabulary.eos();
        for _ in 0..MAX_REDRAWS {
            let token = self.drawn(mask)?;
            if token != end {
                return Some(token);
            }
            // A new document.
            self.context = START;
            self.progress = AnswerProgress::default();
        }
        None
    }

    /// As [`Self::drawn_inside`], but not white space if another token is allowed: a mask may allow
    /// any amount of it before a value.
    fn drawn_not_blank(&mut self, mask: Option<&TokenMask>) -> Option<TokenId> {
        let model = Arc::clone(&self.model);
        let is_blank = |token: TokenId| {
            token == model.vocabulary.eos() || model.vocabulary.bytes(token).trim_ascii().is_empty()
        };
        let mut drawn = self.drawn_inside(mask)?;
        for _ in 0..MAX_REDRAWS {
            if !is_blank(drawn) {
                return Some(drawn);
            }
            drawn = self.drawn_inside(mask)?;
        }
        let Some(mask) = mask else {
            return Some(drawn);
        };
        let tokens = u32::try_from(model.vocabulary.len()).unwrap_or(u32::MAX);
        let start = self.random.token_below(tokens);
        let other = mask
            .iter_from(start)
            .chain(mask.iter())
            .find(|token| !is_blank(*token));
        Some(other.unwrap_or(drawn))
    }

    fn take(&mut self, token: TokenId) {
        let model = &self.model;
        if token == model.vocabulary.eos() {
            // A new document starts after an end token.
            self.context = START;
            return;
        }
        self.context = [self.context[1], self.context[2], model.ngrams.local(token)];
        self.progress
            .write(token, model.vocabulary.bytes(token), &model.token_traits);
    }

    fn draw(&mut self, mask: Option<&TokenMask>) -> Option<TokenId> {
        let end_bias = self.progress.end_bias(self.budget, mask.is_some());
        self.add_predicted(mask, end_bias);
        if let (true, Some(mask)) = (self.candidates.is_empty(), mask) {
            self.add_fallbacks(mask, end_bias);
        }
        let drawn = self.sampling.draw(&mut self.candidates, &mut self.random);
        // If all allowed tokens have weight 0, take the first allowed one.
        drawn.or_else(|| mask?.iter().next())
    }

    /// Replaces the candidates with the tokens that the n-grams predict and, if the end bias is
    /// above 0, with closing tokens.
    fn add_predicted(&mut self, mask: Option<&TokenMask>, end_bias: f32) {
        let Self {
            model,
            weights,
            sums,
            touched,
            candidates,
            progress,
            context,
            ..
        } = self;
        let constrained = mask.is_some();
        let allowed = |token: TokenId| mask.is_none_or(|mask| mask.allows(token));
        let factor = |token| {
            progress.factor(
                token,
                model.vocabulary.bytes(token),
                &model.token_traits,
                end_bias,
                constrained,
            )
        };
        let gather =
            |sums: &mut [f32], touched: &mut Vec<Local>, candidates: &mut Vec<(TokenId, f32)>| {
                for local in touched.drain(..) {
                    let probability = std::mem::take(&mut sums[local as usize]);
                    let token = model.ngrams.token(local);
                    let weight = if allowed(token) {
                        probability * factor(token)
                    } else {
                        0.0
                    };
                    if weight > 0.0 {
                        candidates.push((token, weight));
                    }
                }
            };
        candidates.clear();
        model.ngrams.successors(*context, weights, |local, part| {
            add(sums, touched, local, part);
        });
        gather(sums, touched, candidates);
        if end_bias > 0.0 && (constrained || progress.is_balanced()) {
            let end = model.vocabulary.eos();
            for &token in model
                .token_traits
                .closers()
                .iter()
                .filter(|&&token| (constrained || token == end) && allowed(token))
            {
                // Excludes brackets inside a string, which close nothing.
                let closing_factor = factor(token);
                if closing_factor > 1.0 {
                    candidates.push((token, CLOSER_WEIGHT * closing_factor));
                }
            }
        }
        if candidates.is_empty() {
            model
                .ngrams
                .frequencies(weights, |local, part| add(sums, touched, local, part));
            gather(sums, touched, candidates);
        }
    }

    /// Adds candidates if the mask allows no token of the corpus: short common words, otherwise any
    /// allowed tokens.
    fn add_fallbacks(&mut self, mask: &TokenMask, end_bias: f32) {
        let Self {
            model,
            candidates,
            progress,
            random,
            ..
        } = self;
        let factor = |token| {
            progress.factor(
                token,
                model.vocabulary.bytes(token),
                &model.token_traits,
                end_bias,
                true,
            )
        };
        for (rank, token) in (8_u16..)
            .zip(&model.fillers)
            .filter(|(_, token)| mask.allows(**token))
        {
            candidates.push((*token, factor(*token) / f32::from(rank)));
        }
        if !candidates.is_empty() {
            return;
        }
        let start = random.token_below(u32::try_from(model.vocabulary.len()).unwrap_or(u32::MAX));
        let tokens: Vec<TokenId> = mask
            .iter_from(start)
            .chain(mask.iter())
            .take(MAX_SCANNED)
            .collect();
        for token in tokens {
            let bytes = model.vocabulary.bytes(token);
            let is_text =
                std::str::from_utf8(bytes).is_ok_and(|text| !text.contains(char::is_control));
            // Longer tokens are preferred. Parts of characters are a last resort.
            let length_weight = (bytes.len() * bytes.len()).max(1) as f32;
            candidates.push((
                token,
                factor(token) * length_weight * if is_text { 1.0 } else { 1e-6 },
            ));
        }
    }
}

/// The next token of the text that ends a value. Drawn tokens may have written its start. Sets
/// whether the value is ending: without a token, the whole text is written then.
fn ending_token(
    end: &mut Repeating,
    written: &[u8],
    is_ending: &mut bool,
    vocabulary: &Vocabulary,
    allowed: impl Fn(TokenId) -> bool + Copy,
) -> Option<TokenId> {
    let next = |end: &mut Repeating| {
        let token = end.next(vocabulary, allowed);
        match token {
            None if end.skip_space() => end.next(vocabulary, allowed),
            token => token,
        }
    };
    if *is_ending && let Some(token) = next(end) {
        return Some(token);
    }
    for start in end.overlaps(written) {
        end.seek(start);
        let token = next(end);
        *is_ending = token.is_some() || end.is_done();
        if *is_ending {
            return token;
        }
    }
    None
}

/// Adds to the probability of a token, and records the token.
fn add(sums: &mut [f32], touched: &mut Vec<Local>, local: Local, part: f32) {
    let sum = &mut sums[local as usize];
    if *sum == 0.0 {
        touched.push(local);
    }
    *sum += part;
}
