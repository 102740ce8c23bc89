//! Quantiles of the normal, Student's t and binomial distributions.
//!
//! `statrs` computes binomial probabilities by a continued fraction that it truncates after 140
//! terms. For millions of trials this is inaccurate for counts near the mean (probabilities of 0.3
//! to 0.7), which are not needed here.

use statrs::distribution::{
    Beta, Binomial, ChiSquared, Continuous, ContinuousCDF, Discrete, DiscreteCDF, Normal, StudentsT,
};

/// The z-score of a two-sided interval: half of `1 - level` lies above it. `level` is above 0 and
/// below 1.
pub fn z_score(level: f64) -> f64 {
    -Normal::standard().inverse_cdf((1.0 - level) / 2.0)
}

/// The t-score of a two-sided interval, as [`z_score`], of Student's t distribution with `degrees`
/// degrees of freedom, at least 1.
pub fn t_score(level: f64, degrees: usize) -> f64 {
    StudentsT::new(0.0, 1.0, degrees as f64).map_or(f64::INFINITY, |student| {
        -student.inverse_cdf((1.0 - level) / 2.0)
    })
}

/// The 97.5 % quantile of Student's t distribution with `degrees` degrees of freedom, at least 1.
pub fn student_t_975(degrees: usize) -> f64 {
    t_score(0.95, degrees)
}

/// The probability that a standard normal value is at least as far from 0 as `z`.
pub fn two_sided_p(z: f64) -> f64 {
    2.0 * Normal::standard().cdf(-z.abs())
}

/// The probability that a standard normal value is at most `z`.
pub fn normal_at_most(z: f64) -> f64 {
    Normal::standard().cdf(z)
}

/// The density of the standard normal distribution.
pub fn normal_density(z: f64) -> f64 {
    Normal::standard().pdf(z)
}

/// The value that the sum of squares of `degrees` standard normal values exceeds with the
/// probability `error`. `degrees` is above 0 and not necessarily whole.
pub fn chi_square_above(error: f64, degrees: f64) -> f64 {
    ChiSquared::new(degrees).map_or(f64::INFINITY, |chi_square| {
        chi_square.inverse_cdf(1.0 - error)
    })
}

/// The upper bound of a proportion with this share in `n` trials, not necessarily whole, that is too
/// low with at most the probability `error`: Clopper and Pearson, "The use of confidence or fiducial
/// limits illustrated in the case of the binomial" (Biometrika 26, 1934).
pub fn proportion_at_most(share: f64, n: f64, error: f64) -> f64 {
    let hits = (share * n).clamp(0.0, n);
    let Ok(beta) = Beta::new(hits + 1.0, n - hits) else {
        return 1.0;
    };
    // Statrs' own quantile does not end for bounds below 1e-4.
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..50 {
        let middle = f64::midpoint(low, high);
        match beta.cdf(middle) < 1.0 - error {
            true => low = middle,
            false => high = middle,
        }
    }
    high
}

/// Probability of exactly `hits` successes in `n` trials with success probability `chance`.
pub fn binomial_probability(hits: usize, n: usize, chance: f64) -> f64 {
    Binomial::new(chance, n as u64).map_or(f64::NAN, |binomial| binomial.pmf(hits as u64))
}

/// Probability of at most `hits` successes in `n` trials with success probability `chance`.
pub fn binomial_at_most(hits: usize, n: usize, chance: f64) -> f64 {
    Binomial::new(chance, n as u64).map_or(f64::NAN, |binomial| binomial.cdf(hits as u64))
}

/// The largest chance of an event that is compatible with no event in `n` independent trials, at
/// 95 % confidence: the upper bound of Clopper and Pearson (1934), one-sided. It is about 3 / `n`.
pub fn unseen_rate(n: usize) -> f64 {
    1.0 - 0.05_f64.powf(1.0 / n as f64)
}

/// The smallest count whose cumulative probability in `n` trials with success probability `chance`
/// is above `share`.
///
/// Starts at the normal approximation, a few counts away, so that no probability near the mean is
/// computed.
pub fn binomial_quantile(share: f64, n: usize, chance: f64) -> usize {
    let (mean, deviation) = (
        n as f64 * chance,
        (n as f64 * chance * (1.0 - chance)).sqrt(),
    );
    let start = mean + deviation * Normal::standard().inverse_cdf(share);
    let mut count = (start.max(0.0) as usize).min(n);
    while count > 0 && binomial_at_most(count - 1, n, chance) > share {
        count -= 1;
    }
    while count < n && binomial_at_most(count, n, chance) <= share {
        count += 1;
    }
    count
}

/// A standard normal number, from a uniform one.
#[cfg(test)]
pub(crate) fn draw_normal(random: &mut sobench_pycompat::random::NumpyRandom) -> f64 {
    Normal::standard().inverse_cdf(random.random().max(f64::EPSILON))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Z_95;

    /// Expected: SciPy's `norm.ppf`.
    #[test]
    fn normal_quantiles_match_scipy() {
        for (level, expected) in [
            (0.95, 1.959_963_985),
            (0.99, 2.575_829_304),
            (0.9, 1.644_853_627),
            (0.997, 2.967_737_925),
            (0.5, 0.674_489_75),
        ] {
            assert!(
                (z_score(level) - expected).abs() < 1e-9,
                "{level}: {}",
                z_score(level)
            );
        }
        assert!((z_score(0.95) - Z_95).abs() < 1e-14);
    }

    /// Expected: the density integrated numerically, for the one-sided 0.01 / 6 of a gate of six
    /// rules.
    #[test]
    fn student_quantiles_of_a_gate_match_the_integral() {
        for (degrees, point) in [(2, 17.277_177), (4, 6.254_071), (8, 4.122_362)] {
            let found = t_score(1.0 - 0.02 / 6.0, degrees);
            assert!((found - point).abs() < 1e-4, "{degrees}: {found}");
        }
    }

    /// Expected: SciPy's `beta.ppf(0.95, k + 1, n - k)` and `chi2.ppf`.
    #[test]
    fn bounds_of_proportions_and_chi_square_match_scipy() {
        for (hits, n, expected) in [
            (0.0, 600.0, 0.004980443),
            (0.0, 200.0, 0.014867039),
            (1.0, 200.0, 0.023498470),
            (2.5, 33.3, 0.197251058),
            (7.0, 7.0, 1.0),
            (0.0, 1e7, 2.995732e-7),
            (5e4, 1e7, 0.005036844),
        ] {
            let found = proportion_at_most(hits / n, n, 0.05);
            assert!(
                (found / expected - 1.0).abs() < 1e-5,
                "{hits} of {n}: {found}"
            );
        }
        for (error, degrees, expected) in [(0.001, 2.0, 13.815511), (0.05, 3.5, 8.665122)] {
            let found = chi_square_above(error, degrees);
            assert!((found - expected).abs() < 1e-5, "{degrees}: {found}");
        }
    }

    /// Expected: R's `qt(0.975, df)`.
    #[test]
    fn student_quantiles_match_r() {
        for (degrees, point) in [
            (1, 12.706_205),
            (2, 4.302_653),
            (9, 2.262_157),
            (10, 2.228_139),
            (20, 2.085_963),
            (1000, 1.962_339),
        ] {
            assert!(
                (student_t_975(degrees) - point).abs() < 1e-6,
                "{degrees}: {}",
                student_t_975(degrees)
            );
        }
    }

    /// Expected: SciPy's `beta.ppf(0.95, 1, n)`.
    #[test]
    fn the_unseen_rate_is_the_exact_bound() {
        for (answers, expected) in [(1, 0.95), (4, 0.527_129), (10, 0.258_866), (59, 0.049_508)] {
            let found = unseen_rate(answers);
            assert!((found - expected).abs() < 1e-6, "{answers}: {found}");
        }
    }
}
