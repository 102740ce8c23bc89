//! The latencies that vLLM prints.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::latency::Latency;
use super::registry::{Metric, latencies};
use sobench_statistics::Summary;

/// A latency that vLLM prints, in milliseconds.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum LatencyMetric {
    Ttft,
    Tpot,
    Itl,
    E2el,
}

impl LatencyMetric {
    /// All latencies, in the order of vLLM.
    pub const ALL: [Self; 4] = [Self::Ttft, Self::Tpot, Self::Itl, Self::E2el];

    /// The corresponding metric.
    pub fn metric(self) -> &'static Metric {
        match self {
            Self::Ttft => &latencies::TTFT,
            Self::Tpot => &latencies::TPOT,
            Self::Itl => &latencies::ITL,
            Self::E2el => &latencies::E2EL,
        }
    }

    /// The name in flags and keys.
    pub fn key(self) -> &'static str {
        self.metric().name.trim_end_matches("_ms")
    }

    /// The name in rows, such as `TTFT`.
    pub fn label(self) -> &'static str {
        self.metric().label
    }

    /// The name in headings.
    pub fn title(self) -> &'static str {
        match self {
            Self::Ttft => "Time to First Token",
            Self::Tpot => "Time per Output Token (excl. 1st token)",
            Self::Itl => "Inter-token Latency",
            Self::E2el => "End-to-end Latency",
        }
    }
}

impl Latency {
    /// The summary of a latency.
    pub fn summary(&self, metric: LatencyMetric) -> &Summary {
        self.metric_summary(metric.metric())
            .expect("Latency has every latency that vLLM prints")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::QueueMetric;

    #[test]
    fn unknown_metric_lists_the_known_ones() {
        assert_eq!(
            LatencyMetric::ALL.map(LatencyMetric::key),
            ["ttft", "tpot", "itl", "e2el"]
        );
        let error = "latency".parse::<QueueMetric>().unwrap_err();
        let hint =
            "hint: use ttft, tpot, itl, e2el, client_queue_time, e2el_including_client_queue";
        assert_eq!(
            error.to_string(),
            format!("unknown latency metric: latency\n{hint}")
        );
    }
}
