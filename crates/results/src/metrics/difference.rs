//! The difference of two means, with an interval.
//!
//! The interval is Efron's percentile bootstrap: the samples are drawn again, with replacement,
//! from themselves, and the middle 95 % of the differences that come out are it. It asks for no
//! shape of the distribution, and latencies have none that is nice. Like every interval from one
//! run it knows nothing of what another run would bring.

use serde::Serialize;

use sobench_pycompat::random::NumpyRandom;
use sobench_statistics::bootstrap::{self, RandomSource};
use sobench_statistics::{Z_95, mean};

/// How often the samples are drawn again.
pub(super) const RESAMPLES: usize = 2000;

/// Fewer values than this, drawn again from themselves, are too much alike: the interval would be
/// far too narrow.
pub(super) const LEAST_VALUES: usize = 10;

/// Draws that one interval may take. Larger samples have means as good as normal, and an interval
/// from their standard errors.
pub(super) const MAX_DRAWS: usize = 40_000_000;

/// How much larger one mean is than another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The first mean less the second.
    pub difference: f64,
    /// The bounds of the 95 % interval; `None` where a sample has fewer than ten values.
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// Values that the first mean is of; of pairs, their number.
    pub n: usize,
    /// Values that the second mean is of; of pairs, their number.
    pub m: usize,
    pub method: Method,
}

/// Where an interval is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Bootstrap over two samples.
    Bootstrap,
    /// Bootstrap over the differences of pairs.
    PairedBootstrap,
    /// Standard errors of two large samples (Welch).
    Welch,
    /// The standard error of a large number of differences.
    PairedNormal,
}

impl Difference {
    /// Two samples that have nothing to do with each other; `None` where one is empty.
    pub fn of(first: &[f64], second: &[f64], seed: u64) -> Option<Self> {
        let difference = mean(first)? - mean(second)?;
        let (n, m) = (first.len(), second.len());
        let enough = n >= LEAST_VALUES && m >= LEAST_VALUES;
        if (n + m).saturating_mul(RESAMPLES) > MAX_DRAWS {
            let half = Z_95 * (squared_error(first) + squared_error(second)).sqrt();
            let bound = |side: f64| enough.then_some(difference + side * half);
            return Some(Self {
                difference,
                low: bound(-1.0),
                high: bound(1.0),
                n,
                m,
                method: Method::Welch,
            });
        }
        let bounds = enough.then(|| {
            middle(seed, |random| {
                drawn_mean(random, first) - drawn_mean(random, second)
            })
        });
        let (low, high) = bounds.unzip();
        Some(Self {
            difference,
            low,
            high,
            n,
            m,
            method: Method::Bootstrap,
        })
    }

    /// The differences of pairs; `None` where there are none.
    pub fn of_pairs(differences: &[f64], seed: u64) -> Option<Self> {
        let difference = mean(differences)?;
        let n = differences.len();
        if n.saturating_mul(RESAMPLES) > MAX_DRAWS {
            let half = Z_95 * squared_error(differences).sqrt();
            let (low, high) = (Some(difference - half), Some(difference + half));
            return Some(Self {
                difference,
                low,
                high,
                n,
                m: n,
                method: Method::PairedNormal,
            });
        }
        let bounds =
            (n >= LEAST_VALUES).then(|| middle(seed, |random| drawn_mean(random, differences)));
        let (low, high) = bounds.unzip();
        Some(Self {
            difference,
            low,
            high,
            n,
            m: n,
            method: Method::PairedBootstrap,
        })
    }
}

/// The 2.5 % and 97.5 % points of what `draw` returns for each resample.
pub(super) fn middle(seed: u64, draw: impl Fn(&mut NumpyRandom) -> f64 + Sync) -> (f64, f64) {
    let mut replicates = NumpyRandom::resample(seed, RESAMPLES, |random, (): &mut ()| draw(random));
    replicates.sort_by(f64::total_cmp);
    bootstrap::middle(&replicates, RESAMPLES / 40).unwrap_or((f64::NAN, f64::NAN))
}

fn drawn_mean(random: &mut NumpyRandom, values: &[f64]) -> f64 {
    let n = values.len();
    let sum: f64 = (0..n).map(|_| values[random.below(n)]).sum();
    sum / n as f64
}

/// The square of the mean's standard error.
fn squared_error(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let centre = mean(values).unwrap_or(0.0);
    values
        .iter()
        .map(|value| (value - centre).powi(2))
        .sum::<f64>()
        / (n * (n - 1.0)).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some values around a centre, spread evenly over 2.
    fn around(centre: f64, n: usize) -> Vec<f64> {
        (0..n)
            .map(|place| centre - 1.0 + 2.0 * place as f64 / (n - 1) as f64)
            .collect()
    }

    fn bounds(it: &Difference) -> (f64, f64) {
        (it.low.unwrap(), it.high.unwrap())
    }

    #[test]
    fn the_interval_is_about_that_of_the_standard_errors() {
        // The standard error of each mean is 0.0833 here, of the difference 0.1178: 95 % are 0.231
        // to each side.
        let found = Difference::of(&around(5.0, 50), &around(3.0, 50), 0).unwrap();
        assert!((found.difference - 2.0).abs() < 1e-9);
        let (low, high) = bounds(&found);
        assert!(
            (low - 1.77).abs() < 0.02 && (high - 2.23).abs() < 0.02,
            "{low} to {high}"
        );
        assert_eq!(
            Difference::of(&around(5.0, 50), &around(3.0, 50), 0).unwrap(),
            found,
            "the seed decides"
        );
        let pairs = Difference::of_pairs(&around(2.0, 50), 7).unwrap();
        let (low, high) = bounds(&pairs);
        assert!(
            (low - 1.84).abs() < 0.02 && (high - 2.16).abs() < 0.02,
            "{low} to {high}"
        );
        assert_eq!(pairs.method, Method::PairedBootstrap);
    }

    #[test]
    fn a_large_sample_is_as_good_as_normal() {
        let large = Difference::of(&around(5.0, 20_000), &around(3.0, 20_000), 0).unwrap();
        assert_eq!(large.method, Method::Welch);
        let (low, high) = bounds(&large);
        assert!(
            (high - low - 2.0 * 0.011_32).abs() < 1e-4,
            "{low} to {high}"
        );
        assert_eq!(
            Difference::of_pairs(&around(2.0, 20_001), 0)
                .unwrap()
                .method,
            Method::PairedNormal
        );
    }

    #[test]
    fn few_values_have_no_interval_and_none_have_no_difference() {
        let one = Difference::of(&[5.0], &around(3.0, 99), 0).unwrap();
        assert_eq!((one.difference, one.low, one.high), (2.0, None, None));
        for (n, has_interval) in [(9, false), (10, true)] {
            assert_eq!(
                Difference::of(&around(5.0, 40), &around(3.0, n), 0)
                    .unwrap()
                    .low
                    .is_some(),
                has_interval
            );
            assert_eq!(
                Difference::of_pairs(&around(5.0, n), 0)
                    .unwrap()
                    .high
                    .is_some(),
                has_interval
            );
        }
        assert_eq!(
            (
                Difference::of(&[], &[1.0], 0),
                Difference::of(&[1.0], &[], 0)
            ),
            (None, None)
        );
        assert_eq!(Difference::of_pairs(&[], 0), None);
    }
}
