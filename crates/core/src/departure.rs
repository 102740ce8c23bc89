//! What in the stream or body of an answer departs from the API, although the answer can be judged.
//!
//! The verdict judges the answer that the API's rule joins: deltas of a tool call belong together
//! by their index alone, and their texts are concatenated. If a stream contradicts itself, the
//! deltas are judged, because clients read them. What a client reads is that of openai-python's
//! stream helper.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::answer::{Answer, CallForm};
use crate::observation::{Observation, Outcome};
use crate::registry;
use crate::tools::{ToolInput, ToolSet};

/// Maximum size of an example in bytes.
pub const MAX_EXAMPLE_BYTES: usize = 160;

/// Finish reasons that a server documents: OpenAI; vLLM (`repetition`); Text Generation Inference's
/// own endpoint; Ollama (`load`, `unload`); TensorRT-LLM (`timeout`, `cancelled`).
const FINISH_REASONS: [&str; 12] = [
    "stop",
    "length",
    "tool_calls",
    CONTENT_FILTER,
    "function_call",
    "repetition",
    "eos_token",
    "stop_sequence",
    "load",
    "unload",
    "timeout",
    "cancelled",
];

const CONTENT_FILTER: &str = "content_filter";

/// Characters of a text before and after the place that an example shows.
const CHARS_BEFORE: usize = 12;
const CHARS_AFTER: usize = 24;

/// Repeated calls of a truncated answer that are no accident.
const MIN_REPEATED_CALLS: usize = 2;

/// What clients read that raise an error.
const RAISES: &str = "nothing: they raise an error";

/// How an answer departs from the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
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

    /// The departures of an answer: those of its stream or body, and those that the answer itself
    /// shows. `tools` are those of the request.
    pub fn of_answer(observation: &Observation, tools: Option<&ToolSet>) -> Self {
        let answer = &observation.answer;
        if !observation.outcome.is_answer() {
            return Self::default();
        }
        let mut found = answer.departures.clone();
        found.name_shared_index(answer);
        if answer
            .tool_calls
            .iter()
            .all(|call| !call.arguments.is_empty())
        {
            found.0.remove(&Departure::NullArguments);
        }
        for call in &answer.tool_calls {
            let is_custom = tools
                .and_then(|tools| tools.tool(&call.name))
                .map(|tool| matches!(tool.input, ToolInput::Custom { .. }));
            if is_custom.is_some_and(|is_custom| is_custom != (call.form == CallForm::Custom)) {
                found.add(Departure::WrongCallType, &call.name);
            }
            if call.form == CallForm::Object {
                found.add(Departure::ObjectArguments, &call.arguments);
            }
        }
        match observation.finish_reason.as_deref() {
            Some(CONTENT_FILTER) => found.add(Departure::ContentFilter, ""),
            Some(reason) if !FINISH_REASONS.contains(&reason) => {
                found.add(Departure::UnknownFinishReason, reason);
            }
            _ => {}
        }
        for text in [&*answer.text(), &*answer.reasoning] {
            if let Some(at) = text.find(char::REPLACEMENT_CHARACTER) {
                found.add(Departure::ReplacementCharacter, around(text, at));
            }
        }
        let is_cut = observation.outcome == Outcome::Truncated
            || observation.finish_reason.as_deref() == Some("length");
        if let Some(example) = is_cut.then(|| repeated_calls(answer)).flatten() {
            found.add(Departure::RepeatedCalls, &example);
        }
        found
    }

    /// Tells several calls on one index from one call with a changing id or a repeated name: their
    /// arguments are several objects.
    fn name_shared_index(&mut self, answer: &Answer) {
        let of_one_call = [
            Departure::ChangingId,
            Departure::RepeatedName,
            Departure::RepeatedId,
        ];
        if !of_one_call[..2]
            .iter()
            .any(|departure| self.has(*departure))
        {
            return;
        }
        let shared = answer.tool_calls.iter().find(|call| {
            let values = serde_json::Deserializer::from_str(&call.arguments).into_iter::<Value>();
            let objects = values.map_while(Result::ok).filter(Value::is_object);
            objects.count() > 1
        });
        if let Some(call) = shared {
            let example = format!("{}({})", call.name, call.arguments);
            self.add(Departure::SharedIndex, &example);
            of_one_call.iter().for_each(|departure| {
                self.0.remove(departure);
            });
        }
    }
}

/// The characters around a byte of a text.
fn around(text: &str, byte: usize) -> &str {
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

/// How many calls repeat earlier ones, if those are several.
fn repeated_calls(answer: &Answer) -> Option<String> {
    let calls = &answer.tool_calls;
    let mut known = HashSet::new();
    let repeats = calls
        .iter()
        .filter(|call| !known.insert((&call.name, &call.arguments)));
    let repeats: Vec<_> = repeats.collect();
    let is_first = |call: &&crate::answer::ToolCall| {
        (&call.name, &call.arguments) == (&calls[0].name, &calls[0].arguments)
    };
    let of_which = if repeats.iter().all(is_first) {
        "of the first"
    } else {
        "of earlier ones"
    };
    let (all, count) = (calls.len(), repeats.len());
    (count >= MIN_REPEATED_CALLS)
        .then(|| format!("{all} calls, {count} of them repeats {of_which}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::ToolCall;
    use crate::observation::Timing;
    use serde_json::json;

    fn observation(answer: Answer, outcome: Outcome, finish_reason: &str) -> Observation {
        Observation {
            case_index: 0,
            outcome,
            timing: Timing::default(),
            answer,
            finish_reason: Some(finish_reason.to_owned()),
            usage: None,
        }
    }

    fn call(index: u64, id: &str, name: &str, arguments: &str) -> ToolCall {
        ToolCall {
            index,
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
            ..ToolCall::default()
        }
    }

    /// The departures of deltas with these calls.
    fn of_calls(calls: &[ToolCall]) -> Vec<(Departure, String)> {
        let mut answer = Answer::default();
        calls.iter().for_each(|call| answer.add_call(call));
        let observation = observation(answer, Outcome::Completed, "tool_calls");
        let found = Departures::of_answer(&observation, None);
        found
            .iter()
            .map(|(departure, example)| (departure, example.to_owned()))
            .collect()
    }

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
    fn deltas_of_calls_are_told_apart() {
        use Departure::{ChangingId, RepeatedId, RepeatedName, SharedIndex, SplitName};
        let found = |calls: &[ToolCall]| of_calls(calls);
        let (oslo, rome) = (r#"{"a":"Oslo"}"#, r#"{"a":"Rome"}"#);
        let both = format!("f({oslo}{rome})");
        for second in [
            call(0, "b", "f", rome),
            call(0, "", "f", rome),
            call(0, "b", "", rome),
        ] {
            let shared = found(&[call(0, "a", "f", oslo), second.clone()]);
            assert_eq!(shared, [(SharedIndex, both.clone())], "{second:?}");
        }
        let other_name = found(&[call(0, "a", "f", oslo), call(0, "", "g", rome)]);
        assert_eq!(other_name[0].0, SharedIndex);
        assert_eq!(
            found(&[
                call(0, "a", "f", ""),
                call(0, "b", "", "{"),
                call(0, "c", "", "}")
            ]),
            [(ChangingId, "abc".to_owned())]
        );
        assert_eq!(
            found(&[call(0, "a", "f", "{"), call(0, "a", "f", "}")]),
            [
                (RepeatedId, "aa".to_owned()),
                (RepeatedName, "ff".to_owned())
            ]
        );
        assert_eq!(
            found(&[call(0, "a", "get_", ""), call(0, "", "f", "{}")]),
            [(SplitName, "get_f".to_owned())]
        );
        assert_eq!(
            found(&[call(0, "a", "f", oslo), call(1, "b", "f", rome)]),
            []
        );
        assert_eq!(found(&[call(0, "a", "f", "{"), call(0, "", "", "}")]), []);
    }

    #[test]
    fn answers_show_their_departures() {
        use Departure::{
            ContentFilter, ObjectArguments, RepeatedCalls, ReplacementCharacter,
            UnknownFinishReason, WrongCallType,
        };
        let members = json!({"tools": [{"type": "function", "function": {"name": "f"}}]});
        let tools = ToolSet::from_members(members.as_object().unwrap()).unwrap();
        let with_form = |form| Answer {
            tool_calls: vec![ToolCall {
                form,
                ..call(0, "a", "f", "{}")
            }],
            ..Answer::default()
        };
        let text = |text: &str| Answer::from_text(text.to_owned());
        let looped = Answer {
            tool_calls: (0..9).map(|index| call(index, "a", "f", "{}")).collect(),
            ..Answer::default()
        };
        let done = Outcome::Completed;
        for (answer, outcome, reason, expected) in [
            (
                with_form(CallForm::Custom),
                &done,
                "tool_calls",
                Some((WrongCallType, "f")),
            ),
            (
                with_form(CallForm::Object),
                &done,
                "tool_calls",
                Some((ObjectArguments, "{}")),
            ),
            (with_form(CallForm::Function), &done, "tool_calls", None),
            (
                text("a"),
                &done,
                "stop_163586",
                Some((UnknownFinishReason, "stop_163586")),
            ),
            (text("a"), &done, "eos_token", None),
            (
                text("a"),
                &done,
                "content_filter",
                Some((ContentFilter, "")),
            ),
            (
                text("a\u{FFFD}b"),
                &done,
                "stop",
                Some((ReplacementCharacter, "a\u{FFFD}b")),
            ),
            (
                looped.clone(),
                &Outcome::Truncated,
                "length",
                Some((RepeatedCalls, "9 calls, 8 of them repeats of the first")),
            ),
            (looped, &done, "tool_calls", None),
        ] {
            let observation = observation(answer, outcome.clone(), reason);
            let found = Departures::of_answer(&observation, Some(&tools));
            assert_eq!(
                found.iter().collect::<Vec<_>>(),
                Vec::from_iter(expected),
                "{observation:?}"
            );
        }
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
