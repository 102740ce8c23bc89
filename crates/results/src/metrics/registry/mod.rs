//! The registry of metrics: name, unit, direction of improvement, and definition of each metric.
//!
//! Reports, files, comparisons, baselines, gates and the matrix iterate over [`Metric::ALL`]. A new
//! metric is a definition in `rates.rs`, `latencies.rs`, `totals.rs` or `server.rs` and a line in the
//! list.
//! [`Values`] are the metrics of one run. A [`Figure`] is a single number: a rate, a total, or a
//! statistic of a distribution.

mod figure;
mod group;
pub mod latencies;
pub mod rates;
mod request_values;
mod rows;
pub mod server;
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used)]
pub mod testing;
pub mod totals;
mod values;

use std::cell::OnceCell;
use std::fmt;

pub use self::figure::{Figure, Stat};
pub use self::group::{Group, GroupValues, groups_of_run, kind};
pub use self::request_values::{RequestValues, ValueColumns};
pub use self::rows::{Page, ROW_COLUMNS, rows};
pub use self::values::{PerSecond, Value, Values};
use super::pooled::Pooled;
use super::server::ServerMetrics;
use super::session_ends::{self, SessionEnd};
use super::throughput::{Counts, Peaks};
use sobench_core::case::Arm;
use sobench_core::observation::Outcome;
use sobench_facts::Sample;
use sobench_plan::metrics::MetricsSettings;
use sobench_statistics::{Rate, Summary, mean};

/// A metric.
pub struct Metric {
    /// The key in files and in rules such as `--require`.
    pub name: &'static str,
    /// The label in tables, without the unit.
    pub label: &'static str,
    pub unit: Unit,
    pub better: Better,
    pub kind: MetricKind,
    /// The arm whose requests count; `None` if those of every arm do.
    pub arm: Option<Arm>,
    /// The arms that tables show it of beside its own.
    pub also_of: &'static [Arm],
    /// When it has a row in tables.
    pub shown: Shown,
    /// What a rate is of, in tables.
    pub of_what: &'static str,
    /// vLLM's names of a latency that it prints.
    pub vllm: Option<VllmNames>,
}

/// When a metric has a row in tables.
#[derive(Clone, Copy)]
pub enum Shown {
    /// With or without a value.
    Always,
    /// With a value.
    Known,
    /// With a value above zero.
    AboveZero,
    /// With another number than a metric.
    Unlike(&'static Metric),
    /// With a number of another metric above zero.
    With(&'static Metric),
    /// In files only: pages use it for other rows.
    InFiles,
}

/// vLLM's names of a latency that `--percentile-metrics` selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VllmNames {
    /// In flags and keys.
    pub key: &'static str,
    /// In rows.
    pub row: &'static str,
    /// In headings.
    pub title: &'static str,
    /// Whether it includes the wait before sending, which is shown on request only.
    pub queued: bool,
}

/// The definition of a metric.
#[derive(Clone, Copy)]
pub enum MetricKind {
    /// A share of requests; `None` for a request that does not count.
    Rate(fn(&Sample<'_>) -> Option<bool>),
    /// One value per request, in the metric's unit; `None` if the request has none. The values of
    /// metrics that include the wait before sending (`queued`) are correlated within a run and
    /// cannot be resampled.
    Distribution {
        /// Of answers only, complete or truncated at the token limit.
        of_answers: bool,
        queued: bool,
        value: fn(&Sample<'_>, &MetricsSettings) -> Option<f64>,
    },
    /// Several values per answer, pooled over all answers.
    Pooled(fn(&Sample<'_>, &MetricsSettings) -> Vec<f64>),
    /// A count per second of the run.
    PerSecond(fn(&RunSamples<'_>) -> Option<u64>),
    /// A single value of the run.
    Total(fn(&RunSamples<'_>) -> Option<f64>),
}

/// The unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Percent,
    Milliseconds,
    Seconds,
    Count,
    RequestsPerSecond,
    TokensPerSecond,
    ChunksPerSecond,
    Bytes,
}

/// The direction of improvement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    Up,
    Down,
    Neither,
}

/// The requests of a group, and what their figures depend on.
pub struct RunSamples<'r> {
    /// The requests in plan order.
    pub samples: &'r [&'r Sample<'r>],
    pub duration_ns: u64,
    pub options: &'r MetricsSettings,
    /// The arm of all of them, if it is selected: rates are of this one.
    pub arm: Option<Arm>,
    /// What the server reports about itself; `None` if it does not, and for a part of the run.
    pub server: Option<&'r ServerMetrics>,
    counts: OnceCell<Counts>,
    peaks: OnceCell<Peaks>,
    session_ends: OnceCell<Vec<SessionEnd>>,
}

impl<'r> RunSamples<'r> {
    /// A group of a run of `duration_ns`.
    pub fn new(
        samples: &'r [&'r Sample<'r>],
        duration_ns: u64,
        options: &'r MetricsSettings,
        server: Option<&'r ServerMetrics>,
    ) -> Self {
        Self {
            samples,
            duration_ns,
            options,
            arm: None,
            server,
            counts: OnceCell::new(),
            peaks: OnceCell::new(),
            session_ends: OnceCell::new(),
        }
    }

    /// With the arm of all requests.
    #[must_use]
    pub fn of_arm(self, arm: Option<Arm>) -> Self {
        Self { arm, ..self }
    }

    /// The requests with an answer, complete or truncated at the token limit.
    pub fn answers(&self) -> impl Iterator<Item = &'r Sample<'r>> {
        let samples = self.samples.iter().copied();
        samples.filter(|sample| sample.outcome().is_answer())
    }

    fn counts(&self) -> &Counts {
        self.counts
            .get_or_init(|| Counts::new(&self.answers().collect::<Vec<_>>(), self.options))
    }

    fn peaks(&self) -> &Peaks {
        self.peaks
            .get_or_init(|| Peaks::new(&self.answers().collect::<Vec<_>>(), self.options.answers))
    }

    fn session_ends(&self) -> &[SessionEnd] {
        self.session_ends
            .get_or_init(|| session_ends::ends(self.samples))
    }
}

impl Metric {
    /// Every metric in table order.
    pub const ALL: &'static [&'static Self] = &[
        &rates::CORRECT_RATE,
        &rates::COMPLIANCE,
        &rates::COVERAGE,
        &rates::VLLM_CORRECT_RATE,
        &rates::ACCURACY,
        &rates::UNPARSED_RATE,
        &rates::RIGHT_CALLS,
        &rates::CALL_VALIDITY,
        &rates::MISSED_CALLS,
        &rates::FORBIDDEN_CALLS,
        &rates::TRIGGER_AGREEMENT,
        &rates::TOOL_CALL_ERROR_RATE,
        &rates::LEAKED_MARKUP_RATE,
        &rates::TRUNCATED_RATE,
        &rates::WHOLE_TRUNCATED_RATE,
        &rates::NO_FINISH_REASON_RATE,
        &rates::WHITE_SPACE_RATE,
        &rates::REFUSED_RATE,
        &rates::OVERLOADED_RATE,
        &rates::FAILED_RATE,
        &rates::CANCELLED_RATE,
        &rates::NOT_SENT_RATE,
        &rates::NOT_JUDGED_RATE,
        &rates::VALID_IF_STRIPPED_RATE,
        &rates::REASONED,
        &rates::THINKING_SUPPRESSED,
        &rates::JSON_IN_REASONING,
        &rates::END_MARKER,
        &rates::THINKING_BUDGET,
        &rates::STREAM_PARITY,
        &rates::DEPARTURE_RATE,
        &rates::SWAPPED_RATE,
        &rates::MASK_OFF_RATE,
        &rates::RESTARTED_RATE,
        &rates::FAILED_OPEN_RATE,
        &latencies::TTFT,
        &latencies::TPOT,
        &latencies::ITL,
        &latencies::E2EL,
        &latencies::TTFT_REASONING,
        &latencies::TTFT_ANSWER,
        &latencies::TTFT_CONTENT,
        &latencies::TTFT_CALL,
        &latencies::TTFT_ARGUMENTS,
        &latencies::ITL_PER_TOKEN,
        &latencies::ITL_COUNTED,
        &latencies::ITL_REASONING,
        &latencies::ITL_CONTENT,
        &latencies::ITL_CALL,
        &latencies::DEAD_AIR,
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
        &totals::REQUESTS,
        &totals::COMPLETED,
        &totals::FAILED,
        &totals::CANCELLED,
        &totals::ABANDONED,
        &totals::TRUNCATED,
        &totals::NEVER_SENT,
        &totals::EMPTY_ANSWERS,
        &totals::CHUNKS,
        &totals::MULTI_TOKEN_CHUNK_ANSWERS,
        &totals::SINGLE_CHUNK_ANSWERS,
        &totals::UNSTREAMED_ANSWERS,
        &totals::TOKENS_PER_STEP,
        &totals::REASONED_ANSWERS,
        &totals::REASONING_ONLY_ANSWERS,
        &totals::LATE_REASONING,
        &totals::LATE_CONTENT,
        &totals::LATE_ARGUMENTS,
        &totals::TRIGGER_F1,
        &totals::SESSION_VALID_RATE,
        &totals::SESSION_FINISHED_RATE,
        &totals::SESSION_RIGHT_RATE,
        &totals::INPUT_TOKENS,
        &totals::OUTPUT_TOKENS,
        &totals::DURATION,
        &server::TTFT,
        &server::TTFT_P99,
        &server::QUEUE_TIME,
        &server::PROMPT_TOKENS,
        &server::GENERATED_TOKENS,
        &server::RUNNING_PEAK,
        &server::WAITING_PEAK,
        &server::DEFERRED_PEAK,
        &server::CACHE_USAGE_PEAK,
        &server::PREEMPTIONS,
        &server::COMPILE_TIME,
        &server::COMPILE_WAIT,
        &server::COMPILE_QUEUE_PEAK,
        &server::DRAFT_ACCEPTANCE,
        &server::MEMORY_PEAK,
        &server::MEMORY_GROWTH,
        &server::MEMORY_PER_SCHEMA,
        &server::RESTARTS,
    ];

    /// A metric of every arm that has a row if it has a value.
    const fn new(
        name: &'static str,
        label: &'static str,
        unit: Unit,
        better: Better,
        kind: MetricKind,
    ) -> Self {
        Self {
            name,
            label,
            unit,
            better,
            kind,
            arm: None,
            also_of: &[],
            shown: Shown::Known,
            of_what: "",
            vllm: None,
        }
    }

    /// Every metric but those for files only.
    pub fn in_tables() -> impl Iterator<Item = &'static Self> {
        let all = Self::ALL.iter().copied();
        all.filter(|metric| !matches!(metric.shown, Shown::InFiles))
    }

    /// Finds a metric by name.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().copied().find(|metric| metric.name == name)
    }

    /// Its index in [`Metric::ALL`].
    pub fn index(&self) -> usize {
        Self::ALL
            .iter()
            .position(|metric| std::ptr::eq(*metric, self))
            .unwrap_or(Self::ALL.len())
    }

    /// Whether the server reports it on its metrics page.
    pub fn is_from_server(&self) -> bool {
        self.name.starts_with("server.")
    }

    /// The latencies that vLLM prints, in its order.
    pub fn of_vllm() -> impl Iterator<Item = (&'static Self, VllmNames)> {
        let printed: [&'static Self; 6] = [
            &latencies::TTFT,
            &latencies::TPOT,
            &latencies::ITL,
            &latencies::E2EL,
            &latencies::SCHEDULE_LAG,
            &latencies::E2EL_FROM_DUE,
        ];
        let printed = printed.into_iter();
        printed.filter_map(|metric| Some((metric, metric.vllm?)))
    }

    /// Whether it has a row in the tables of a group with these values.
    pub fn is_shown(&self, values: &Values) -> bool {
        let number = |metric: &Self| match values.get(metric) {
            Some(Value::Rate(rate)) => Some(rate.hits as f64),
            _ => values.number(metric),
        };
        match self.shown {
            Shown::Always => true,
            Shown::Known => values.get(self).is_some(),
            Shown::AboveZero => number(self).is_some_and(|number| number > 0.0),
            Shown::Unlike(other) => {
                number(self).unwrap_or_default() != number(other).unwrap_or_default()
            }
            Shown::With(other) => number(other).is_some_and(|number| number > 0.0),
            Shown::InFiles => false,
        }
    }

    /// Of the requests of another arm, or of every arm.
    const fn of_arm(self, arm: Option<Arm>) -> Self {
        Self { arm, ..self }
    }

    /// With rows for other arms.
    const fn also_of(self, also_of: &'static [Arm]) -> Self {
        Self { also_of, ..self }
    }

    /// With another condition for its row.
    const fn shown(self, shown: Shown) -> Self {
        Self { shown, ..self }
    }

    /// With what it is of.
    const fn of_what(self, of_what: &'static str) -> Self {
        Self { of_what, ..self }
    }

    /// Whether it is a share of requests.
    pub fn is_rate(&self) -> bool {
        matches!(self.kind, MetricKind::Rate(_))
    }

    /// Whether it has mean, median and percentiles.
    pub fn is_distribution(&self) -> bool {
        matches!(
            self.kind,
            MetricKind::Distribution { .. } | MetricKind::Pooled(_)
        )
    }

    /// Whether an answer, or a request without one, counts in a distribution with one value per
    /// request.
    pub fn counts(&self, answered: bool) -> bool {
        let of_answers = matches!(
            self.kind,
            MetricKind::Distribution {
                of_answers: true,
                ..
            }
        );
        answered || !of_answers
    }

    /// Whether a request of any arm is a hit; `None` if the metric says nothing of it, or
    /// is not a rate.
    pub fn hit(&self, sample: &Sample<'_>) -> Option<bool> {
        match self.kind {
            // An abandoned request says nothing about the server's answer.
            MetricKind::Rate(_) if *sample.outcome() == Outcome::Abandoned => None,
            MetricKind::Rate(hit) => hit(sample),
            _ => None,
        }
    }

    /// The value of a request, or the mean of its pooled values; `None` if it has none, or the
    /// metric is not a distribution.
    pub fn value(&self, sample: &Sample<'_>, options: &MetricsSettings) -> Option<f64> {
        match self.kind {
            MetricKind::Distribution { value, .. } => {
                value(sample, options).filter(|_| self.counts(sample.outcome().is_answer()))
            }
            MetricKind::Pooled(values) if sample.outcome().is_answer() => {
                mean(&values(sample, options))
            }
            _ => None,
        }
    }

    /// Every value of a request in a distribution.
    pub fn values(&self, sample: &Sample<'_>, options: &MetricsSettings) -> Vec<f64> {
        match self.kind {
            MetricKind::Pooled(values) if sample.outcome().is_answer() => values(sample, options),
            MetricKind::Pooled(_) => Vec::new(),
            _ => self.value(sample, options).into_iter().collect(),
        }
    }

    /// The rate over the requests of its arm, as [`Figure::rate`].
    pub fn rate<'s, 'a: 's>(
        &'static self,
        samples: impl IntoIterator<Item = &'s Sample<'a>>,
    ) -> Option<Rate> {
        Figure::new(self).rate(samples)
    }

    /// The distribution over requests; empty if the metric is not a distribution.
    pub fn summary(&self, samples: &[&Sample<'_>], options: &MetricsSettings) -> Summary {
        match self.kind {
            MetricKind::Distribution { .. } => {
                let values = samples
                    .iter()
                    .filter_map(|sample| self.value(sample, options))
                    .collect();
                Summary::new(values, &options.percentiles)
            }
            _ => self
                .pooled(samples.iter().copied(), options)
                .map_or_else(Summary::default, |pooled| {
                    pooled.summary(&options.percentiles)
                }),
        }
    }

    /// The pooled values of all answers; `None` if the metric is not pooled.
    pub fn pooled<'s, 'a: 's>(
        &self,
        samples: impl IntoIterator<Item = &'s Sample<'a>>,
        options: &MetricsSettings,
    ) -> Option<Pooled> {
        let MetricKind::Pooled(values) = self.kind else {
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

impl Unit {
    /// The symbol after a value; empty for counts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Percent => "%",
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
            Self::Count => "",
            Self::RequestsPerSecond => "req/s",
            Self::TokensPerSecond => "tok/s",
            Self::ChunksPerSecond => "chunks/s",
            Self::Bytes => "B",
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
        self.index().cmp(&other.index())
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
        for (index, metric) in Metric::ALL.iter().enumerate() {
            assert_eq!(
                (metric.index(), Metric::named(metric.name)),
                (index, Some(*metric))
            );
            let same_name = Metric::ALL
                .iter()
                .filter(|other| other.name == metric.name || other.label == metric.label);
            assert_eq!(same_name.count(), 1, "{metric:?}");
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
