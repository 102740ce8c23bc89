//! Differences of mean latencies between the constrained arm and the control arm.

use sobench_core::case::Arm;
use sobench_facts::Sample;
use sobench_facts::latency::RequestLatency;
use sobench_plan::metrics::{LatencyMetric, MetricsOptions};
use sobench_results::metrics::mean_difference::Difference;

/// Constrained mean less control mean, in ms, with 95 % intervals. `None` where an arm has no
/// values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ArmDifferences {
    pub ttft_ms: Option<Difference>,
    pub tpot_ms: Option<Difference>,
    pub e2el_ms: Option<Difference>,
}

impl ArmDifferences {
    /// `None` unless both arms have requests.
    pub fn new(samples: &[Sample<'_>], options: &MetricsOptions, seed: u64) -> Option<Self> {
        let has = |arm: Arm| samples.iter().any(|sample| sample.arm() == arm);
        if !has(Arm::Constrained) || !has(Arm::Control) {
            return None;
        }
        let values = |arm: Arm, value: fn(&RequestLatency) -> Option<f64>| -> Vec<f64> {
            let answered = samples
                .iter()
                .filter(|sample| sample.arm() == arm && sample.outcome().is_answer());
            answered
                .filter_map(|sample| value(&sample.latency(options)))
                .collect()
        };
        let difference = |value: fn(&RequestLatency) -> Option<f64>| {
            Difference::from_samples(
                &values(Arm::Constrained, value),
                &values(Arm::Control, value),
                seed,
            )
        };
        Some(Self {
            ttft_ms: difference(|latency| latency.ttft_ms),
            tpot_ms: difference(|latency| latency.tpot_ms),
            e2el_ms: difference(|latency| latency.e2el_ms),
        })
    }

    /// The difference of this latency, where it is computed.
    pub fn get(&self, metric: LatencyMetric) -> Option<Difference> {
        match metric {
            LatencyMetric::Ttft => self.ttft_ms,
            LatencyMetric::Tpot => self.tpot_ms,
            LatencyMetric::E2el => self.e2el_ms,
            LatencyMetric::Itl => None,
        }
    }
}
