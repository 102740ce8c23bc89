//! Confidence intervals of percentiles from order statistics.

use super::distributions::binomial_quantile;

/// Error probability of both bounds together: intervals of 95 %.
const MISS: f64 = 0.05;

/// The ranks (1 to `n`, from the smallest) of the order statistics that bound the `p`-th percentile
/// with 95 % confidence; `None` for a bound beyond the sample.
///
/// Distribution-free: among `n` independent values, the number below the percentile is binomial
/// with probability p / 100, and the percentile is above the l-th smallest value unless fewer than
/// l values lie below it. Bounds as in Conover, "Practical Nonparametric Statistics", section 3.2:
/// each misses with a probability of at most 2.5 %.
///
/// Requests under load share a queue and are not independent, so the true interval is at least this
/// wide.
pub fn order_interval(n: usize, p: f64) -> (Option<usize>, Option<usize>) {
    if n == 0 || p <= 0.0 || p >= 100.0 || p.is_nan() {
        return (None, None);
    }
    let low = binomial_quantile(MISS / 2.0, n, p / 100.0);
    let high = binomial_quantile(1.0 - MISS / 2.0, n, p / 100.0) + 1;
    (
        Some(low).filter(|&low| low >= 1),
        Some(high).filter(|&high| high <= n),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected: exact sums of fractions, and SciPy's `binom.ppf`.
    #[test]
    fn bounds_match_exact_binomial_sums() {
        for (n, p, expected) in [
            (0, 50.0, (None, None)),
            (5, 50.0, (None, None)),
            (6, 50.0, (Some(1), Some(6))),
            (10, 50.0, (Some(2), Some(9))),
            (100, 50.0, (Some(40), Some(61))),
            (100, 90.0, (Some(84), Some(96))),
            (100, 99.0, (Some(97), None)),
            (662, 99.0, (Some(650), Some(661))),
            (1000, 99.0, (Some(983), Some(997))),
            (1000, 1.0, (Some(4), Some(18))),
            (10_000_000, 50.0, (Some(4_996_901), Some(5_003_100))),
            (10, 0.0, (None, None)),
            (10, 100.0, (None, None)),
            (10, f64::NAN, (None, None)),
        ] {
            assert_eq!(order_interval(n, p), expected, "p{p} of {n}");
        }
    }

    #[test]
    fn bounds_enclose_the_percentile_and_are_symmetric() {
        for n in 1..200 {
            for p in [1.0, 10.0, 25.0, 50.0, 90.0, 99.0, 99.9] {
                let (low, high) = order_interval(n, p);
                let position = n as f64 * p / 100.0;
                assert!(
                    low.is_none_or(|low| low as f64 <= position + 1.0)
                        && high.is_none_or(|high| high as f64 >= position),
                    "p{p} of {n}"
                );
                let (mirrored_low, mirrored_high) = order_interval(n, 100.0 - p);
                let mirror = |position: Option<usize>| position.map(|position| n + 1 - position);
                if p < 50.0 && (p * 10.0).fract() == 0.0 {
                    assert_eq!(
                        (mirror(mirrored_high), mirror(mirrored_low)),
                        (low, high),
                        "p{p} of {n}"
                    );
                }
            }
        }
    }
}
