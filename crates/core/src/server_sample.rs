//! What a server reports about itself: one reading of its metrics page.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A quantity that servers measure. The names are those of the run log.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Time to first token, in milliseconds.
    Ttft,
    /// Time in the server's queue, in milliseconds.
    QueueTime,
    /// Time to compile a constraint, in milliseconds.
    CompileTime,
    /// Time that a constraint waits for its compile, in milliseconds.
    CompileWait,
    /// Prompt tokens processed.
    PromptTokens,
    /// Output tokens generated.
    GeneratedTokens,
    /// Requests that lost their place in the batch.
    Preemptions,
    /// Drafts of speculative decoding.
    Drafts,
    DraftTokens,
    AcceptedTokens,
    /// Requests in the batch.
    Running,
    /// Requests that wait for the batch.
    Waiting,
    /// Waiting requests that cannot start yet for another reason than the capacity, such as a
    /// constraint that is not compiled.
    Deferred,
    /// Requests that wait for the compile of their constraint.
    CompileQueue,
    /// Share of the KV cache that is in use, in percent.
    CacheUsage,
    /// Accepted draft tokens, in percent of drafted ones.
    AcceptanceRate,
    /// Resident memory of the process, in bytes.
    Memory,
    /// Start of the process, in seconds since 1970.
    StartTime,
}

/// The type of a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuantityType {
    /// Only grows until the server restarts.
    Counter,
    Gauge,
    /// A counter of durations.
    Histogram,
}

impl Quantity {
    /// Every quantity in the order of tables.
    pub const ALL: [Self; 18] = [
        Self::Ttft,
        Self::QueueTime,
        Self::CompileTime,
        Self::CompileWait,
        Self::PromptTokens,
        Self::GeneratedTokens,
        Self::Preemptions,
        Self::Drafts,
        Self::DraftTokens,
        Self::AcceptedTokens,
        Self::Running,
        Self::Waiting,
        Self::Deferred,
        Self::CompileQueue,
        Self::CacheUsage,
        Self::AcceptanceRate,
        Self::Memory,
        Self::StartTime,
    ];

    /// Counter, gauge or histogram.
    pub fn quantity_type(self) -> QuantityType {
        match self {
            Self::Ttft | Self::QueueTime | Self::CompileTime | Self::CompileWait => {
                QuantityType::Histogram
            }
            Self::PromptTokens
            | Self::GeneratedTokens
            | Self::Preemptions
            | Self::Drafts
            | Self::DraftTokens
            | Self::AcceptedTokens => QuantityType::Counter,
            Self::Running
            | Self::Waiting
            | Self::Deferred
            | Self::CompileQueue
            | Self::CacheUsage
            | Self::AcceptanceRate
            | Self::Memory
            | Self::StartTime => QuantityType::Gauge,
        }
    }
}

/// Durations of a quantity since the start of the server.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct HistogramCounts {
    pub count: f64,
    /// In milliseconds.
    pub sum: f64,
    /// Upper bounds in milliseconds in ascending order, each with the number of durations up to it.
    /// The unlimited bucket is left out: its number is `count`. Empty if the server has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buckets: Vec<(f64, f64)>,
}

/// The page that samples are from.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct SampleSource {
    /// The page's address without user and password.
    pub page: String,
    /// The kind of server, by the names of its series; `None` if they are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The series of each quantity.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub series: BTreeMap<Quantity, String>,
}

/// One reading of a metrics page.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ServerSample {
    /// When the page had arrived, in nanoseconds since the start of the run; negative before it.
    pub offset_ns: i64,
    /// From the request for the page to its last byte.
    pub took_ns: u64,
    /// Left out where it equals that of the sample before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Box<SampleSource>>,
    /// Counters and gauges, over all engines and models of the server.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<Quantity, f64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub histograms: BTreeMap<Quantity, HistogramCounts>,
    /// Accepted draft tokens by their position in the draft.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepted_by_position: Vec<f64>,
    /// Series that the user named (`--server-metric`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub named: BTreeMap<String, f64>,
}

impl ServerSample {
    /// Whether the server restarted between an earlier sample and this one: a counter is lower, or
    /// the process has another start time.
    pub fn is_after_restart(&self, earlier: &Self) -> bool {
        let is_lower = self.values.iter().any(|(quantity, value)| {
            quantity.quantity_type() == QuantityType::Counter
                && earlier
                    .values
                    .get(quantity)
                    .is_some_and(|before| value < before)
        });
        let is_shorter = self.histograms.iter().any(|(quantity, counts)| {
            earlier
                .histograms
                .get(quantity)
                .is_some_and(|before| counts.count < before.count)
        });
        let start = |sample: &Self| sample.values.get(&Quantity::StartTime).copied();
        // Servers compute the start from the time since boot, with an error of parts of a second.
        let is_new = start(earlier)
            .zip(start(self))
            .is_some_and(|(before, now)| (now - before).abs() > 1.0);
        is_lower || is_shorter || is_new
    }

    /// Whether the page has nothing that is asked for.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && self.histograms.is_empty() && self.named.is_empty()
    }
}

/// Why a metrics page could not be read.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScrapeFault {
    NoAnswer(String),
    Status(u16),
    /// No whole page within this number of milliseconds.
    TimedOut(u64),
    /// More than this number of bytes.
    TooLarge(usize),
    /// The page is HTML.
    Html,
    /// No line of the page is a series.
    NoSeries,
    /// Series with values that are not finite or negative, which are left out: their number.
    NotFinite(usize),
}

impl fmt::Display for ScrapeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAnswer(why) => write!(f, "no answer ({why})"),
            Self::Status(status) => write!(f, "HTTP {status}"),
            Self::TimedOut(ms) => write!(f, "no whole page within {} s", *ms as f64 / 1000.0),
            Self::TooLarge(bytes) => write!(f, "the page exceeds {bytes} bytes"),
            Self::Html => f.write_str("the page is HTML, not Prometheus text"),
            Self::NoSeries => f.write_str("the page has no line in Prometheus' text format"),
            Self::NotFinite(1) => f.write_str("1 value is NaN, infinite or negative"),
            Self::NotFinite(count) => write!(f, "{count} values are NaN, infinite or negative"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(values: &[(Quantity, f64)]) -> ServerSample {
        ServerSample {
            values: values.iter().copied().collect(),
            ..ServerSample::default()
        }
    }

    #[test]
    fn every_quantity_is_in_the_list_under_its_name() {
        let names: Vec<_> = Quantity::ALL
            .map(|quantity| serde_json::to_string(&quantity).unwrap())
            .into();
        assert_eq!(names[1], "\"queue_time\"");
        let mut sorted = Quantity::ALL.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, Quantity::ALL);
    }

    #[test]
    fn restarts_are_seen_in_counters_and_start_times_and_not_in_gauges() {
        let before = sample(&[
            (Quantity::GeneratedTokens, 10.0),
            (Quantity::Running, 3.0),
            (Quantity::StartTime, 1000.0),
        ]);
        let idle = sample(&[
            (Quantity::GeneratedTokens, 10.0),
            (Quantity::Running, 0.0),
            (Quantity::StartTime, 1000.02),
        ]);
        assert!(!idle.is_after_restart(&before));
        let fewer = sample(&[(Quantity::GeneratedTokens, 9.0)]);
        assert!(fewer.is_after_restart(&before));
        let younger = sample(&[
            (Quantity::GeneratedTokens, 20.0),
            (Quantity::StartTime, 1100.0),
        ]);
        assert!(younger.is_after_restart(&before));
        assert!(!sample(&[]).is_after_restart(&before), "nothing is known");
        let counts = |count: f64| ServerSample {
            histograms: [(
                Quantity::Ttft,
                HistogramCounts {
                    count,
                    ..HistogramCounts::default()
                },
            )]
            .into(),
            ..ServerSample::default()
        };
        assert!(counts(1.0).is_after_restart(&counts(2.0)));
    }

    #[test]
    fn samples_round_trip_and_leave_out_what_is_unknown() {
        let whole = ServerSample {
            offset_ns: -5,
            took_ns: 1_000,
            source: Some(Box::new(SampleSource {
                page: "http://127.0.0.1:1/metrics".to_owned(),
                server: Some("vllm".to_owned()),
                series: [(Quantity::Running, "vllm:num_requests_running".to_owned())].into(),
            })),
            values: [(Quantity::Running, 2.0)].into(),
            histograms: [(
                Quantity::Ttft,
                HistogramCounts {
                    count: 2.0,
                    sum: 30.5,
                    buckets: vec![(10.0, 1.0), (25.0, 2.0)],
                },
            )]
            .into(),
            accepted_by_position: vec![3.0, 1.0],
            named: [("x".to_owned(), 0.5)].into(),
        };
        let text = serde_json::to_string(&whole).unwrap();
        assert_eq!(serde_json::from_str::<ServerSample>(&text).unwrap(), whole);
        assert_eq!(
            serde_json::to_string(&ServerSample::default()).unwrap(),
            r#"{"offset_ns":0,"took_ns":0}"#
        );
    }
}
