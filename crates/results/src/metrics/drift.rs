//! Tests whether latencies rise, fall or step over a run.
//!
//! Intervals and percentiles of a run assume a steady state. Consecutive requests are similar (they
//! share the load of the server), so the test of a trend is made on medians of blocks of requests in
//! the order of sending, at a strict level, and that of a step allows for the correlation. A small
//! change is no drift.

use schemars::JsonSchema;
use serde::Serialize;

use super::registry::{Metric, latencies};
use sobench_facts::Sample;
use sobench_plan::metrics::MetricsSettings;
use sobench_statistics::{LevelShift, Trend, percentile};

/// The smallest number of answers that is tested.
pub const MIN_ANSWERS: usize = 20;

/// The most blocks, and the smallest number of answers of a block.
const MAX_BLOCKS: usize = 20;
const MIN_BLOCK: usize = 2;

/// A trend, and a step, has at most this p-value, and both at least this change relative to the
/// smaller level.
const MAX_TREND_P_VALUE: f64 = 0.001;
const MAX_STEP_P_VALUE: f64 = 0.005;
const MIN_CHANGE: f64 = 0.1;

/// A trend is from the first to the last of this number of parts of the run.
const PARTS: usize = 4;

/// The run lasts at least as many median latencies as this; else it is a single burst of requests,
/// which has an order but no course.
const MIN_LATENCIES: f64 = 2.0;

/// The drift of one latency over a run.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Drift {
    /// The name of the metric.
    pub metric: &'static str,
    pub answers: usize,
    /// Kendall's tau of the blocks' medians with their order, and its two-sided p-value.
    pub tau: f64,
    pub p_value: f64,
    /// The step, if it explains the latencies better than the trend.
    pub step: Option<Step>,
    /// Medians before and after the step, or of the first and the last quarter of the requests.
    pub from_ms: f64,
    pub to_ms: f64,
    /// Whether the change is significant and not small.
    pub is_drift: bool,
}

/// A step of a latency.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Step {
    /// The first request after it.
    pub request: String,
    pub p_value: f64,
}

impl Drift {
    /// Tests TTFT, TPOT and E2EL; the latencies of too few answers are left out.
    pub fn all(samples: &[Sample<'_>], options: &MetricsSettings) -> Vec<Self> {
        let mut answers: Vec<&Sample<'_>> = samples
            .iter()
            .filter(|sample| sample.outcome().is_answer())
            .collect();
        answers.sort_by_key(|sample| sample.request_times().sent_ns);
        let sent_ns = |sample: Option<&&Sample<'_>>| sample?.request_times().sent_ns;
        let span_ms = sent_ns(answers.last())
            .zip(sent_ns(answers.first()))
            .map_or(0.0, |(last, first)| (last - first) as f64 / 1e6);
        let e2el_ms = median(values(&latencies::E2EL, &answers, options).1);
        if e2el_ms.is_none_or(|median_ms| span_ms < MIN_LATENCIES * median_ms) {
            return Vec::new();
        }
        [&latencies::TTFT, &latencies::TPOT, &latencies::E2EL]
            .into_iter()
            .filter_map(|metric| {
                let (requests, values) = values(metric, &answers, options);
                Self::new(metric, &requests, &values)
            })
            .collect()
    }

    /// Tests the values of requests in the order of sending.
    fn new(metric: &'static Metric, requests: &[&Sample<'_>], values: &[f64]) -> Option<Self> {
        if values.len() < MIN_ANSWERS {
            return None;
        }
        let part_medians = |parts: usize| -> Vec<f64> {
            // Parts differ by one value at most.
            let parts = (0..parts).filter_map(|part| {
                let [from, to] = [part, part + 1].map(|at| at * values.len() / parts);
                median(values[from..to].to_vec())
            });
            parts.collect()
        };
        let trend = Trend::new(&part_medians((values.len() / MIN_BLOCK).min(MAX_BLOCKS)))?;
        let step = LevelShift::new(values)
            .filter(|step| step.p_value <= MAX_STEP_P_VALUE && step.p_value <= trend.p_value);
        let (from_ms, to_ms) = match step {
            Some(step) => {
                let (before, after) = values.split_at(step.at);
                (median(before.to_vec())?, median(after.to_vec())?)
            }
            None => {
                let quarters = part_medians(PARTS);
                (*quarters.first()?, *quarters.last()?)
            }
        };
        let change = (to_ms - from_ms).abs() / from_ms.min(to_ms);
        Some(Self {
            metric: metric.name,
            answers: values.len(),
            tau: trend.tau,
            p_value: trend.p_value,
            step: step.map(|step| Step {
                request: requests[step.at].id(),
                p_value: step.p_value,
            }),
            from_ms,
            to_ms,
            is_drift: (step.is_some() || trend.p_value <= MAX_TREND_P_VALUE)
                && change >= MIN_CHANGE,
        })
    }

    /// The label of the metric.
    pub fn label(&self) -> &'static str {
        Metric::named(self.metric).map_or(self.metric, |metric| metric.label)
    }
}

/// The requests that have a value of the metric, and the values.
fn values<'s, 'a>(
    metric: &Metric,
    answers: &[&'s Sample<'a>],
    options: &MetricsSettings,
) -> (Vec<&'s Sample<'a>>, Vec<f64>) {
    let values = answers
        .iter()
        .filter_map(|sample| Some((*sample, metric.value(sample, options)?)));
    values.unzip()
}

/// The median; `None` without values.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    percentile(&values, 50.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_facts::testing::{TestRequest, test_request, with_samples};
    use sobench_testkit::random::Random;

    /// One request at a time with these latencies.
    fn drifts(latencies_ms: &[u64]) -> Vec<Drift> {
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
            let found = Drift::all(samples, &MetricsSettings::default());
            found.into_iter().filter(|drift| drift.is_drift).collect()
        })
    }

    fn names(drifts: &[Drift]) -> Vec<&'static str> {
        drifts.iter().map(|drift| drift.metric).collect()
    }

    #[test]
    fn a_latency_that_rises_fourfold_is_a_drift() {
        let rising: Vec<u64> = (0..24).map(|index| 1000 + 130 * index).collect();
        let found = drifts(&rising);
        assert_eq!(names(&found), ["ttft_ms", "tpot_ms", "e2el_ms"]);
        // Observed values, where a line through them would start below.
        assert_eq!(
            (found[2].step.clone(), found[2].from_ms, found[2].to_ms),
            (None, 1325.0, 3665.0)
        );
        let falling: Vec<u64> = rising.iter().rev().copied().collect();
        assert_eq!(drifts(&falling).len(), 3);
        assert!(drifts(&rising[..19]).is_empty(), "too few answers");
        let slightly: Vec<u64> = (0..100).map(|index| 100_000 + 50 * index).collect();
        assert!(drifts(&slightly).is_empty(), "a change below 10 %");
    }

    /// From a thirtieth of the latency to all of it: a line through these starts below zero.
    #[test]
    fn a_step_has_its_request_and_levels_that_were_measured() {
        let latency = |index: u64, level: u64| level + (index * 7919 % 31) * level / 100;
        let stepped = |low: u64, high: u64| -> Vec<u64> {
            let level = |index| if index < 36 { low } else { high };
            (0..60).map(|index| latency(index, level(index))).collect()
        };
        for (low, high) in [(1000, 1650), (1000, 30_000), (30_000, 1000)] {
            let found = drifts(&stepped(low, high));
            assert_eq!(names(&found), ["ttft_ms", "tpot_ms", "e2el_ms"]);
            for drift in found {
                let request = drift.step.clone().map(|step| step.request);
                assert_eq!(request.as_deref(), Some("case-36"), "{drift:?}");
                let factor = drift.to_ms / drift.from_ms / (high as f64 / low as f64);
                assert!(
                    drift.from_ms > 0.0 && (0.9..1.1).contains(&factor),
                    "{drift:?}"
                );
            }
        }
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
            assert!(Drift::all(samples, &MetricsSettings::default()).is_empty());
        });
    }
}
