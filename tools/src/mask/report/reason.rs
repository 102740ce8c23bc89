//! Reasons for declines and stops, grouped by their common part.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::outcome::SchemaOutcome;

/// Maximum distinct reasons per engine; further ones are counted together.
pub const MAX_REASONS: usize = 1000;

/// Maximum length of a reason, and of its example message.
const REASON_MAX_CHARS: usize = 160;
const MESSAGE_MAX_CHARS: usize = 400;

/// Placeholder for an empty message.
const NO_MESSAGE: &str = "(no message)";

/// Reasons with their counts; the unit is the schema.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(into = "ReasonList")]
pub struct Reasons {
    groups: BTreeMap<(SchemaOutcome, String), Reason>,
    /// Schemas with reasons beyond the limit.
    left_out: u64,
}

/// [`Reasons`] in files, most frequent first.
#[derive(JsonSchema, Serialize)]
struct ReasonList {
    reasons: Vec<Reason>,
    /// Schemas with reasons beyond the limit.
    schemas_left_out: u64,
}

/// One reason.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Reason {
    pub outcome: SchemaOutcome,
    /// The common part: the unsupported feature, or the message; if messages differ, without names
    /// and numbers.
    pub reason: String,
    pub schemas: u64,
    /// The first schema, and the library's message there.
    pub entry: String,
    #[serde(rename = "words")]
    pub message: String,
    /// Whether all messages are equal.
    #[serde(skip)]
    is_same: bool,
}

impl Reasons {
    /// Counts a schema under `feature`, or under its generalised message.
    pub fn add(
        &mut self,
        outcome: SchemaOutcome,
        feature: Option<&str>,
        entry: &str,
        message: &str,
    ) {
        let reason = feature.map_or_else(
            || generalized(message),
            |feature| cut(feature, REASON_MAX_CHARS),
        );
        let full = self.groups.len() >= MAX_REASONS;
        let (key, message) = ((outcome, reason), cut(message, MESSAGE_MAX_CHARS));
        if let Some(group) = self.groups.get_mut(&key) {
            group.schemas += 1;
            group.is_same &= group.message == message;
            if !group.is_same {
                group.reason.clone_from(&key.1);
            }
        } else if full {
            self.left_out += 1;
        } else {
            let whole = if feature.is_some() {
                key.1.clone()
            } else {
                one_line(&message)
            };
            let entry = entry.to_owned();
            self.groups.insert(
                key,
                Reason {
                    outcome,
                    reason: whole,
                    schemas: 1,
                    entry,
                    message,
                    is_same: true,
                },
            );
        }
    }

    /// The reasons, most frequent first.
    pub fn sorted(&self) -> Vec<&Reason> {
        let mut sorted: Vec<&Reason> = self.groups.values().collect();
        sorted.sort_by_key(|reason| std::cmp::Reverse(reason.schemas));
        sorted
    }

    /// Schemas with this outcome, within the limit of reasons.
    pub fn schemas(&self, outcome: SchemaOutcome) -> u64 {
        self.groups
            .values()
            .filter(|reason| reason.outcome == outcome)
            .map(|reason| reason.schemas)
            .sum()
    }

    /// Schemas with reasons beyond the limit.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

impl From<Reasons> for ReasonList {
    fn from(reasons: Reasons) -> Self {
        Self {
            reasons: reasons.sorted().into_iter().cloned().collect(),
            schemas_left_out: reasons.left_out,
        }
    }
}

fn or_placeholder(message: &str) -> String {
    cut(
        if message.is_empty() {
            NO_MESSAGE
        } else {
            message
        },
        REASON_MAX_CHARS,
    )
}

/// The message on one line.
fn one_line(message: &str) -> String {
    or_placeholder(&message.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// A message without its specifics: quoted names become `…`, numbers `N`, white space one space.
fn generalized(message: &str) -> String {
    let mut generalized = String::new();
    let mut characters = message.chars().peekable();
    while let Some(character) = characters.next() {
        let after_letter = generalized
            .chars()
            .next_back()
            .is_some_and(char::is_alphanumeric);
        match character {
            '"' | '\'' | '`' if !after_letter && closes(characters.clone(), character) => {
                characters.by_ref().find(|next| *next == character);
                generalized.extend([character, '…', character]);
            }
            character if character.is_ascii_digit() => {
                while characters.peek().is_some_and(char::is_ascii_digit) {
                    characters.next();
                }
                generalized.push('N');
            }
            character if character.is_whitespace() => {
                if !generalized.ends_with(' ') {
                    generalized.push(' ');
                }
            }
            character => generalized.push(character),
        }
    }
    or_placeholder(generalized.trim())
}

/// At most `max_chars` characters; an ellipsis marks truncated text.
pub(super) fn cut(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Whether the quotation is closed.
fn closes(mut rest: impl Iterator<Item = char>, quote: char) -> bool {
    rest.any(|character| character == quote)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_names_and_numbers_are_generalized() {
        for (message, expected) in [
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
            (" \n", "(no message)"),
            ("\u{1b}[2J", "\u{1b}[NJ"),
        ] {
            assert_eq!(generalized(message), expected);
        }
        assert!(generalized(&"x y ".repeat(1000)).chars().count() <= REASON_MAX_CHARS + 1);
    }

    #[test]
    fn reasons_are_counted_up_to_a_limit() {
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
        assert_eq!(sorted[0].message, "no `not` here");
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
                .find(|reason| reason.outcome == timeout)
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
            "equal messages keep their numbers"
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
