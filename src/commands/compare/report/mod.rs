//! A comparison as text, Markdown and JSON. Knows no statistics: everything was decided before.

mod json;
mod page;
mod words;

pub use json::{FORMAT_VERSION, render as json};

use sobench_core::printable::printable;
use sobench_render as render;
use sobench_results::compare::Comparison;
use sobench_results::compare::comparable::Finding;
use sobench_results::compare::gate::Ruling;

/// The comparison on a terminal.
pub fn text(comparison: &Comparison) -> String {
    render::text::render(&page::document(comparison))
}

/// The comparison for a comment on a pull request.
pub fn markdown(comparison: &Comparison) -> String {
    render::markdown::render(&page::document(comparison), 2)
}

/// What is said on stderr in the end: what stopped the comparison, or what became of the gate.
pub fn closing(comparison: &Comparison) -> Vec<String> {
    if !comparison.is_comparable() {
        let stops = comparison
            .conditions
            .iter()
            .filter(|it| it.finding == Finding::Stops);
        let names: Vec<&str> = stops.map(|it| it.field.name()).collect();
        return vec![
            format!(
                "error: not comparable, as these differ: {}",
                names.join(", ")
            ),
            format!(
                "hint: if that is what you compare, say so: --allow-different {}",
                names.join(" --allow-different ")
            ),
        ];
    }
    let mut lines = Vec::new();
    let (mut rules, mut broken, mut undecided) = (0, 0, 0);
    for against in &comparison.against {
        let changes = against
            .changes
            .iter()
            .map(|it| (words::broken_change(it), it.ruling));
        let limits = against.limits.iter().map(|it| (it.to_string(), it.ruling));
        for (words, ruling) in changes.chain(limits) {
            rules += 1;
            broken += usize::from(matches!(ruling, Ruling::Broken | Ruling::Absent));
            undecided += usize::from(matches!(ruling, Ruling::TooFew | Ruling::Unknown(_)));
            if ruling.fails(comparison.undecided) {
                lines.push(format!("gate: {}: {words}", words::side(against.other)));
            }
        }
    }
    if rules > 0 {
        let result = if comparison.is_failed() {
            "failed"
        } else {
            "passed"
        };
        lines.push(format!(
            "gate {result}: {broken} of {rules} rules broken, {undecided} undecided"
        ));
        // Whoever reads only the verdict has to know what it rests on.
        let runs = comparison.sides.iter().flat_map(|side| &side.runs);
        lines.extend(runs.flat_map(|run| {
            run.notices
                .iter()
                .map(|notice| format!("note: {}: {notice}", printable(&run.file, 60)))
        }));
    }
    lines
}
