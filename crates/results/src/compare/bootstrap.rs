//! Latencies and shares drawn again: which requests, of which runs, and what they come to.
//!
//! One resample draws runs, then requests in them. Where both sides were asked the same cases, it
//! draws cases, the same for both sides: what is hard about a case is then on both, and leaves the
//! difference alone. Gaps between chunks are never drawn one by one: those of one answer hang
//! together, so they come with their request. Requests come with their neighbours in time, for a
//! like reason.

use super::pairing::Pairing;
use super::side::{Gaps, Request, Side};
use crate::metrics::registry::{Figure, Kind, Metric, Stat, latencies};
use sobench_statistics::bootstrap::{RandomSource, Replicates, SplitMix, blocks, runs};

/// One side, laid out for drawing.
pub struct Pool {
    /// Where each run's requests begin and end.
    runs: Vec<(usize, usize)>,
    /// The case of each request as a number that both sides share; empty where they are not paired.
    cases: Vec<u32>,
    columns: Vec<(&'static Metric, Column)>,
    rates: Vec<(&'static Metric, Vec<Option<bool>>)>,
}

/// The values of a series.
#[derive(Default)]
struct Column {
    /// Ascending.
    values: Vec<f64>,
    /// The request that each of the values is of.
    owners: Vec<u32>,
    /// How many values each request has, and what they add up to.
    sums: Vec<(f64, f64)>,
    /// Whether `values` are all that `sums` count.
    whole: bool,
}

impl Pool {
    /// Lays out a side of which every request is known, for what is asked: figures of rates and
    /// distributions.
    pub fn of(side: &Side, pairing: &Pairing, which: Which, asked: &[Figure]) -> Option<Self> {
        let requests = side.requests()?;
        let mut bounds = Vec::new();
        let mut begin = 0;
        for run in &side.runs {
            let end = begin + run.requests.as_ref()?.len();
            bounds.push((begin, end));
            begin = end;
        }
        let requests: Vec<&Request> = requests.into_iter().map(|(_, request)| request).collect();
        let mut pool = Self {
            runs: bounds,
            cases: pairing.units(which).to_vec(),
            columns: Vec::new(),
            rates: Vec::new(),
        };
        for asked in asked {
            let metric = asked.metric;
            if metric.is_distribution() && pool.column(metric).is_none() {
                pool.columns.push((metric, Column::of(&requests, metric)));
            }
            if metric.is_rate() && pool.rate(metric).is_none() {
                pool.rates.push((
                    metric,
                    requests
                        .iter()
                        .map(|request| request.in_rate(metric))
                        .collect(),
                ));
            }
        }
        Some(pool)
    }

    /// Values of a series, and whether each is known (and not only their sums).
    pub fn size(&self, series: &Metric) -> (usize, bool) {
        self.column(series).map_or((0, true), |column| {
            (
                column.sums.iter().map(|(count, _)| *count).sum::<f64>() as usize,
                column.whole,
            )
        })
    }

    /// Requests that have a value in a series.
    pub fn requests_with(&self, series: &Metric) -> usize {
        self.column(series).map_or(0, |column| {
            column.sums.iter().filter(|(count, _)| *count > 0.0).count()
        })
    }

    /// What the whole side comes to.
    pub fn value(&self, asked: Figure) -> Option<f64> {
        self.evaluate(&[asked], &vec![1; self.len()])[0]
    }

    /// Steps that one resample takes.
    pub fn steps(&self) -> usize {
        self.len()
            + self
                .columns
                .iter()
                .map(|(_, column)| column.values.len())
                .sum::<usize>()
    }

    fn len(&self) -> usize {
        self.runs.last().map_or(0, |(_, end)| *end)
    }

    fn column(&self, series: &Metric) -> Option<&Column> {
        self.columns
            .iter()
            .find(|(it, _)| *it == series)
            .map(|(_, column)| column)
    }

    fn rate(&self, rate: &Metric) -> Option<&[Option<bool>]> {
        self.rates
            .iter()
            .find(|(it, _)| *it == rate)
            .map(|(_, hits)| hits.as_slice())
    }

    /// How often each request is in a resample. `case_weights` is empty where cases are not drawn
    /// for both sides.
    fn weigh(&self, random: &mut SplitMix, case_weights: &[u32], buffers: &mut Buffers) {
        runs(random, self.runs.len(), &mut buffers.runs);
        buffers.weights.clear();
        buffers.weights.resize(self.len(), 0);
        for (&(begin, end), &times) in self
            .runs
            .iter()
            .zip(&buffers.runs)
            .filter(|(_, times)| **times > 0)
        {
            if case_weights.is_empty() {
                (0..times)
                    .for_each(|_| blocks(random, end - begin, &mut buffers.weights[begin..end]));
            } else {
                (begin..end).for_each(|place| {
                    buffers.weights[place] = times * case_weights[self.cases[place] as usize]
                });
            }
        }
    }

    fn evaluate(&self, asked: &[Figure], weights: &[u32]) -> Vec<Option<f64>> {
        let mut found = vec![None; asked.len()];
        for (series, column) in &self.columns {
            let of_series = asked
                .iter()
                .enumerate()
                .filter(|(_, asked)| asked.metric == *series);
            let stats: Vec<(usize, Stat)> = of_series
                .filter_map(|(place, asked)| Some((place, asked.stat?)))
                .collect();
            column.evaluate(&stats, weights, &mut found);
        }
        for (place, asked) in asked.iter().enumerate() {
            if asked.is_rate() {
                found[place] = self
                    .rate(asked.metric)
                    .and_then(|hits| share(hits, weights));
            }
        }
        found
    }
}

/// Which of the two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    A,
    B,
}

/// Draws both sides again, `resamples` times, and says what each of `asked` came to. The same
/// `seed` draws the same, on any number of threads.
pub fn bootstrap(
    a: &Pool,
    b: &Pool,
    paired_cases: usize,
    asked: &[Figure],
    resamples: usize,
    seed: u64,
) -> Vec<Replicates> {
    let draw = |random: &mut SplitMix, buffers: &mut Buffers| -> Vec<Option<(f64, f64)>> {
        let mut cases = std::mem::take(&mut buffers.cases);
        cases.clear();
        cases.resize(paired_cases, 0);
        blocks(random, paired_cases, &mut cases);
        a.weigh(random, &cases, buffers);
        let of_a = a.evaluate(asked, &buffers.weights);
        b.weigh(random, &cases, buffers);
        let of_b = b.evaluate(asked, &buffers.weights);
        buffers.cases = cases;
        of_a.into_iter().zip(of_b).map(|(a, b)| a.zip(b)).collect()
    };
    let replicates = SplitMix::resample(seed, resamples, draw);
    (0..asked.len())
        .map(|place| Replicates::new(replicates.iter().map(|replicate| replicate[place])))
        .collect()
}

#[derive(Default)]
struct Buffers {
    runs: Vec<u32>,
    cases: Vec<u32>,
    weights: Vec<u32>,
}

impl Column {
    fn of(requests: &[&Request], series: &Metric) -> Self {
        let mut values: Vec<(f64, u32)> = Vec::new();
        let mut column = Self {
            whole: true,
            ..Self::default()
        };
        for (owner, request) in requests.iter().enumerate() {
            let owner = owner as u32;
            let (count, sum) = match (series.kind, &request.gaps) {
                // Of pooled values, requests keep the gaps between their chunks alone.
                (Kind::Pooled(_), _) if !request.answered || *series != latencies::ITL => {
                    (0.0, 0.0)
                }
                (Kind::Pooled(_), Gaps::Each(gaps)) => {
                    values.extend(gaps.iter().map(|gap| (*gap, owner)));
                    (gaps.len() as f64, gaps.iter().sum())
                }
                (Kind::Pooled(_), Gaps::Sum { n, total_ms }) => {
                    column.whole &= *n == 0;
                    (*n as f64, *total_ms)
                }
                _ => match request.in_distribution(series) {
                    Some(value) => {
                        values.push((value, owner));
                        (1.0, value)
                    }
                    None => (0.0, 0.0),
                },
            };
            column.sums.push((count, sum));
        }
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        (column.values, column.owners) = values.into_iter().unzip();
        column
    }

    /// Fills in what is asked; places stay `None` where nothing was drawn.
    fn evaluate(&self, asked: &[(usize, Stat)], weights: &[u32], found: &mut [Option<f64>]) {
        let (mut count, mut sum) = (0.0, 0.0);
        for ((values, total), weight) in self.sums.iter().zip(weights) {
            count += values * f64::from(*weight);
            sum += total * f64::from(*weight);
        }
        if count == 0.0 {
            return;
        }
        let mut percentiles: Vec<(usize, f64)> = Vec::new();
        for (place, stat) in asked {
            match stat {
                Stat::Mean => found[*place] = Some(sum / count),
                Stat::Std => found[*place] = self.deviation(weights, sum / count, count),
                Stat::Median | Stat::Percentile(_) => {
                    percentiles.extend(stat.percent().map(|percent| (*place, percent)))
                }
            }
        }
        if self.whole && !percentiles.is_empty() {
            percentiles.sort_by(|a, b| a.1.total_cmp(&b.1));
            self.percentiles(&percentiles, weights, count as u64, found);
        }
    }

    /// Percentiles as `statistics::percentile` has them, ascending, over values that count as often
    /// as their weight says.
    fn percentiles(
        &self,
        asked: &[(usize, f64)],
        weights: &[u32],
        count: u64,
        found: &mut [Option<f64>],
    ) {
        let (mut place, mut reached) = (0, 0_u64);
        // Ranks (from 0) are asked for in ascending order, but for the last two, which the next
        // percentile may need again.
        let mut last = [(u64::MAX, 0.0); 2];
        let mut at = |rank: u64| {
            if let Some((_, value)) = last.iter().find(|(known, _)| *known == rank) {
                return *value;
            }
            while reached <= rank {
                reached += u64::from(weights[self.owners[place] as usize]);
                place += 1;
            }
            last = [last[1], (rank, self.values[place - 1])];
            last[1].1
        };
        for (target, percent) in asked {
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
        let squares = |(value, owner): (&f64, &u32)| {
            (value - mean).powi(2) * f64::from(weights[*owner as usize])
        };
        self.whole.then(|| {
            (self
                .values
                .iter()
                .zip(&self.owners)
                .map(squares)
                .sum::<f64>()
                / count)
                .sqrt()
        })
    }
}

fn share(hits: &[Option<bool>], weights: &[u32]) -> Option<f64> {
    let (mut hit, mut of) = (0_u64, 0_u64);
    for (correct, weight) in hits
        .iter()
        .zip(weights)
        .filter_map(|(correct, weight)| Some(((*correct)?, *weight)))
    {
        of += u64::from(weight);
        hit += u64::from(weight) * u64::from(correct);
    }
    (of > 0).then(|| hit as f64 / of as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::testing::{request, side};
    use sobench_statistics::percentile;

    fn pool(runs: Vec<Vec<Request>>, asked: &[Figure]) -> Pool {
        Pool::of(&side("a", runs), &Pairing::None, Which::A, asked).unwrap()
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
    fn weighted_percentiles_are_those_of_the_values_written_out() {
        let asked = STATS.map(|stat| Figure::of_distribution(&latencies::TTFT, stat));
        let values: Vec<f64> = (0..40).map(|place| f64::from(place * 37 % 41)).collect();
        let pool = pool(vec![ttfts(values.iter().copied())], &asked);
        let mut random = SplitMix::new(1, 1);
        for _ in 0..50 {
            let weights: Vec<u32> = values.iter().map(|_| random.below(4) as u32).collect();
            let mut written: Vec<f64> = values
                .iter()
                .zip(&weights)
                .flat_map(|(value, weight)| vec![*value; *weight as usize])
                .collect();
            written.sort_by(f64::total_cmp);
            let found = pool.evaluate(&asked, &weights);
            for (stat, found) in STATS.iter().zip(found) {
                let expected = match stat.percent() {
                    Some(percent) => percentile(&written, percent).unwrap(),
                    None => written.iter().sum::<f64>() / written.len() as f64,
                };
                assert!(
                    (found.unwrap() - expected).abs() < 1e-9,
                    "{stat:?}: {found:?} is not {expected}"
                );
            }
        }
    }

    #[test]
    fn a_failed_request_has_no_latency_and_a_sum_has_no_percentile() {
        let asked = [
            Figure::of_distribution(&latencies::TTFT, Stat::Mean),
            Figure::of_distribution(&latencies::ITL, Stat::Mean),
            Figure::of_distribution(&latencies::ITL, Stat::Median),
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
        let pool = pool(vec![vec![failed, summed]], &asked);
        assert_eq!(
            asked.map(|asked| pool.value(asked)),
            [Some(3.0), Some(2.0), None]
        );
        assert_eq!(
            (
                pool.size(&latencies::ITL),
                pool.requests_with(&latencies::TTFT)
            ),
            ((4, false), 1)
        );
    }

    /// The spread of the resampled mean is the standard error of the mean; with several runs, that
    /// of the mean of runs.
    #[test]
    fn resamples_spread_as_means_do() {
        let asked = [Figure::of_distribution(&latencies::TTFT, Stat::Mean)];
        let spread = |runs: Vec<Vec<Request>>| {
            let (a, b) = (
                pool(vec![ttfts(std::iter::repeat_n(1.0, 10))], &asked),
                pool(runs, &asked),
            );
            let (low, high) = bootstrap(&a, &b, 0, &asked, 4000, 5)[0]
                .interval(0.95)
                .unwrap();
            (high - low) / 2.0 / 1.96
        };
        // One and minus one in an order without a pattern: a standard error of 0.05 for 400 of
        // them.
        let sign = |place: u64| {
            if SplitMix::new(9, place).below(2) == 0 {
                1.0
            } else {
                -1.0
            }
        };
        let even = |centre: f64| ttfts((0..400).map(move |place| centre + sign(place)));
        let within = spread(vec![even(10.0)]);
        assert!((within - 0.05).abs() < 0.008, "{within}");
        // The same values in two halves: neighbours are alike, and the mean is less well known.
        let halves = spread(vec![ttfts(
            (0..400).map(|place| if place < 200 { 11.0 } else { 9.0 }),
        )]);
        assert!(halves > 2.0 * within, "{halves}");
        // Five runs, two apart from one to the next: a standard deviation of 3.16 between them,
        // 1.41 of their mean.
        let between = spread(
            (0..5)
                .map(|run| even(10.0 + 2.0 * f64::from(run)))
                .collect(),
        );
        assert!((between - 1.414).abs() < 0.12, "{between}");
    }

    #[test]
    fn what_is_hard_about_a_case_leaves_the_difference_alone() {
        let asked = [Figure::of_distribution(&latencies::TTFT, Stat::Mean)];
        let run = |shift: f64| {
            vec![ttfts((0..200).map(move |place| {
                f64::from(place) + shift + f64::from(place % 3) * 0.01
            }))]
        };
        let (a, b) = (side("a", run(0.0)), side("b", run(1.0)));
        let width = |pairing: &Pairing| {
            let pools = [(&a, Which::A), (&b, Which::B)]
                .map(|(side, which)| Pool::of(side, pairing, which, &asked).unwrap());
            let (low, high) = bootstrap(&pools[0], &pools[1], pairing.cases(), &asked, 400, 0)[0]
                .interval(0.95)
                .unwrap();
            assert!(low <= 1.0 + 1e-9 && high >= 1.0 - 1e-9);
            high - low
        };
        let places: Vec<u32> = (0..200).collect();
        let paired = Pairing::ByCase {
            a: places.clone(),
            b: places,
            cases: 200,
        };
        assert!(width(&paired) < 1e-6 && width(&Pairing::None) > 10.0);
    }
}
