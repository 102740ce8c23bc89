//! The frames of an answer: how they depart from the API, and what clients read of them.

use std::collections::HashSet;

use serde::de::IgnoredAny;
use sobench_core::answer::ToolCall;
use sobench_core::case::Case;
use sobench_core::constraint::Constraint;
use sobench_core::observation::{Observation, Outcome};
use sobench_wire::{Reading, Stream, are_same, shape};

/// Shapes that are remembered, and the bytes of one: longer ones have texts of the answer.
const MAX_SHAPES: usize = 1000;
const MAX_SHAPE_BYTES: usize = 8 << 10;

/// The shapes of answers that do not depart, and that clients read alike. Answers of these shapes
/// are not checked again.
#[derive(Default)]
pub(super) struct KnownShapes(HashSet<(Vec<u8>, bool)>);

impl KnownShapes {
    /// Adds the departures of an answer's frames. Frames are kept if they depart, or if clients do
    /// not read a whole answer alike; longer ones are marked as cut.
    pub(super) fn check(&mut self, case: &Case, observation: &mut Observation) {
        let answer = &mut observation.answer;
        let frames = std::mem::take(&mut answer.frames);
        if frames.is_empty() || !observation.outcome.is_answer() {
            return;
        }
        let Some(compact) = frames.compact() else {
            answer.frames = frames;
            return;
        };
        let calls = &answer.tool_calls;
        // Clients differ in how they join calls.
        let joins = !calls.is_empty() && observation.outcome == Outcome::Completed;
        let tools = case.constraint.as_deref().and_then(Constraint::tools);
        let is_known = |call: &ToolCall| tools.is_none_or(|tools| tools.tool(&call.name).is_some());
        let is_plain = !joins || (calls.iter().all(is_known) && are_distinct_objects(calls));
        let shape = is_plain.then(|| shape(compact, joins)).flatten();
        let shape = shape.map(|shape| (shape, joins));
        if shape.as_ref().is_some_and(|shape| self.0.contains(shape)) {
            return;
        }
        let text = frames.text().unwrap_or_default();
        let stream = Stream::new(&text);
        let found = stream.departures().unwrap_or_default();
        let is_kept = !found.is_empty() || {
            joins && !are_same(&readings(stream, case.constraint.as_deref()))
        };
        answer.departures.merge(found);
        if is_kept {
            answer.frames = frames.shortened();
        } else if self.0.len() < MAX_SHAPES {
            self.0
                .extend(shape.filter(|(shape, _)| shape.len() <= MAX_SHAPE_BYTES));
        }
    }
}

/// Whether the arguments of each call are an object, and not those of another call.
fn are_distinct_objects(calls: &[ToolCall]) -> bool {
    let is_object = |text: &str| {
        text.starts_with('{')
            && text.ends_with('}')
            // One client drops them.
            && !text.contains(|character| ('\u{7f}'..='\u{9f}').contains(&character))
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
    use sobench_core::frames::FrameWriter;

    use super::*;
    use crate::tests::{cases, observations};

    /// An answer of these chunks, after its check.
    fn checked(known: &mut KnownShapes, chunks: &[Value]) -> Answer {
        let mut frames = FrameWriter::default();
        for chunk in chunks {
            frames.add(b"", chunk.to_string().as_bytes(), "");
        }
        frames.add(b"", b"[DONE]", "");
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
        let mut observation = observations().swap_remove(0);
        observation.answer = Answer {
            frames: frames.into_frames(""),
            tool_calls: (0..).zip(calls.unwrap_or_default()).map(call).collect(),
            ..Answer::default()
        };
        observation.outcome = match are_distinct_objects(&observation.answer.tool_calls) {
            true => Outcome::Completed,
            false => Outcome::Truncated,
        };
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
        let cut = |mut chunks: Vec<Value>| {
            let arguments = chunks.iter_mut().rev().find_map(|chunk| {
                let calls = chunk.pointer_mut("/choices/0/delta/tool_calls")?;
                let call = calls.as_array_mut()?.last_mut()?;
                call.pointer_mut("/function/arguments")
            });
            if let Some(Value::String(arguments)) = arguments {
                arguments.pop();
            }
            chunks
        };
        let of_both = |text: &str| {
            let whole = streams(text);
            let shortened: Vec<_> = whole.iter().cloned().map(cut).collect();
            [whole, shortened].concat()
        };
        let mut known = KnownShapes::default();
        for chunks in of_both(text) {
            checked(&mut known, &chunks);
        }
        let (mut clean, mut skipped) = (0, 0);
        for chunks in of_both(text).into_iter().chain(of_both(&other)) {
            let mut fresh = KnownShapes::default();
            let expected = checked(&mut fresh, &chunks);
            assert_eq!(checked(&mut known, &chunks), expected, "{chunks:?}");
            clean += usize::from(expected.frames.is_empty());
            let is_known = |shape: &&_| known.0.contains(*shape);
            skipped += fresh.0.iter().filter(is_known).count();
        }
        assert!(clean > 20 && skipped > 20, "{clean} {skipped}");
    }
}
