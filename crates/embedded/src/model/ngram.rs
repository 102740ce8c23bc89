//! A four-gram model with back-off over the vocabulary's tokens.
//!
//! Probabilities are relative frequencies in the corpus, with each occurrence weighted by its
//! document. They are interpolated from four-grams down to bigrams by the number of occurrences and
//! of distinct successors of a context (Witten and Bell 1991, as in Chen and Goodman 1998, "An
//! empirical study of smoothing techniques for language modeling", section 2.5).

use std::collections::HashMap;

use super::corpus::Document;
use sobench_engine::{TokenId, Vocabulary};

/// The index of a token among the tokens of the corpus.
pub(super) type Local = u32;

/// Marks the start and the end of a document.
pub(super) const END: Local = 0;

/// A token that does not occur in the corpus.
pub(super) const UNKNOWN: Local = Local::MAX;

/// Placeholder in contexts shorter than the longest.
const ANY: Local = Local::MAX - 1;

/// The last three tokens, in order, on which the next one depends. Three, since in `"city": "` the
/// value depends on all of them.
pub(super) type Context = [Local; 3];

/// The empty context.
const EMPTY_CONTEXT: Context = [ANY; 3];

/// The context at the start of an answer.
pub(super) const START: Context = [END; 3];

/// Weight of a distinct successor of a context relative to one more occurrence of the context.
/// Below Witten and Bell's 1, the model stays closer to the corpus, which a small corpus needs for
/// readable text.
const DISTINCT_WEIGHT: f32 = 0.1;

/// Occurrences of tokens after a context in the corpus.
#[derive(Default)]
struct Successors {
    /// The following token, and its document.
    seen: Vec<(Local, u32)>,
    distinct: u32,
}

/// The n-gram counts of a corpus.
pub(super) struct Ngrams {
    tokens: Vec<TokenId>,
    locals: HashMap<TokenId, Local>,
    contexts: HashMap<Context, Successors>,
}

impl Ngrams {
    pub(super) fn new(documents: &[Document<'_>], vocabulary: &Vocabulary) -> Self {
        let mut model = Self {
            tokens: vec![vocabulary.eos()],
            locals: HashMap::from([(vocabulary.eos(), END)]),
            contexts: HashMap::new(),
        };
        for (index, document) in (0..).zip(documents) {
            let mut context = START;
            for token in vocabulary
                .encode(document.answer)
                .into_iter()
                .chain([vocabulary.eos()])
            {
                let next = model.add(token);
                for shorter in shortened(context).into_iter().chain([EMPTY_CONTEXT]) {
                    model
                        .contexts
                        .entry(shorter)
                        .or_default()
                        .seen
                        .push((next, index));
                }
                context = [context[1], context[2], next];
            }
        }
        for successors in model.contexts.values_mut() {
            let mut distinct: Vec<Local> = successors.seen.iter().map(|(next, _)| *next).collect();
            distinct.sort_unstable();
            distinct.dedup();
            successors.distinct = u32::try_from(distinct.len()).unwrap_or(u32::MAX);
        }
        model
    }

    fn add(&mut self, token: TokenId) -> Local {
        *self.locals.entry(token).or_insert_with(|| {
            self.tokens.push(token);
            Local::try_from(self.tokens.len() - 1)
                .expect("a corpus that fits into the binary has fewer tokens than 2^32")
        })
    }

    /// The token's index in the corpus, or [`UNKNOWN`].
    pub(super) fn local(&self, token: TokenId) -> Local {
        self.locals.get(&token).copied().unwrap_or(UNKNOWN)
    }

    /// The vocabulary's id of a corpus token.
    pub(super) fn token(&self, local: Local) -> TokenId {
        self.tokens[local as usize]
    }

    /// Number of distinct tokens in the corpus.
    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Passes the probability of every token that may follow `context` to `add`, in parts.
    pub(super) fn successors(
        &self,
        context: Context,
        weights: &[f32],
        mut add: impl FnMut(Local, f32),
    ) {
        let mut rest = 1.0;
        for successors in shortened(context)
            .iter()
            .filter_map(|context| self.contexts.get(context))
        {
            let mass: f32 = successors
                .seen
                .iter()
                .map(|(_, document)| weights[*document as usize])
                .sum();
            let seen = successors.seen.len() as f32;
            let share = rest * seen / (seen + DISTINCT_WEIGHT * successors.distinct as f32);
            for (next, document) in &successors.seen {
                add(*next, share * weights[*document as usize] / mass);
            }
            rest -= share;
        }
    }

    /// Passes the frequency of every token to `add`, in parts, if no successor of the context is
    /// allowed.
    pub(super) fn frequencies(&self, weights: &[f32], mut add: impl FnMut(Local, f32)) {
        let Some(successors) = self.contexts.get(&EMPTY_CONTEXT) else {
            return;
        };
        for (next, document) in &successors.seen {
            add(
                *next,
                weights[*document as usize] / successors.seen.len() as f32,
            );
        }
    }
}

/// A context and its shorter forms, longest first.
fn shortened([first, second, third]: Context) -> [Context; 3] {
    [
        [first, second, third],
        [ANY, second, third],
        [ANY, ANY, third],
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_engine::vocabulary::shared;

    fn distribution(model: &Ngrams, context: Context, weights: &[f32]) -> Vec<f32> {
        let mut sums = vec![0.0; model.len()];
        model.successors(context, weights, |local, p| sums[local as usize] += p);
        sums
    }

    #[test]
    fn probabilities_follow_counts_and_document_weights() {
        let vocabulary = shared();
        let document = |answer| Document { prompt: "", answer };
        let model = Ngrams::new(
            &[document("a b"), document("a c"), document("a c")],
            &vocabulary,
        );
        let local = |text: &str| model.local(vocabulary.encode(text)[0]);
        let even = distribution(&model, [END, END, local("a")], &[1.0; 3]);
        assert!(even[local(" c") as usize] > 1.9 * even[local(" b") as usize]);
        let focused = distribution(&model, [END, END, local("a")], &[1.0, 0.0, 0.0]);
        assert!(focused[local(" b") as usize] > 0.9 && focused[local(" c") as usize] == 0.0);
        let sum: f32 = even.iter().sum();
        assert!(
            sum > 0.95 && sum <= 1.0 + 1e-6,
            "the remaining mass belongs to tokens that never followed: {sum}"
        );
        assert_eq!(model.local(vocabulary.encode("z")[0]), UNKNOWN);
        assert_eq!(
            distribution(&model, [UNKNOWN; 3], &[1.0; 3]),
            vec![0.0; model.len()]
        );
        let mut total = 0.0;
        model.frequencies(&[1.0; 3], |_, p| total += p);
        assert!((total - 1.0).abs() < 1e-6);
    }
}
