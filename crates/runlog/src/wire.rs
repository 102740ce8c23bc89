//! The frames of an answer: how they depart from the API, and what clients read of them.

use sobench_core::case::Case;
use sobench_core::constraint::Constraint;
use sobench_core::observation::Observation;
use sobench_wire::{Reading, Stream, are_same};

/// Adds the departures of an answer's frames. Frames are kept if they depart, or if clients do not
/// read them alike; longer ones are marked as cut.
pub(super) fn check(case: &Case, observation: &mut Observation) {
    let answer = &mut observation.answer;
    let frames = std::mem::take(&mut answer.frames);
    if frames.is_empty() || !observation.outcome.is_answer() {
        return;
    }
    let Some(text) = frames.text() else {
        answer.frames = frames;
        return;
    };
    let stream = Stream::new(text);
    let found = stream.departures().unwrap_or_default();
    let is_kept = !found.is_empty() || {
        // Clients differ in how they join calls.
        !answer.tool_calls.is_empty() && !are_same(&readings(stream, case.constraint.as_deref()))
    };
    answer.departures.merge(found);
    if is_kept {
        answer.frames = frames.shortened();
    }
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
