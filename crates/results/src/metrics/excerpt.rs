//! Counts with examples: a reason, how often, and what it looked like once. Knows no rendering;
//! control characters stay as they are.

use serde::Serialize;

use super::Sample;
use sobench_core::case::Arm;

/// The most bytes of an answer that an example shows. The whole answer is in the detailed result
/// file.
pub const EXCERPT_TEXT_MAX_BYTES: usize = 400;

/// The most bytes of an explanation that an example shows: a validator may quote the whole answer
/// in its message.
pub const EXCERPT_WORDS_MAX_BYTES: usize = 400;

/// The most examples that a group keeps: enough to see whether the first one is typical.
pub const EXCERPTS_MAX: usize = 5;

/// What one request looked like.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Excerpt {
    pub case_id: String,
    pub arm: Arm,
    pub finish_reason: Option<String>,
    /// The beginning of the answer, at most [`EXCERPT_TEXT_MAX_BYTES`].
    pub text: String,
    /// The length of the whole answer.
    pub text_bytes: usize,
    /// What was found, or the server's own words; at most [`EXCERPT_WORDS_MAX_BYTES`] and then an
    /// ellipsis.
    pub words: String,
}

/// Requests that have something in common, with the first few of them in plan order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    pub name: &'static str,
    pub count: usize,
    /// At most [`EXCERPTS_MAX`].
    pub excerpts: Vec<Excerpt>,
}

impl Excerpt {
    /// Shows the beginning of this answer: the example was taken from an observation without its
    /// text.
    pub fn show(&mut self, text: &str) {
        cut(text, EXCERPT_TEXT_MAX_BYTES).clone_into(&mut self.text);
        self.text_bytes = text.len();
    }

    /// Takes an example from a request, with the words that explain it. Where its text is not in
    /// memory, [`Excerpt::show`] follows.
    pub fn of(sample: &Sample<'_>, words: &str) -> Self {
        let text = sample.text();
        let short_words = cut(words, EXCERPT_WORDS_MAX_BYTES);
        Self {
            case_id: sample.id(),
            arm: sample.arm(),
            finish_reason: sample.finish_reason().map(str::to_owned),
            text: cut(text, EXCERPT_TEXT_MAX_BYTES).to_owned(),
            text_bytes: text.len(),
            words: if short_words.len() < words.len() {
                format!("{short_words}…")
            } else {
                words.to_owned()
            },
        }
    }
}

impl Group {
    /// A group without members.
    pub fn empty(name: &'static str) -> Self {
        Self {
            name,
            count: 0,
            excerpts: Vec::new(),
        }
    }

    /// Counts a request, and keeps it as an example while there is room.
    pub fn add(&mut self, sample: &Sample<'_>, words: &str) {
        self.count += 1;
        if self.excerpts.len() < EXCERPTS_MAX {
            self.excerpts.push(Excerpt::of(sample, words));
        }
    }

    /// Groups requests by the name that `of` gives each with the words that explain it; `None`
    /// leaves a request out. The most frequent group is first; ties are in the order of the
    /// alphabet, so that a report does not depend on the plan's order.
    pub fn by<'s, 'a: 's>(
        samples: impl IntoIterator<Item = &'s Sample<'a>>,
        of: impl Fn(&Sample<'a>) -> Option<(&'static str, String)>,
    ) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for sample in samples {
            let Some((name, words)) = of(sample) else {
                continue;
            };
            let place = groups
                .iter()
                .position(|group| group.name == name)
                .unwrap_or_else(|| {
                    groups.push(Self::empty(name));
                    groups.len() - 1
                });
            groups[place].add(sample, &words);
        }
        groups.sort_by(|one, other| other.count.cmp(&one.count).then(one.name.cmp(other.name)));
        groups
    }
}

/// The longest beginning of `text` within `max_bytes` that does not split a character.
pub fn cut(text: &str, max_bytes: usize) -> &str {
    if text.len() <= max_bytes {
        return text;
    }
    let end = (0..=max_bytes)
        .rev()
        .find(|&end| text.is_char_boundary(end))
        .unwrap_or(0);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::testing::{Made, made, with_samples};

    #[test]
    fn cuts_between_characters() {
        for (text, max, expected) in [
            ("abc", 3, "abc"),
            ("abc", 2, "ab"),
            ("aéb", 2, "a"),
            ("é", 1, ""),
            ("日本", 5, "日"),
            ("", 0, ""),
        ] {
            assert_eq!(cut(text, max), expected);
        }
    }

    #[test]
    fn an_example_says_how_much_it_left_out() {
        let long = "é".repeat(EXCERPT_TEXT_MAX_BYTES);
        let made = Made {
            text: &long,
            ..made()
        };
        let words = "w".repeat(EXCERPT_WORDS_MAX_BYTES + 1);
        let excerpt = with_samples(&vec![made; 4], |samples| Excerpt::of(&samples[3], &words));
        assert_eq!(
            (excerpt.text.len(), excerpt.text_bytes),
            (EXCERPT_TEXT_MAX_BYTES, 2 * EXCERPT_TEXT_MAX_BYTES)
        );
        assert_eq!(excerpt.words, "w".repeat(EXCERPT_WORDS_MAX_BYTES) + "…");
        assert_eq!(excerpt.case_id, "case-3");
    }

    #[test]
    fn groups_keep_the_first_examples_and_count_the_rest() {
        let name = |sample: &Sample<'_>| {
            if sample.case_index() == 1 {
                "rare"
            } else {
                "often"
            }
        };
        let groups = with_samples(&vec![made(); EXCERPTS_MAX + 2], |samples| {
            Group::by(samples, |sample| Some((name(sample), String::new())))
        });
        assert_eq!(
            groups
                .iter()
                .map(|it| (it.name, it.count))
                .collect::<Vec<_>>(),
            [("often", EXCERPTS_MAX + 1), ("rare", 1)]
        );
        let ids: Vec<&str> = groups[0]
            .excerpts
            .iter()
            .map(|it| it.case_id.as_str())
            .collect();
        assert_eq!(ids, ["case-0", "case-2", "case-3", "case-4", "case-5"]);
    }
}
