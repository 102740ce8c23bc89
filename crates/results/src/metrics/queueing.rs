//! Latencies of the wait before sending, with the names of `vllm bench serve`.

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::metrics::LatencyMetric;
use crate::metrics::latency::{Latency, RequestLatency};
use sobench_core::error::Error;
use sobench_statistics::Summary;

/// A latency that includes the wait before sending, as a value of the percentile metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueMetric {
    /// Due to sent: vLLM's wait for a slot under the concurrency cap.
    ClientQueueTime,
    /// Due to last content.
    E2elIncludingClientQueue,
}

impl QueueMetric {
    /// All metrics, in the order of vLLM.
    pub const ALL: [Self; 2] = [Self::ClientQueueTime, Self::E2elIncludingClientQueue];

    /// The name in flags and keys.
    pub fn key(self) -> &'static str {
        match self {
            Self::ClientQueueTime => "client_queue_time",
            Self::E2elIncludingClientQueue => "e2el_including_client_queue",
        }
    }

    /// The name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClientQueueTime => "Client Queue Time",
            Self::E2elIncludingClientQueue => "E2EL incl. Client Queue",
        }
    }

    /// The name in headings.
    pub fn title(self) -> &'static str {
        match self {
            Self::ClientQueueTime => "Client-side Queueing",
            Self::E2elIncludingClientQueue => "Queue-inclusive End-to-end Latency",
        }
    }

    /// The summary of a run. The wait covers all sent requests.
    pub fn summary(self, latency: &Latency) -> &Summary {
        match self {
            Self::ClientQueueTime => &latency.schedule_lag_ms,
            Self::E2elIncludingClientQueue => &latency.e2el_from_due_ms,
        }
    }

    /// The value of one request, in milliseconds.
    pub fn value(self, latency: &RequestLatency) -> Option<f64> {
        match self {
            Self::ClientQueueTime => latency.schedule_lag_ms,
            Self::E2elIncludingClientQueue => latency.e2el_from_due_ms,
        }
    }
}

impl FromStr for QueueMetric {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|metric| metric.key() == text)
            .ok_or_else(|| {
                let names = LatencyMetric::ALL
                    .map(LatencyMetric::key)
                    .into_iter()
                    .chain(Self::ALL.map(Self::key));
                Error::usage(format!("unknown latency metric: {text}"))
                    .hint(format!("use {}", names.collect::<Vec<_>>().join(", ")))
            })
    }
}
