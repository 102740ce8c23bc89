//! What in the stream or body of an answer departs from the API, although the answer can be judged.
//!
//! The verdict judges the answer that the API's rule joins: deltas of a tool call belong together
//! by their index alone, and their texts are concatenated. If a stream contradicts itself, the
//! deltas are judged, because clients read them. What a client reads is that of openai-python's
//! stream helper.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::registry;

/// Maximum size of an example in bytes.
pub const MAX_EXAMPLE_BYTES: usize = 160;

/// Characters of a text before and after the place that an example shows.
const CHARS_BEFORE: usize = 12;
const CHARS_AFTER: usize = 24;

/// What clients read that raise an error.
const RAISES: &str = "nothing: they raise an error";

/// How an answer departs from the API.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Departure {
    /// Several calls on one index.
    SharedIndex,
    /// A call whose later deltas have another id.
    ChangingId,
    /// A call whose later deltas repeat its id.
    RepeatedId,
    /// A call whose later deltas repeat its name.
    RepeatedName,
    /// A name in pieces.
    SplitName,
    /// A delta of a call without an index.
    MissingIndex,
    /// Calls whose indices do not count up from 0.
    UnorderedIndex,
    /// A delta of a call without `function`.
    MissingFunction,
    /// A call of type `custom` for a function, or the reverse.
    WrongCallType,
    /// Arguments that are an object in place of a text.
    ObjectArguments,
    /// Arguments that are `null`.
    NullArguments,
    UnknownFinishReason,
    /// The content filter of the server ended the answer.
    ContentFilter,
    TextAfterFinish,
    /// `message` in place of `delta`.
    MessageForDelta,
    /// U+FFFD in a text, where the server cut a character.
    ReplacementCharacter,
    /// llama.cpp's `truncated: true`.
    TruncatedContext,
    SecondChoice,
    /// A gap in the numbers of the events.
    LostEvents,
    /// A number of an event for the second time.
    RepeatedEvents,
    /// An event after one with a higher number.
    SwappedEvents,
    /// A final text that differs from the deltas.
    OtherFinalText,
    /// The same call again and again up to the token limit.
    RepeatedCalls,
}

impl Departure {
    /// All departures, in the order of reports.
    pub const ALL: [Self; 23] = [
        Self::SharedIndex,
        Self::ChangingId,
        Self::RepeatedId,
        Self::RepeatedName,
        Self::SplitName,
        Self::MissingIndex,
        Self::UnorderedIndex,
        Self::MissingFunction,
        Self::WrongCallType,
        Self::ObjectArguments,
        Self::NullArguments,
        Self::UnknownFinishReason,
        Self::ContentFilter,
        Self::TextAfterFinish,
        Self::MessageForDelta,
        Self::ReplacementCharacter,
        Self::TruncatedContext,
        Self::SecondChoice,
        Self::LostEvents,
        Self::RepeatedEvents,
        Self::SwappedEvents,
        Self::OtherFinalText,
        Self::RepeatedCalls,
    ];

    /// The name used as a key in counts, and in the run log.
    pub fn name(self) -> &'static str {
        match self {
            Self::SharedIndex => "shared_index",
            Self::ChangingId => "changing_id",
            Self::RepeatedId => "repeated_id",
            Self::RepeatedName => "repeated_name",
            Self::SplitName => "split_name",
            Self::MissingIndex => "missing_index",
            Self::UnorderedIndex => "unordered_index",
            Self::MissingFunction => "missing_function",
            Self::WrongCallType => "wrong_call_type",
            Self::ObjectArguments => "object_arguments",
            Self::NullArguments => "null_arguments",
            Self::UnknownFinishReason => "unknown_finish_reason",
            Self::ContentFilter => "content_filter",
            Self::TextAfterFinish => "text_after_finish",
            Self::MessageForDelta => "message_for_delta",
            Self::ReplacementCharacter => "replacement_character",
            Self::TruncatedContext => "truncated_context",
            Self::SecondChoice => "second_choice",
            Self::LostEvents => "lost_events",
            Self::RepeatedEvents => "repeated_events",
            Self::SwappedEvents => "swapped_events",
            Self::OtherFinalText => "other_final_text",
            Self::RepeatedCalls => "repeated_calls",
        }
    }

    /// What a client reads that joins calls by index, or does with the answer; empty where it reads
    /// what sobench judges.
    pub fn clients_read(self) -> &'static str {
        match self {
            Self::SharedIndex => "one call with the arguments of all",
            Self::ChangingId | Self::RepeatedId => "one call whose id is the ids run together",
            Self::RepeatedName => "the names run together",
            Self::MissingIndex
            | Self::UnorderedIndex
            | Self::MissingFunction
            | Self::MessageForDelta => RAISES,
            Self::WrongCallType => "a call without the members of its tool's type",
            Self::ObjectArguments => "an object, which no JSON parser takes",
            Self::NullArguments => "null, which no JSON parser takes",
            Self::LostEvents
            | Self::RepeatedEvents
            | Self::SwappedEvents
            | Self::OtherFinalText => "the deltas, or the final text; the deltas are judged",
            Self::SplitName
            | Self::UnknownFinishReason
            | Self::ContentFilter
            | Self::TextAfterFinish
            | Self::ReplacementCharacter
            | Self::TruncatedContext
            | Self::SecondChoice
            | Self::RepeatedCalls => "",
        }
    }

    /// Whether the example is what clients read, and not what was sent.
    pub fn example_is_read(self) -> bool {
        matches!(
            self,
            Self::SharedIndex | Self::ChangingId | Self::RepeatedId | Self::RepeatedName
        )
    }

    /// Whether clients raise an error, and read nothing.
    pub fn raises(self) -> bool {
        self.clients_read() == RAISES
    }

    /// Whether the stream contradicts itself, so that a wrong answer may be the fault of the
    /// stream, and not of the model or the constraint.
    pub fn is_contradiction(self) -> bool {
        matches!(
            self,
            Self::LostEvents | Self::RepeatedEvents | Self::SwappedEvents | Self::OtherFinalText
        )
    }
}

impl fmt::Display for Departure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SharedIndex => "several calls share an index",
            Self::ChangingId => "the id changes within a call",
            Self::RepeatedId => "later deltas of a call repeat its id",
            Self::RepeatedName => "later deltas of a call repeat its name",
            Self::SplitName => "the name of a call comes in pieces",
            Self::MissingIndex => "a delta of a call has no index",
            Self::UnorderedIndex => "the indices of calls do not count up from 0",
            Self::MissingFunction => "a delta of a call has no `function`",
            Self::WrongCallType => "a call has another type than its tool",
            Self::ObjectArguments => "arguments are an object in place of a text",
            Self::NullArguments => "arguments are null",
            Self::UnknownFinishReason => "unknown finish reason",
            Self::ContentFilter => "the server's content filter ended the answer",
            Self::TextAfterFinish => "text after the finish reason",
            Self::MessageForDelta => "`message` in place of `delta`",
            Self::ReplacementCharacter => "U+FFFD: the server cut a character",
            Self::TruncatedContext => "the server cut the prompt or the context (`truncated`)",
            Self::SecondChoice => "a second choice, which is not judged",
            Self::LostEvents => "events are missing, by their numbers",
            Self::RepeatedEvents => "events come twice, by their numbers",
            Self::SwappedEvents => "events are out of order, by their numbers",
            Self::OtherFinalText => "the final text differs from the deltas",
            Self::RepeatedCalls => {
                "the same call up to the token limit: a larger --output-len does not help"
            }
        })
    }
}

impl std::str::FromStr for Departure {
    type Err = crate::error::Error;

    fn from_str(name: &str) -> crate::error::Result<Self> {
        registry::find(&Self::ALL, Self::name, "departure", name)
    }
}

/// The departures of an answer, each with an example: what was sent, or what clients read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Departures(BTreeMap<Departure, String>);

impl Departures {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the answer departs in this way.
    pub fn has(&self, departure: Departure) -> bool {
        self.0.contains_key(&departure)
    }

    /// The departures in the order of reports, with their examples.
    pub fn iter(&self) -> impl Iterator<Item = (Departure, &str)> {
        self.0
            .iter()
            .map(|(departure, example)| (*departure, example.as_str()))
    }

    /// Whether the stream contradicts itself.
    pub fn contradict(&self) -> bool {
        self.0.keys().any(|departure| departure.is_contradiction())
    }

    /// Adds a departure; the first example is kept, cut to [`MAX_EXAMPLE_BYTES`].
    pub fn add(&mut self, departure: Departure, example: &str) {
        if !self.has(departure) {
            let mut text = String::new();
            append(&mut text, example);
            self.0.insert(departure, text);
        }
    }

    /// Adds the departures of another part of the answer.
    pub fn merge(&mut self, more: Self) {
        for (departure, example) in more.0 {
            self.0.entry(departure).or_insert(example);
        }
    }

    /// Adds [`Departure::OtherFinalText`] if the text of the deltas is not the final one, with both
    /// around the first difference.
    pub fn add_other_text(&mut self, deltas: &str, final_text: &str) {
        if deltas == final_text || self.has(Departure::OtherFinalText) {
            return;
        }
        let bytes = deltas.bytes().zip(final_text.bytes());
        let same = bytes.take_while(|(one, other)| one == other).count();
        let [deltas, final_text] = [deltas, final_text].map(|text| around(text, same));
        let example = format!("{deltas:?} in the deltas, {final_text:?} in the final text");
        self.add(Departure::OtherFinalText, &example);
    }

    /// Removes a departure.
    pub fn remove(&mut self, departure: Departure) {
        self.0.remove(&departure);
    }

    /// Removes the examples, which are long.
    pub fn drop_examples(&mut self) {
        self.0.values_mut().for_each(String::clear);
    }

    /// Adds a departure whose example is the texts run together.
    pub(crate) fn add_repetition(&mut self, departure: Departure, known: &str, more: &str) {
        self.add(departure, known);
        if let Some(example) = self.0.get_mut(&departure) {
            append(example, more);
        }
    }
}

/// The characters around a byte of a text.
pub(crate) fn around(text: &str, byte: usize) -> &str {
    let at = (0..=byte.min(text.len())).rfind(|at| text.is_char_boundary(*at));
    let (before, after) = text.split_at(at.unwrap_or(0));
    let start = before.char_indices().rev().nth(CHARS_BEFORE - 1);
    let end = after.char_indices().nth(CHARS_AFTER);
    let start = start.map_or(0, |(start, _)| start);
    &text[start..before.len() + end.map_or(after.len(), |(end, _)| end)]
}

/// Appends a text to an example, with an ellipsis where it is cut.
fn append(example: &mut String, more: &str) {
    let room = MAX_EXAMPLE_BYTES.saturating_sub(example.len());
    if more.len() <= room {
        example.push_str(more);
    } else if !example.ends_with('…') {
        let end = (0..=room).rfind(|at| more.is_char_boundary(*at));
        example.push_str(&more[..end.unwrap_or(0)]);
        example.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_are_those_of_the_log() {
        for departure in Departure::ALL {
            assert_eq!(
                serde_json::to_value(departure).unwrap(),
                json!(departure.name())
            );
            assert_eq!(departure.name().parse::<Departure>().unwrap(), departure);
            assert!(!departure.to_string().is_empty());
        }
        let mut sorted = Departure::ALL;
        sorted.sort();
        assert_eq!(sorted, Departure::ALL);
    }

    #[test]
    fn examples_are_cut() {
        let mut found = Departures::default();
        found.add(Departure::SecondChoice, &"é".repeat(MAX_EXAMPLE_BYTES));
        found.add(Departure::SecondChoice, "second");
        let example = found.iter().next().unwrap().1;
        assert_eq!(example.len(), MAX_EXAMPLE_BYTES + '…'.len_utf8());
        let text = serde_json::to_string(&found).unwrap();
        assert!(text.starts_with(r#"{"second_choice":"é"#), "{text}");
        assert_eq!(serde_json::from_str::<Departures>(&text).unwrap(), found);
    }
}
