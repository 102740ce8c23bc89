//! Tests whether latencies rise or fall over a run.
//!
//! Intervals and percentiles of a run assume a steady state. Consecutive requests are similar (they
//! share the load of the server), so the test is made on medians of blocks of requests in the order
//! of sending, at a strict level, and a small change is no drift.

use serde::Serialize;

use super::registry::{Metric, latencies};
use super::{MetricsOptions, Sample};
use sobench_statistics::{Trend, percentile};

/// The smallest number of answers that is tested.
pub const MIN_ANSWERS: usize = 20;

/// The most blocks, and the smallest number of answers of a block.
const MAX_BLOCKS: usize = 20;
const MIN_BLOCK: usize = 2;

/// A drift has at most this p-value, and at least this change relative to its start.
const MAX_P_VALUE: f64 = 0.001;
const MIN_CHANGE: f64 = 0.1;

/// The run lasts at least as many median latencies as this; else it is a single burst of requests,
/// which has an order but no course.
const MIN_LATENCIES: f64 = 2.0;

/// The trend of one latency over a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Drift {
    /// The name of the metric.
    pub metric: &'static str,
    pub answers: usize,
    /// Kendall's tau of the blocks' medians with their order, and its two-sided p-value.
    pub tau: f64,
    pub p_value: f64,
    /// The line of Theil and Sen through the medians, at the start and at the end of the run.
    pub from_ms: f64,
    pub to_ms: f64,
    /// Whether the change is significant and not small.
    pub is_drift: bool,
}

impl Drift {
    /// Tests TTFT, TPOT and E2EL; the latencies of too few answers are left out.
    pub fn all(samples: &[Sample<'_>], options: &MetricsOptions) -> Vec<Self> {
        let mut answers: Vec<&Sample<'_>> = samples
            .iter()
            .filter(|sample| sample.outcome().is_answer())
            .collect();
        answers.sort_by_key(|sample| sample.request_times().sent_ns);
        let sent_ns = |sample: Option<&&Sample<'_>>| sample?.request_times().sent_ns;
        let span_ms = sent_ns(answers.last())
            .zip(sent_ns(answers.first()))
            .map_or(0.0, |(last, first)| (last - first) as f64 / 1e6);
        let e2el_ms = median(values(&latencies::E2EL, &answers, options));
        if e2el_ms.is_none_or(|median_ms| span_ms < MIN_LATENCIES * median_ms) {
            return Vec::new();
        }
        [&latencies::TTFT, &latencies::TPOT, &latencies::E2EL]
            .into_iter()
            .filter_map(|metric| Self::new(metric, &values(metric, &answers, options)))
            .collect()
    }

    /// Tests values in the order of sending.
    fn new(metric: &'static Metric, values: &[f64]) -> Option<Self> {
        if values.len() < MIN_ANSWERS {
            return None;
        }
        let blocks = (values.len() / MIN_BLOCK).min(MAX_BLOCKS);
        // Blocks differ by one value at most.
        let medians: Vec<f64> = (0..blocks)
            .filter_map(|block| {
                let [from, to] = [block, block + 1].map(|at| at * values.len() / blocks);
                median(values[from..to].to_vec())
            })
            .collect();
        let trend = Trend::new(&medians)?;
        let change = (trend.last - trend.first).abs() / trend.first.abs().min(trend.last.abs());
        Some(Self {
            metric: metric.name,
            answers: values.len(),
            tau: trend.tau,
            p_value: trend.p_value,
            from_ms: trend.first,
            to_ms: trend.last,
            is_drift: trend.p_value <= MAX_P_VALUE && change >= MIN_CHANGE,
        })
    }

    /// The label of the metric.
    pub fn label(&self) -> &'static str {
        Metric::named(self.metric).map_or(self.metric, |metric| metric.label)
    }
}

fn values(metric: &Metric, answers: &[&Sample<'_>], options: &MetricsOptions) -> Vec<f64> {
    let values = answers
        .iter()
        .filter_map(|sample| metric.value(sample, options));
    values.collect()
}

/// The median; `None` without values.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    percentile(&values, 50.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::testing::{TestRequest, test_request, with_samples};
    use sobench_testkit::random::Random;

    /// One request at a time with these latencies.
    fn drifts(latencies_ms: &[u64]) -> Vec<&'static str> {
        let mut at = 0;
        let run: Vec<TestRequest<'_>> = latencies_ms
            .iter()
            .map(|latency| {
                let sent = at;
                at += latency;
                TestRequest {
                    sent: Some(sent),
                    due: sent,
                    chunks: vec![sent + latency / 2, at],
                    end: Some(at),
                    ..test_request()
                }
            })
            .collect();
        with_samples(&run, |samples| {
            let found = Drift::all(samples, &MetricsOptions::default());
            let drifting = found.iter().filter(|drift| drift.is_drift);
            drifting.map(|drift| drift.metric).collect()
        })
    }

    #[test]
    fn a_latency_that_rises_fourfold_is_a_drift() {
        let rising: Vec<u64> = (0..24).map(|index| 1000 + 130 * index).collect();
        assert_eq!(drifts(&rising), ["ttft_ms", "tpot_ms", "e2el_ms"]);
        let falling: Vec<u64> = rising.iter().rev().copied().collect();
        assert_eq!(drifts(&falling).len(), 3);
        assert!(drifts(&rising[..19]).is_empty(), "too few answers");
        let slightly: Vec<u64> = (0..100).map(|index| 100_000 + 50 * index).collect();
        assert!(drifts(&slightly).is_empty(), "a change below 10 %");
    }

    /// Under a steady state, one run in a hundred at most drifts. Latencies are skewed, and
    /// correlated from one request to the next.
    #[test]
    fn steady_runs_do_not_drift() {
        let mut random = Random(7);
        let found = (0..300)
            .filter(|run| {
                let mut level = 0.0;
                let latencies: Vec<u64> = (0..20 + run % 200)
                    .map(|_| {
                        level = 0.5 * level + random.below(1000) as f64 / 1000.0 - 0.5;
                        (1000.0 * (1.0 + level).exp()) as u64
                    })
                    .collect();
                !drifts(&latencies).is_empty()
            })
            .count();
        assert!(found <= 3, "{found} of 300");
    }

    #[test]
    fn a_single_burst_of_requests_has_no_course() {
        let run: Vec<TestRequest<'_>> = (0..50)
            .map(|index| TestRequest {
                sent: Some(index / 10),
                chunks: vec![100 + 20 * index, 110 + 20 * index],
                ..test_request()
            })
            .collect();
        with_samples(&run, |samples| {
            assert!(Drift::all(samples, &MetricsOptions::default()).is_empty());
        });
    }
}
