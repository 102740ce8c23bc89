//! Charts of limits: the time to the first token over the size, one chart for each ladder and one line
//! for each server.

use super::sentences::seconds;
use crate::limits::{Ladder, LadderKind, ServerLimits, Step, StepOutcome};
use sobench_core::printable::{NAME_CHARS, printable, thousands};
use sobench_render::axis::Axis;
use sobench_render::lines::{Axes, Line, lines};
use sobench_render::{Chart, Charts, Layout, LegendEntry};

/// The charts; `None` without a step.
pub(super) fn charts(servers: &[ServerLimits]) -> Option<Charts> {
    let charts: Vec<Chart> = LadderKind::ALL
        .into_iter()
        .filter_map(|ladder| chart(ladder, servers))
        .collect();
    (!charts.is_empty()).then(|| Charts {
        legend: servers.iter().enumerate().map(|(index, server): (usize, &ServerLimits)| LegendEntry::Curve {
        colour: index,
        dashed: false,
        label: printable(&server.label, NAME_CHARS),
    }).collect(),
        caption: "time to the first token over the size, both on logarithmic axes; a ring marks the size that was not accepted, at the time after which the request ended"
            .to_owned(),
        charts,
        layout: Layout::Grid,
    })
}

fn chart(kind: LadderKind, servers: &[ServerLimits]) -> Option<Chart> {
    let climbed: Vec<(usize, &str, &Ladder)> = servers
        .iter()
        .enumerate()
        .filter_map(|(index, server)| {
            let ladder = server.ladders.iter().find(|ladder| ladder.ladder == kind)?;
            (!ladder.steps.is_empty()).then_some((index, server.label.as_str(), ladder))
        })
        .collect();
    let steps = || climbed.iter().flat_map(|(_, _, ladder)| &ladder.steps);
    let x = Axis::logarithmic(steps().map(|step| step.size as f64))?;
    let y = Axis::durations(steps().map(time_ns))?;
    let axes = Axes {
        x: &x,
        y: &y,
        x_unit: kind.spec().unit,
    };
    let drawn: Vec<Line> = climbed
        .iter()
        .flat_map(|(index, label, ladder)| drawn_lines(*index, label, ladder))
        .collect();
    Some(Chart {
        title: kind.spec().label.to_owned(),
        svg: lines(kind.spec().label, &drawn, &axes, None),
        table: None,
    })
}

/// The line of the accepted sizes, and the point of one that was not. A time without a token is a lower
/// bound and continues the line.
fn drawn_lines(colour: usize, label: &str, ladder: &Ladder) -> [Line; 2] {
    let label = printable(label, NAME_CHARS);
    let point = |step: &Step| (step.size as f64, time_ns(step));
    let failed = ladder
        .steps
        .last()
        .filter(|step| step.outcome != StepOutcome::Accepted);
    let continues =
        |step: &&Step| matches!(step.outcome, StepOutcome::Accepted | StepOutcome::TimedOut);
    let mark = failed.map(|step| {
        let outcome = match step.outcome {
            StepOutcome::Accepted => "accepted",
            StepOutcome::Refused => "refused",
            StepOutcome::ServerError => "server error",
            StepOutcome::TimedOut => "no answer in time",
            StepOutcome::Lost => "connection lost",
        };
        let (size, after) = (thousands(step.size), seconds(step.end_ms));
        (
            point(step),
            format!("{label}: {size} {outcome} after {after}"),
        )
    });
    let line = |points, mark| Line {
        name: label.clone(),
        colour,
        dashed: false,
        points,
        mark,
    };
    [
        line(
            ladder.steps.iter().filter(continues).map(point).collect(),
            None,
        ),
        line(failed.map(point).into_iter().collect(), mark),
    ]
}

/// To the first token, or to the end without one.
fn time_ns(step: &Step) -> f64 {
    step.ttft_ms.unwrap_or(step.end_ms) * 1e6
}
