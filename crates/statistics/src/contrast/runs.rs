//! Student's interval of the ratio of two sides, from the figures of their runs.
//!
//! Times and throughput vary between runs of the same server by more than their requests show. Each
//! run gives one value; the logarithms of the values of both sides are compared with Student's
//! two-sample test (1908) with pooled variance. If the servers are equal, so are the variances, and
//! the test is exact for normal logarithms also with three runs a side, where a bootstrap finds too
//! little variation.

use crate::distributions::t_score;
use crate::mean;

/// Minimum number of runs of each side. With fewer, the quantiles of Student's distribution are so
/// large that no useful difference is found.
pub const MIN_RUNS: usize = 3;

/// The largest number of runs that is given as needed.
const MAX_NEEDED: usize = 1000;

/// The ratio of the second side to the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunRatio {
    /// Difference of the means of the logarithms.
    log_ratio: f64,
    standard_error: f64,
    /// The standard deviation of the logarithm of a run.
    deviation: f64,
    degrees: usize,
}

impl RunRatio {
    /// From the figure of each run; `None` if a side has less than two, or one is not positive.
    pub fn new(a: &[f64], b: &[f64]) -> Option<Self> {
        let logs = |values: &[f64]| -> Option<Vec<f64>> {
            let log = |value: &f64| Some(value.ln()).filter(|log| log.is_finite());
            values.iter().map(log).collect()
        };
        let (a, b) = (logs(a)?, logs(b)?);
        if a.len() < 2 || b.len() < 2 {
            return None;
        }
        let (mean_a, mean_b) = (mean(&a)?, mean(&b)?);
        let squares =
            |logs: &[f64], mean: f64| -> f64 { logs.iter().map(|log| (log - mean).powi(2)).sum() };
        let degrees = a.len() + b.len() - 2;
        let variance = (squares(&a, mean_a) + squares(&b, mean_b)) / degrees as f64;
        let per_run = 1.0 / a.len() as f64 + 1.0 / b.len() as f64;
        Some(Self {
            log_ratio: mean_b - mean_a,
            standard_error: (variance * per_run).sqrt(),
            deviation: variance.sqrt(),
            degrees,
        })
    }

    /// The interval of the ratio minus 1.
    pub fn interval(&self, level: f64) -> (f64, f64) {
        let half = t_score(level, self.degrees) * self.standard_error;
        (
            (self.log_ratio - half).exp_m1(),
            (self.log_ratio + half).exp_m1(),
        )
    }

    /// The number of runs a side whose interval excludes the change `size`, as a share of the first
    /// side's value, if the sides are equal and vary as these. `None` above `MAX_NEEDED`.
    pub fn runs_needed(&self, size: f64, level: f64) -> Option<usize> {
        let distance = size.max(-1.0).ln_1p().abs();
        (MIN_RUNS..=MAX_NEEDED).find(|runs| {
            let error = self.deviation * (2.0 / *runs as f64).sqrt();
            t_score(level, 2 * runs - 2) * error < distance
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected: computed by hand from the formula, with the 99.5 % quantile 4.604095 of four degrees.
    #[test]
    fn interval_matches_the_formula() {
        let ratio = RunRatio::new(&[100.0, 102.0, 101.0], &[120.0, 118.0, 123.0]).unwrap();
        let (low, high) = ratio.interval(0.99);
        assert!(
            (low - 0.120_325).abs() < 1e-6 && (high - 0.266_739).abs() < 1e-6,
            "{low} to {high}"
        );
    }

    #[test]
    fn needed_runs_exclude_the_change() {
        let ratio = RunRatio::new(&[100.0, 108.0, 92.0], &[101.0, 95.0, 107.0]).unwrap();
        let needed = ratio.runs_needed(0.1, 0.9).unwrap();
        let half =
            |runs: usize| t_score(0.9, 2 * runs - 2) * ratio.deviation * (2.0 / runs as f64).sqrt();
        assert!(half(needed) < 1.1_f64.ln() && half(needed - 1) >= 1.1_f64.ln());
        assert_eq!(ratio.runs_needed(0.0, 0.9), None);
    }

    #[test]
    fn equal_runs_have_no_width_and_zero_has_no_ratio() {
        let same = RunRatio::new(&[5.0; 3], &[6.0; 3]).unwrap().interval(0.99);
        assert!((same.0 - 0.2).abs() < 1e-12 && (same.1 - 0.2).abs() < 1e-12);
        assert_eq!(RunRatio::new(&[5.0, 0.0, 5.0], &[6.0; 3]), None);
        assert_eq!(RunRatio::new(&[5.0], &[6.0; 3]), None);
    }
}
