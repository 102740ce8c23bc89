//! The pairs of two sides: what the second one lost and won, where, and by how much times and lengths
//! differ.

use super::labels::{self, percent};
use sobench_core::printable::printable;
use sobench_render::{Block, Document, Table};
use sobench_report::accuracy::p_value;
use sobench_report::verdict::significant;
use sobench_results::compare::pair_facts::{ENDED, ended_name};
use sobench_results::compare::pairs::{GroupBy, PairGroup, PairTable, PairedValues};
use sobench_statistics::contrast::KEPT_LEVEL;
use sobench_statistics::paired::pairs_needed;

/// Maximum number of groups in the table.
const MAX_GROUPS: usize = 12;

/// Maximum number of characters of a value of a group.
const VALUE_CHARS: usize = 40;

/// The section; `other` is the letter of the second side.
pub(super) fn add(page: &mut Document, pairs: &PairTable, cause: Option<&PairGroup>, other: &str) {
    page.heading(format!(
        "Pairs: {other} lost {} and won {}",
        pairs.lost(),
        pairs.won()
    ));
    page.paragraph(lost(pairs, other));
    if let Some(cause) = cause {
        page.paragraph(format!("Where: {}.", place(pairs, cause, other)));
    }
    if pairs.ended[0][0] < pairs.pairs() {
        page.table(ended(pairs, other));
    }
    page.titled_table(
        "Pairs by group, those that differ most first",
        groups(pairs),
    );
    page.titled_table(
        format!("Differences in pairs, {other} minus A"),
        values(&pairs.values, other),
    );
    let mut notes = vec![format!(
        "{} of {} pairs of answers are equal.",
        pairs.equal_answers.hits, pairs.equal_answers.of
    )];
    if let Some((constraints, (low, high))) = pairs.by_constraint {
        notes.push(format!(
            "For other constraints than these {constraints}, the difference is {:+.2} to {:+.2} points (95 %: constraints as clusters).",
            100.0 * low,
            100.0 * high
        ));
    }
    notes.push(
        "Copies of a request with the same answers count once. p: McNemar's exact test. Intervals of times are over these pairs; other runs \
         may differ more."
            .to_owned(),
    );
    let mut details = Document::default();
    details.paragraphs(notes);
    page.push(Block::Details {
        summary: "How pairs are counted".to_owned(),
        blocks: details.blocks,
    });
}

/// `the losses are in keyword uniqueItems: 12 of its 14 pairs lost, 1 of the other 286`.
pub(super) fn place(pairs: &PairTable, group: &PairGroup, other: &str) -> String {
    let is_loss = group.lost > group.won;
    let (word, inside, all) = match is_loss {
        true => ("lost", group.lost, pairs.lost()),
        false => ("won", group.won, pairs.won()),
    };
    let outside = pairs.pairs() - group.pairs;
    format!(
        "{other} {word} {inside} of {} pairs with {}, and {} of the other {outside}",
        group.pairs,
        title(group),
        all - inside
    )
}

fn title(group: &PairGroup) -> String {
    let value = printable(&group.value.to_string(), VALUE_CHARS);
    match group.by {
        GroupBy::Streaming => format!("{value} answers"),
        GroupBy::InFlight => format!("{value} requests in flight"),
        GroupBy::NumberOfTools => format!("{value} tools"),
        GroupBy::ConstraintSize => format!("constraint bytes: {value}"),
        GroupBy::PromptSize => format!("prompt tokens: {value}"),
        GroupBy::Keyword => format!("keyword {value}"),
        GroupBy::Tool => format!("tool {value}"),
        GroupBy::Kind => format!("kind {value}"),
        GroupBy::Schema => format!("schema {value}"),
    }
}

fn lost(pairs: &PairTable, other: &str) -> String {
    let contrast = &pairs.contrast;
    let (low, high) = contrast.interval(0.95);
    let p_value = contrast.p_value();
    let p_value = p_value.map_or_else(String::new, |p| format!(", {}", labels::p_value(p)));
    let ruled_out = -100.0 * contrast.bounds(KEPT_LEVEL).0;
    let noise = pairs.won() as f64 / pairs.pairs() as f64;
    let needed = match pairs_needed(0.005, noise) {
        Some(needed) => format!("; to find a loss of 0.5 points takes {needed} pairs"),
        None => String::new(),
    };
    format!(
        "Of {} pairs, {other} lost {} that A has right and won {}: {:+.2} points ({:+.2} to {:+.2}, 95 %{p_value}). A loss above {} points is \
         ruled out ({} %){needed}.",
        pairs.pairs(),
        pairs.lost(),
        pairs.won(),
        100.0 * contrast.difference,
        100.0 * low,
        100.0 * high,
        significant(ruled_out.max(0.0)),
        percent((1.0 + KEPT_LEVEL) / 2.0),
    )
}

/// Rows are the ends on the first side, columns those on the second. Ends that no pair has are left
/// out.
fn ended(pairs: &PairTable, other: &str) -> Table {
    let name = |end: usize| ended_name(ENDED[end]);
    let rows: Vec<usize> = (0..ENDED.len())
        .filter(|end| pairs.ended[*end].iter().any(|count| *count > 0))
        .collect();
    let columns: Vec<usize> = (0..ENDED.len())
        .filter(|end| pairs.ended.iter().any(|row| row[*end] > 0))
        .collect();
    let heads = columns.iter().map(|end| format!("{other} {}", name(*end)));
    let rows = rows.iter().map(|row| {
        let counts = columns
            .iter()
            .map(|column| pairs.ended[*row][*column].to_string());
        std::iter::once(format!("A {}", name(*row)))
            .chain(counts)
            .collect::<Vec<_>>()
    });
    Table::new(std::iter::once("pairs".to_owned()).chain(heads), 1).with_rows(rows)
}

fn groups(pairs: &PairTable) -> Option<Table> {
    let differing = pairs
        .groups
        .iter()
        .filter(|group| group.lost + group.won > 0);
    let rows: Vec<_> = differing
        .take(MAX_GROUPS)
        .map(|group| {
            [
                title(group),
                group.pairs.to_string(),
                group.lost.to_string(),
                group.won.to_string(),
                p_value(group.p_value),
            ]
        })
        .collect();
    (!rows.is_empty())
        .then(|| Table::new(["group", "pairs", "lost", "won", "p"], 1).with_rows(rows))
}

fn values(values: &[PairedValues], other: &str) -> Option<Table> {
    let bound =
        |bound: Option<f64>| bound.map_or_else(|| "?".to_owned(), |bound| format!("{bound:+.2}"));
    let rows: Vec<_> = values
        .iter()
        .map(|value| {
            [
                format!("{} ({})", value.name, value.unit),
                value.pairs.to_string(),
                format!("{:+.2}", value.median),
                format!("{} to {}", bound(value.interval.0), bound(value.interval.1)),
                value
                    .larger
                    .percent()
                    .map_or_else(String::new, |share| format!("{share:.0} %")),
            ]
        })
        .collect();
    let larger = format!("{other} larger");
    (!rows.is_empty())
        .then(|| Table::new(["", "pairs", "median", "95 % interval", &larger], 1).with_rows(rows))
}
