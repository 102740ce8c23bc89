//! Metrics as rows of a table, for pages that have no table of their own for them.

use super::{Figure, Metric, Value, rates, totals};
use crate::metrics::Metrics;

/// The columns of [`rows`].
pub const ROW_COLUMNS: [&str; 3] = ["metric", "value", "from"];

/// Which rows a page has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// Only metrics that say something and that no other table of the console has.
    Console,
    /// Every metric that has a value.
    Whole,
}

/// The rows of a page, a metric each: its label with the unit, its value, and what the value is
/// from.
pub fn rows(metrics: &Metrics, page: Page) -> Vec<[String; 3]> {
    let values = metrics.values.iter();
    let shown = values.filter(|(metric, _)| page == Page::Whole || is_for_console(metric, metrics));
    shown.map(|(metric, value)| row(metric, value)).collect()
}

/// Whether a metric says something that no other table of the console does.
fn is_for_console(metric: &Metric, metrics: &Metrics) -> bool {
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
    is_only_here && number != Some(0.0)
}

fn row(metric: &'static Metric, value: &Value) -> [String; 3] {
    let text = |value: Option<f64>| Figure::new(metric).text(value);
    let (value, from) = match value {
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
                .map(|it| format!(", p{} {}", it.word(), text(it.value)));
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
    [metric.title(), value, from]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::registry::testing::{eventful_run, options};
    use crate::metrics::summarise;
    use crate::metrics::testing::{Made, made, with_samples};

    fn labels(run: &[Made<'_>], page: Page) -> Vec<String> {
        let metrics = with_samples(run, |samples| summarise(samples, 2_000_000_000, &options()));
        rows(&metrics, page)
            .into_iter()
            .map(|row| row[0].clone())
            .collect()
    }

    #[test]
    fn a_whole_page_has_every_metric() {
        assert_eq!(
            labels(&eventful_run(), Page::Whole).len(),
            Metric::ALL.len()
        );
    }

    #[test]
    fn the_console_of_a_plain_run_has_none() {
        assert!(labels(&[made()], Page::Console).is_empty());
        let empty = Made {
            chunks: vec![],
            output: Some(0),
            ..made()
        };
        assert_eq!(
            labels(&[made(), empty], Page::Console),
            ["Answers without content"]
        );
    }
}
