//! A comparison as text, Markdown and JSON. Knows no statistics: everything was decided before.

mod blocks;
mod json;
mod markdown;
mod text;
mod words;

pub use json::{FORMAT_VERSION, render as json};
pub use markdown::render as markdown;
pub use text::render as text;

use crate::compare::Comparison;
use crate::compare::comparable::Finding;
use crate::compare::gate::Ruling;
use crate::printable::printable;

/// What is said on stderr in the end: what stopped the comparison, or what became of the gate.
pub fn closing(comparison: &Comparison) -> Vec<String> {
    if !comparison.is_comparable() {
        let stops = comparison.conditions.iter().filter(|it| it.finding == Finding::Stops);
        let names: Vec<&str> = stops.map(|it| it.field.name()).collect();
        return vec![
            format!("error: not comparable, as these differ: {}", names.join(", ")),
            format!("hint: if that is what you compare, say so: --allow-different {}", names.join(" --allow-different ")),
        ];
    }
    let mut lines = Vec::new();
    let (mut rules, mut undecided) = (0, 0);
    for against in &comparison.against {
        let changes = against.changes.iter().map(|it| (words::broken_change(it), it.ruling));
        let limits = against.limits.iter().map(|it| (words::broken_limit(it), it.ruling));
        for (words, ruling) in changes.chain(limits) {
            rules += 1;
            undecided += usize::from(matches!(ruling, Ruling::TooFew | Ruling::Unknown(_)));
            if ruling.fails(comparison.undecided) {
                lines.push(format!("gate: {}: {words}", words::side(against.other)));
            }
        }
    }
    if rules > 0 {
        let result = if comparison.is_failed() { "failed" } else { "passed" };
        let of_them = if undecided > 0 { format!(", {undecided} of them too few samples to tell") } else { String::new() };
        lines.push(format!("gate {result}: {rules} rules{of_them}"));
        if comparison.is_failed() {
            let runs = comparison.sides.iter().flat_map(|side| &side.runs);
            let doubts =
                runs.flat_map(|run| run.notices.iter().map(|notice| format!("note: {}: {notice}", printable(&run.file, 60))));
            lines.extend(doubts);
        }
    }
    lines
}
