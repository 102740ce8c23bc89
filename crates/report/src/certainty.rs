//! How sure the latencies are: standard errors of means, intervals of percentiles, and which
//! percentiles the sample cannot carry. Knows no formula.

use super::Report;
use super::text::figure;
use sobench_render::Table;
use sobench_statistics::{Percentile, Summary};

/// The title of the table.
pub(super) const TITLE: &str = "How sure these latencies are (ms)";

/// A row for each mean and percentile of the latencies that the console shows; `None` where there
/// are none.
pub(super) fn table(report: &Report) -> Option<Table> {
    let latency = &report.metrics.overall.latency;
    let shown = report
        .percentile_metrics()
        .iter()
        .map(|&metric| (metric.label(), latency.summary(metric)));
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
            table.row(std::iter::once(format!("{name} p{}", percentile.word())).chain(cells));
        }
    }
    table.if_any()
}

/// The bounds as far as the sample has them, or why it has none.
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
    use sobench_results::metrics::testing::{Made, made, with_samples};
    use sobench_results::metrics::{MetricsOptions, summarise};
    use sobench_results::record::testing::record;

    fn shown(requests: u64) -> Option<String> {
        let run: Vec<Made<'_>> = (1..=requests)
            .map(|at| Made {
                chunks: vec![at, at + 1, at + 3],
                ..made()
            })
            .collect();
        let options = MetricsOptions {
            percentiles: vec![50.0, 99.0],
            ..MetricsOptions::default()
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
            .expect("there is such a row");
        line.split('|').map(str::trim).collect()
    }

    #[test]
    fn a_percentile_has_its_interval_and_its_mark() {
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
