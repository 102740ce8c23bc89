//! Probe requests: small requests beside the run that measure the effect of its load.

use serde::{Deserialize, Serialize};

use sobench_statistics::Summary;

/// The reported percentile, besides median and maximum, as in `vllm bench serve`.
const TAIL: f64 = 99.0;

/// Results of the probe requests of a run, which are sent one at a time.
#[derive(Clone, Debug, Default, PartialEq, schemars::JsonSchema, Serialize, Deserialize)]
pub struct ProbeResults {
    /// Requested rate per second. The duration of each request is added to the interval.
    pub rate: f64,
    pub completed: usize,
    pub failed: usize,
    /// Sent to last content, over completed requests; `None` without completed requests.
    pub median_e2el_ms: Option<f64>,
    pub p99_e2el_ms: Option<f64>,
    pub max_e2el_ms: Option<f64>,
}

impl ProbeResults {
    /// Summarizes latencies; `None` is a failed request.
    pub fn new(rate: f64, latencies_ms: &[Option<f64>]) -> Self {
        let completed: Vec<f64> = latencies_ms.iter().copied().flatten().collect();
        let count = completed.len();
        let summary = Summary::new(completed, &[TAIL]);
        Self {
            rate,
            completed: count,
            failed: latencies_ms.len() - count,
            median_e2el_ms: summary.median,
            p99_e2el_ms: summary
                .percentiles
                .first()
                .and_then(|percentile| percentile.value),
            max_e2el_ms: summary.max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_and_have_no_latency() {
        let probed = ProbeResults::new(2.0, &[Some(10.0), None, Some(30.0), Some(20.0)]);
        assert_eq!((probed.completed, probed.failed), (3, 1));
        assert_eq!(
            (probed.median_e2el_ms, probed.max_e2el_ms),
            (Some(20.0), Some(30.0))
        );
        assert!((probed.p99_e2el_ms.unwrap() - 29.8).abs() < 1e-9);
        let none = ProbeResults::new(2.0, &[None]);
        assert_eq!(
            (
                none.failed,
                none.median_e2el_ms,
                none.p99_e2el_ms,
                none.max_e2el_ms
            ),
            (1, None, None, None)
        );
    }
}
