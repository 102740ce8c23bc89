//! The cells of a table of a comparison. Lines of a cell are separated by line feeds.

use super::{ColdFrom, Figures};
use sobench_statistics::{Rate, Summary};

/// The text of an unknown value.
pub(super) const UNKNOWN: &str = "n/a";

/// The most characters of a name.
pub(super) const NAME_CHARS: usize = 40;

/// Two lines, or one `n/a` if both are unknown.
pub(super) fn two_lines(first: &str, second: &str) -> String {
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

/// A rate in percent.
pub(super) fn percent(rate: Option<Rate>) -> String {
    rate.map_or_else(|| UNKNOWN.to_owned(), |rate| format!("{:.2}", rate.percent))
}

/// The median, and the p99 with a mark if the sample is too small for it. A median that the client
/// may have distorted has a mark too.
pub(super) fn median_and_tail(summary: &Summary, is_distrusted: bool) -> String {
    let tail = summary.percentiles.first();
    let mark = if tail.is_some_and(|tail| tail.value.is_some() && !tail.enough) {
        "*"
    } else {
        ""
    };
    two_lines(
        &marked(is_distrusted, figure(summary.median)),
        &format!("{}{mark}", figure(tail.and_then(|tail| tail.value))),
    )
}

fn marked(is_distrusted: bool, figure: String) -> String {
    if is_distrusted && figure != UNKNOWN {
        format!("{figure}?")
    } else {
        figure
    }
}

/// The median and the number of uses, with a mark if they were not under load.
pub(super) fn uses(figures: &Figures, summary: &Summary) -> String {
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
