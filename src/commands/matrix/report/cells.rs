//! The table of a comparison. Lines of a cell are separated by line feeds.

use super::console::numbered_notes;
use super::{ColdFrom, Comparison, Control, Figures, Load, Row, RowResult};
use sobench_core::printable::printable;
use sobench_render::Table;
use sobench_results::metrics::constraint_overhead::{Added, MIN_REPEATS};
use sobench_results::metrics::registry::rates;
use sobench_statistics::{Rate, Summary};

/// The text of an unknown value.
pub(super) const UNKNOWN: &str = "n/a";

/// The most characters of a name.
pub(super) const NAME_CHARS: usize = 40;

/// Formats the cell of a column.
type Show = fn(&Figures) -> String;

/// The table of a comparison.
pub(super) fn table(comparison: &Comparison) -> Table {
    let swept = comparison.rows.iter().any(|row| row.load != Load::AsGiven);
    let columns = columns(comparison, swept);
    let mut head = vec!["dataset", "backend"];
    head.extend(swept.then_some("load"));
    let text_columns = head.len();
    head.extend(columns.iter().map(|(name, _)| *name));
    let notes = numbered_notes(comparison);
    let row = |row: &Row| {
        let mut cells = vec![
            printable(&row.dataset, NAME_CHARS),
            printable(&row.contender, NAME_CHARS),
        ];
        cells.extend(swept.then(|| row.load.to_string()));
        match &row.result {
            RowResult::Measured(figures) => {
                cells.extend(columns.iter().map(|(_, show)| show(figures)));
            }
            RowResult::DidNotRun { reason } => {
                let note = format!("did not run: {reason}");
                let number = notes
                    .iter()
                    .position(|known| *known == note)
                    .map_or(0, |index| index + 1);
                cells.push(format!("did not\nrun ({number})"));
                cells.extend(columns.iter().skip(1).map(|_| String::new()));
            }
        }
        cells
    };
    Table::new(head, text_columns).with_rows(comparison.rows.iter().map(row))
}

fn columns(comparison: &Comparison, swept: bool) -> Vec<(&'static str, Show)> {
    let mut columns: Vec<(&'static str, Show)> = vec![
        ("correct\n%", |figures| with_interval(figures.correct_rate)),
        ("compl.\n%", |figures| percent(figures.compliance)),
        ("cover.\n%", |figures| percent(figures.coverage)),
    ];
    if comparison.rows.iter().any(is_scored) {
        columns.push(("right\n%", |figures| with_interval(accuracy(figures))));
    }
    if comparison.record.control {
        columns.push(("control\n%", |figures| {
            percent(
                figures
                    .control
                    .as_ref()
                    .and_then(|control| control.control_rate),
            )
        }));
    }
    columns.extend([
        (
            "TTFT ms\np50/p99",
            (|figures| latency(figures, &figures.ttft_ms)) as Show,
        ),
        ("TPOT ms\np50/p99", |figures| {
            latency(figures, &figures.tpot_ms)
        }),
        ("out\ntok/s", |figures| figure(figures.output_throughput)),
    ]);
    if swept {
        columns.push(("req/s\nvalid", |figures| {
            two_lines(
                &figure(figures.request_throughput),
                &figure(figures.valid_throughput),
            )
        }));
    }
    if comparison.record.goodput.is_some() {
        columns.push(("valid in\nobj. %", |figures| {
            with_interval(figures.valid_within_objectives)
        }));
    }
    if comparison.record.control {
        columns.push(("overhead\nTTFT %", |figures| {
            overhead(figures, |control| control.ttft_added.as_ref())
        }));
        columns.push(("overhead\nTPOT %", |figures| {
            overhead(figures, |control| control.tpot_added.as_ref())
        }));
    }
    columns.push(("cold/warm\nTTFT ms", |figures| {
        two_lines(
            &uses(figures, &figures.cold_ttft_ms),
            &uses(figures, &figures.warm_ttft_ms),
        )
    }));
    columns
}

/// The accuracy of constrained answers.
fn accuracy(figures: &Figures) -> Option<Rate> {
    figures.metrics.rate(&rates::ACCURACY)
}

fn is_scored(row: &Row) -> bool {
    matches!(&row.result, RowResult::Measured(figures) if accuracy(figures).is_some())
}

/// Two lines, or one `n/a` if both are unknown.
fn two_lines(first: &str, second: &str) -> String {
    if first == UNKNOWN && second == UNKNOWN {
        first.to_owned()
    } else {
        format!("{first}\n{second}")
    }
}

/// A number with four significant digits or so.
pub(super) fn figure(value: Option<f64>) -> String {
    match value {
        None => UNKNOWN.to_owned(),
        Some(value) if value.abs() >= 999.5 => format!("{value:.0}"),
        Some(value) if value.abs() >= 99.95 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
    }
}

fn percent(rate: Option<Rate>) -> String {
    rate.map_or_else(|| UNKNOWN.to_owned(), |rate| format!("{:.2}", rate.percent))
}

fn with_interval(rate: Option<Rate>) -> String {
    rate.map_or_else(
        || UNKNOWN.to_owned(),
        |rate| {
            format!(
                "{:.2}\n{:.1} to {:.1}",
                rate.percent, rate.low_percent, rate.high_percent
            )
        },
    )
}

/// The median, and the p99 with a mark if the sample is too small for it.
fn latency(figures: &Figures, summary: &Summary) -> String {
    let tail = summary.percentiles.first();
    let mark = if tail.is_some_and(|tail| tail.value.is_some() && !tail.enough) {
        "*"
    } else {
        ""
    };
    two_lines(
        &marked_if_distrusted(figures, figure(summary.median)),
        &format!("{}{mark}", figure(tail.and_then(|tail| tail.value))),
    )
}

/// Marks a latency that the client may have distorted.
fn marked_if_distrusted(figures: &Figures, figure: String) -> String {
    if figures.distrusted_runs > 0 && figure != UNKNOWN {
        format!("{figure}?")
    } else {
        figure
    }
}

/// The median and the number of uses, with a mark if they were not under load.
fn uses(figures: &Figures, summary: &Summary) -> String {
    let mark = if figures.cold_from == Some(ColdFrom::Alone) {
        "+"
    } else {
        ""
    };
    summary.median.map_or_else(
        || UNKNOWN.to_owned(),
        |median| format!("{} ({}){mark}", figure(Some(median)), summary.n),
    )
}

fn overhead(figures: &Figures, added: fn(&Control) -> Option<&Added>) -> String {
    let added = figures.control.as_ref().and_then(added);
    let Some(overhead) = added.and_then(|added| added.percent.as_ref()) else {
        return UNKNOWN.to_owned();
    };
    if !added.is_some_and(Added::has_enough_pairs) {
        return format!("{UNKNOWN}\nn={}", overhead.pairs);
    }
    let signed = |value: f64| format!("{value:+.1}");
    let interval = match (overhead.low_percent, overhead.high_percent) {
        (Some(low), Some(high)) => format!("{} to {}", signed(low), signed(high)),
        _ if overhead.repeats_percent.len() < MIN_REPEATS => "too few repeats".to_owned(),
        _ => format!("n={}", overhead.pairs),
    };
    let mut cell = format!(
        "{}\n{interval}",
        marked_if_distrusted(figures, signed(overhead.percent))
    );
    if overhead.repeats_percent.len() > 1 {
        let each: Vec<String> = overhead
            .repeats_percent
            .iter()
            .map(|percent| signed(*percent))
            .collect();
        // More would make the table too wide. The JSON file has all of them.
        let each = if each.len() > 3 {
            range(&overhead.repeats_percent)
        } else {
            each.join(" ")
        };
        cell.push_str(&format!("\n{each}"));
    }
    cell
}

fn range(repeats: &[f64]) -> String {
    let lowest = repeats.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = repeats.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{lowest:+.1}..{highest:+.1}")
}
