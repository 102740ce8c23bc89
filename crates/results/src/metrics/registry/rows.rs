//! Metrics as rows of a table, for reports without a table of their own.

use super::{Figure, Metric, Shown, Value, latencies, totals};
use crate::metrics::Metrics;

/// The columns of [`rows`].
pub const ROW_COLUMNS: [&str; 3] = ["metric", "value", "details"];

/// The metrics of the console that are in no other table of it.
const OTHERS: [&Metric; 6] = [
    &latencies::TTFT_ARGUMENTS,
    &totals::VALID_THROUGHPUT,
    &totals::MAX_OUTPUT_CHUNKS,
    &totals::TRUNCATED,
    &totals::NEVER_SENT,
    &totals::EMPTY_ANSWERS,
];

/// The selection of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// Only metrics that are not in another table of the console.
    Console,
    /// Every metric with a value, except those for files only.
    Whole,
}

/// Each metric with its row: label with unit, value, and details of the value.
pub fn rows(metrics: &Metrics, page: Page) -> Vec<(&'static Metric, [String; 3])> {
    let shown = metrics.iter().filter(|(figure, _)| match page {
        Page::Console => OTHERS.contains(&figure.metric) && figure.metric.is_shown(&metrics.values),
        Page::Whole => !matches!(figure.metric.shown, Shown::InFiles),
    });
    shown
        .map(|(figure, value)| (figure.metric, row(figure, value)))
        .collect()
}

fn row(figure: Figure, value: &Value) -> [String; 3] {
    let text = |value: Option<f64>| figure.text(value);
    let (value, details) = match value {
        Value::Rate(rate) => {
            let interval = format!("{:.2} to {:.2}", rate.low_percent, rate.high_percent);
            (
                text(Some(rate.percent)),
                format!("{}/{}, 95 % interval {interval}", rate.hits, rate.of),
            )
        }
        Value::Distribution(summary) => {
            let percentiles = summary
                .percentiles
                .iter()
                .map(|percentile| format!(", p{} {}", percentile.label(), text(percentile.value)));
            let median = format!("median {}", text(summary.median));
            let percentiles: String = percentiles.collect();
            (
                text(summary.mean),
                format!("mean of {}; {median}{percentiles}", summary.n),
            )
        }
        Value::PerSecond(rate) => (
            text(Some(rate.per_second)),
            rate.count
                .map_or_else(String::new, |count| format!("count {count}")),
        ),
        Value::Total(value) => (text(Some(*value)), String::new()),
    };
    [figure.title(), value, details]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::registry::testing::{metrics, options};
    use crate::metrics::summarise;
    use sobench_facts::testing::{TestRequest, test_request, with_samples};

    fn labels(run: &[TestRequest<'_>], page: Page) -> Vec<String> {
        let metrics = with_samples(run, |samples| summarise(samples, 2_000_000_000, &options()));
        rows(&metrics, page)
            .into_iter()
            .map(|(_, row)| row[0].clone())
            .collect()
    }

    #[test]
    fn all_selects_every_metric() {
        let all = Metric::ALL.iter();
        let in_tables = all.filter(|metric| !matches!(metric.shown, Shown::InFiles));
        let mut shown: Vec<_> = rows(&metrics(), Page::Whole)
            .into_iter()
            .map(|(metric, _)| metric)
            .collect();
        shown.dedup();
        assert!(shown.into_iter().eq(in_tables.copied()));
    }

    #[test]
    fn console_of_a_plain_run_has_no_rows() {
        assert!(labels(&[test_request()], Page::Console).is_empty());
        let empty = TestRequest {
            chunks: vec![],
            output: Some(0),
            ..test_request()
        };
        assert_eq!(
            labels(&[test_request(), empty], Page::Console),
            ["Answers without content"]
        );
    }
}
