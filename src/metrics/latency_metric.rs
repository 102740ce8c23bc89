//! The latencies that vLLM prints, by name.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::latency::Latency;
use super::registry::{Metric, latencies};
use crate::error::Error;
use crate::statistics::Summary;

/// One of the latencies that vLLM prints, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LatencyMetric {
    Ttft,
    Tpot,
    Itl,
    E2el,
}

impl LatencyMetric {
    /// In the order in which vLLM prints them.
    pub const ALL: [Self; 4] = [Self::Ttft, Self::Tpot, Self::Itl, Self::E2el];

    /// The metric that it is.
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
        match self {
            Self::Ttft => "ttft",
            Self::Tpot => "tpot",
            Self::Itl => "itl",
            Self::E2el => "e2el",
        }
    }

    /// The name in rows: `TTFT`.
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
    /// The summary that a metric's name stands for.
    pub fn summary(&self, metric: LatencyMetric) -> &Summary {
        match metric {
            LatencyMetric::Ttft => &self.ttft_ms,
            LatencyMetric::Tpot => &self.tpot_ms,
            LatencyMetric::Itl => &self.itl_ms,
            LatencyMetric::E2el => &self.e2el_ms,
        }
    }
}

impl FromStr for LatencyMetric {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|it| it.key() == text)
            .ok_or_else(|| Error::usage(format!("unknown latency metric: {text}")).hint("use ttft, tpot, itl or e2el"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_metric_names_the_known_ones() {
        for metric in LatencyMetric::ALL {
            assert_eq!(metric.key().parse::<LatencyMetric>().unwrap(), metric);
        }
        let error = "latency".parse::<LatencyMetric>().unwrap_err();
        assert_eq!(error.to_string(), "unknown latency metric: latency\nhint: use ttft, tpot, itl or e2el");
    }
}
