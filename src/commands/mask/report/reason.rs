//! Why schemas were declined or rows ended, gathered by what is the same about them. Knows neither
//! engines nor tables.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::json;

use super::outcome::SchemaOutcome;

/// The most different reasons that are told apart for one engine; the rest is counted together.
pub const MAX_REASONS: usize = 1000;

/// The most characters of a reason, and of the words that stand for it.
const REASON_MAX_CHARS: usize = 160;
const WORDS_MAX_CHARS: usize = 400;

/// What stands for words that are none.
const NO_WORDS: &str = "(no words)";

/// Reasons with their counts; the unit is the schema.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reasons {
    groups: BTreeMap<(SchemaOutcome, String), Reason>,
    /// Schemas whose reasons were too many to tell apart.
    left_out: u64,
}

/// One reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    pub outcome: SchemaOutcome,
    /// What is the same in all of them: the feature that is missing, or the words; where they
    /// differ, without names and numbers.
    pub reason: String,
    pub schemas: u64,
    /// The first schema, and the library's own words there.
    pub entry: String,
    pub words: String,
    /// Whether the words are the same in all of them.
    #[serde(skip)]
    is_same: bool,
}

impl Reasons {
    /// Counts a schema under `feature`, or under what is general in `words`.
    pub fn add(&mut self, outcome: SchemaOutcome, feature: Option<&str>, entry: &str, words: &str) {
        let reason =
            feature.map_or_else(|| general(words), |feature| cut(feature, REASON_MAX_CHARS));
        let full = self.groups.len() >= MAX_REASONS;
        let (key, words) = ((outcome, reason), cut(words, WORDS_MAX_CHARS));
        if let Some(group) = self.groups.get_mut(&key) {
            group.schemas += 1;
            group.is_same &= group.words == words;
            if !group.is_same {
                group.reason.clone_from(&key.1);
            }
        } else if full {
            self.left_out += 1;
        } else {
            let whole = if feature.is_some() {
                key.1.clone()
            } else {
                one_line(&words)
            };
            let entry = entry.to_owned();
            self.groups.insert(
                key,
                Reason {
                    outcome,
                    reason: whole,
                    schemas: 1,
                    entry,
                    words,
                    is_same: true,
                },
            );
        }
    }

    /// The reasons, the most frequent first.
    pub fn sorted(&self) -> Vec<&Reason> {
        let mut sorted: Vec<&Reason> = self.groups.values().collect();
        sorted.sort_by_key(|it| std::cmp::Reverse(it.schemas));
        sorted
    }

    /// Schemas with this outcome whose reasons are told apart.
    pub fn schemas(&self, outcome: SchemaOutcome) -> u64 {
        self.groups
            .values()
            .filter(|it| it.outcome == outcome)
            .map(|it| it.schemas)
            .sum()
    }

    /// Schemas whose reasons were too many to tell apart.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

impl Serialize for Reasons {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        json!({"reasons": self.sorted(), "schemas_left_out": self.left_out}).serialize(serializer)
    }
}

fn or_no_words(words: &str) -> String {
    cut(
        if words.is_empty() { NO_WORDS } else { words },
        REASON_MAX_CHARS,
    )
}

/// The words themselves on one line.
fn one_line(words: &str) -> String {
    or_no_words(&words.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Words without what differs from schema to schema: quoted names become `…`, numbers `N`, white
/// space one blank.
fn general(words: &str) -> String {
    let mut general = String::new();
    let mut characters = words.chars().peekable();
    while let Some(character) = characters.next() {
        let after_letter = general
            .chars()
            .next_back()
            .is_some_and(char::is_alphanumeric);
        match character {
            '"' | '\'' | '`' if !after_letter && closes(characters.clone(), character) => {
                characters.by_ref().find(|it| *it == character);
                general.extend([character, '…', character]);
            }
            it if it.is_ascii_digit() => {
                while characters.peek().is_some_and(char::is_ascii_digit) {
                    characters.next();
                }
                general.push('N');
            }
            it if it.is_whitespace() => {
                if !general.ends_with(' ') {
                    general.push(' ');
                }
            }
            it => general.push(it),
        }
    }
    or_no_words(general.trim())
}

/// At most `max_chars` characters; where the text was cut, an ellipsis ends it.
pub(super) fn cut(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Whether a quotation that opened ends somewhere.
fn closes(mut rest: impl Iterator<Item = char>, quote: char) -> bool {
    rest.any(|it| it == quote)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_schema_to_schema_is_taken_out_of_words() {
        for (words, expected) in [
            (
                "Unimplemented keys: [\"if\", \"then\"]",
                "Unimplemented keys: [\"…\", \"…\"]",
            ),
            (
                "grammar has 1234 items,\n  limit 1000",
                "grammar has N items, limit N",
            ),
            ("can't compile `a.b` at 12:3", "can't compile `…` at N:N"),
            ("an open \"quotation", "an open \"quotation"),
            (" \n", "(no words)"),
            ("\u{1b}[2J", "\u{1b}[NJ"),
        ] {
            assert_eq!(general(words), expected);
        }
        assert!(general(&"x y ".repeat(1000)).chars().count() <= REASON_MAX_CHARS + 1);
    }

    #[test]
    fn reasons_add_up_and_have_a_limit_that_is_counted() {
        let mut reasons = Reasons::default();
        let declined = SchemaOutcome::DeclinedUnsupported;
        reasons.add(declined, Some("not"), "a.json", "no `not` here");
        reasons.add(declined, Some("not"), "b.json", "no `not` there");
        reasons.add(
            SchemaOutcome::DeclinedInvalid,
            Some("not"),
            "c.json",
            "what?",
        );
        let sorted = reasons.sorted();
        assert_eq!(
            (sorted.len(), sorted[0].schemas, sorted[0].entry.as_str()),
            (2, 2, "a.json")
        );
        assert_eq!(sorted[0].words, "no `not` here");
        assert_eq!(
            (
                reasons.schemas(declined),
                reasons.schemas(SchemaOutcome::DeclinedTooLarge)
            ),
            (2, 0)
        );
        let timeout = SchemaOutcome::Timeout;
        let reason_of = |reasons: &Reasons| {
            reasons
                .sorted()
                .iter()
                .find(|it| it.outcome == timeout)
                .unwrap()
                .reason
                .clone()
        };
        let mut stops = Reasons::default();
        stops.add(timeout, None, "a.json", "compile: took\n longer than 5 s");
        stops.add(timeout, None, "b.json", "compile: took\n longer than 5 s");
        assert_eq!(
            reason_of(&stops),
            "compile: took longer than 5 s",
            "what is the same in all keeps its numbers"
        );
        stops.add(timeout, None, "c.json", "compile: took longer than 6 s");
        assert_eq!(reason_of(&stops), "compile: took longer than N s");
        stops.add(timeout, None, "d.json", "compile: took longer than 5 s");
        assert_eq!(reason_of(&stops), "compile: took longer than N s");
        for letter in 0..MAX_REASONS + 10 {
            let feature: String = letter.to_string();
            reasons.add(declined, Some(&feature), "d.json", "");
        }
        assert_eq!(
            (reasons.sorted().len(), reasons.left_out()),
            (MAX_REASONS, 12)
        );
    }
}
