//! A test for a step: a shift of the level of values in their order, at an unknown place.

use super::distributions::{normal_density, two_sided_p};

/// The smallest share of the values on each side of a step, and the smallest number of values that
/// is tested.
const MIN_SHARE: f64 = 0.1;
const MIN_VALUES: usize = 20;

/// The most likely step of values in their order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelShift {
    /// The index of the first value after it.
    pub at: usize,
    /// The probability of a step as clear as this one in values without any.
    pub p_value: f64,
}

impl LevelShift {
    /// The split with the largest standardised rank sum (Wilcoxon 1945, with mid-ranks and the
    /// variance for ties), of those with a tenth of the values or more on each side; `None` with too
    /// few values, or if all are equal.
    ///
    /// Consecutive latencies are similar, so the rank sum is divided by the square root of
    /// (1 + r) / (1 - r) (Bartlett 1946), with the lag-1 correlation r of the ranks about the means
    /// of both sides. 4 / n is added to r, since it is estimated too low about fitted means
    /// (Kendall 1954). The p-value of the maximum is the approximation of James, James and Siegmund
    /// (1987) for a Brownian bridge.
    pub fn new(values: &[f64]) -> Option<Self> {
        let n = values.len();
        if n < MIN_VALUES {
            return None;
        }
        let (ranks, ties) = mid_ranks(values);
        let count = n as f64;
        let variance = (count + 1.0 - ties / (count * (count - 1.0))) / 12.0;
        if variance <= 0.0 {
            return None;
        }
        let edge = (count * MIN_SHARE).ceil() as usize;
        let (mut sum, mut best) = (0.0, (0.0, edge));
        for (at, rank) in (1..).zip(&ranks[..n - edge]) {
            sum += rank;
            let before = at as f64;
            let excess = sum - before * (count + 1.0) / 2.0;
            let z = excess.abs() / (before * (count - before) * variance).sqrt();
            if at >= edge && z > best.0 {
                best = (z, at);
            }
        }
        let (z, at) = best;
        let (before, after) = ranks.split_at(at);
        let residuals: Vec<f64> = [before, after]
            .into_iter()
            .flat_map(|side| {
                let mean = side.iter().sum::<f64>() / side.len() as f64;
                side.iter().map(move |rank| rank - mean)
            })
            .collect();
        let products: f64 = residuals.windows(2).map(|pair| pair[0] * pair[1]).sum();
        let squares: f64 = residuals.iter().map(|residual| residual * residual).sum();
        let correlation = if squares > 0.0 {
            products / squares
        } else {
            0.0
        };
        let correlation = (correlation + 4.0 / count).clamp(0.0, 0.9);
        let z = z / ((1.0 + correlation) / (1.0 - correlation)).sqrt();
        Some(Self {
            at,
            p_value: p_value_of_maximum(z),
        })
    }
}

/// The probability that a standardised Brownian bridge exceeds `z` in absolute value somewhere
/// between [`MIN_SHARE`] and 1 - [`MIN_SHARE`].
fn p_value_of_maximum(z: f64) -> f64 {
    if z < 1.0 {
        return 1.0;
    }
    let span = 2.0 * ((1.0 - MIN_SHARE) / MIN_SHARE).ln();
    let tail = normal_density(z) * ((z - 1.0 / z) * span + 4.0 / z);
    tail.clamp(two_sided_p(z), 1.0)
}

/// The rank of each value, from 1, with the mean rank for equal ones; and the sum of t^3 - t over
/// groups of t equal values.
fn mid_ranks(values: &[f64]) -> (Vec<f64>, f64) {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|one, other| values[*one].total_cmp(&values[*other]));
    let (mut ranks, mut ties, mut below) = (vec![0.0; values.len()], 0.0, 0);
    for equal in order.chunk_by(|one, other| values[*one] == values[*other]) {
        let t = equal.len() as f64;
        let rank = below as f64 + (t + 1.0) / 2.0;
        equal.iter().for_each(|index| ranks[*index] = rank);
        ties += t * t * t - t;
        below += equal.len();
    }
    (ranks, ties)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distributions::draw_normal;
    use sobench_pycompat::random::NumpyRandom;

    /// The shares of 1,000 samples whose p-value is at most 0.005. Consecutive logarithms have this
    /// correlation, and from a place on, values are higher by a factor.
    fn share_found(n: usize, spread: f64, correlation: f64, factor: f64, at: f64) -> f64 {
        let mut random = NumpyRandom::new(n as u32);
        let found = (0..1000).filter(|_| {
            let mut level = 0.0;
            let values: Vec<f64> = (0..n)
                .map(|index| {
                    level = correlation * level + spread * draw_normal(&mut random);
                    let is_after = index as f64 >= at * n as f64;
                    20.0 * level.exp() * if is_after { factor } else { 1.0 }
                })
                .collect();
            LevelShift::new(&values).is_some_and(|found| found.p_value <= 0.005)
        });
        found.count() as f64 / 1000.0
    }

    #[test]
    fn steps_of_1_65_are_found_and_steady_values_have_none() {
        for n in [60, 100, 200] {
            for at in [0.35, 0.5, 0.65] {
                assert!(share_found(n, 0.15, 0.0, 1.65, at) >= 0.995, "{n}, {at}");
                // Fewer than 100 values with such noise do not show every step.
                let least = if n < 100 { 0.75 } else { 0.99 };
                for (spread, correlation) in [(0.2, 0.3), (0.3, 0.0)] {
                    let share = share_found(n, spread, correlation, 1.65, at);
                    assert!(
                        share >= least,
                        "{n}, {spread}, {correlation}, {at}: {share}"
                    );
                }
            }
            for (spread, correlation) in [(0.15, 0.0), (1.0, 0.0), (0.2, 0.3), (0.3, 0.5)] {
                let share = share_found(n, spread, correlation, 1.0, 0.5);
                assert!(share <= 0.01, "{n}, {spread}, {correlation}: {share}");
            }
        }
    }

    #[test]
    fn steps_are_found_at_their_place() {
        let noise = |index: usize| (index * 7919 % 31) as f64 / 100.0;
        let values: Vec<f64> = (0..60)
            .map(|index| if index < 24 { 1.0 } else { 2.0 } + noise(index))
            .collect();
        let found = LevelShift::new(&values).unwrap();
        assert!(found.at == 24 && found.p_value < 1e-6, "{found:?}");
        let level: Vec<f64> = (0..60).map(noise).collect();
        let found = LevelShift::new(&level).unwrap();
        assert!(found.p_value > 0.05, "{found:?}");
        assert_eq!(LevelShift::new(&[1.0; 60]), None);
        assert_eq!(LevelShift::new(&values[..19]), None);
    }

    #[test]
    fn equal_values_share_their_rank() {
        let (ranks, ties) = mid_ranks(&[3.0, 1.0, 3.0, 2.0]);
        assert_eq!((ranks, ties), (vec![3.5, 1.0, 3.5, 2.0], 6.0));
    }
}
