//! A comparison as text, Markdown and JSON.

mod document;
mod json;
mod labels;

pub use json::{FORMAT_VERSION, render as json};

use std::fmt;

use sobench_core::printable::printable;
use sobench_render as render;
use sobench_results::compare::Comparison;
use sobench_results::compare::conditions::ConditionEffect;
use sobench_results::compare::gate::Ruling;

/// Renders the comparison for a terminal.
pub fn text(comparison: &Comparison) -> String {
    render::text::render(&document::document(comparison))
}

/// Renders the comparison as Markdown, for a pull request comment.
pub fn markdown(comparison: &Comparison) -> String {
    render::markdown::render(&document::document(comparison), 2)
}

/// Lines for stderr: the conditions that prevent the comparison, or the verdict of the gate.
pub fn closing(comparison: &Comparison) -> Vec<String> {
    if !comparison.is_comparable() {
        let stops = comparison
            .conditions
            .iter()
            .filter(|condition| condition.effect == ConditionEffect::Stops);
        let names: Vec<&str> = stops.map(|condition| condition.field.name()).collect();
        return vec![
            format!(
                "error: not comparable, different conditions: {}",
                names.join(", ")
            ),
            format!(
                "hint: to compare anyway, add --allow-different {}",
                names.join(" --allow-different ")
            ),
        ];
    }
    let Some(gate) = GateSummary::new(comparison) else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    for against in &comparison.against {
        let other = labels::side(against.other);
        let changes = against
            .changes
            .iter()
            .map(|change| (labels::broken_change(change), change.ruling));
        let limits = against
            .limits
            .iter()
            .map(|limit| (limit.to_string(), limit.ruling));
        lines.extend(
            changes
                .chain(limits)
                .filter(|(_, ruling)| ruling.fails(comparison.undecided))
                .map(|(line, _)| format!("gate: {other}: {line}")),
        );
    }
    lines.push(gate.to_string());
    // Notices limit the verdict, so they follow it here as well.
    let runs = comparison.sides.iter().flat_map(|side| &side.runs);
    lines.extend(runs.flat_map(|run| {
        run.notices
            .iter()
            .map(|notice| format!("note: {}: {notice}", printable(&run.file, 60)))
    }));
    lines
}

/// The verdict of the gate, with the numbers of broken and undecided rules.
struct GateSummary {
    rules: usize,
    broken: usize,
    undecided: usize,
    is_failed: bool,
}

impl GateSummary {
    /// Counts the rules of a comparison; `None` without rules.
    fn new(comparison: &Comparison) -> Option<Self> {
        let mut gate = Self {
            rules: 0,
            broken: 0,
            undecided: 0,
            is_failed: comparison.is_failed(),
        };
        for against in &comparison.against {
            let changes = against.changes.iter().map(|change| change.ruling);
            let limits = against.limits.iter().map(|limit| limit.ruling);
            for ruling in changes.chain(limits) {
                gate.rules += 1;
                gate.broken += usize::from(matches!(ruling, Ruling::Broken | Ruling::Absent));
                gate.undecided +=
                    usize::from(matches!(ruling, Ruling::TooFew | Ruling::Unknown(_)));
            }
        }
        (gate.rules > 0).then_some(gate)
    }
}

impl fmt::Display for GateSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rules,
            broken,
            undecided,
            is_failed,
        } = self;
        let verdict = if *is_failed { "failed" } else { "passed" };
        write!(
            f,
            "gate {verdict}: {broken} of {rules} rules broken, {undecided} undecided"
        )
    }
}
