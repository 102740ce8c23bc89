//! Differences of mean latencies between the constrained arm and the control arm.

use sobench_core::case::Arm;
use sobench_facts::Sample;
use sobench_plan::metrics::MetricsSettings;
use sobench_results::metrics::registry::{Group, Metric, latencies};
use sobench_statistics::contrast::Difference;

/// Constrained mean less control mean, in ms, with 95 % intervals, by latency. A latency of which an
/// arm has no values is missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ArmDifferences(Vec<(&'static Metric, Difference)>);

impl ArmDifferences {
    /// `None` unless both arms have requests.
    pub fn new(samples: &[Sample<'_>], options: &MetricsSettings, seed: u64) -> Option<Self> {
        let [constrained, control] =
            [Arm::Constrained, Arm::Control].map(|arm| Group::of_arm(arm).members(samples));
        if constrained.is_empty() || control.is_empty() {
            return None;
        }
        let difference = |metric: &Metric| {
            let [one, other] = [&constrained, &control].map(|members| -> Vec<f64> {
                let members = members.iter();
                members
                    .filter_map(|sample| metric.value(sample, options))
                    .collect()
            });
            Difference::from_samples(&one, &other, seed)
        };
        let compared: [&'static Metric; 3] = [&latencies::TTFT, &latencies::TPOT, &latencies::E2EL];
        let found = compared.into_iter();
        Some(Self(
            found
                .filter_map(|metric| Some((metric, difference(metric)?)))
                .collect(),
        ))
    }

    /// The difference of a latency, if it is computed.
    pub fn get(&self, metric: &Metric) -> Option<Difference> {
        let found = self.0.iter().find(|(own, _)| *own == metric);
        found.map(|(_, difference)| *difference)
    }
}
