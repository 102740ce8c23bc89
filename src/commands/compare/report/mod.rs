//! A comparison as text, Markdown, HTML and JSON.

mod charts;
mod document;
mod json;
mod junit;
mod labels;
mod pairs;
mod verdict;

pub use json::{FORMAT_VERSION, contract, render as json};
pub use junit::render as junit;

use sobench_core::printable::printable;
use sobench_plan::record::condition::Field;
use sobench_render as render;
use sobench_report::text::Detail;
use sobench_results::compare::Comparison;
use sobench_results::compare::conditions::ConditionEffect;

/// Renders the comparison for a terminal.
pub fn text(comparison: &Comparison, detail: Detail) -> String {
    let page = document::document(comparison, detail, false);
    let mut text = render::text::render(&render::text::fitted(page));
    if detail == Detail::Summary && comparison.is_comparable() {
        text.push_str("all figures, and methods: --detail full\n");
    }
    // The last side is the new one.
    let runs = comparison.sides.iter().rev().flat_map(|side| &side.runs);
    let mut explained =
        runs.filter_map(|run| Some(run.to_explain.as_ref()?.line(run.path.as_ref()?)));
    text.extend(explained.next().map(|line| line + "\n"));
    text
}

/// Renders the comparison as Markdown, for a pull request comment.
pub fn markdown(comparison: &Comparison) -> String {
    render::markdown::render(&document::document(comparison, Detail::Summary, false), 2)
}

/// Renders the comparison as a self-contained HTML page.
pub fn html(comparison: &Comparison) -> String {
    render::html::render(&document::document(comparison, Detail::Summary, true))
}

/// Lines for stderr: the conditions that prevent the comparison, or the verdict of the gate.
pub fn closing(comparison: &Comparison) -> Vec<String> {
    if !comparison.is_comparable() {
        let stops = comparison
            .conditions
            .iter()
            .filter(|condition| condition.effect == ConditionEffect::Stops);
        let names: Vec<&str> = stops.map(|condition| condition.field.name()).collect();
        let datasets = if names.contains(&Field::Dataset.name()) {
            let sides: Vec<String> = comparison.sides.iter().map(labels::dataset).collect();
            format!("; the datasets are {}", sides.join(" and "))
        } else {
            String::new()
        };
        return vec![
            format!(
                "error: not comparable, different conditions: {}{datasets}",
                names.join(", ")
            ),
            format!(
                "hint: to compare anyway, add --allow-different {}",
                names.join(" --allow-different ")
            ),
        ];
    }
    let Some(gate) = comparison.gate_summary() else {
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
                .filter(|(_, ruling)| ruling.is_failure() || ruling.is_undecided())
                .map(|(line, _)| format!("gate: {other}: {line}")),
        );
    }
    lines.push(labels::gate(&gate));
    lines.extend(labels::gate_hint(&gate).map(|hint| format!("hint: {hint}")));
    // Notices limit the verdict, so they follow it here as well.
    let runs = comparison.sides.iter().flat_map(|side| &side.runs);
    lines.extend(runs.flat_map(|run| {
        run.notices
            .iter()
            .map(|notice| format!("note: {}: {notice}", printable(&run.file, 60)))
    }));
    lines
}
