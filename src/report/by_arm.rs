//! The latencies as rows of a table: one for each, and for each arm where there are several. Knows no layout.

use super::text::figure;
use super::{Report, certainty};
use crate::metrics::ArmMetrics;
use crate::metrics::LatencyMetric;
use crate::statistics::Summary;

/// The head and the rows; no rows where there are no latencies.
pub(super) fn latencies(report: &Report) -> (Vec<String>, Vec<Vec<String>>) {
    let percentiles = &report.metrics.overall.latency.e2el_ms.percentiles;
    let names = percentiles.iter().flat_map(|it| [format!("p{}", it.word()), "95 % interval".to_owned()]);
    let head = ["latency (ms)", "n", "mean", "median"].map(str::to_owned).into_iter().chain(names).collect();
    let mut arms: Vec<(&str, &ArmMetrics)> = report.metrics.arms.iter().collect();
    if arms.len() < 2 {
        arms = vec![("", &report.metrics.overall)];
    }
    let mut rows = Vec::new();
    for metric in LatencyMetric::ALL {
        for (arm, of) in &arms {
            let summary = of.latency.summary(metric);
            let name = if arm.is_empty() { metric.name().to_owned() } else { format!("{}, {arm}", metric.name()) };
            rows.extend((summary.n > 0).then(|| row(name, summary)));
        }
    }
    (head, rows)
}

fn row(name: String, summary: &Summary) -> Vec<String> {
    let cells = summary.percentiles.iter().flat_map(|it| [figure(it.value), certainty::interval(it, summary)]);
    [name, summary.n.to_string(), figure(summary.mean), figure(summary.median)].into_iter().chain(cells).collect()
}
