//! How answers depart from the API: a table, and the lines of the summary.

use super::text::{figure, item, wrapped};
use sobench_core::printable::printable;
use sobench_render::{Block, Document, Table};
use sobench_results::metrics::Metrics;
use sobench_results::metrics::departures::DepartureCount;
use sobench_results::metrics::registry::totals;
use sobench_statistics::Rate;

pub(crate) const TITLE: &str = "Departures from the API (share of all answers)";

/// Departures that the summary shows; the others are counted in one line.
const MAX_SHOWN: usize = 3;

/// Width of a column of texts.
const TEXT_WIDTH: usize = 30;

/// Characters at most of an example.
const EXAMPLE_MAX_CHARS: usize = 120;

/// Departures by name; `None` without any.
pub(crate) fn table(metrics: &Metrics) -> Option<Table> {
    let counts = metrics.departures.as_ref()?;
    let heads = [
        "departure",
        "answers",
        "share %",
        "invalid",
        "example",
        "clients read",
        "first in",
    ];
    let answers = metrics.values.count(&totals::COMPLETED);
    Some(
        Table::new(heads, 1)
            .left_aligned(4)
            .left_aligned(5)
            .left_aligned(6)
            .wrapped(4, TEXT_WIDTH)
            .wrapped(5, TEXT_WIDTH)
            .with_rows(counts.by_name.iter().map(|count: &DepartureCount| {
                let example = match count.example.as_str() {
                    "" => count.name.to_string(),
                    example => format!("{}: {example}", count.name),
                };
                [
                    count.name.name().to_owned(),
                    count.answers.to_string(),
                    figure(Rate::new(count.answers, answers).map(|rate| rate.percent)),
                    count.invalid.to_string(),
                    printable(&example, EXAMPLE_MAX_CHARS),
                    count.clients_read.to_owned(),
                    printable(&count.first_request, TEXT_WIDTH),
                ]
            })),
    )
}

/// Adds the most frequent departures to the summary, in lines of at most `width` characters.
pub(crate) fn add_summary(page: &mut Document, metrics: &Metrics, width: usize) {
    let Some(counts) = &metrics.departures else {
        return;
    };
    page.heading("Departures from the API");
    let (shown, others) = counts.by_name.split_at(counts.by_name.len().min(MAX_SHOWN));
    for count in shown {
        let mut line = format!(
            "{} {}, first in {}: {}",
            count.answers,
            count.name.name(),
            count.first_request,
            count.name
        );
        let mut below = Vec::new();
        let example = count.example.as_str();
        let read = count.clients_read;
        if count.name.example_is_read() {
            below.push(format!("clients read {read}: {example}"));
        } else {
            let with_example = format!("{line}: {example}");
            if with_example.chars().count() <= width && !example.is_empty() {
                line = with_example;
            } else {
                below.extend((!example.is_empty()).then(|| example.to_owned()));
            }
            below.extend((!read.is_empty()).then(|| format!("clients read {read}")));
        }
        let below = below.iter().flat_map(|line| wrapped(line, width)).collect();
        let (text, below) = item(&line, width, below);
        page.push(Block::Item { text, below });
    }
    let others: Vec<String> = others
        .iter()
        .map(|count| format!("{} {}", count.answers, count.name.name()))
        .collect();
    if !others.is_empty() {
        let (text, below) = item(&format!("also {}", others.join(", ")), width, Vec::new());
        page.push(Block::Item { text, below });
    }
}
