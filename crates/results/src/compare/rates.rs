//! Differences of two proportions: McNemar's exact test and Newcombe's intervals.

use super::side::Share;
use sobench_statistics::Wilson;
use sobench_statistics::distributions::{binomial_at_most, z_score};

/// Counts of cases on both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pairs {
    pub both: usize,
    pub only_a: usize,
    pub only_b: usize,
    pub neither: usize,
}

impl Pairs {
    /// Adds a case.
    pub fn add(&mut self, a: bool, b: bool) {
        let count = match (a, b) {
            (true, true) => &mut self.both,
            (true, false) => &mut self.only_a,
            (false, true) => &mut self.only_b,
            (false, false) => &mut self.neither,
        };
        *count += 1;
    }

    /// Number of pairs.
    pub fn total(&self) -> usize {
        self.both + self.only_a + self.only_b + self.neither
    }

    /// Second minus first share, -1 to 1; `None` without pairs.
    pub fn difference(&self) -> Option<f64> {
        (self.total() > 0).then(|| (self.only_b as f64 - self.only_a as f64) / self.total() as f64)
    }

    /// Two-sided p-value of McNemar's exact test (1947): the binomial test of the discordant pairs.
    /// No mid-p correction, so it is conservative.
    pub fn mcnemar(&self) -> f64 {
        let (n, few) = (self.only_a + self.only_b, self.only_a.min(self.only_b));
        (2.0 * binomial_at_most(few, n, 0.5)).min(1.0)
    }

    /// The interval of the difference of paired proportions: Newcombe, "Improved confidence
    /// intervals for the difference between binomial proportions based on paired data" (Statistics
    /// in Medicine 17, 1998), method 10.
    pub fn interval(&self, level: f64) -> Option<(f64, f64)> {
        let difference = self.difference()?;
        let z = z_score(level);
        let (both, a, b, neither) = (
            self.both as f64,
            self.only_a as f64,
            self.only_b as f64,
            self.neither as f64,
        );
        let n = self.total();
        let first = Wilson::new(self.both + self.only_a, n, z);
        let second = Wilson::new(self.both + self.only_b, n, z);
        let margins = (both + a) * (b + neither) * (both + b) * (a + neither);
        let agreement = both * neither - a * b;
        let corrected = if agreement > 0.0 {
            (agreement - n as f64 / 2.0).max(0.0)
        } else {
            agreement
        };
        let phi = if margins > 0.0 {
            corrected / margins.sqrt()
        } else {
            0.0
        };
        let half = |x: f64, y: f64| (x * x - 2.0 * phi * x * y + y * y).max(0.0).sqrt();
        Some((
            difference - half(second.down(), first.up()),
            difference + half(second.up(), first.down()),
        ))
    }
}

/// The interval of the difference of two independent proportions, second minus first: Newcombe,
/// "Interval estimation for the difference between independent proportions" (Statistics in Medicine
/// 17, 1998), method 10, which combines two Wilson intervals.
pub fn newcombe_interval(first: Share, second: Share, level: f64) -> Option<(f64, f64)> {
    if first.of == 0 || second.of == 0 {
        return None;
    }
    let z = z_score(level);
    let (first, second) = (
        Wilson::new(first.hits, first.of, z),
        Wilson::new(second.hits, second.of, z),
    );
    let difference = second.share - first.share;
    Some((
        difference - second.down().hypot(first.up()),
        difference + second.up().hypot(first.down()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: (f64, f64), expected: (f64, f64)) {
        assert!(
            (found.0 - expected.0).abs() < 6e-5 && (found.1 - expected.1).abs() < 6e-5,
            "{found:?} is not {expected:?}"
        );
    }

    /// Expected: table II of Newcombe's paper on independent proportions.
    #[test]
    fn independent_proportions_match_newcombe() {
        for (a, b, expected) in [
            ((48, 80), (56, 70), (0.0524, 0.3339)),
            ((3, 10), (9, 10), (0.1705, 0.8090)),
            ((0, 10), (10, 10), (0.6075, 1.0)),
            ((0, 20), (0, 10), (-0.1611, 0.2775)),
        ] {
            let share = |(hits, of)| Share { hits, of };
            near(
                newcombe_interval(share(a), share(b), 0.95).unwrap(),
                expected,
            );
        }
        assert_eq!(
            newcombe_interval(Share { hits: 0, of: 0 }, Share { hits: 1, of: 1 }, 0.95),
            None
        );
    }

    #[test]
    fn agreeing_pairs_have_a_narrower_interval() {
        let pairs = Pairs {
            both: 940,
            only_a: 20,
            only_b: 20,
            neither: 20,
        };
        let (low, high) = pairs.interval(0.95).unwrap();
        let (wide_low, wide_high) = newcombe_interval(
            Share {
                hits: 960,
                of: 1000,
            },
            Share {
                hits: 960,
                of: 1000,
            },
            0.95,
        )
        .unwrap();
        assert!(wide_low < low && low < 0.0 && 0.0 < high && high < wide_high);
        assert!(
            (low + high).abs() < 1e-12,
            "equal shares have a symmetric interval"
        );
        // Without failing cases there is no agreement to use, and both intervals are equal.
        let all = Pairs {
            both: 200,
            ..Pairs::default()
        };
        near(
            all.interval(0.95).unwrap(),
            newcombe_interval(
                Share { hits: 200, of: 200 },
                Share { hits: 200, of: 200 },
                0.95,
            )
            .unwrap(),
        );
        assert_eq!(
            (
                Pairs::default().interval(0.95),
                Pairs::default().difference()
            ),
            (None, None)
        );
    }

    /// Expected: Newcombe's paper on paired data, example 36, 12, 2, 0 (with the sides exchanged).
    #[test]
    fn paired_proportions_match_newcombe() {
        let pairs = Pairs {
            both: 36,
            only_a: 2,
            only_b: 12,
            neither: 0,
        };
        near(pairs.interval(0.95).unwrap(), (0.0569, 0.3404));
    }

    /// Expected: SciPy's `binomtest(k, n).pvalue`.
    #[test]
    fn mcnemar_matches_the_binomial_test() {
        for (only_a, only_b, expected) in [
            (0, 0, 1.0),
            (1, 0, 1.0),
            (5, 5, 1.0),
            (10, 1, 0.011_718_75),
            (0, 6, 0.031_25),
            (1200, 1000, 2.181_7e-5),
        ] {
            let found = Pairs {
                only_a,
                only_b,
                ..Pairs::default()
            }
            .mcnemar();
            assert!(
                (found / expected - 1.0).abs() < 1e-3,
                "{only_a} {only_b}: {found}"
            );
        }
    }
}
