//! Metrics as rows of a table, for reports without a table of their own.

use super::{Figure, Metric, Value, latencies, rates, totals};
use crate::metrics::Metrics;

/// The columns of [`rows`].
pub const ROW_COLUMNS: [&str; 3] = ["metric", "value", "details"];

/// The selection of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// Only relevant metrics that are not in another table of the console.
    Console,
    /// Every metric with a value.
    Whole,
}

/// Each metric with its row: label with unit, value, and details of the value.
pub fn rows(metrics: &Metrics, page: Page) -> Vec<(&'static Metric, [String; 3])> {
    let values = metrics.values.iter();
    let shown = values
        .filter(|(metric, _)| page == Page::Whole || is_relevant_for_console(metric, metrics));
    shown
        .map(|(metric, value)| (metric, row(metric, value)))
        .collect()
}

/// Whether a metric is relevant and not in another table of the console.
fn is_relevant_for_console(metric: &Metric, metrics: &Metrics) -> bool {
    let number = metrics.values.number(metric);
    if *metric == totals::VALID_THROUGHPUT {
        return number != metrics.values.number(&totals::REQUEST_THROUGHPUT);
    }
    if *metric == totals::MAX_OUTPUT_CHUNKS {
        return metrics.overall.latency.multi_token_chunk_answers > 0;
    }
    if *metric == totals::TRUNCATED {
        return number != Some(metrics.quality.truncated as f64);
    }
    let is_only_here = [
        &rates::WHITE_SPACE_RATE,
        &totals::NEVER_SENT,
        &totals::EMPTY_ANSWERS,
    ]
    .contains(&metric);
    if *metric == latencies::TTFT_ARGUMENTS {
        return true;
    }
    is_only_here && number != Some(0.0)
}

fn row(metric: &'static Metric, value: &Value) -> [String; 3] {
    let text = |value: Option<f64>| Figure::new(metric).text(value);
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
    [metric.title(), value, details]
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
        assert_eq!(rows(&metrics(), Page::Whole).len(), Metric::ALL.len());
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
