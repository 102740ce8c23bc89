//! The chart of the intervals of the differences.

use sobench_render::axis::{Axis, Range};
use sobench_render::dots::{self, Dot};
use sobench_render::{Chart, Charts};
use sobench_results::compare::Row;

/// A forest plot of the differences in percent.
pub(super) fn intervals(rows: &[&Row]) -> Charts {
    let known = rows.iter().filter_map(|row| {
        let (low, high) = row.relative?;
        let base = row.measured.a.filter(|base| *base > 0.0)?;
        Some((row, 100.0 * row.measured.difference? / base, low, high))
    });
    let rows: Vec<dots::Row> = known
        .map(|(row, value, low, high)| dots::Row {
            name: row.measured.metric.to_string(),
            text: format!("{value:+.1} % ({low:+.1} to {high:+.1})"),
            colour: 0,
            dots: vec![Dot {
                value,
                hollow: false,
            }],
            line: Some((low, high)),
        })
        .collect();
    let ends = rows.iter().filter_map(|row| row.line);
    let ends = ends.flat_map(|(low, high)| [low, high]).chain([0.0]);
    let Some(axis) = Axis::linear(ends, Range::Data).filter(|_| !rows.is_empty()) else {
        return Charts::default();
    };
    Charts {
        caption: "the difference from A in percent, with its interval".to_owned(),
        charts: vec![Chart {
            title: String::new(),
            svg: dots::rows("differences", "%", &rows, &axis, Some(0.0)),
            table: None,
        }],
        ..Charts::default()
    }
}
