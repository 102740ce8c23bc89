//! The frames of an answer: how they depart from the API, and what clients read of them.

use sobench_core::case::Case;
use sobench_core::constraint::Constraint;
use sobench_core::observation::Observation;
use sobench_wire::Reading;

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
    let found = sobench_wire::departures(text).unwrap_or_default();
    let is_kept = !found.is_empty() || {
        // Clients differ in how they join calls.
        !answer.tool_calls.is_empty() && {
            let readings = readings(text, case.constraint.as_deref());
            !are_same(&readings)
        }
    };
    answer.departures.merge(found);
    if is_kept {
        answer.frames = frames.shortened();
    }
}

pub(super) fn readings(
    frames: &str,
    constraint: Option<&Constraint>,
) -> Vec<(&'static str, Reading)> {
    let tools = constraint.and_then(Constraint::tools);
    let names: Option<Vec<&str>> =
        tools.map(|tools| tools.tools.iter().map(|tool| &*tool.name).collect());
    sobench_wire::chunks(frames)
        .map(|chunks| sobench_wire::readings(&chunks, names.as_deref()))
        .unwrap_or_default()
}

pub(super) fn are_same(readings: &[(&str, Reading)]) -> bool {
    let mut pairs = readings.windows(2);
    pairs.all(|pair| sobench_wire::is_same(&pair[0].1, &pair[1].1))
        && readings.iter().all(|(_, reading)| reading.is_ok())
}
