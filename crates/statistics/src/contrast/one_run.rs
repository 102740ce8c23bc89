//! The difference of two means with a confidence interval.
//!
//! The interval is Efron's percentile bootstrap: the middle 95 % of the differences over resamples.
//! It does not assume a distribution, and latencies are skewed. Like every interval from one run,
//! it does not include the variation between runs.

use schemars::JsonSchema;
use serde::Serialize;

use crate::bootstrap::{self, RandomSource};
use crate::{Z_95, mean};
use sobench_pycompat::random::NumpyRandom;

/// Number of resamples.
const RESAMPLES: usize = 2000;

/// Minimum number of values for an interval. With fewer, resamples vary too little, and the
/// interval is too narrow.
pub const MIN_VALUES: usize = 10;

/// Maximum number of draws for one interval. Means of larger samples are close to normal, and the
/// interval comes from standard errors.
const MAX_DRAWS: usize = 40_000_000;

/// The difference of two means.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Difference {
    /// First mean minus second mean.
    pub difference: f64,
    /// Bounds of the 95 % interval; `None` if a sample has fewer than ten values.
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// Number of values of the first mean, or number of pairs.
    pub n: usize,
    /// Number of values of the second mean, or number of pairs.
    pub m: usize,
    pub method: Method,
}

/// The method of the interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Bootstrap over two samples.
    Bootstrap,
    /// Bootstrap over the differences of pairs.
    PairedBootstrap,
    /// Standard errors of two large samples (Welch).
    Welch,
    /// The standard error of many differences.
    PairedNormal,
}

impl Difference {
    /// Whether it is the mean of the differences of pairs.
    pub fn is_paired(&self) -> bool {
        matches!(self.method, Method::PairedBootstrap | Method::PairedNormal)
    }

    /// The difference of two independent samples; `None` if one is empty.
    pub fn from_samples(first: &[f64], second: &[f64], seed: u64) -> Option<Self> {
        let difference = mean(first)? - mean(second)?;
        let (n, m) = (first.len(), second.len());
        let enough = n >= MIN_VALUES && m >= MIN_VALUES;
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
            percentile_interval(seed, |random| {
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

    /// The mean of paired differences; `None` without pairs.
    pub fn from_pairs(differences: &[f64], seed: u64) -> Option<Self> {
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
        let bounds = (n >= MIN_VALUES)
            .then(|| percentile_interval(seed, |random| drawn_mean(random, differences)));
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

/// The 2.5 % and 97.5 % quantiles of a statistic over resamples.
fn percentile_interval(seed: u64, draw: impl Fn(&mut NumpyRandom) -> f64 + Sync) -> (f64, f64) {
    let mut replicates = NumpyRandom::resample(seed, RESAMPLES, |random, (): &mut ()| draw(random));
    replicates.sort_by(f64::total_cmp);
    bootstrap::trimmed_range(&replicates, RESAMPLES / 40).unwrap_or((f64::NAN, f64::NAN))
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

    /// Values spread evenly over a range of 2 around a centre.
    fn around(centre: f64, n: usize) -> Vec<f64> {
        (0..n)
            .map(|index| centre - 1.0 + 2.0 * index as f64 / (n - 1) as f64)
            .collect()
    }

    fn bounds(difference: &Difference) -> (f64, f64) {
        (difference.low.unwrap(), difference.high.unwrap())
    }

    #[test]
    fn interval_matches_the_standard_errors() {
        // The standard error is 0.0833 for each mean and 0.1178 for the difference, so that half of
        // the 95 % interval is 0.231.
        let found = Difference::from_samples(&around(5.0, 50), &around(3.0, 50), 0).unwrap();
        assert!((found.difference - 2.0).abs() < 1e-9);
        let (low, high) = bounds(&found);
        assert!(
            (low - 1.77).abs() < 0.02 && (high - 2.23).abs() < 0.02,
            "{low} to {high}"
        );
        assert_eq!(
            Difference::from_samples(&around(5.0, 50), &around(3.0, 50), 0).unwrap(),
            found,
            "the same seed gives the same interval"
        );
        let pairs = Difference::from_pairs(&around(2.0, 50), 7).unwrap();
        let (low, high) = bounds(&pairs);
        assert!(
            (low - 1.84).abs() < 0.02 && (high - 2.16).abs() < 0.02,
            "{low} to {high}"
        );
        assert_eq!(pairs.method, Method::PairedBootstrap);
    }

    #[test]
    fn large_sample_uses_standard_errors() {
        let large =
            Difference::from_samples(&around(5.0, 20_000), &around(3.0, 20_000), 0).unwrap();
        assert_eq!(large.method, Method::Welch);
        let (low, high) = bounds(&large);
        assert!(
            (high - low - 2.0 * 0.011_32).abs() < 1e-4,
            "{low} to {high}"
        );
        assert_eq!(
            Difference::from_pairs(&around(2.0, 20_001), 0)
                .unwrap()
                .method,
            Method::PairedNormal
        );
    }

    #[test]
    fn few_values_have_no_interval_and_none_have_no_difference() {
        let one = Difference::from_samples(&[5.0], &around(3.0, 99), 0).unwrap();
        assert_eq!((one.difference, one.low, one.high), (2.0, None, None));
        for (n, has_interval) in [(9, false), (10, true)] {
            assert_eq!(
                Difference::from_samples(&around(5.0, 40), &around(3.0, n), 0)
                    .unwrap()
                    .low
                    .is_some(),
                has_interval
            );
            assert_eq!(
                Difference::from_pairs(&around(5.0, n), 0)
                    .unwrap()
                    .high
                    .is_some(),
                has_interval
            );
        }
        assert_eq!(
            (
                Difference::from_samples(&[], &[1.0], 0),
                Difference::from_samples(&[1.0], &[], 0)
            ),
            (None, None)
        );
        assert_eq!(Difference::from_pairs(&[], 0), None);
    }
}
