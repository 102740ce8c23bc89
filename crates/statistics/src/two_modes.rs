//! A test for two modes of a sample of positive values, such as latencies.

use super::distributions::binomial_at_most;
use super::percentile;

/// Quantiles between which valleys are looked for.
const KNOTS: usize = 40;

/// The largest probability of a valley. There are hundreds of candidates, most of them nearly the
/// same: for samples of one mode, from 20 to 1,000 values, the smallest of their probabilities is
/// below 0.0015 in a hundredth of the samples, by simulation.
const MAX_P_VALUE: f64 = 0.0002;

/// The smallest share of a mode, and the smallest factor between their medians.
const MIN_SHARE: f64 = 0.1;
const MIN_FACTOR: f64 = 1.5;

/// A sample with two modes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoModes {
    /// The share of the values in the lower mode, in percent.
    pub low_percent: f64,
    /// The medians of both modes.
    pub low: f64,
    pub high: f64,
}

impl TwoModes {
    /// The modes of a sample; `None` if one mode explains it.
    ///
    /// A density with one mode rises towards it, so its mean over an interval is never below both
    /// its means over the two neighbours of the same width. A valley is an interval with fewer
    /// values than both neighbours, by the conditional binomial test of two counts (Przyborowski and
    /// Wilenski 1940). It is taken in the logarithms, in which log-normal, gamma and exponential
    /// distributions have one mode.
    pub fn new(mut values: Vec<f64>) -> Option<Self> {
        values.retain(|value| *value > 0.0);
        values.sort_by(f64::total_cmp);
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        let last = logs.len().checked_sub(1)?;
        let mut knots: Vec<usize> = (0..KNOTS).map(|knot| knot * last / (KNOTS - 1)).collect();
        knots.dedup();
        // The widest valley: a narrow one may split a mode.
        let mut widest: Option<(f64, f64)> = None;
        for (index, from) in knots.iter().enumerate() {
            for to in &knots[index + 1..] {
                let (low, high) = (logs[*from], logs[*to]);
                let width = high - low;
                let below = from + 1 - logs.partition_point(|log| *log < low - width);
                let above = logs.partition_point(|log| *log <= high + width) - to;
                let (middle, side) = (to - from - 1, below.min(above));
                // Without this, most candidates would cost a binomial distribution.
                if middle >= side {
                    continue;
                }
                let is_wider = widest.is_none_or(|(other, _)| width > other);
                if is_wider && binomial_at_most(middle, middle + side, 0.5) <= MAX_P_VALUE {
                    widest = Some((width, (low + high) / 2.0));
                }
            }
        }
        let (_, valley) = widest?;
        let (low, high) = values.split_at(logs.partition_point(|log| *log < valley));
        let share = low.len() as f64 / values.len() as f64;
        let found = Self {
            low_percent: 100.0 * share,
            low: percentile(low, 50.0)?,
            high: percentile(high, 50.0)?,
        };
        let is_clear =
            (MIN_SHARE..=1.0 - MIN_SHARE).contains(&share) && found.high >= MIN_FACTOR * found.low;
        is_clear.then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distributions::draw_normal;
    use sobench_pycompat::random::NumpyRandom;

    fn found(runs: usize, n: usize, mut draw: impl FnMut(usize) -> f64) -> Vec<TwoModes> {
        let runs = (0..runs).filter_map(|_| TwoModes::new((0..n).map(&mut draw).collect()));
        runs.collect()
    }

    /// One sample in a hundred at most, of log-normal, exponential and gamma distributions.
    #[test]
    fn samples_of_one_mode_have_no_second_one() {
        let mut random = NumpyRandom::new(11);
        for n in [40, 100, 300] {
            for spread in [0.1, 0.5, 1.0] {
                let false_alarms =
                    found(300, n, |_| 20.0 * (spread * draw_normal(&mut random)).exp());
                assert!(false_alarms.len() <= 3, "log-normal {spread}, {n}");
            }
            // A gamma distribution of shape 1 is exponential.
            for shape in [0.7, 1.0, 3.0] {
                let false_alarms = found(300, n, |_| random.gamma(shape, 20.0));
                assert!(false_alarms.len() <= 3, "gamma {shape}, {n}");
            }
        }
        assert_eq!(TwoModes::new(vec![]), None);
        assert_eq!(TwoModes::new(vec![5.0; 100]), None);
    }

    #[test]
    fn two_modes_are_found_with_their_shares() {
        let mut random = NumpyRandom::new(5);
        for n in [60, 100, 200] {
            let modes = found(200, n, |at| {
                let center = if at % 2 == 0 { 20.0 } else { 200.0 };
                center * (0.2 * draw_normal(&mut random)).exp()
            });
            assert!(modes.len() >= 198, "{} of 200 with {n} values", modes.len());
            for modes in modes {
                let TwoModes {
                    low_percent,
                    low,
                    high,
                } = modes;
                let is_near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.2;
                assert!(
                    is_near(low_percent, 50.0) && is_near(low, 20.0) && is_near(high, 200.0),
                    "{modes:?}"
                );
            }
        }
    }
}
