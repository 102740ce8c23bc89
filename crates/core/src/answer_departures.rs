//! The departures of an answer, from its stream or body and from the answer itself.

use std::collections::HashSet;

use serde_json::Value;

use crate::answer::{Answer, CallForm, ToolCall};
use crate::departure::{Departure, Departures, around};
use crate::observation::{Observation, Outcome};
use crate::tools::{ToolInput, ToolSet};

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

/// Repeated calls of a truncated answer that are no accident.
const MIN_REPEATED_CALLS: usize = 2;

impl Departures {
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
            found.remove(Departure::NullArguments);
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
        let is_cut = observation.outcome == Outcome::Truncated
            || observation.finish_reason.as_deref() == Some("length");
        for text in [&*answer.text(), &*answer.reasoning] {
            // The token limit may cut a character, too.
            let text = if is_cut {
                text.trim_end_matches(char::REPLACEMENT_CHARACTER)
            } else {
                text
            };
            if let Some(at) = text.find(char::REPLACEMENT_CHARACTER) {
                found.add(Departure::ReplacementCharacter, around(text, at));
            }
        }
        if let Some(example) = is_cut.then(|| repeated_calls(answer)).flatten() {
            found.add(Departure::RepeatedCalls, &example);
        }
        found
    }

    /// Separates several calls on one index from one call with a changing id or a repeated name: their
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
                self.remove(*departure);
            });
        }
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
    let is_first =
        |call: &&ToolCall| (&call.name, &call.arguments) == (&calls[0].name, &calls[0].arguments);
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
    fn deltas_of_calls_are_distinguished() {
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
            (text("a\u{FFFD}"), &Outcome::Truncated, "length", None),
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
}
