//! Bootstrap of latencies over runs and requests.
//!
//! One resample draws runs, then requests in them. If both sides have the same cases, it draws
//! cases, the same for both sides: differences between cases cancel out. Gaps between chunks are
//! drawn with their request, because the gaps of one answer are correlated. Requests are drawn in
//! blocks of neighbours in time for the same reason.

use std::borrow::Cow;

use super::pairing::Pairing;
use super::requests::{GapsKept, OwnedValue, Requests, sort};
use super::side::Side;
use crate::metrics::registry::{Figure, Metric, MetricKind, Stat, latencies};
use sobench_statistics::bootstrap::{RandomSource, Replicates, SplitMix, draw_blocks, draw_runs};

/// The values of one side, prepared for resampling. Columns of a side with one run are those of the
/// run.
pub struct Pool<'s> {
    /// Start and end index of each run's requests.
    runs: Vec<(usize, usize)>,
    /// The case of each request, as a number shared by both sides; empty if they are not paired.
    cases: &'s [u32],
    columns: Vec<(&'static Metric, Column<'s>)>,
}

/// The values of a distribution.
#[derive(Default)]
struct Column<'s> {
    sorted: Sorted<'s>,
    by_request: ByRequest<'s>,
    kept: GapsKept,
}

/// The values in ascending order; none unless all are kept.
enum Sorted<'s> {
    /// The requests in the order of their values, which are in [`ByRequest::One`].
    Requests(Vec<u32>),
    Gaps(Cow<'s, [OwnedValue]>),
}

/// What each request adds to a distribution.
enum ByRequest<'s> {
    /// A value, or NaN for none. Empty if no request has one.
    One(Cow<'s, [f64]>),
    /// The gaps of the answers of these runs.
    Gaps(Vec<&'s Requests>),
}

impl Default for Sorted<'_> {
    fn default() -> Self {
        Self::Requests(Vec::new())
    }
}

impl Default for ByRequest<'_> {
    fn default() -> Self {
        Self::One(Cow::default())
    }
}

impl<'s> Pool<'s> {
    /// Prepares a side for the requested distributions; `None` if a run has no requests.
    pub fn new(
        side: &'s Side,
        pairing: &'s Pairing,
        which: SideId,
        figures: &[Figure],
    ) -> Option<Self> {
        let runs = side.run_requests()?;
        let mut bounds = Vec::new();
        let mut start = 0;
        for requests in &runs {
            bounds.push((start, start + requests.len()));
            start += requests.len();
        }
        let mut pool = Self {
            runs: bounds,
            cases: pairing.case_numbers(which),
            columns: Vec::new(),
        };
        for figure in figures {
            let metric = figure.metric;
            if metric.is_distribution() && pool.column(metric).is_none() {
                pool.columns.push((metric, Column::new(&runs, metric)));
            }
        }
        Some(pool)
    }

    /// The number of values of a distribution, and whether each is known (not only their sum).
    pub fn size(&self, series: &Metric) -> (usize, GapsKept) {
        self.column(series)
            .map_or((0, GapsKept::All), |column| (column.count(), column.kept))
    }

    /// The number of requests with a value in a distribution.
    pub fn requests_with(&self, series: &Metric) -> usize {
        self.column(series)
            .map_or(0, |column| match &column.by_request {
                ByRequest::One(values) => values.iter().filter(|value| !value.is_nan()).count(),
                ByRequest::Gaps(runs) => gap_sums(runs).filter(|(count, _)| *count > 0.0).count(),
            })
    }

    /// The value of a figure over the whole side.
    pub fn value(&self, figure: Figure) -> Option<f64> {
        self.evaluate(&[figure], &vec![1; self.len()])[0]
    }

    /// The value of a figure over one run.
    pub fn value_of_run(&self, figure: Figure, run: usize) -> Option<f64> {
        let (start, end) = *self.runs.get(run)?;
        let mut weights = vec![0; self.len()];
        weights[start..end].fill(1);
        self.evaluate(&[figure], &weights)[0]
    }

    /// The number of steps of one resample, as a measure of its cost.
    pub fn steps(&self) -> usize {
        self.len()
            + self
                .columns
                .iter()
                .map(|(_, column)| column.len())
                .sum::<usize>()
    }

    fn len(&self) -> usize {
        self.runs.last().map_or(0, |(_, end)| *end)
    }

    fn column(&self, series: &Metric) -> Option<&Column<'s>> {
        self.columns
            .iter()
            .find(|(metric, _)| *metric == series)
            .map(|(_, column)| column)
    }

    /// Draws how often each request is in a resample. `case_weights` is empty if cases are not
    /// paired.
    fn weigh(&self, random: &mut SplitMix, case_weights: &[u32], buffers: &mut Buffers) {
        draw_runs(random, self.runs.len(), &mut buffers.runs);
        buffers.weights.clear();
        buffers.weights.resize(self.len(), 0);
        for (&(start, end), &times) in self
            .runs
            .iter()
            .zip(&buffers.runs)
            .filter(|(_, times)| **times > 0)
        {
            if case_weights.is_empty() {
                (0..times).for_each(|_| {
                    draw_blocks(random, end - start, &mut buffers.weights[start..end]);
                });
            } else {
                (start..end).for_each(|index| {
                    buffers.weights[index] = times * case_weights[self.cases[index] as usize];
                });
            }
        }
    }

    fn evaluate(&self, figures: &[Figure], weights: &[u32]) -> Vec<Option<f64>> {
        let mut values = vec![None; figures.len()];
        for (series, column) in &self.columns {
            let of_series = figures
                .iter()
                .enumerate()
                .filter(|(_, figure)| figure.metric == *series);
            let stats: Vec<(usize, Stat)> = of_series
                .filter_map(|(index, figure)| Some((index, figure.stat?)))
                .collect();
            column.evaluate(&stats, weights, &mut values);
        }
        values
    }
}

/// The first or the second side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SideId {
    A,
    B,
}

/// Resamples both sides and evaluates the figures in each resample. The same `seed` gives the same
/// result with any number of threads.
pub fn bootstrap(
    a: &Pool<'_>,
    b: &Pool<'_>,
    paired_cases: usize,
    figures: &[Figure],
    resamples: usize,
    seed: u64,
) -> Vec<Replicates> {
    let draw = |random: &mut SplitMix, buffers: &mut Buffers| -> Vec<Option<(f64, f64)>> {
        let mut cases = std::mem::take(&mut buffers.cases);
        cases.clear();
        cases.resize(paired_cases, 0);
        draw_blocks(random, paired_cases, &mut cases);
        a.weigh(random, &cases, buffers);
        let of_a = a.evaluate(figures, &buffers.weights);
        b.weigh(random, &cases, buffers);
        let of_b = b.evaluate(figures, &buffers.weights);
        buffers.cases = cases;
        of_a.into_iter().zip(of_b).map(|(a, b)| a.zip(b)).collect()
    };
    let replicates = SplitMix::resample(seed, resamples, draw);
    (0..figures.len())
        .map(|index| Replicates::new(replicates.iter().map(|replicate| replicate[index])))
        .collect()
}

#[derive(Default)]
struct Buffers {
    runs: Vec<u32>,
    cases: Vec<u32>,
    weights: Vec<u32>,
}

impl<'s> Column<'s> {
    fn new(runs: &[&'s Requests], series: &Metric) -> Self {
        match series.kind {
            // Requests keep only the gaps between chunks (ITL) of pooled values.
            MetricKind::Pooled(_) if *series == latencies::ITL => Self::gaps(runs),
            MetricKind::Distribution { .. } => Self::values(runs, series),
            _ => Self::default(),
        }
    }

    /// Gaps of requests with an answer.
    fn gaps(runs: &[&'s Requests]) -> Self {
        let kept = runs.iter().map(|requests| requests.gaps_kept());
        let kept = kept.fold(GapsKept::All, |all, run| match all {
            GapsKept::All => run,
            _ => all,
        });
        let sorted = match runs {
            _ if kept != GapsKept::All => Cow::default(),
            [only] => only.sorted_gaps().into(),
            several => {
                let mut start = 0;
                let mut sorted = Vec::new();
                for requests in several {
                    sorted.extend(requests.sorted_gaps().iter().map(|gap| OwnedValue {
                        value: gap.value,
                        owner: gap.owner + start,
                    }));
                    start += requests.len() as u32;
                }
                sort(&mut sorted);
                sorted.into()
            }
        };
        Self {
            sorted: Sorted::Gaps(sorted),
            by_request: ByRequest::Gaps(runs.to_vec()),
            kept,
        }
    }

    /// One value per request.
    fn values(runs: &[&'s Requests], series: &Metric) -> Self {
        let values = || {
            let all = runs
                .iter()
                .flat_map(|requests| requests.in_distribution(series));
            all.map(|value| value.unwrap_or(f64::NAN))
        };
        let known = values().zip(0_u32..).filter(|(value, _)| !value.is_nan());
        let mut order: Vec<u32> = known.map(|(_, owner)| owner).collect();
        if order.is_empty() {
            return Self::default();
        }
        let whole = match runs {
            [only] => only.column(series),
            _ => None,
        };
        // Unless some requests do not count.
        let whole = whole
            .filter(|column| column.iter().filter(|value| !value.is_nan()).count() == order.len());
        let values: Cow<'s, [f64]> =
            whole.map_or_else(|| values().collect::<Vec<f64>>().into(), Cow::from);
        order.sort_unstable_by(|a, b| {
            let [of_a, of_b] = [a, b].map(|owner| values[*owner as usize]);
            of_a.total_cmp(&of_b).then(a.cmp(b))
        });
        Self {
            sorted: Sorted::Requests(order),
            by_request: ByRequest::One(values),
            kept: GapsKept::All,
        }
    }

    /// Number of sorted values.
    fn len(&self) -> usize {
        match &self.sorted {
            Sorted::Requests(order) => order.len(),
            Sorted::Gaps(gaps) => gaps.len(),
        }
    }

    /// The request of a value by its place in the order.
    fn owner(&self, place: usize) -> u32 {
        match &self.sorted {
            Sorted::Requests(order) => order[place],
            Sorted::Gaps(gaps) => gaps[place].owner,
        }
    }

    /// A value by its place in the order.
    fn sorted_value(&self, place: usize) -> f64 {
        match (&self.sorted, &self.by_request) {
            (Sorted::Requests(order), ByRequest::One(values)) => values[order[place] as usize],
            (Sorted::Gaps(gaps), _) => gaps[place].ms(),
            (Sorted::Requests(_), ByRequest::Gaps(_)) => f64::NAN,
        }
    }

    /// Number of values.
    fn count(&self) -> usize {
        match &self.by_request {
            ByRequest::One(_) => self.len(),
            ByRequest::Gaps(runs) => gap_sums(runs).map(|(count, _)| count).sum::<f64>() as usize,
        }
    }

    /// Number and sum of the values, each repeated by the weight of its request.
    fn weighted_sum(&self, weights: &[u32]) -> (f64, f64) {
        let (mut count, mut sum) = (0.0, 0.0);
        match &self.by_request {
            ByRequest::One(values) => {
                let known = values.iter().zip(weights);
                for (value, weight) in known.filter(|(value, _)| !value.is_nan()) {
                    count += f64::from(*weight);
                    sum += value * f64::from(*weight);
                }
            }
            ByRequest::Gaps(runs) => {
                for ((values, total), weight) in gap_sums(runs).zip(weights) {
                    count += values * f64::from(*weight);
                    sum += total * f64::from(*weight);
                }
            }
        }
        (count, sum)
    }

    /// Evaluates statistics into `found`, which stays `None` if no value was drawn.
    fn evaluate(&self, stats: &[(usize, Stat)], weights: &[u32], found: &mut [Option<f64>]) {
        let (count, sum) = self.weighted_sum(weights);
        if count == 0.0 {
            return;
        }
        let mut percentiles: Vec<(usize, f64)> = Vec::new();
        for (index, stat) in stats {
            match stat {
                Stat::Mean => found[*index] = Some(sum / count),
                Stat::Std => found[*index] = self.deviation(weights, sum / count, count),
                Stat::Median | Stat::Percentile(_) => {
                    percentiles.extend(stat.percent().map(|percent| (*index, percent)));
                }
            }
        }
        if self.kept == GapsKept::All && !percentiles.is_empty() {
            percentiles.sort_by(|a, b| a.1.total_cmp(&b.1));
            self.percentiles(&percentiles, weights, count as u64, found);
        }
    }

    /// Ascending percentiles as in `statistics::percentile`, with each value repeated by its
    /// weight.
    fn percentiles(
        &self,
        targets: &[(usize, f64)],
        weights: &[u32],
        count: u64,
        found: &mut [Option<f64>],
    ) {
        let (mut next, mut reached) = (0, 0_u64);
        // Ranks (from 0) ascend, except that the next percentile may need the last two again.
        let mut last = [(u64::MAX, 0.0); 2];
        let mut at = |rank: u64| {
            if let Some((_, value)) = last.iter().find(|(known, _)| *known == rank) {
                return *value;
            }
            while reached <= rank {
                reached += u64::from(weights[self.owner(next) as usize]);
                next += 1;
            }
            last = [last[1], (rank, self.sorted_value(next - 1))];
            last[1].1
        };
        for (target, percent) in targets {
            let rank = (count - 1) as f64 * percent / 100.0;
            let (below, fraction) = (rank.floor() as u64, rank.fract());
            let low = at(below.min(count - 1));
            let high = at((below + 1).min(count - 1));
            found[*target] = Some(if fraction < 0.5 {
                low + (high - low) * fraction
            } else {
                high - (high - low) * (1.0 - fraction)
            });
        }
    }

    fn deviation(&self, weights: &[u32], mean: f64, count: f64) -> Option<f64> {
        let squares = |place: usize| {
            let weight = f64::from(weights[self.owner(place) as usize]);
            (self.sorted_value(place) - mean).powi(2) * weight
        };
        let is_whole = self.kept == GapsKept::All;
        is_whole.then(|| ((0..self.len()).map(squares).sum::<f64>() / count).sqrt())
    }
}

/// For each request, the number and the sum of its gaps; zeros without an answer.
fn gap_sums(runs: &[&Requests]) -> impl Iterator<Item = (f64, f64)> {
    let requests = runs.iter().flat_map(|requests| requests.iter());
    requests.map(|request| match (request.answered(), request.gaps()) {
        (true, (count, sum)) => (count as f64, sum),
        (false, _) => (0.0, 0.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::requests::{Gaps, Request};
    use crate::compare::testing::{request, side};
    use sobench_statistics::percentile;

    static UNPAIRED: Pairing = Pairing::None;

    fn pool<'s>(side: &'s Side, figures: &[Figure]) -> Pool<'s> {
        Pool::new(side, &UNPAIRED, SideId::A, figures).unwrap()
    }

    fn ttfts(values: impl Iterator<Item = f64>) -> Vec<Request> {
        values
            .map(|ms| request().with(&latencies::TTFT, ms))
            .collect()
    }

    const STATS: [Stat; 5] = [
        Stat::Mean,
        Stat::Median,
        Stat::Percentile(50_100),
        Stat::Percentile(99_000),
        Stat::Percentile(1_000),
    ];

    #[test]
    fn weighted_percentiles_equal_percentiles_of_repeated_values() {
        let figures = STATS.map(|stat| Figure::from_distribution(&latencies::TTFT, stat));
        let values: Vec<f64> = (0..40).map(|index| f64::from(index * 37 % 41)).collect();
        let side = side("a", vec![ttfts(values.iter().copied())]);
        let pool = pool(&side, &figures);
        let mut random = SplitMix::new(1, 1);
        for _ in 0..50 {
            let weights: Vec<u32> = values.iter().map(|_| random.below(4) as u32).collect();
            let mut repeated: Vec<f64> = values
                .iter()
                .zip(&weights)
                .flat_map(|(value, weight)| vec![*value; *weight as usize])
                .collect();
            repeated.sort_by(f64::total_cmp);
            let found = pool.evaluate(&figures, &weights);
            for (stat, found) in STATS.iter().zip(found) {
                let expected = match stat.percent() {
                    Some(percent) => percentile(&repeated, percent).unwrap(),
                    None => repeated.iter().sum::<f64>() / repeated.len() as f64,
                };
                assert!(
                    (found.unwrap() - expected).abs() < 1e-9,
                    "{stat:?}: {found:?} is not {expected}"
                );
            }
        }
    }

    #[test]
    fn failed_requests_have_no_latency_and_sums_have_no_percentile() {
        let figures = [
            Figure::from_distribution(&latencies::TTFT, Stat::Mean),
            Figure::from_distribution(&latencies::ITL, Stat::Mean),
            Figure::from_distribution(&latencies::ITL, Stat::Median),
        ];
        let failed = Request {
            answered: false,
            gaps: Gaps::Each(vec![5.0]),
            ..request()
        }
        .with(&latencies::TTFT, 900.0);
        let summed = Request {
            gaps: Gaps::Sum {
                n: 4,
                total_ms: 8.0,
            },
            ..request()
        }
        .with(&latencies::TTFT, 3.0);
        let side = side("a", vec![vec![failed, summed]]);
        let pool = pool(&side, &figures);
        assert_eq!(
            figures.map(|figure| pool.value(figure)),
            [Some(3.0), Some(2.0), None]
        );
        assert_eq!(
            (
                pool.size(&latencies::ITL),
                pool.requests_with(&latencies::TTFT)
            ),
            ((4, GapsKept::OnlySums), 1)
        );
    }

    #[test]
    fn runs_are_pooled_with_their_gaps() {
        let gaps = |values: &[f64], answered: bool| Request {
            answered,
            gaps: Gaps::Each(values.to_vec()),
            ..request()
        };
        let first = vec![gaps(&[4.0, 1.0], true), gaps(&[100.0], false)];
        let second = vec![gaps(&[2.0], true), gaps(&[3.0, 5.0], true)];
        let figures = [Stat::Mean, Stat::Median, Stat::Std]
            .map(|stat| Figure::from_distribution(&latencies::ITL, stat));
        let all = [first.clone(), second.clone()].concat();
        let (together, apart) = (side("a", vec![all]), side("a", vec![first, second]));
        let weights = [1, 7, 0, 2];
        let found =
            [&together, &apart].map(|side| pool(side, &figures).evaluate(&figures, &weights));
        assert_eq!(found[0], found[1]);
        assert_eq!(found[0][..2], [Some(3.5), Some(3.5)]);
    }

    /// The resampled mean varies by the standard error of the mean; with several runs, by the
    /// standard error of the mean over runs.
    #[test]
    fn resampled_means_vary_by_the_standard_error() {
        let figures = [Figure::from_distribution(&latencies::TTFT, Stat::Mean)];
        let spread = |runs: Vec<Vec<Request>>| {
            let ones = vec![ttfts(std::iter::repeat_n(1.0, 10))];
            let (a, b) = (side("a", ones), side("b", runs));
            let (a, b) = (pool(&a, &figures), pool(&b, &figures));
            let (low, high) = bootstrap(&a, &b, 0, &figures, 4000, 5)[0]
                .interval(0.95)
                .unwrap();
            (high - low) / 2.0 / 1.96
        };
        // Plus and minus one in irregular order: a standard error of 0.05 for 400 values.
        let sign = |index: u64| {
            if SplitMix::new(9, index).below(2) == 0 {
                1.0
            } else {
                -1.0
            }
        };
        let even = |centre: f64| ttfts((0..400).map(move |index| centre + sign(index)));
        let within = spread(vec![even(10.0)]);
        assert!((within - 0.05).abs() < 0.008, "{within}");
        // The same values in two halves: neighbours are correlated, and the mean is less certain.
        let halves = spread(vec![ttfts(
            (0..400).map(|index| if index < 200 { 11.0 } else { 9.0 }),
        )]);
        assert!(halves > 2.0 * within, "{halves}");
        // Five runs at distances of two: a standard deviation of 3.16 between runs, 1.41 for their
        // mean.
        let between = spread(
            (0..5)
                .map(|run| even(10.0 + 2.0 * f64::from(run)))
                .collect(),
        );
        assert!((between - 1.414).abs() < 0.12, "{between}");
    }

    #[test]
    fn paired_cases_cancel_case_differences() {
        let figures = [Figure::from_distribution(&latencies::TTFT, Stat::Mean)];
        let run = |shift: f64| {
            vec![ttfts((0..200).map(move |index| {
                f64::from(index) + shift + f64::from(index % 3) * 0.01
            }))]
        };
        let (a, b) = (side("a", run(0.0)), side("b", run(1.0)));
        let width = |pairing: &Pairing| {
            let pools = [(&a, SideId::A), (&b, SideId::B)]
                .map(|(side, which)| Pool::new(side, pairing, which, &figures).unwrap());
            let (low, high) = bootstrap(&pools[0], &pools[1], pairing.cases(), &figures, 400, 0)[0]
                .interval(0.95)
                .unwrap();
            assert!(low <= 1.0 + 1e-9 && high >= 1.0 - 1e-9);
            high - low
        };
        let numbers: Vec<u32> = (0..200).collect();
        let paired = Pairing::ByCase {
            a: numbers.clone(),
            b: numbers,
            cases: 200,
        };
        assert!(width(&paired) < 1e-6 && width(&Pairing::None) > 10.0);
    }
}
