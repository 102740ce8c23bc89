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

/// What clients read of a stream that contradicts itself.
const FINAL_OR_DELTAS: &str = "the deltas, or the final text; the deltas are judged";

/// Who forbids a departure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ForbiddenBy {
    /// The schema of the API (`schemas/wire`).
    Schema,
    /// The text of the API's reference.
    Text,
    /// Only custom: OpenAI does not do it, and clients do not expect it.
    Custom,
}

impl ForbiddenBy {
    /// The text of tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Schema => "schema",
            Self::Text => "text",
            Self::Custom => "custom",
        }
    }
}

/// What is known of a departure.
struct About {
    name: &'static str,
    says: &'static str,
    clients_read: &'static str,
    forbidden_by: ForbiddenBy,
}

/// Declares the departures: name, who forbids it, what it is, and what a client reads that joins
/// calls by index (nothing where it reads what sobench judges).
macro_rules! departures {
    ($($Variant:ident $name:literal $rule:ident: $says:literal $(=> $read:expr)?;)+) => {
        /// How an answer departs from the API.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema, Serialize,
            Deserialize,
        )]
        #[serde(rename_all = "snake_case")]
        pub enum Departure {
            $(#[doc = $says] $Variant,)+
        }

        impl Departure {
            /// All departures, in the order of reports.
            pub const ALL: [Self; [$($name,)+].len()] = [$(Self::$Variant,)+];

            fn about(self) -> About {
                match self {
                    $(Self::$Variant => About {
                        name: $name,
                        says: $says,
                        clients_read: read_text!($($read)?),
                        forbidden_by: ForbiddenBy::$rule,
                    },)+
                }
            }
        }
    };
}

macro_rules! read_text {
    () => {
        ""
    };
    ($read:expr) => {
        $read
    };
}

departures! {
    SharedIndex "shared_index" Custom: "several calls share an index"
        => "one call with the arguments of all";
    ChangingId "changing_id" Custom: "the id changes within a call"
        => "one call whose id is the ids run together";
    RepeatedId "repeated_id" Custom: "later deltas of a call repeat its id"
        => "one call whose id is the ids run together";
    RepeatedName "repeated_name" Custom: "later deltas of a call repeat its name"
        => "the names run together";
    SplitName "split_name" Custom: "the name of a call comes in pieces";
    MissingIndex "missing_index" Schema: "a delta of a call has no index"
        => RAISES;
    UnorderedIndex "unordered_index" Custom: "the indices of calls do not count up from 0"
        => RAISES;
    MissingFunction "missing_function" Custom: "a delta of a call has no `function`"
        => RAISES;
    WrongCallType "wrong_call_type" Schema: "a call has another type than its tool"
        => "a call without the members of its tool's type";
    ObjectArguments "object_arguments" Schema: "arguments are an object in place of a text"
        => "an object, which no JSON parser takes";
    NullArguments "null_arguments" Schema: "arguments are null"
        => "null, which no JSON parser takes";
    UnknownFinishReason "unknown_finish_reason" Schema: "unknown finish reason";
    ContentFilter "content_filter" Custom: "the server's content filter ended the answer";
    TextAfterFinish "text_after_finish" Custom: "text after the finish reason";
    MessageForDelta "message_for_delta" Schema: "`message` in place of `delta`"
        => RAISES;
    ReplacementCharacter "replacement_character" Custom: "U+FFFD: the server cut a character";
    TruncatedContext "truncated_context" Custom: "the server cut the prompt or the context (`truncated`)";
    SecondChoice "second_choice" Text: "a second choice, which is not judged";
    LostEvents "lost_events" Text: "events are missing, by their numbers"
        => FINAL_OR_DELTAS;
    RepeatedEvents "repeated_events" Text: "events come twice, by their numbers"
        => FINAL_OR_DELTAS;
    SwappedEvents "swapped_events" Text: "events are out of order, by their numbers"
        => FINAL_OR_DELTAS;
    OtherFinalText "other_final_text" Text: "the final text differs from the deltas"
        => FINAL_OR_DELTAS;
    RepeatedCalls "repeated_calls" Custom: "the same call up to the token limit: a larger --output-len does not help";
    MissingMember "missing_member" Schema: "a required member is missing";
    NullMember "null_member" Schema: "null in place of a value";
    WrongType "wrong_type" Schema: "a member of another type";
    UnknownValue "unknown_value" Schema: "a value that the API does not have";
    MissingRole "missing_role" Custom: "the first delta has no role";
    ChangingAnswerId "changing_answer_id" Text: "the id of the answer changes within its stream";
    ChangingModel "changing_model" Custom: "the model changes within a stream";
    ChangingCreated "changing_created" Text: "the time `created` changes within a stream";
    UsageWithChoices "usage_with_choices" Text: "usage in a frame with choices";
    FrameAfterFinish "frame_after_finish" Custom: "a frame of the choice after its finish reason";
    MissingDone "missing_done" Text: "the stream has no end (`[DONE]`, `message_stop`)";
    FrameAfterDone "frame_after_done" Text: "a frame after the end of the stream";
    WrongEventName "wrong_event_name" Custom: "the name of an event is not its `type`";
    UnknownEvent "unknown_event" Custom: "an event that the API does not have";
    UnorderedEvents "unordered_events" Custom: "an event comes before the one that it follows";
}

impl Departure {
    /// The name used as a key in counts, and in the run log.
    pub fn name(self) -> &'static str {
        self.about().name
    }

    /// What a client reads that joins calls by index, or does with the answer; empty where it reads
    /// what sobench judges.
    pub fn clients_read(self) -> &'static str {
        self.about().clients_read
    }

    /// Who forbids it.
    pub fn forbidden_by(self) -> ForbiddenBy {
        self.about().forbidden_by
    }

    /// Whether it is of the shape of frames alone, which most clients do not mind.
    pub fn is_shape(self) -> bool {
        self >= Self::MissingMember
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
        self.clients_read() == FINAL_OR_DELTAS
    }
}

impl fmt::Display for Departure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.about().says)
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
    pub fn iter(&self) -> impl Iterator<Item = (Departure, &str)> + Clone {
        self.0
            .iter()
            .map(|(departure, example)| (*departure, example.as_str()))
    }

    /// Whether the API forbids one of them.
    pub fn has_forbidden(&self) -> bool {
        let mut all = self.0.keys();
        all.any(|departure| departure.forbidden_by() != ForbiddenBy::Custom)
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
        assert!(Departure::ALL.is_sorted());
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
