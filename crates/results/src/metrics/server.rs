//! What the server reports about itself over a run, from the samples of its metrics page.

mod difference;
mod histogram;
mod memory;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

pub use self::difference::ServerDifference;
pub use self::histogram::HistogramSummary;
pub use self::memory::MemoryGrowth;
use super::TokenSources;
use super::registry::Values;
use sobench_core::server_sample::{
    HistogramCounts, Quantity, QuantityType, SampleSource, ServerSample,
};
use sobench_facts::Sample;
use sobench_statistics::mean;

/// Bytes of a MiB.
pub const MIB: f64 = (1 << 20) as f64;

/// A server's own metrics over a run.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct ServerMetrics {
    pub source: SampleSource,
    pub samples: usize,
    /// Number of times that the server restarted between two samples.
    pub restarts: usize,
    /// From the first sample to the last.
    pub span_s: f64,
    /// The shortest time to read the page: more than a round trip.
    pub shortest_scrape_ms: f64,
    /// Differences of histograms between the first sample and the last.
    pub durations: BTreeMap<Quantity, HistogramSummary>,
    /// Differences of counters.
    pub counts: BTreeMap<Quantity, f64>,
    pub gauges: BTreeMap<Quantity, GaugeSummary>,
    /// Series that the user named.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub named: BTreeMap<String, GaugeSummary>,
    /// Resident memory over the number of distinct constraints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_growth: Option<MemoryGrowth>,
    /// What the client measures otherwise.
    #[serde(serialize_with = "as_sentences")]
    #[schemars(with = "Vec<String>")]
    pub differences: Vec<ServerDifference>,
    /// The gauges over time, for charts.
    #[serde(skip)]
    pub points: Vec<ServerPoint>,
}

/// The levels of a gauge.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct GaugeSummary {
    pub first: f64,
    pub last: f64,
    pub lowest: f64,
    /// Unknown where the mean is.
    pub peak: Option<f64>,
    /// Over the samples during the run. Without one it is unknown, except for what outlasts requests:
    /// there it is over all samples.
    pub mean: Option<f64>,
}

/// The gauges of a sample.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerPoint {
    pub offset_ns: i64,
    pub gauges: BTreeMap<Quantity, f64>,
}

impl ServerMetrics {
    /// `None` with fewer than two samples. `duration_ns` is that of the run.
    pub fn new(server: &[ServerSample], samples: &[Sample<'_>], duration_ns: u64) -> Option<Self> {
        let [first, .., last] = server else {
            return None;
        };
        let restarts_before = restarts_before(server);
        let source = server.iter().find_map(|sample| sample.source.as_deref());
        let took_ns = server.iter().map(|sample| sample.took_ns).min();
        let mut metrics = Self {
            source: source.cloned().unwrap_or_default(),
            samples: server.len(),
            restarts: restarts_before.last().copied().unwrap_or_default(),
            span_s: (last.offset_ns - first.offset_ns) as f64 / 1e9,
            shortest_scrape_ms: took_ns.unwrap_or_default() as f64 / 1e6,
            memory_growth: MemoryGrowth::new(server, samples),
            points: server.iter().map(ServerPoint::new).collect(),
            ..Self::default()
        };
        for quantity in Quantity::ALL {
            match quantity.quantity_type() {
                QuantityType::Counter => {
                    let count = grown(server, &restarts_before, |sample| {
                        sample.values.get(&quantity).copied()
                    });
                    metrics.counts.extend(count.map(|count| (quantity, count)));
                }
                QuantityType::Gauge => {
                    let gauge = GaugeSummary::new(
                        server,
                        duration_ns,
                        outlasts_requests(quantity),
                        |sample| sample.values.get(&quantity).copied(),
                    );
                    metrics.gauges.extend(gauge.map(|gauge| (quantity, gauge)));
                }
                QuantityType::Histogram => {
                    let summary = difference_of_histograms(server, &restarts_before, quantity)
                        .and_then(|counts| HistogramSummary::new(&counts));
                    metrics
                        .durations
                        .extend(summary.map(|summary| (quantity, summary)));
                }
            }
        }
        let mut names: Vec<&String> = server.iter().flat_map(|one| one.named.keys()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let gauge = GaugeSummary::new(server, duration_ns, true, |sample| {
                sample.named.get(name).copied()
            });
            metrics
                .named
                .extend(gauge.map(|gauge| (name.clone(), gauge)));
        }
        Some(metrics)
    }

    /// Adds the differences from the client's figures.
    pub(super) fn compare(&mut self, client: &Values, sources: &TokenSources) {
        self.differences = ServerDifference::all(self, client, sources);
    }

    /// The durations of a quantity; `None` without a series or a duration in the run.
    pub fn duration(&self, quantity: Quantity) -> Option<&HistogramSummary> {
        self.durations.get(&quantity)
    }

    /// The growth of a counter.
    pub fn count(&self, quantity: Quantity) -> Option<f64> {
        self.counts.get(&quantity).copied()
    }

    /// The levels of a gauge.
    pub fn gauge(&self, quantity: Quantity) -> Option<&GaugeSummary> {
        self.gauges.get(&quantity)
    }

    /// A gauge over a run of `duration_ns` in equal steps: of each step the last known level before
    /// its end; `None` if no sample has it.
    pub fn steps(&self, quantity: Quantity, duration_ns: u64, steps: usize) -> Option<Vec<f64>> {
        let known: Vec<(i64, f64)> = self
            .points
            .iter()
            .filter_map(|point| Some((point.offset_ns, *point.gauges.get(&quantity)?)))
            .collect();
        let (_, first) = known.first()?;
        let level_at = |step: usize| {
            let end_ns = duration_ns as f64 * (step + 1) as f64 / steps as f64;
            let before = known.partition_point(|(at_ns, _)| *at_ns as f64 <= end_ns);
            before.checked_sub(1).map_or(*first, |place| known[place].1)
        };
        Some((0..steps).map(level_at).collect())
    }

    /// Accepted draft tokens in percent of drafted ones; `None` if nothing was drafted.
    pub fn draft_acceptance_percent(&self) -> Option<f64> {
        let drafted = self
            .count(Quantity::DraftTokens)
            .filter(|count| *count > 0.0);
        match drafted.zip(self.count(Quantity::AcceptedTokens)) {
            Some((drafted, accepted)) => Some(100.0 * accepted / drafted),
            None => self
                .gauge(Quantity::AcceptanceRate)
                .and_then(|gauge| gauge.mean)
                .filter(|percent| *percent > 0.0),
        }
    }
}

fn as_sentences<S: serde::Serializer>(
    differences: &[ServerDifference],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(differences.iter().map(ToString::to_string))
}

/// The number of restarts before each sample.
fn restarts_before(server: &[ServerSample]) -> Vec<usize> {
    let mut restarts = 0;
    let mut before = vec![0];
    before.extend(server.windows(2).map(|pair| {
        restarts += usize::from(pair[1].is_after_restart(&pair[0]));
        restarts
    }));
    before
}

/// The growth of a counter over all samples. After a restart it counts from zero. `None` without
/// two values.
fn grown(
    server: &[ServerSample],
    restarts: &[usize],
    value: impl Fn(&ServerSample) -> Option<f64>,
) -> Option<f64> {
    let mut known = server
        .iter()
        .zip(restarts)
        .filter_map(|(sample, known_restarts)| Some((*known_restarts, value(sample)?)));
    let (mut known_restarts, mut level) = known.next()?;
    let mut sum = None;
    for (next_restarts, next) in known {
        let from = if next_restarts == known_restarts {
            level
        } else {
            0.0
        };
        *sum.get_or_insert(0.0) += (next - from).max(0.0);
        (known_restarts, level) = (next_restarts, next);
    }
    sum
}

/// The durations that were added to a histogram over all samples.
fn difference_of_histograms(
    server: &[ServerSample],
    restarts: &[usize],
    quantity: Quantity,
) -> Option<HistogramCounts> {
    let last = server
        .iter()
        .rev()
        .find_map(|sample| sample.histograms.get(&quantity))?;
    let of = |value: &dyn Fn(&HistogramCounts) -> f64| {
        grown(server, restarts, |sample| {
            sample.histograms.get(&quantity).map(value)
        })
    };
    let bound = |at: f64| {
        of(&move |counts: &HistogramCounts| {
            let found = counts.buckets.iter().find(|(bound, _)| *bound == at);
            found.map_or(0.0, |(_, count)| *count)
        })
    };
    Some(HistogramCounts {
        count: of(&|counts| counts.count)?,
        sum: of(&|counts| counts.sum)?,
        buckets: last
            .buckets
            .iter()
            .filter_map(|(at, _)| Some((*at, bound(*at)?)))
            .collect(),
    })
}

/// Whether the level before and after a run says something about the run. Requests, compiles and
/// what they take of a cache are there only while they run.
fn outlasts_requests(quantity: Quantity) -> bool {
    matches!(
        quantity,
        Quantity::Memory | Quantity::AcceptanceRate | Quantity::StartTime
    )
}

impl GaugeSummary {
    /// `None` without a value.
    fn new(
        server: &[ServerSample],
        duration_ns: u64,
        outlasts_requests: bool,
        value: impl Fn(&ServerSample) -> Option<f64>,
    ) -> Option<Self> {
        let all: Vec<f64> = server.iter().filter_map(&value).collect();
        let is_during = |sample: &&ServerSample| {
            u64::try_from(sample.offset_ns).is_ok_and(|at_ns| at_ns <= duration_ns)
        };
        let during: Vec<f64> = server.iter().filter(is_during).filter_map(&value).collect();
        let mean = mean(&during).or_else(|| mean(&all).filter(|_| outlasts_requests));
        let peak = all.iter().copied().reduce(f64::max);
        Some(Self {
            first: *all.first()?,
            last: *all.last()?,
            lowest: all.iter().copied().reduce(f64::min)?,
            peak: peak.filter(|_| mean.is_some()),
            mean,
        })
    }
}

impl ServerPoint {
    fn new(sample: &ServerSample) -> Self {
        let gauges = sample.values.iter();
        Self {
            offset_ns: sample.offset_ns,
            gauges: gauges
                .filter(|(quantity, _)| quantity.quantity_type() == QuantityType::Gauge)
                .map(|(quantity, value)| (*quantity, *value))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::summarise_with_server;
    use sobench_facts::testing::{test_request, with_samples};
    use sobench_plan::metrics::MetricsSettings;

    const S: i64 = 1_000_000_000;

    fn sample(offset_s: i64, values: &[(Quantity, f64)]) -> ServerSample {
        ServerSample {
            offset_ns: offset_s * S,
            took_ns: 2_000_000,
            values: values.iter().copied().collect(),
            ..ServerSample::default()
        }
    }

    fn metrics(server: &[ServerSample]) -> Option<ServerMetrics> {
        with_samples(&[test_request()], |samples| {
            let options = MetricsSettings::default();
            summarise_with_server(samples, 3_000_000_000, &options, server).server
        })
    }

    #[test]
    fn gauges_have_a_mean_of_the_run_and_a_peak_of_all() {
        let server = [
            sample(-1, &[(Quantity::Running, 0.0)]),
            sample(1, &[(Quantity::Running, 4.0)]),
            sample(2, &[(Quantity::Running, 8.0)]),
            sample(4, &[(Quantity::Running, 1.0)]),
        ];
        let found = metrics(&server).unwrap();
        let running = found.gauge(Quantity::Running).unwrap();
        assert_eq!((running.mean, running.peak), (Some(6.0), Some(8.0)));
        assert_eq!(
            (running.first, running.last, running.lowest),
            (0.0, 1.0, 0.0)
        );
        assert_eq!((found.samples, found.span_s), (4, 5.0));
        assert_eq!(found.shortest_scrape_ms, 2.0);
        assert_eq!(found.points.len(), 4);
        let steps = found.steps(Quantity::Running, 4 * S as u64, 4).unwrap();
        assert_eq!(steps, [4.0, 8.0, 8.0, 1.0]);
        assert_eq!(found.steps(Quantity::Waiting, 4, 4), None);
        assert_eq!(metrics(&server[..1]), None);
    }

    #[test]
    fn requests_are_not_counted_before_and_after_a_run() {
        let levels = [(Quantity::Running, 0.0), (Quantity::Memory, 7.0)];
        let found = metrics(&[sample(-1, &levels), sample(4, &levels)]).unwrap();
        let of = |quantity| found.gauge(quantity).unwrap();
        let running = of(Quantity::Running);
        assert_eq!(
            (running.mean, running.peak, running.last),
            (None, None, 0.0)
        );
        assert_eq!(of(Quantity::Memory).peak, Some(7.0));
    }

    #[test]
    fn counters_count_on_after_a_restart() {
        let preemptions = |count: f64| [(Quantity::Preemptions, count)];
        let server = [
            sample(0, &preemptions(10.0)),
            sample(1, &preemptions(12.0)),
            sample(2, &preemptions(1.0)),
            sample(3, &[]),
            sample(4, &preemptions(4.0)),
        ];
        let found = metrics(&server).unwrap();
        assert_eq!(found.count(Quantity::Preemptions), Some(2.0 + 1.0 + 3.0));
        assert_eq!(found.restarts, 1);
        assert_eq!(found.count(Quantity::GeneratedTokens), None);
    }

    #[test]
    fn histograms_are_differences_also_over_a_restart() {
        let with = |offset_s, count: f64, sum: f64, buckets: &[(f64, f64)]| ServerSample {
            histograms: [(
                Quantity::Ttft,
                HistogramCounts {
                    count,
                    sum,
                    buckets: buckets.to_vec(),
                },
            )]
            .into(),
            ..sample(offset_s, &[])
        };
        let server = [
            with(
                0,
                100.0,
                1000.0,
                &[(5.0, 80.0), (10.0, 90.0), (100.0, 100.0)],
            ),
            with(
                1,
                104.0,
                1200.0,
                &[(5.0, 80.0), (10.0, 92.0), (100.0, 104.0)],
            ),
            with(2, 2.0, 30.0, &[(5.0, 0.0), (10.0, 1.0), (100.0, 2.0)]),
        ];
        let found = metrics(&server).unwrap();
        let ttft = found.duration(Quantity::Ttft).unwrap();
        assert_eq!((ttft.count, ttft.mean_ms), (6.0, 230.0 / 6.0));
        // Three of six are up to 10 ms.
        assert_eq!(ttft.p50_ms, Some(10.0));
        assert_eq!(found.restarts, 1);
    }

    #[test]
    fn acceptance_is_of_counters_or_of_the_gauge() {
        let tokens = |drafted, accepted| {
            [
                (Quantity::DraftTokens, drafted),
                (Quantity::AcceptedTokens, accepted),
            ]
        };
        let counted = [
            sample(0, &tokens(10.0, 5.0)),
            sample(1, &tokens(30.0, 20.0)),
        ];
        let found = metrics(&counted).unwrap();
        assert_eq!(found.draft_acceptance_percent(), Some(75.0));
        let gauge = [
            sample(0, &[(Quantity::AcceptanceRate, 40.0)]),
            sample(1, &[(Quantity::AcceptanceRate, 60.0)]),
        ];
        let found = metrics(&gauge).unwrap();
        assert_eq!(found.draft_acceptance_percent(), Some(50.0));
        let none = [sample(0, &tokens(0.0, 0.0)), sample(1, &tokens(0.0, 0.0))];
        assert_eq!(metrics(&none).unwrap().draft_acceptance_percent(), None);
    }
}
