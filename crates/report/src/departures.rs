//! How answers depart from the API, and what clients read of them: tables, and lines of the summary.

use super::text::{figure, item, wrapped};
use sobench_core::printable::printable;
use sobench_render::{Block, Document, Table};
use sobench_results::metrics::Metrics;
use sobench_results::metrics::client_table::ClientCounts;
use sobench_results::metrics::departures::DepartureCount;
use sobench_results::metrics::registry::totals;
use sobench_statistics::Rate;

pub(crate) const TITLE: &str = "Departures from the API (share of all answers)";

pub(crate) const CLIENTS: &str = "What clients read (share of streamed, judged answers)";

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
        "share % (95 %)",
        "invalid",
        "forbidden by",
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
            .left_aligned(7)
            .wrapped(5, TEXT_WIDTH)
            .wrapped(6, TEXT_WIDTH)
            .with_rows(counts.by_name.iter().map(|count: &DepartureCount| {
                let example = match count.example.as_str() {
                    "" => count.name.to_string(),
                    example => format!("{}: {example}", count.name),
                };
                [
                    count.name.name().to_owned(),
                    count.answers.to_string(),
                    share(Rate::new(count.answers, answers)),
                    count.invalid.to_string(),
                    count.forbidden_by.name().to_owned(),
                    printable(&example, EXAMPLE_MAX_CHARS),
                    count.clients_read.to_owned(),
                    printable(&count.first_request, TEXT_WIDTH),
                ]
            })),
    )
}

/// A share with its interval.
fn share(rate: Option<Rate>) -> String {
    let text = |rate: Rate| {
        let Rate {
            percent,
            low_percent: low,
            high_percent: high,
            ..
        } = rate;
        format!("{percent:.2} ({low:.1} to {high:.1})")
    };
    rate.map_or_else(|| "n/a".to_owned(), text)
}

/// Adds the most frequent departures to the summary, in lines of at most `width` characters.
pub(crate) fn add_summary(page: &mut Document, metrics: &Metrics, width: usize) {
    let Some(counts) = &metrics.departures else {
        return;
    };
    page.heading("Departures from the API");
    let (shapes, mut shown): (Vec<_>, Vec<_>) = counts
        .by_name
        .iter()
        .partition(|count| count.name.is_shape());
    let mut others = shown.split_off(shown.len().min(MAX_SHOWN));
    others.extend(shapes);
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

/// Characters of the id of a request.
const ID_CHARS: usize = 30;

/// Clients and what they read; `None` if they read all answers alike.
pub(crate) fn clients_table(metrics: &Metrics) -> Option<Table> {
    let found = metrics.clients.as_ref()?;
    let heads = [
        "client",
        "readable %",
        "valid %",
        "right %",
        "otherwise first in",
    ];
    let rows = found.clients.iter().map(|client| {
        [
            client.client.clone(),
            figure(Some(client.readable_percent)),
            figure(Some(client.valid_percent)),
            figure(client.right_percent),
            printable(client.example.as_deref().unwrap_or_default(), ID_CHARS),
        ]
    });
    Some(Table::new(heads, 1).left_aligned(4).with_rows(rows))
}

/// Adds a line to the summary: how many answers clients do not read alike, and the client whose share
/// of valid answers differs most from what sobench judges.
pub(crate) fn add_clients(page: &mut Document, metrics: &Metrics, width: usize) {
    let Some(found) = &metrics.clients else {
        return;
    };
    let distance = |client: &ClientCounts| (client.valid_percent - found.valid_percent).abs();
    let farthest =
        |one: &&ClientCounts, other: &&ClientCounts| distance(one).total_cmp(&distance(other));
    let Some(client) = found.clients.iter().rev().max_by(farthest) else {
        return;
    };
    let line = format!(
        "clients read {} of {} answers differently: of what {} reads, {:.2} % is valid, of what sobench judges {:.2} %",
        found.differing, found.answers, client.client, client.valid_percent, found.valid_percent,
    );
    let (text, below) = item(&line, width, Vec::new());
    page.push(Block::Item { text, below });
}
