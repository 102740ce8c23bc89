//! Confidence intervals of latencies: standard errors of means, and intervals of percentiles where
//! the sample is large enough.

use super::text::figure;
use super::{Report, count_marks};
use sobench_render::Table;
use sobench_statistics::{Percentile, Summary};

pub(super) const TITLE: &str = "Latency confidence intervals (ms)";

/// One row per mean and percentile of the printed latencies; `None` without latencies.
pub(super) fn table(report: &Report) -> Option<Table> {
    let printed = report.printed().filter(|(_, names)| !names.queued);
    let shown = printed.map(|(metric, _)| {
        let name = count_marks::marked(metric.label, &report.metrics, metric);
        (name, report.metrics.values.summary(metric))
    });
    let mut table = Table::new(["", "n", "value", "standard error", "95 % interval"], 1);
    for (name, summary) in shown.filter(|(_, summary)| summary.n > 0) {
        let error = figure(summary.standard_error);
        table.row([
            format!("{name} mean"),
            summary.n.to_string(),
            figure(summary.mean),
            error,
            String::new(),
        ]);
        for percentile in &summary.percentiles {
            let cells = [
                summary.n.to_string(),
                figure(percentile.value),
                String::new(),
                interval(percentile, summary),
            ];
            table.row(std::iter::once(format!("{name} p{}", percentile.label())).chain(cells));
        }
    }
    table.non_empty()
}

/// The bounds that the sample supports, or the sample size that is needed.
pub(super) fn interval(percentile: &Percentile, summary: &Summary) -> String {
    let bounds = match (percentile.low, percentile.high) {
        (Some(low), Some(high)) => format!("{low:.2} to {high:.2}"),
        (Some(low), None) => format!("{low:.2} and above"),
        (None, Some(high)) => format!("{high:.2} and below"),
        (None, None) => String::new(),
    };
    if percentile.enough {
        return bounds;
    }
    let small = format!("n={} < {}", summary.n, percentile.needs);
    if bounds.is_empty() {
        small
    } else {
        format!("{bounds} ({small})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_facts::testing::{TestRequest, test_request, with_samples};
    use sobench_plan::metrics::MetricsSettings;
    use sobench_plan::record::testing::record;
    use sobench_results::metrics::summarise;

    fn shown(requests: u64) -> Option<String> {
        let run: Vec<TestRequest<'_>> = (1..=requests)
            .map(|at| TestRequest {
                chunks: vec![at, at + 1, at + 3],
                ..test_request()
            })
            .collect();
        let options = MetricsSettings {
            percentiles: vec![50.0, 99.0],
            ..MetricsSettings::default()
        };
        let metrics = with_samples(&run, |samples| summarise(samples, 1, &options));
        let table = table(&Report::new(record(), metrics))?;
        let mut page = sobench_render::Document::default();
        page.table(table);
        Some(sobench_render::text::render(&page))
    }

    fn row<'t>(table: &'t str, name: &str) -> Vec<&'t str> {
        let line = table
            .lines()
            .find(|line| line.trim_start().starts_with(name))
            .expect("the row exists");
        line.split('|').map(str::trim).collect()
    }

    #[test]
    fn a_percentile_has_an_interval_and_a_sample_size_mark() {
        let table = shown(100).unwrap();
        assert_eq!(row(&table, "TTFT mean")[1..], ["100", "50.50", "2.90", ""]);
        assert_eq!(
            row(&table, "TTFT p50")[1..],
            ["100", "50.50", "", "40.00 to 61.00"]
        );
        assert_eq!(
            row(&table, "TTFT p99")[1..],
            ["100", "99.01", "", "97.00 and above (n=100 < 662)"]
        );
        assert_eq!(
            row(&table, "ITL p50")[1..],
            ["200", "1.50", "", ""],
            "gaps of one answer are not independent"
        );
        assert_eq!(row(&shown(700).unwrap(), "TTFT p99")[4], "687.00 to 699.00");
    }

    #[test]
    fn without_latencies_there_is_no_table() {
        assert_eq!(shown(0), None);
    }
}
