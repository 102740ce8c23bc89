//! Makes the synthetic model's answers end: it closes open JSON, does not repeat member names, and
//! prefers to end as its token budget runs out.
//!
//! An n-gram model has no notion of length. Factors on token weights replace the tendency of real
//! models to come to an end. They depend only on the written text and the remaining budget, not on
//! the request.

use super::json_state::JsonState;
use sobench_engine::{TokenId, Vocabulary};

/// Budgets above this number of tokens do not make answers longer.
const MAX_BUDGET: f32 = 320.0;

/// Share of the budget at which the end bias starts, and the share over which it grows to 1.
const BIAS_START: f32 = 0.28;
const BIAS_SPAN: f32 = 0.35;

/// Number of tokens in one string or word at which the end bias starts, and the number over which
/// it grows to 1.
const RUN_START: f32 = 6.0;
const RUN_SPAN: f32 = 8.0;

/// Log-weight of one point of a token's score at full end bias.
const STRENGTH: f32 = 5.0;

/// Factor on repeated white space in a constrained answer, which nothing else limits.
const REPEATED_SPACE: f32 = 0.01;

/// Longest closing token, in bytes. Longer ones are code formatting.
const MAX_CLOSER_BYTES: usize = 4;

/// Properties of a token that do not depend on the text before it.
#[derive(Clone, Copy, Debug, Default)]
struct TokenTrait {
    /// Only white space.
    space: bool,
    /// Only letters, digits, underscores and spaces: it extends a word, a number or a string.
    wordy: bool,
}

/// Traits of every token of a vocabulary, and its closing tokens.
pub(super) struct TokenTraits {
    traits: Vec<TokenTrait>,
    closers: Vec<TokenId>,
    eos: TokenId,
}

impl TokenTraits {
    pub(super) fn new(vocabulary: &Vocabulary) -> Self {
        let mut token_traits = Self {
            traits: Vec::with_capacity(vocabulary.len()),
            closers: Vec::new(),
            eos: vocabulary.eos(),
        };
        for token in (0..).take(vocabulary.len()) {
            let bytes = vocabulary.bytes(token);
            let closes = bytes.iter().any(|byte| b"\"}]".contains(byte))
                && bytes.iter().all(|byte| b"\"}],: ".contains(byte));
            if closes && bytes.len() <= MAX_CLOSER_BYTES {
                token_traits.closers.push(token);
            }
            let word = |byte: &u8| {
                byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b' ' || !byte.is_ascii()
            };
            let space = !bytes.is_empty() && bytes.iter().all(u8::is_ascii_whitespace);
            token_traits.traits.push(TokenTrait {
                space,
                wordy: !bytes.is_empty() && bytes.iter().all(word),
            });
        }
        token_traits.closers.push(token_traits.eos);
        token_traits
    }

    /// Tokens that may close something, including the end token.
    pub(super) fn closers(&self) -> &[TokenId] {
        &self.closers
    }

    fn get(&self, token: TokenId) -> TokenTrait {
        self.traits.get(token as usize).copied().unwrap_or_default()
    }
}

/// The state of an answer: open JSON, length, and length of the current word.
#[derive(Clone, Debug, Default)]
pub(super) struct AnswerProgress {
    json: JsonState,
    /// Consecutive wordy tokens, or tokens in the current string.
    run: u32,
    used: u32,
    after_space: bool,
}

impl AnswerProgress {
    /// Updates the state with a written token.
    pub(super) fn write(&mut self, token: TokenId, bytes: &[u8], token_traits: &TokenTraits) {
        let extends_run = token_traits.get(token).wordy || self.json.change(bytes).extends_string;
        self.run = if extends_run { self.run + 1 } else { 0 };
        self.json.write(bytes);
        self.after_space = token_traits.get(token).space;
        self.used += 1;
    }

    /// Whether no string, object or list is open.
    pub(super) fn is_balanced(&self) -> bool {
        self.json.is_balanced()
    }

    /// How strongly the model prefers to end, from 0 to 1, with `budget` tokens for the whole
    /// answer. In a constrained answer it also grows with long runs, since the mask may allow
    /// nothing else.
    pub(super) fn end_bias(&self, budget: u32, constrained: bool) -> f32 {
        let budget = (budget as f32).min(MAX_BUDGET);
        let needed = self.used as f32
            + 2.0 * self.json.depth() as f32
            + f32::from(u8::from(self.json.in_string()))
            + 1.0;
        let by_budget = (needed / budget - BIAS_START) / BIAS_SPAN;
        let by_run = if constrained {
            (self.run as f32 - RUN_START) / RUN_SPAN
        } else {
            0.0
        };
        by_budget.max(by_run).clamp(0.0, 1.0)
    }

    /// The factor on a token's weight for this end bias. Zero for a name that the object already
    /// has, so that no member name is repeated.
    pub(super) fn factor(
        &self,
        token: TokenId,
        bytes: &[u8],
        token_traits: &TokenTraits,
        end_bias: f32,
        constrained: bool,
    ) -> f32 {
        let token_trait = token_traits.get(token);
        if !constrained && end_bias == 0.0 {
            return 1.0;
        }
        let space = if constrained && self.after_space && token_trait.space {
            REPEATED_SPACE
        } else {
            1.0
        };
        if token == token_traits.eos {
            return (STRENGTH * end_bias * 3.0).exp();
        }
        let change = self.json.change(bytes);
        if constrained && change.repeats_key {
            return 0.0;
        }
        let mut score =
            2.0 * change.closed as f32 - 1.5 * change.opened as f32 + change.empty_strings as f32;
        score +=
            f32::from(u8::from(change.ends_string)) - 0.8 * f32::from(u8::from(change.commits));
        if change.extends_string {
            score -= 1.0;
        } else if token_trait.space {
            score -= 2.0;
        } else if token_trait.wordy {
            score -= 1.0;
        } else {
            // Of tokens that close equally much, prefer the longer one, which saves a step.
            score += 0.1 * bytes.len().min(MAX_CLOSER_BYTES) as f32;
        }
        space * (STRENGTH * end_bias * score).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_engine::vocabulary::shared;

    fn progress(text: &str) -> AnswerProgress {
        let (vocabulary, token_traits) = (shared(), TokenTraits::new(&shared()));
        let mut progress = AnswerProgress::default();
        for token in vocabulary.encode(text) {
            progress.write(token, vocabulary.bytes(token), &token_traits);
        }
        progress
    }

    #[test]
    fn the_end_bias_grows_with_the_text() {
        let (start, later) = (
            progress("{"),
            progress("{\"name\": \"Alan\", \"city\": \"Paris\", \"zip\": \"1\", \"a\": \"b\""),
        );
        assert_eq!(start.end_bias(128, true), 0.0);
        assert!(
            later.end_bias(40, true) > later.end_bias(60, true)
                && later.end_bias(60, true) > later.end_bias(128, true)
        );
        let run =
            progress("word word word word word word word word word word word word word word word");
        assert_eq!(
            (run.end_bias(320, false), run.end_bias(320, true)),
            (0.0, 1.0)
        );
    }

    /// The factors of tokens after a text, at full end bias.
    fn factors(text: &str, tokens: &[&str]) -> Vec<f32> {
        let (vocabulary, token_traits, progress) =
            (shared(), TokenTraits::new(&shared()), progress(text));
        let factor = |token: &&str| {
            let token = vocabulary.encode(token)[0];
            progress.factor(token, vocabulary.bytes(token), &token_traits, 1.0, true)
        };
        tokens.iter().map(factor).collect()
    }

    #[test]
    fn the_end_bias_prefers_closing_tokens() {
        for (text, tokens) in [
            (
                "{\"a\": \"b",
                &["\"}", "\",\"", "\",", "\"", "}", " word"][..4],
            ),
            ("{\"a\": \"b", &["\"", "}}"]),
            ("{\"a\": ", &["\"\"", "\"", "7", "{"]),
            ("{\"a\": [1", &["]}", "]", ",", "7"]),
            ("alan", &["@", "turing"]),
            ("{\"a\": 1", &["}", ",", " ", "\n"][..3]),
        ] {
            let factors = factors(text, tokens);
            assert!(
                factors.windows(2).all(|pair| pair[0] > pair[1]),
                "{text} {tokens:?} {factors:?}"
            );
        }
    }

    #[test]
    fn names_and_spaces_are_not_repeated() {
        let quote = factors("{\"a\": 1, \"a", &["\"", "bc"]);
        assert!(quote[0] < quote[1]);
        let token_traits = TokenTraits::new(&shared());
        let space = shared().encode("\n")[0];
        let factor = |text: &str| progress(text).factor(space, b"\n", &token_traits, 0.0, true);
        assert!(factor("a\n\n") < 0.1 && factor("a") == 1.0);
        assert!(
            token_traits.closers().len() > 10 && token_traits.closers().contains(&shared().eos())
        );
    }
}
