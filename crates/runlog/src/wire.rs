//! The frames of an answer: how they depart from the API, and what clients read of them.

use std::collections::HashSet;

use serde::de::IgnoredAny;
use sobench_core::answer::ToolCall;
use sobench_core::case::Case;
use sobench_core::constraint::Constraint;
use sobench_core::observation::Observation;
use sobench_wire::{Reading, Stream, are_same, shape};

/// Shapes that are remembered, and the bytes of one: longer ones have texts of the answer.
const MAX_SHAPES: usize = 1000;
const MAX_SHAPE_BYTES: usize = 8 << 10;

/// The shapes of answers that do not depart, and that clients read alike. Answers of these shapes
/// are not checked again.
#[derive(Default)]
pub(super) struct KnownShapes(HashSet<Vec<u8>>);

impl KnownShapes {
    /// Adds the departures of an answer's frames. Frames are kept if they depart, or if clients do
    /// not read them alike; longer ones are marked as cut.
    pub(super) fn check(&mut self, case: &Case, observation: &mut Observation) {
        let answer = &mut observation.answer;
        let frames = std::mem::take(&mut answer.frames);
        if frames.is_empty() || !observation.outcome.is_answer() {
            return;
        }
        let Some(text) = frames.text() else {
            answer.frames = frames;
            return;
        };
        let calls = &answer.tool_calls;
        let shape = are_distinct_objects(calls).then(|| shape(text, !calls.is_empty()));
        let shape = shape.flatten();
        if shape.as_ref().is_some_and(|shape| self.0.contains(shape)) {
            return;
        }
        let stream = Stream::new(text);
        let found = stream.departures().unwrap_or_default();
        let is_kept = !found.is_empty() || {
            // Clients differ in how they join calls.
            !calls.is_empty() && !are_same(&readings(stream, case.constraint.as_deref()))
        };
        answer.departures.merge(found);
        if is_kept {
            answer.frames = frames.shortened();
        } else if self.0.len() < MAX_SHAPES {
            self.0
                .extend(shape.filter(|shape| shape.len() <= MAX_SHAPE_BYTES));
        }
    }
}

/// Whether the arguments of each call are an object, and not those of another call.
fn are_distinct_objects(calls: &[ToolCall]) -> bool {
    let is_object = |text: &str| {
        text.starts_with('{')
            && text.ends_with('}')
            && serde_json::from_str::<IgnoredAny>(text).is_ok()
    };
    let mut arguments = calls.iter().map(|call| &call.arguments);
    let mut known = HashSet::new();
    arguments.all(|text| is_object(text) && known.insert(text))
}

/// What each client reads of the answer to a request with this constraint.
pub(super) fn readings(
    stream: Stream,
    constraint: Option<&Constraint>,
) -> Vec<(&'static str, Reading)> {
    let tools = constraint.and_then(Constraint::tools);
    let chunks = stream.into_chunks();
    chunks.map_or_else(Vec::new, |chunks| sobench_wire::readings(&chunks, tools))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use sobench_core::answer::{Answer, CallForm};
    use sobench_core::observation::Outcome;

    use super::*;
    use crate::tests::{cases, observations};

    /// An answer of these chunks, after its check.
    fn checked(known: &mut KnownShapes, chunks: &[Value]) -> Answer {
        let mut answer = Answer::default();
        for chunk in chunks {
            answer.frames.add(b"", chunk.to_string().as_bytes());
        }
        answer.frames.add(b"", b"[DONE]");
        let readings = sobench_wire::readings(chunks, None);
        let joined = readings
            .into_iter()
            .find(|(name, _)| *name == "openai-python-loop");
        let calls = joined.and_then(|(_, reading)| Some(reading.ok()?.calls));
        let call = |(index, call): (u64, sobench_wire::ReadCall)| ToolCall {
            index,
            id: call.id,
            name: call.name,
            arguments: call.arguments.as_str().unwrap_or_default().to_owned(),
            form: CallForm::Function,
        };
        answer.tool_calls = (0..).zip(calls.unwrap_or_default()).map(call).collect();
        let mut observation = observations().swap_remove(0);
        (observation.answer, observation.outcome) = (answer, Outcome::Completed);
        known.check(&cases()[3], &mut observation);
        observation.answer
    }

    #[test]
    fn answers_of_known_shapes_are_judged_as_if_checked() {
        let text = include_str!("../../../fixtures/joins/clients.json");
        let mut other = text.replace('o', "i");
        for word in [
            "content",
            "role",
            "tool_calls",
            "function",
            "choices",
            "object",
            "reasoning",
            "model",
            "chat.completion.chunk",
            "stop",
            "completion_tokens",
            "prompt_tokens",
            "total_tokens",
        ] {
            other = other.replace(&word.replace('o', "i"), word);
        }
        let streams = |text: &str| -> Vec<Vec<Value>> {
            let streams: Vec<Value> = serde_json::from_str(text).unwrap();
            let events = |stream: Value| stream["events"].as_array().unwrap().clone();
            streams.into_iter().map(events).collect()
        };
        let mut known = KnownShapes::default();
        for chunks in streams(text) {
            checked(&mut known, &chunks);
        }
        let (mut clean, mut skipped) = (0, 0);
        for chunks in streams(text).into_iter().chain(streams(&other)) {
            let mut fresh = KnownShapes::default();
            let expected = checked(&mut fresh, &chunks);
            assert_eq!(checked(&mut known, &chunks), expected, "{chunks:?}");
            clean += usize::from(expected.frames.is_empty());
            let is_known = |shape: &&Vec<u8>| known.0.contains(*shape);
            skipped += fresh.0.iter().filter(is_known).count();
        }
        assert!(clean > 20 && skipped > 20, "{clean} {skipped}");
    }
}
