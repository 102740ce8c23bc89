//! The cost of constraints: added milliseconds ([`Added`]), and percent of the control arm
//! ([`Overhead`]), each with a confidence interval.
//!
//! The same cases are sent on the same schedule with and without their constraint, so values come
//! in pairs. The added time is the mean of their differences. The percentage is the ratio of the
//! two means over all pairs, minus one. The intervals are a two-stage bootstrap (Davison and Hinkley, "Bootstrap Methods and their Application", section
//! 3.8): repeats are resampled, and pairs within each. Resamples of few repeats vary too little, so
//! the interval is at least Student's interval over the repeats: of their added times, and of the
//! logarithms of their ratios.
//! Below three repeats there is no interval: one repeat shows no variation between runs, and with
//! two Student's factor is 12.7.

use schemars::JsonSchema;
use serde::Serialize;

use super::mean_difference::{
    MAX_DRAWS, MIN_VALUES, RESAMPLES, percentile_interval, squared_error,
};
use sobench_pycompat::random::NumpyRandom;
use sobench_statistics::bootstrap::RandomSource;
use sobench_statistics::distributions::student_t_975;
use sobench_statistics::{Z_95, mean};

/// Minimum number of repeats for an interval.
pub const MIN_REPEATS: usize = 3;

/// Minimum mean of the control in ms. Below it a percentage says nothing: the differences are those
/// of single system calls.
pub const MIN_CONTROL_MEAN_MS: f64 = 1.0;

/// The relative difference between constrained requests and the same requests without a constraint.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Overhead {
    /// In percent of the control's mean: 0 is no difference, 100 is twice as much.
    pub percent: f64,
    /// Bounds of the 95 % interval; `None` with fewer than ten pairs or [`MIN_REPEATS`] repeats.
    pub low_percent: Option<f64>,
    pub high_percent: Option<f64>,
    /// Number of pairs of a constrained request and its control, both with a value.
    pub pairs: usize,
    /// The same figure for each repeat, in order.
    pub repeats_percent: Vec<f64>,
}

/// The time that the constraint adds to a request, in ms.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Added {
    /// Mean of the differences between constrained requests and their controls.
    pub ms: f64,
    /// Bounds of the 95 % interval; `None` with fewer than ten pairs or [`MIN_REPEATS`] repeats.
    pub low_ms: Option<f64>,
    pub high_ms: Option<f64>,
    /// Number of pairs of a constrained request and its control, both with a value.
    pub pairs: usize,
    /// The same figure for each repeat, in order.
    pub repeats_ms: Vec<f64>,
    /// The same in percent of the control; `None` if the control's mean is below
    /// [`MIN_CONTROL_MEAN_MS`].
    pub percent: Option<Overhead>,
}

impl Added {
    /// Whether there are enough pairs to show the figure.
    pub fn has_enough_pairs(&self) -> bool {
        self.pairs >= MIN_VALUES
    }

    /// Computes the figure from the pairs (constrained, control) of each repeat, in ms; `None`
    /// without pairs.
    pub fn new(repeats: &[Vec<(f64, f64)>], seed: u64) -> Option<Self> {
        let differences = |pairs: &Vec<(f64, f64)>| -> Vec<f64> {
            pairs.iter().map(|(one, other)| one - other).collect()
        };
        let by_repeat: Vec<Vec<f64>> = repeats
            .iter()
            .filter(|pairs| !pairs.is_empty())
            .map(differences)
            .collect();
        let all = by_repeat.concat();
        let ms = mean(&all)?;
        let repeats_ms: Vec<f64> = by_repeat.iter().filter_map(|repeat| mean(repeat)).collect();
        let has_interval = all.len() >= MIN_VALUES && repeats_ms.len() >= MIN_REPEATS;
        let bounds = has_interval.then(|| {
            let (low, high) = if all.len().saturating_mul(RESAMPLES) > MAX_DRAWS {
                let half = Z_95 * squared_error(&all).sqrt();
                let (low, high) = percentile_interval(seed, |random| {
                    drawn_mean(random, repeats_ms.len(), |_, repeat| repeats_ms[repeat])
                });
                (low - half, high + half)
            } else {
                percentile_interval(seed, |random| {
                    drawn_mean(random, by_repeat.len(), |random, repeat| {
                        let values = &by_repeat[repeat];
                        drawn_mean(random, values.len(), |_, index| values[index])
                    })
                })
            };
            let degrees = repeats_ms.len() - 1;
            let center = mean(&repeats_ms).unwrap_or(ms);
            let half = student_t_975(degrees) * squared_error(&repeats_ms).sqrt();
            (low.min(center - half), high.max(center + half))
        });
        let (low_ms, high_ms) = bounds.unzip();
        Some(Self {
            ms,
            low_ms,
            high_ms,
            pairs: all.len(),
            repeats_ms,
            percent: Overhead::new(repeats, seed),
        })
    }
}

/// The mean of the values of `count` random indices below `count`.
fn drawn_mean(
    random: &mut NumpyRandom,
    count: usize,
    value: impl Fn(&mut NumpyRandom, usize) -> f64,
) -> f64 {
    let draw = |random: &mut NumpyRandom| {
        let index = random.below(count);
        value(random, index)
    };
    (0..count).map(|_| draw(random)).sum::<f64>() / count as f64
}

impl Overhead {
    /// Computes the figure from the pairs (constrained, control) of each repeat, in ms; `None`
    /// without pairs, or if the control's mean is below [`MIN_CONTROL_MEAN_MS`].
    pub fn new(repeats: &[Vec<(f64, f64)>], seed: u64) -> Option<Self> {
        // A repeat without pairs cannot be resampled.
        let repeats: Vec<Vec<(f64, f64)>> = repeats
            .iter()
            .filter(|pairs| !pairs.is_empty())
            .cloned()
            .collect();
        let all: Vec<(f64, f64)> = repeats.iter().flatten().copied().collect();
        let pairs = all.len();
        let percent =
            percent(&all).filter(|_| sums(all.iter()).1 >= MIN_CONTROL_MEAN_MS * pairs as f64)?;
        let has_interval = pairs >= MIN_VALUES && repeats.len() >= MIN_REPEATS;
        let bounds = has_interval.then(|| {
            if pairs.saturating_mul(RESAMPLES) > MAX_DRAWS {
                let half = 100.0 * Z_95 * ratio_error(&all);
                let (low, high) =
                    percentile_interval(seed, |random| ratio_of_drawn_repeats(random, &repeats));
                (100.0 * (low - 1.0) - half, 100.0 * (high - 1.0) + half)
            } else {
                let (low, high) = percentile_interval(seed, |random| drawn_ratio(random, &repeats));
                (100.0 * (low - 1.0), 100.0 * (high - 1.0))
            }
        });
        let repeats_percent: Vec<f64> = repeats
            .iter()
            .filter_map(|pairs| self::percent(pairs))
            .collect();
        let bounds = bounds.map(|(low, high)| match between_runs(&repeats_percent) {
            Some((lower, higher)) => (low.min(lower), high.max(higher)),
            None => (low, high),
        });
        let (low_percent, high_percent) = bounds.unzip();
        Some(Self {
            percent,
            low_percent,
            high_percent,
            pairs,
            repeats_percent,
        })
    }
}

fn percent(pairs: &[(f64, f64)]) -> Option<f64> {
    let (above, below) = sums(pairs.iter());
    (below > 0.0).then(|| 100.0 * (above / below - 1.0))
}

fn sums<'a>(pairs: impl Iterator<Item = &'a (f64, f64)>) -> (f64, f64) {
    pairs.fold((0.0, 0.0), |(above, below), (one, other)| {
        (above + one, below + other)
    })
}

fn drawn_ratio(random: &mut NumpyRandom, repeats: &[Vec<(f64, f64)>]) -> f64 {
    let (mut above, mut below) = (0.0, 0.0);
    for _ in repeats {
        let pairs = &repeats[random.below(repeats.len())];
        for _ in pairs {
            let (one, other) = pairs[random.below(pairs.len())];
            above += one;
            below += other;
        }
    }
    above / below
}

/// For many pairs: resamples only repeats, because the variation between requests is known from the
/// standard error.
fn ratio_of_drawn_repeats(random: &mut NumpyRandom, repeats: &[Vec<(f64, f64)>]) -> f64 {
    let of_repeats: Vec<(f64, f64)> = repeats.iter().map(|pairs| sums(pairs.iter())).collect();
    let drawn: Vec<(f64, f64)> = of_repeats
        .iter()
        .map(|_| of_repeats[random.below(of_repeats.len())])
        .collect();
    let (above, below) = sums(drawn.iter());
    above / below
}

/// Student's 95 % interval over repeats, on the logarithm of their ratios; `None` with fewer than
/// [`MIN_REPEATS`].
fn between_runs(repeats_percent: &[f64]) -> Option<(f64, f64)> {
    let n = repeats_percent.len();
    let logs: Vec<f64> = repeats_percent
        .iter()
        .map(|percent| (1.0 + percent / 100.0).ln())
        .collect();
    if n < MIN_REPEATS || logs.iter().any(|log| !log.is_finite()) {
        return None;
    }
    let centre = logs.iter().sum::<f64>() / n as f64;
    let squares: f64 = logs.iter().map(|log| (log - centre).powi(2)).sum();
    let half = student_t_975(n - 1) * (squares / ((n - 1) * n) as f64).sqrt();
    let percent = |log: f64| 100.0 * log.exp_m1();
    Some((percent(centre - half), percent(centre + half)))
}

/// Standard error of a ratio of sums over pairs.
fn ratio_error(pairs: &[(f64, f64)]) -> f64 {
    let n = pairs.len() as f64;
    let (above, below) = sums(pairs.iter());
    let ratio = above / below;
    let squares: f64 = pairs
        .iter()
        .map(|(one, other)| (one - ratio * other).powi(2))
        .sum();
    (squares / (n * (n - 1.0))).sqrt() / (below / n)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs with controls around 10 and constrained values of about `factor` times the control.
    fn pairs(n: usize, factor: f64) -> Vec<(f64, f64)> {
        (0..n)
            .map(|index| {
                let control = 9.0 + 2.0 * (index % 11) as f64 / 10.0;
                (
                    control * factor + if index.is_multiple_of(2) { 0.5 } else { -0.5 },
                    control,
                )
            })
            .collect()
    }

    fn repeats(n: usize, factors: &[f64]) -> Vec<Vec<(f64, f64)>> {
        factors.iter().map(|factor| pairs(n, *factor)).collect()
    }

    #[test]
    fn planted_cost_is_within_its_interval() {
        for factor in [0.9, 1.0, 1.2] {
            let found = Overhead::new(&repeats(50, &[factor; 3]), 0).unwrap();
            let planted = 100.0 * (factor - 1.0);
            let (low, high) = (found.low_percent.unwrap(), found.high_percent.unwrap());
            assert!((found.percent - planted).abs() < 0.01, "{found:?}");
            // The values scatter by 0.5 around 10: a relative standard error of 0.4 % over 150
            // pairs.
            assert!(
                low < planted && planted < high && (0.8..3.0).contains(&(high - low)),
                "{found:?}"
            );
            assert_eq!(found.repeats_percent.len(), 3);
            assert_eq!(
                Overhead::new(&repeats(50, &[factor; 3]), 0).unwrap(),
                found,
                "the same seed gives the same interval"
            );
        }
    }

    #[test]
    fn different_repeats_widen_the_interval() {
        for n in [50, 20_002] {
            let found = Overhead::new(&repeats(n, &[1.0, 1.2, 1.4]), 0).unwrap();
            let (low, high) = (found.low_percent.unwrap(), found.high_percent.unwrap());
            assert!(
                (found.percent - 20.0).abs() < 0.01 && low < 0.1 && high > 39.9,
                "{found:?}"
            );
        }
        let found = Overhead::new(&[vec![], pairs(50, 1.2)], 0).unwrap();
        assert_eq!((found.pairs, found.repeats_percent.len()), (50, 1));
    }

    #[test]
    fn added_time_is_absolute_and_has_an_interval_over_pairs_and_repeats() {
        // Controls average 10 over each 11 pairs, so a factor of 1.2 adds 2 ms.
        let found = Added::new(&repeats(44, &[1.2; 3]), 0).unwrap();
        let (low, high) = (found.low_ms.unwrap(), found.high_ms.unwrap());
        assert!(
            (found.ms - 2.0).abs() < 1e-9 && found.pairs == 132,
            "{found:?}"
        );
        assert!(
            low < 2.0 && 2.0 < high && (0.05..0.4).contains(&(high - low)),
            "{found:?}"
        );
        assert_eq!(found.percent, Overhead::new(&repeats(44, &[1.2; 3]), 0));
        // Repeats add 1, 2 and 3 ms: a standard error of 0.577 and Student's factor 4.303.
        for n in [44, 20_009] {
            let found = Added::new(&repeats(n, &[1.1, 1.2, 1.3]), 0).unwrap();
            let (low, high) = (found.low_ms.unwrap(), found.high_ms.unwrap());
            assert!(
                low < -0.48 && high > 4.48 && (found.ms - 2.0).abs() < 0.01,
                "{found:?}"
            );
        }
    }

    #[test]
    fn added_time_needs_three_repeats_for_an_interval_and_no_size_of_control() {
        let two = Added::new(&repeats(44, &[1.2; 2]), 0).unwrap();
        assert_eq!(
            (two.low_ms, two.high_ms, two.repeats_ms.len()),
            (None, None, 2)
        );
        let instant = Added::new(&vec![vec![(1.5, 0.001); 20]; 3], 0).unwrap();
        assert!((instant.ms - 1.499).abs() < 1e-9 && instant.percent.is_none());
        assert!(
            instant.high_ms.unwrap() - instant.low_ms.unwrap() < 1e-9,
            "all pairs are equal: {instant:?}"
        );
        assert_eq!(Added::new(&[vec![]], 0), None);
    }

    #[test]
    fn fewer_than_three_repeats_have_no_interval() {
        for factors in [&[1.1][..], &[1.1, 1.3]] {
            let few = Overhead::new(&repeats(50, factors), 0).unwrap();
            assert_eq!((few.low_percent, few.high_percent), (None, None), "{few:?}");
            assert_eq!(few.repeats_percent.len(), factors.len());
        }
        // Repeats without pairs do not count.
        let [one, two] = [pairs(50, 1.1), pairs(50, 1.3)];
        assert_eq!(
            Overhead::new(&[one, vec![], two], 0).unwrap().low_percent,
            None
        );
    }

    #[test]
    fn few_repeats_have_a_wide_interval() {
        // The logarithms of 1.1, 1.2 and 1.3 have a standard deviation of 0.0836 and a standard
        // error of 0.0482. Student's factor is 4.303, and the half width around 0.1800 is 0.2076.
        let (low, high) = between_runs(&[10.0, 20.0, 30.0]).unwrap();
        assert!(
            (low + 2.7).abs() < 0.2 && (high - 47.4).abs() < 0.3,
            "{low} to {high}"
        );
        assert_eq!(
            (
                between_runs(&[10.0, 30.0]),
                between_runs(&[10.0, 20.0, -100.0])
            ),
            (None, None)
        );
        let three = Overhead::new(&repeats(50, &[1.1, 1.2, 1.3]), 0).unwrap();
        let eight = [1.1, 1.3].repeat(4);
        let eight = Overhead::new(&repeats(50, &eight), 0).unwrap();
        assert!(
            three.low_percent < Some(0.0) && eight.low_percent > Some(5.0),
            "{three:?} {eight:?}"
        );
    }

    #[test]
    fn both_methods_give_similar_intervals() {
        let width = |n| {
            let found = Overhead::new(&repeats(n, &[1.2; 3]), 0).unwrap();
            found.high_percent.unwrap() - found.low_percent.unwrap()
        };
        let (width, expected) = (width(6_700), width(67) / 10.0);
        assert!(
            (width / expected - 1.0).abs() < 0.1,
            "{width} and {expected}"
        );
    }

    #[test]
    fn few_pairs_have_no_interval_and_none_have_no_figure() {
        let found = Overhead::new(&repeats(3, &[1.2; 3]), 0).unwrap();
        assert_eq!(
            (found.low_percent, found.high_percent, found.pairs),
            (None, None, 9)
        );
        assert_eq!(Overhead::new(&[], 0), None);
        assert_eq!(Overhead::new(&[vec![]], 0), None);
    }

    #[test]
    fn a_control_below_one_millisecond_has_no_percentage() {
        let at = |control: f64| Overhead::new(&vec![vec![(2.0 * control, control); 50]; 3], 0);
        for control in [0.0, 0.02, 0.99] {
            assert_eq!(at(control), None, "{control} ms");
        }
        assert_eq!(at(1.0).unwrap().percent, 100.0);
    }
}
