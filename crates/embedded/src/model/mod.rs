//! The synthetic language model: a small four-gram model over the real vocabulary, drawn from under
//! a mask. Knows neither HTTP, nor datasets, nor what a mask means.
//!
//! It reads a corpus written for sobench, weighs each document of it by how close the prompt is to
//! it, and writes on from the last three tokens. A mask removes tokens; what is left is drawn from
//! in proportion. It is told nothing else about a request.

mod corpus;
mod habits;
mod ngram;
mod posture;
mod repeating;
mod sampling;

use std::sync::Arc;

use corpus::Relevance;
use habits::{Habits, Progress};
use ngram::{BEGINNING, Context, Local, Ngrams};
use repeating::Repeating;
use sampling::Random;

pub(super) use sampling::Sampling;

use sobench_engine::{TokenId, TokenMask, Vocabulary};

/// Weight of a closing token that the n-grams do not expect, before the wish to end multiplies it.
const UNEXPECTED_CLOSER: f32 = 0.002;

/// Short common words, offered where a mask allows nothing the corpus knows.
const FILLERS: usize = 512;

/// Tokens looked at where a mask allows not even those.
const SCANNED: usize = 64;

/// The model: made once, shared by all answers.
pub(super) struct LanguageModel {
    vocabulary: Arc<Vocabulary>,
    ngrams: Ngrams,
    relevance: Relevance,
    habits: Habits,
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
        // Ids of a byte-pair vocabulary are in order of merging, so small ones are common.
        let fillers = (0..)
            .take(vocabulary.len())
            .filter(filler)
            .take(FILLERS)
            .collect();
        Self {
            ngrams: Ngrams::new(&documents, &vocabulary),
            relevance: Relevance::new(&documents),
            habits: Habits::new(&vocabulary),
            fillers,
            vocabulary,
        }
    }

    /// Begins an answer of at most `budget` tokens. Equal arguments and masks give equal answers.
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
            context: BEGINNING,
            progress: Progress::default(),
            random: Random::new(seed),
            model: Arc::clone(self),
            sampling,
            budget,
            repeating: None,
        }
    }
}

/// One answer in the making.
pub(super) struct Writer {
    model: Arc<LanguageModel>,
    /// One weight a document of the corpus.
    weights: Vec<f32>,
    /// Scratch: probability by corpus token, and which of them are not zero.
    sums: Vec<f32>,
    touched: Vec<Local>,
    candidates: Vec<(TokenId, f32)>,
    context: Context,
    progress: Progress,
    random: Random,
    sampling: Sampling,
    budget: u32,
    /// A text that it was told to write, as long as it can.
    repeating: Option<Repeating>,
}

impl Writer {
    /// Has it write `text` first, as far as masks let it.
    pub(super) fn repeat(&mut self, text: &str) {
        self.repeating = Some(Repeating::new(text));
    }

    /// The next token: one of `mask`, where there is one. `None` if the mask is empty.
    pub(super) fn next(&mut self, mask: Option<&TokenMask>) -> Option<TokenId> {
        if let Some(token) = self.repeated(mask) {
            self.take(token);
            return Some(token);
        }
        let token = match mask {
            Some(mask) if mask.count() < 2 => mask.iter().next()?,
            _ => self.draw(mask)?,
        };
        self.take(token);
        Some(token)
    }

    /// The next token of the text that it was told to write; forgets the text where the mask does
    /// not let it go on.
    fn repeated(&mut self, mask: Option<&TokenMask>) -> Option<TokenId> {
        let allowed = |token: TokenId| mask.is_none_or(|mask| mask.allows(token));
        let token = self
            .repeating
            .as_mut()?
            .next(&self.model.vocabulary, allowed);
        if token.is_none() {
            self.repeating = None;
        }
        token
    }

    fn take(&mut self, token: TokenId) {
        let model = &self.model;
        if token == model.vocabulary.eos() {
            // What follows an end is a new document.
            self.context = BEGINNING;
            return;
        }
        self.context = [self.context[1], self.context[2], model.ngrams.local(token)];
        self.progress
            .write(token, model.vocabulary.bytes(token), &model.habits);
    }

    fn draw(&mut self, mask: Option<&TokenMask>) -> Option<TokenId> {
        let wish = self.progress.wish(self.budget, mask.is_some());
        self.expected(mask, wish);
        if let (true, Some(mask)) = (self.candidates.is_empty(), mask) {
            self.anything(mask, wish);
        }
        let drawn = self.sampling.draw(&mut self.candidates, &mut self.random);
        // Where habits forbid all that the mask allows, the mask has its way.
        drawn.or_else(|| mask?.iter().next())
    }

    /// Fills the candidates with what the n-grams expect and, when the model wishes to end, with
    /// what would close.
    fn expected(&mut self, mask: Option<&TokenMask>, wish: f32) {
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
                &model.habits,
                wish,
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
            add(sums, touched, local, part)
        });
        gather(sums, touched, candidates);
        if wish > 0.0 && (constrained || progress.balanced()) {
            let end = model.vocabulary.eos();
            for &token in model
                .habits
                .closers()
                .iter()
                .filter(|&&token| (constrained || token == end) && allowed(token))
            {
                // A bracket inside a string closes nothing, whatever it looks like.
                let wanted = factor(token);
                if wanted > 1.0 {
                    candidates.push((token, UNEXPECTED_CLOSER * wanted));
                }
            }
        }
        if candidates.is_empty() {
            model
                .ngrams
                .anywhere(weights, |local, part| add(sums, touched, local, part));
            gather(sums, touched, candidates);
        }
    }

    /// Fills the candidates where the mask allows nothing that the corpus has: short common words,
    /// or whatever there is.
    fn anything(&mut self, mask: &TokenMask, wish: f32) {
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
                &model.habits,
                wish,
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
        let start = random.below(u32::try_from(model.vocabulary.len()).unwrap_or(u32::MAX));
        let tokens: Vec<TokenId> = mask
            .iter_from(start)
            .chain(mask.iter())
            .take(SCANNED)
            .collect();
        for token in tokens {
            let bytes = model.vocabulary.bytes(token);
            let plain =
                std::str::from_utf8(bytes).is_ok_and(|text| !text.contains(char::is_control));
            // Longer tokens get further; halves of characters only where nothing else is left.
            let reach = (bytes.len() * bytes.len()).max(1) as f32;
            candidates.push((
                token,
                factor(token) * reach * if plain { 1.0 } else { 1e-6 },
            ));
        }
    }
}

/// Adds to the probability of a token, and remembers that it has one.
fn add(sums: &mut [f32], touched: &mut Vec<Local>, local: Local, part: f32) {
    let sum = &mut sums[local as usize];
    if *sum == 0.0 {
        touched.push(local);
    }
    *sum += part;
}
