//! The metrics of a run, each defined once: name, unit, which direction is better, and how it is
//! made from the requests.
//!
//! [`Metric::ALL`] is the list. Reports, files, comparisons, baselines, gates and the matrix
//! iterate over it, so that a new metric is a definition in `rates.rs`, `latencies.rs` or
//! `totals.rs` and a line in the list. [`Values`] are the metrics of one run, [`Figure`] is a
//! number of one: a rate, a total, or a statistic of a distribution.

mod figure;
pub mod latencies;
pub mod rates;
mod request_values;
mod rows;
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used)]
pub mod testing;
pub mod totals;
mod values;

use std::fmt;

pub use self::figure::{Figure, Stat};
pub use self::request_values::RequestValues;
pub use self::rows::{Page, ROW_COLUMNS, rows};
pub use self::values::{PerSecond, Value, Values};
use super::pooled::Pooled;
use super::{ArmMetrics, MetricsOptions, Sample};
use sobench_core::case::Arm;
use sobench_statistics::{Rate, Summary, mean};

/// One metric.
pub struct Metric {
    /// The key in files and in rules such as `--require`.
    pub name: &'static str,
    /// The name in tables, without the unit.
    pub label: &'static str,
    pub unit: Unit,
    pub better: Better,
    pub kind: Kind,
}

/// How a metric is made.
#[derive(Clone, Copy)]
pub enum Kind {
    /// A share of requests: whether a request is a hit; `None` for one that does not count.
    Rate {
        among: Among,
        hit: fn(&Sample<'_>) -> Option<bool>,
    },
    /// One value a request, in the metric's unit; `None` where the request has none. With the wait
    /// before sending in it (`queued`), the values of a run rise and fall together, so that
    /// resampling them tells nothing of chance.
    Distribution {
        among: Among,
        queued: bool,
        value: fn(&Sample<'_>, &MetricsOptions) -> Option<f64>,
    },
    /// Several values an answer, those of all answers pooled.
    Pooled(fn(&Sample<'_>, &MetricsOptions) -> Vec<f64>),
    /// A count, per second of the run.
    PerSecond(fn(&RunSamples<'_>) -> Option<u64>),
    /// One value of the run.
    Total(fn(&RunSamples<'_>) -> Option<f64>),
}

/// Which requests a metric is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Among {
    Every,
    /// Requests that got an answer, whole or cut at the token limit.
    Answers,
    Arm(Arm),
}

/// What values are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Percent,
    Milliseconds,
    Seconds,
    Count,
    RequestsPerSecond,
    TokensPerSecond,
    ChunksPerSecond,
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    Up,
    Down,
    Neither,
}

/// What totals are made from.
pub struct RunSamples<'r> {
    /// In plan order.
    pub samples: &'r [&'r Sample<'r>],
    pub duration_ns: u64,
    pub options: &'r MetricsOptions,
    /// What was already computed of all requests.
    pub overall: &'r ArmMetrics,
}

impl Metric {
    /// Every metric, in the order of tables.
    pub const ALL: &'static [&'static Self] = &[
        &rates::CORRECT_RATE,
        &rates::COMPLIANCE,
        &rates::COVERAGE,
        &rates::CONTROL_RATE,
        &rates::VLLM_CORRECT_RATE,
        &rates::RIGHT_CALLS,
        &rates::TRUNCATED_RATE,
        &rates::WHITE_SPACE_RATE,
        &rates::REFUSED_RATE,
        &rates::OVERLOADED_RATE,
        &rates::FAILED_RATE,
        &rates::CANCELLED_RATE,
        &rates::NOT_SENT_RATE,
        &rates::NOT_JUDGED_RATE,
        &latencies::TTFT,
        &latencies::TPOT,
        &latencies::ITL,
        &latencies::E2EL,
        &latencies::TTFT_REASONING,
        &latencies::TTFT_ANSWER,
        &latencies::ITL_PER_TOKEN,
        &latencies::ITL_COUNTED,
        &latencies::TTFT_FROM_DUE,
        &latencies::E2EL_FROM_DUE,
        &latencies::SCHEDULE_LAG,
        &totals::REQUEST_THROUGHPUT,
        &totals::OUTPUT_THROUGHPUT,
        &totals::TOTAL_TOKEN_THROUGHPUT,
        &totals::VALID_THROUGHPUT,
        &totals::REQUEST_GOODPUT,
        &totals::VALID_GOODPUT,
        &totals::MAX_OUTPUT_TOKENS,
        &totals::MAX_OUTPUT_CHUNKS,
        &totals::MAX_CONCURRENT_REQUESTS,
        &totals::MAX_IN_FLIGHT,
        &totals::COMPLETED,
        &totals::FAILED,
        &totals::CANCELLED,
        &totals::TRUNCATED,
        &totals::NEVER_SENT,
        &totals::EMPTY_ANSWERS,
        &totals::INPUT_TOKENS,
        &totals::OUTPUT_TOKENS,
        &totals::DURATION,
    ];

    /// The metric of a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().copied().find(|metric| metric.name == name)
    }

    /// Its place in [`Metric::ALL`].
    pub fn place(&self) -> usize {
        Self::ALL
            .iter()
            .position(|metric| std::ptr::eq(*metric, self))
            .unwrap_or(Self::ALL.len())
    }

    /// The label with the unit.
    pub fn title(&self) -> String {
        match self.unit {
            Unit::Count => self.label.to_owned(),
            unit => format!("{} ({})", self.label, unit.name()),
        }
    }

    /// Whether it is a share of requests.
    pub fn is_rate(&self) -> bool {
        matches!(self.kind, Kind::Rate { .. })
    }

    /// Whether it has mean, median and percentiles.
    pub fn is_distribution(&self) -> bool {
        matches!(self.kind, Kind::Distribution { .. } | Kind::Pooled(_))
    }

    /// Whether a request is a hit; `None` where it does not count, or the metric is no rate.
    pub fn hit(&self, sample: &Sample<'_>) -> Option<bool> {
        match self.kind {
            Kind::Rate { among, hit } => hit(sample).filter(|_| among.has(sample)),
            _ => None,
        }
    }

    /// The value of a request, of pooled ones their mean; `None` where it has none, or the metric
    /// is no distribution.
    pub fn value(&self, sample: &Sample<'_>, options: &MetricsOptions) -> Option<f64> {
        match self.kind {
            Kind::Distribution { among, value, .. } => {
                value(sample, options).filter(|_| among.has(sample))
            }
            Kind::Pooled(values) if sample.outcome().is_answer() => mean(&values(sample, options)),
            _ => None,
        }
    }

    /// The rate over some requests; `None` where none counts, or the metric is no rate.
    pub fn rate<'s, 'a: 's>(
        &self,
        samples: impl IntoIterator<Item = &'s Sample<'a>>,
    ) -> Option<Rate> {
        let (mut hits, mut of) = (0, 0);
        for hit in samples.into_iter().filter_map(|sample| self.hit(sample)) {
            of += 1;
            hits += usize::from(hit);
        }
        Rate::of(hits, of)
    }

    /// The distribution over some requests; empty where the metric is no distribution.
    pub fn summary(&self, samples: &[&Sample<'_>], options: &MetricsOptions) -> Summary {
        match self.kind {
            Kind::Distribution { .. } => {
                let values = samples
                    .iter()
                    .filter_map(|sample| self.value(sample, options))
                    .collect();
                Summary::of(values, &options.percentiles)
            }
            _ => self
                .pooled(samples.iter().copied(), options)
                .map_or_else(Summary::default, |pooled| {
                    pooled.sum_up(&options.percentiles)
                }),
        }
    }

    /// The values of all answers; `None` where the metric is no pooled one.
    pub fn pooled<'s, 'a: 's>(
        &self,
        samples: impl IntoIterator<Item = &'s Sample<'a>>,
        options: &MetricsOptions,
    ) -> Option<Pooled> {
        let Kind::Pooled(values) = self.kind else {
            return None;
        };
        let mut pooled = Pooled::default();
        let answers = samples
            .into_iter()
            .filter(|sample| sample.outcome().is_answer());
        answers.for_each(|sample| pooled.add(values(sample, options)));
        Some(pooled)
    }
}

impl Among {
    fn has(self, sample: &Sample<'_>) -> bool {
        self.counts(Some(sample.arm()), sample.outcome().is_answer())
    }

    /// Whether a request of an arm, answered or not, counts.
    pub fn counts(self, arm: Option<Arm>, answered: bool) -> bool {
        match self {
            Self::Every => true,
            Self::Answers => answered,
            Self::Arm(own) => arm == Some(own),
        }
    }
}

impl Unit {
    /// As it stands behind a value; empty for counts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Percent => "%",
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
            Self::Count => "",
            Self::RequestsPerSecond => "req/s",
            Self::TokensPerSecond => "tok/s",
            Self::ChunksPerSecond => "chunks/s",
        }
    }
}

impl PartialEq for Metric {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Metric {}

impl PartialOrd for Metric {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Metric {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.place().cmp(&other.place())
    }
}

impl fmt::Debug for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_labels_are_unique() {
        for (place, metric) in Metric::ALL.iter().enumerate() {
            assert_eq!(
                (metric.place(), Metric::named(metric.name)),
                (place, Some(*metric))
            );
            let of_name = Metric::ALL
                .iter()
                .filter(|other| other.name == metric.name || other.label == metric.label);
            assert_eq!(of_name.count(), 1, "{metric:?}");
        }
    }

    #[test]
    fn names_of_distributions_end_in_their_unit() {
        for metric in Metric::ALL.iter().filter(|metric| metric.is_distribution()) {
            assert!(
                metric.unit == Unit::Milliseconds && metric.name.ends_with("_ms"),
                "{metric:?}"
            );
        }
    }
}
