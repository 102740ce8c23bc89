//! Table of latencies with confidence intervals: one row per latency and arm.

use super::text::figure;
use super::{Report, confidence, count_marks, tables};
use sobench_render::Table;
use sobench_results::metrics::registry::{Metric, Values, latencies};
use sobench_statistics::Summary;

/// `None` without latencies.
pub(super) fn latencies(report: &Report) -> Option<Table> {
    let percentiles = &report.metrics.values.summary(&latencies::E2EL).percentiles;
    let names = percentiles.iter().flat_map(|percentile| {
        [
            format!("p{}", percentile.label()),
            "95 % interval".to_owned(),
        ]
    });
    let heads = ["latency (ms)", "n", "mean", "median"]
        .map(str::to_owned)
        .into_iter()
        .chain(names);
    let mut table = Table::new(heads, 1);
    let mut arms: Vec<(&str, &Values)> = tables::arm_columns(report);
    if arms.len() < 2 {
        arms = vec![("", &report.metrics.values)];
    }
    let printed = Metric::of_vllm().filter(|(_, names)| !names.queued);
    for (metric, _) in printed {
        for (arm, values) in &arms {
            let summary = values.summary(metric);
            let mut name = count_marks::marked(metric.label, &report.metrics, metric);
            if !arm.is_empty() {
                name.push_str(&format!(", {arm}"));
            }
            if summary.n > 0 {
                table.row(row(name, summary));
            }
        }
    }
    table.non_empty()
}

fn row(name: String, summary: &Summary) -> Vec<String> {
    let cells = summary.percentiles.iter().flat_map(|percentile| {
        [
            figure(percentile.value),
            confidence::interval(percentile, summary),
        ]
    });
    [
        name,
        summary.n.to_string(),
        figure(summary.mean),
        figure(summary.median),
    ]
    .into_iter()
    .chain(cells)
    .collect()
}
