//! Latencies with two modes, such as answers with and without a queue. Mean and median then describe
//! few answers.

use serde::Serialize;

use super::drift::Drift;
use super::registry::{Metric, latencies};
use sobench_core::case::Arm;
use sobench_facts::Sample;
use sobench_plan::metrics::MetricsSettings;
use sobench_statistics::TwoModes;

/// The two modes of one latency in one arm.
#[derive(Clone, Copy, Debug, PartialEq, schemars::JsonSchema, Serialize)]
pub struct Modes {
    /// The name of the metric.
    pub metric: &'static str,
    pub arm: Arm,
    pub answers: usize,
    /// The share of the answers in the lower mode, in percent.
    pub low_percent: f64,
    /// The medians of both modes.
    pub low_ms: f64,
    pub high_ms: f64,
}

impl Modes {
    /// The modes of TTFT and TPOT in each arm. E2EL is left out, since it has as many modes as the
    /// answers have lengths, and so is a latency that drifts.
    pub fn all(samples: &[Sample<'_>], options: &MetricsSettings, drift: &[Drift]) -> Vec<Self> {
        let metrics = [&latencies::TTFT, &latencies::TPOT].into_iter();
        let steady = metrics.filter(|metric: &&Metric| {
            let mut drifting = drift.iter().filter(|drift| drift.is_drift);
            !drifting.any(|drift| drift.metric == metric.name)
        });
        steady
            .flat_map(|metric| Arm::ALL.map(|arm| (metric, arm)))
            .filter_map(|(metric, arm)| {
                let of_arm = samples.iter().filter(|sample| sample.arm() == arm);
                let values: Vec<f64> = of_arm
                    .filter_map(|sample| metric.value(sample, options))
                    .collect();
                let answers = values.len();
                let found = TwoModes::new(values)?;
                Some(Self {
                    metric: metric.name,
                    arm,
                    answers,
                    low_percent: found.low_percent,
                    low_ms: found.low,
                    high_ms: found.high,
                })
            })
            .collect()
    }

    /// The label of the metric.
    pub fn label(&self) -> &'static str {
        Metric::named(self.metric).map_or(self.metric, |metric| metric.label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_facts::testing::{TestRequest, test_request, with_samples};

    /// The modes of a run with these TTFTs, in milliseconds.
    fn modes(ttft_ms: impl Fn(u64) -> u64) -> Vec<Modes> {
        let run: Vec<TestRequest<'_>> = (0..60)
            .map(|index| {
                let sent = 1000 * index;
                let first = sent + ttft_ms(index);
                TestRequest {
                    sent: Some(sent),
                    due: sent,
                    chunks: vec![first, first + 100 + index],
                    end: Some(first + 300),
                    ..test_request()
                }
            })
            .collect();
        let options = MetricsSettings::default();
        with_samples(&run, |samples| {
            Modes::all(samples, &options, &Drift::all(samples, &options))
        })
    }

    #[test]
    fn both_modes_are_named_with_their_shares() {
        let spread = |index: u64| index * 7919 % 31 * 2;
        let found = modes(|index| {
            if index % 3 == 0 {
                20 + spread(index) / 8
            } else {
                200 + spread(index)
            }
        });
        let [modes] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(
            (modes.label(), modes.arm, modes.answers),
            ("TTFT", Arm::Constrained, 60)
        );
        assert!((modes.low_percent - 100.0 / 3.0).abs() < 1e-9, "{modes:?}");
        assert!((20.0..30.0).contains(&modes.low_ms), "{modes:?}");
        assert!((200.0..270.0).contains(&modes.high_ms), "{modes:?}");
    }

    #[test]
    fn one_mode_and_a_step_are_not_two_modes() {
        assert_eq!(modes(|index| 200 + index * 7919 % 31), []);
        assert_eq!(
            modes(|index| if index < 30 { 20 } else { 200 } + index * 7919 % 31),
            []
        );
    }
}
