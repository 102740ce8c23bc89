//! What the constraint costs, in percent of the control arm, with an interval.
//!
//! The same cases were sent on the same schedule with and without their constraint, so that values
//! come in pairs, and the figure is the ratio of the two means over all pairs, less one. The
//! interval is a bootstrap in two stages (Davison and Hinkley, "Bootstrap Methods and their
//! Application", section 3.8): repeats are drawn again from themselves, and pairs within each. Few
//! repeats drawn from themselves are too much alike, so that with several the interval is at least
//! Student's, of the mean of the logarithms of the repeats' ratios: what varies between runs counts
//! for as much as so few runs allow to say. With one repeat it knows only what varies between
//! requests.

use serde::Serialize;

use super::difference::{LEAST_VALUES, MAX_DRAWS, RESAMPLES, middle};
use sobench_pycompat::random::NumpyRandom;
use sobench_statistics::Z_95;
use sobench_statistics::bootstrap::RandomSource;
use sobench_statistics::distributions::student_95;

/// How much more the constrained requests took than the same requests without a constraint.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Overhead {
    /// In percent of the control's mean: 0 is no difference, 100 twice as much.
    pub percent: f64,
    /// The bounds of the 95 % interval; `None` with fewer than ten pairs.
    pub low_percent: Option<f64>,
    pub high_percent: Option<f64>,
    /// Pairs of a constrained request and its control, both with a value.
    pub pairs: usize,
    /// The same figure of each repeat alone, in order.
    pub repeats_percent: Vec<f64>,
}

impl Overhead {
    /// Over the pairs (constrained, control) of each repeat; `None` without a pair, or where the
    /// control took no time.
    pub fn of(repeats: &[Vec<(f64, f64)>], seed: u64) -> Option<Self> {
        // A repeat without a pair says nothing, and cannot be drawn from.
        let repeats: Vec<Vec<(f64, f64)>> = repeats
            .iter()
            .filter(|pairs| !pairs.is_empty())
            .cloned()
            .collect();
        let all: Vec<(f64, f64)> = repeats.iter().flatten().copied().collect();
        let percent = percent(&all)?;
        let pairs = all.len();
        let bounds = (pairs >= LEAST_VALUES).then(|| {
            if pairs.saturating_mul(RESAMPLES) > MAX_DRAWS {
                let half = 100.0 * Z_95 * ratio_error(&all);
                let (low, high) = middle(seed, |random| ratio_of_drawn_repeats(random, &repeats));
                (100.0 * (low - 1.0) - half, 100.0 * (high - 1.0) + half)
            } else {
                let (low, high) = middle(seed, |random| drawn_ratio(random, &repeats));
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

/// Where there are so many pairs that drawing them again would bring nothing but time: what varies
/// between repeats.
fn ratio_of_drawn_repeats(random: &mut NumpyRandom, repeats: &[Vec<(f64, f64)>]) -> f64 {
    let of_repeats: Vec<(f64, f64)> = repeats.iter().map(|pairs| sums(pairs.iter())).collect();
    let drawn: Vec<(f64, f64)> = of_repeats
        .iter()
        .map(|_| of_repeats[random.below(of_repeats.len())])
        .collect();
    let (above, below) = sums(drawn.iter());
    above / below
}

/// Student's 95 % interval from the figures of single repeats, on the logarithm of their ratios;
/// `None` with fewer than two.
fn between_runs(repeats_percent: &[f64]) -> Option<(f64, f64)> {
    let n = repeats_percent.len();
    let logs: Vec<f64> = repeats_percent
        .iter()
        .map(|percent| (1.0 + percent / 100.0).ln())
        .collect();
    if n < 2 || logs.iter().any(|log| !log.is_finite()) {
        return None;
    }
    let centre = logs.iter().sum::<f64>() / n as f64;
    let squares: f64 = logs.iter().map(|log| (log - centre).powi(2)).sum();
    let half = student_95(n - 1) * (squares / ((n - 1) * n) as f64).sqrt();
    let percent = |log: f64| 100.0 * log.exp_m1();
    Some((percent(centre - half), percent(centre + half)))
}

/// The standard error of a ratio of sums over pairs.
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

    /// Pairs whose control is even around 10 and whose constrained value is `factor` times it, give
    /// or take.
    fn pairs(n: usize, factor: f64) -> Vec<(f64, f64)> {
        (0..n)
            .map(|place| {
                let control = 9.0 + 2.0 * (place % 11) as f64 / 10.0;
                (
                    control * factor + if place.is_multiple_of(2) { 0.5 } else { -0.5 },
                    control,
                )
            })
            .collect()
    }

    #[test]
    fn a_planted_cost_is_found_within_its_interval() {
        for factor in [0.9, 1.0, 1.2] {
            let found = Overhead::of(&[pairs(50, factor), pairs(50, factor)], 0).unwrap();
            let planted = 100.0 * (factor - 1.0);
            let (low, high) = (found.low_percent.unwrap(), found.high_percent.unwrap());
            assert!((found.percent - planted).abs() < 0.01, "{found:?}");
            // The values scatter by 0.5 around ten: a standard error of 0.5 % over ten pairs, of
            // 0.5 % / 10 ^ 0.5 over a hundred.
            assert!(
                low < planted && planted < high && (1.0..3.0).contains(&(high - low)),
                "{found:?}"
            );
            assert_eq!(found.repeats_percent.len(), 2);
            assert_eq!(
                Overhead::of(&[pairs(50, factor), pairs(50, factor)], 0).unwrap(),
                found,
                "the seed decides"
            );
        }
    }

    #[test]
    fn repeats_that_disagree_widen_the_interval() {
        for n in [50, 20_002] {
            let found = Overhead::of(&[pairs(n, 1.0), pairs(n, 1.4)], 0).unwrap();
            let (low, high) = (found.low_percent.unwrap(), found.high_percent.unwrap());
            assert!(
                (found.percent - 20.0).abs() < 0.01 && low < 0.1 && high > 39.9,
                "{found:?}"
            );
        }
        let found = Overhead::of(&[vec![], pairs(50, 1.2)], 0).unwrap();
        assert_eq!((found.pairs, found.repeats_percent.len()), (50, 1));
    }

    #[test]
    fn so_few_repeats_say_little() {
        // ln 1.1 and ln 1.3 are 0.167 apart: half of that is the standard error, 12.706 times of
        // which is 1.061 to each side of 0.179.
        let (low, high) = between_runs(&[10.0, 30.0]).unwrap();
        assert!(
            (low + 58.6).abs() < 0.2 && (high - 245.6).abs() < 1.0,
            "{low} to {high}"
        );
        assert_eq!(
            (between_runs(&[10.0]), between_runs(&[10.0, -100.0])),
            (None, None)
        );
        let two = Overhead::of(&[pairs(50, 1.1), pairs(50, 1.3)], 0).unwrap();
        let eight: Vec<_> = (0..8)
            .map(|repeat| pairs(50, if repeat % 2 == 0 { 1.1 } else { 1.3 }))
            .collect();
        let eight = Overhead::of(&eight, 0).unwrap();
        assert!(
            two.low_percent < Some(-50.0) && eight.low_percent > Some(5.0),
            "{two:?} {eight:?}"
        );
    }

    #[test]
    fn the_two_ways_to_an_interval_agree() {
        let many = Overhead::of(&[pairs(20_002, 1.2)], 0).unwrap();
        let width = many.high_percent.unwrap() - many.low_percent.unwrap();
        let few = Overhead::of(&[pairs(200, 1.2)], 0).unwrap();
        let expected = (few.high_percent.unwrap() - few.low_percent.unwrap()) / 10.0;
        assert!(
            (width / expected - 1.0).abs() < 0.1,
            "{width} and {expected}"
        );
    }

    #[test]
    fn few_pairs_have_no_interval_and_none_have_no_figure() {
        let found = Overhead::of(&[pairs(9, 1.2)], 0).unwrap();
        assert_eq!(
            (found.low_percent, found.high_percent, found.pairs),
            (None, None, 9)
        );
        assert_eq!(Overhead::of(&[], 0), None);
        assert_eq!(Overhead::of(&[vec![]], 0), None);
        assert_eq!(
            Overhead::of(&[vec![(1.0, 0.0)]], 0),
            None,
            "a control without time has no percent"
        );
    }
}
