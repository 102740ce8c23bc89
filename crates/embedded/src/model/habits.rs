//! The synthetic model's habits: it closes what it opened, does not say the same name twice, and
//! wants to end as its budget runs out. Knows neither masks nor n-grams.
//!
//! An n-gram model has no notion of length, so real models' tendency to come to an end is put here,
//! as factors on weights. It looks at what was written and at how much room is left, never at what
//! was asked for.

use super::posture::Posture;
use sobench_engine::{TokenId, Vocabulary};

/// Budgets beyond this many tokens do not make answers longer.
const LONGEST_HABIT: f32 = 320.0;

/// Share of the budget at which the wish to end begins, and over which it grows to its full
/// strength.
const WISH_FROM: f32 = 0.28;
const WISH_SPAN: f32 = 0.35;

/// Tokens inside one string or word after which the wish to close it begins, and over which it
/// grows.
const RUN_FROM: f32 = 6.0;
const RUN_SPAN: f32 = 8.0;

/// Log-weight of one point of a token's score at full strength.
const STRENGTH: f32 = 5.0;

/// Factor on white space after white space in a constrained answer, where nothing else would ever
/// stop it.
const REPEATED_SPACE: f32 = 0.01;

/// Closing tokens longer than this are layouts of some language's code, not habits.
const LONGEST_CLOSER: usize = 4;

/// What there is to know of a token whatever was written before it.
#[derive(Clone, Copy, Debug, Default)]
struct Trait {
    /// Only white space.
    space: bool,
    /// Only letters, digits, underscores and spaces: it prolongs a word, a number or a string.
    wordy: bool,
}

/// Traits of every token of a vocabulary, and those that close things.
pub(super) struct Habits {
    traits: Vec<Trait>,
    closers: Vec<TokenId>,
    eos: TokenId,
}

impl Habits {
    pub(super) fn new(vocabulary: &Vocabulary) -> Self {
        let mut habits = Self {
            traits: Vec::with_capacity(vocabulary.len()),
            closers: Vec::new(),
            eos: vocabulary.eos(),
        };
        for token in (0..).take(vocabulary.len()) {
            let bytes = vocabulary.bytes(token);
            let closes = bytes.iter().any(|byte| b"\"}]".contains(byte))
                && bytes.iter().all(|byte| b"\"}],: ".contains(byte));
            if closes && bytes.len() <= LONGEST_CLOSER {
                habits.closers.push(token);
            }
            let word = |byte: &u8| {
                byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b' ' || !byte.is_ascii()
            };
            let space = !bytes.is_empty() && bytes.iter().all(u8::is_ascii_whitespace);
            habits.traits.push(Trait {
                space,
                wordy: !bytes.is_empty() && bytes.iter().all(word),
            });
        }
        habits.closers.push(habits.eos);
        habits
    }

    /// Tokens that may close something, the end token among them: offered beside what the n-grams
    /// know.
    pub(super) fn closers(&self) -> &[TokenId] {
        &self.closers
    }

    fn of(&self, token: TokenId) -> Trait {
        self.traits.get(token as usize).copied().unwrap_or_default()
    }
}

/// How an answer goes on: what it has open, how long it is and how long its current word.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    posture: Posture,
    /// Wordy tokens in a row, or tokens inside the current string.
    run: u32,
    used: u32,
    after_space: bool,
}

impl Progress {
    /// Takes notice of a token that was written.
    pub(super) fn write(&mut self, token: TokenId, bytes: &[u8], habits: &Habits) {
        let goes_on = habits.of(token).wordy || self.posture.change(bytes).prolongs_string;
        self.run = if goes_on { self.run + 1 } else { 0 };
        self.posture.write(bytes);
        self.after_space = habits.of(token).space;
        self.used += 1;
    }

    /// Whether nothing is open.
    pub(super) fn balanced(&self) -> bool {
        self.posture.balanced()
    }

    /// How much the model wants to end, 0 to 1, with `budget` tokens for the whole answer. A
    /// constrained model also tires of long runs, since the mask may leave it nothing else to do.
    pub(super) fn wish(&self, budget: u32, constrained: bool) -> f32 {
        let budget = (budget as f32).min(LONGEST_HABIT);
        let needed = self.used as f32
            + 2.0 * self.posture.depth() as f32
            + f32::from(u8::from(self.posture.in_string()))
            + 1.0;
        let by_budget = (needed / budget - WISH_FROM) / WISH_SPAN;
        let by_run = if constrained {
            (self.run as f32 - RUN_FROM) / RUN_SPAN
        } else {
            0.0
        };
        by_budget.max(by_run).clamp(0.0, 1.0)
    }

    /// The factor on a token's weight, for a model that wishes to end so much; zero for a name that
    /// the object has already, since JSON objects have no two members of one name.
    pub(super) fn factor(
        &self,
        token: TokenId,
        bytes: &[u8],
        habits: &Habits,
        wish: f32,
        constrained: bool,
    ) -> f32 {
        let token_trait = habits.of(token);
        if !constrained && wish == 0.0 {
            return 1.0;
        }
        let space = if constrained && self.after_space && token_trait.space {
            REPEATED_SPACE
        } else {
            1.0
        };
        if token == habits.eos {
            return (STRENGTH * wish * 3.0).exp();
        }
        let change = self.posture.change(bytes);
        if constrained && change.repeats_key {
            return 0.0;
        }
        let mut score =
            2.0 * change.closed as f32 - 1.5 * change.opened as f32 + change.empty_strings as f32;
        score +=
            f32::from(u8::from(change.ends_string)) - 0.8 * f32::from(u8::from(change.commits));
        if change.prolongs_string {
            score -= 1.0;
        } else if token_trait.space {
            score -= 2.0;
        } else if token_trait.wordy {
            score -= 1.0;
        } else {
            // Among tokens that close as much, the longer one saves a step.
            score += 0.1 * bytes.len().min(LONGEST_CLOSER) as f32;
        }
        space * (STRENGTH * wish * score).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_engine::vocabulary::shared;

    fn progress(text: &str) -> Progress {
        let (vocabulary, habits) = (shared(), Habits::new(&shared()));
        let mut progress = Progress::default();
        for token in vocabulary.encode(text) {
            progress.write(token, vocabulary.bytes(token), &habits);
        }
        progress
    }

    #[test]
    fn the_wish_to_end_grows_with_what_was_written() {
        let (start, later) = (
            progress("{"),
            progress("{\"name\": \"Alan\", \"city\": \"Paris\", \"zip\": \"1\", \"a\": \"b\""),
        );
        assert_eq!(start.wish(128, true), 0.0);
        assert!(
            later.wish(40, true) > later.wish(60, true)
                && later.wish(60, true) > later.wish(128, true)
        );
        let run =
            progress("word word word word word word word word word word word word word word word");
        assert_eq!((run.wish(320, false), run.wish(320, true)), (0.0, 1.0));
    }

    /// The factors of some tokens after a text, at full wish.
    fn factors(text: &str, tokens: &[&str]) -> Vec<f32> {
        let (vocabulary, habits, progress) = (shared(), Habits::new(&shared()), progress(text));
        let factor = |token: &&str| {
            let token = vocabulary.encode(token)[0];
            progress.factor(token, vocabulary.bytes(token), &habits, 1.0, true)
        };
        tokens.iter().map(factor).collect()
    }

    #[test]
    fn the_wish_favours_what_closes() {
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
        let habits = Habits::new(&shared());
        let space = shared().encode("\n")[0];
        let factor = |text: &str| progress(text).factor(space, b"\n", &habits, 0.0, true);
        assert!(factor("a\n\n") < 0.1 && factor("a") == 1.0);
        assert!(habits.closers().len() > 10 && habits.closers().contains(&shared().eos()));
    }
}
