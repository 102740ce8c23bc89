//! The charts of a comparison: the intervals of the differences, and the latencies of two sides.

use super::labels;
use sobench_render::axis::{Axis, Range};
use sobench_render::dots::{self, Dot};
use sobench_render::svg::{self, Curve, ShareScale};
use sobench_render::{Chart, Charts, Layout, LegendEntry};
use sobench_results::compare::Row;
use sobench_results::compare::side::Side;
use sobench_results::metrics::registry::Metric;

/// The points of a curve.
const POINTS: usize = 200;

/// The share of requests from which on the axis shows a curve.
const AXIS_FROM_SHARE: f64 = 0.01;

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

/// The cumulative latencies of the first side and another one.
pub(super) fn curves(sides: &[Side], other: usize) -> Charts {
    let pair = [(0, &sides[0]), (other, &sides[other])];
    let legend = pair.iter().map(|(index, _)| LegendEntry::Curve {
        colour: usize::from(*index > 0),
        dashed: false,
        label: labels::side(*index),
    });
    let charts = Metric::of_vllm().filter(|(_, names)| !names.queued);
    let charts = charts.filter_map(|(metric, names)| {
        let values = pair.map(|(index, side)| (index, values_ns(side, metric)));
        if values.iter().any(|(_, values)| values.is_empty()) {
            return None;
        }
        let start = |values: &[u64]| values[(values.len() as f64 * AXIS_FROM_SHARE) as usize];
        let low = values.iter().map(|(_, values)| start(values)).min()?;
        let high = values
            .iter()
            .filter_map(|(_, values)| values.last())
            .max()?;
        let axis = Axis::durations([low, *high].map(|ns| ns as f64).into_iter())?;
        let curves: Vec<Curve> = values
            .iter()
            .map(|(index, values)| Curve {
                name: labels::side(*index),
                colour: usize::from(*index > 0),
                dashed: false,
                points: points(values),
            })
            .collect();
        Some(Chart {
            title: names.title.to_owned(),
            svg: svg::cumulative(names.title, &curves, ShareScale::Even, &axis),
            table: None,
        })
    });
    let charts: Vec<Chart> = charts.collect();
    if charts.is_empty() {
        return Charts::default();
    }
    Charts {
        legend: legend.collect(),
        caption: "cumulative share of requests over a logarithmic axis".to_owned(),
        charts,
        layout: Layout::Grid,
    }
}

/// The values of a latency of all runs, ascending; empty for pooled latencies, and without requests.
fn values_ns(side: &Side, metric: &Metric) -> Vec<u64> {
    let runs = side.run_requests().unwrap_or_default();
    let values = runs
        .iter()
        .flat_map(|requests| requests.in_distribution(metric));
    let mut values: Vec<u64> = values.flatten().map(|ms| (ms * 1e6) as u64).collect();
    values.sort_unstable();
    values
}

/// Some of the values with their shares.
fn points(values: &[u64]) -> Vec<(u64, f64)> {
    let count = values.len();
    let places = (1..=POINTS).map(|point| (point * count).div_ceil(POINTS).max(1));
    let mut points: Vec<(u64, f64)> = places
        .map(|place| (values[place - 1], place as f64 / count as f64))
        .collect();
    points.dedup();
    points
}
