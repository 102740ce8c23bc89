//! A test for a trend.

use super::distributions::two_sided_p;

/// A monotonic trend of values in their order: the test of Mann (1945) and Kendall (1975).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// Kendall's tau-a with the order: 1 if every value is above those before it.
    pub tau: f64,
    /// Two-sided, from the normal approximation with correction for ties and continuity.
    pub p_value: f64,
}

impl Trend {
    /// The trend of at least three values; `None` with fewer. Quadratic in their number.
    pub fn new(values: &[f64]) -> Option<Self> {
        let n = values.len();
        if n < 3 {
            return None;
        }
        let mut score = 0_i64;
        for (index, earlier) in values.iter().enumerate() {
            for later in &values[index + 1..] {
                score += i64::from(later > earlier) - i64::from(later < earlier);
            }
        }
        let terms = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let ties: f64 = sorted
            .chunk_by(|one, other| one == other)
            .map(|tied| terms(tied.len() as f64))
            .sum();
        let deviation = ((terms(n as f64) - ties) / 18.0).sqrt();
        let score = score as f64;
        let z = if score == 0.0 {
            0.0
        } else {
            (score - score.signum()) / deviation
        };
        Some(Self {
            tau: score / (n * (n - 1) / 2) as f64,
            p_value: two_sided_p(z),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected: SciPy's `kendalltau`; z by hand.
    #[test]
    fn trends_match_hand_computed_ones() {
        let rising: Vec<f64> = (0..10).map(|index| 10.0 + 3.0 * f64::from(index)).collect();
        let trend = Trend::new(&rising).unwrap();
        assert_eq!(trend.tau, 1.0);
        // z = 44 / sqrt(125) = 3.9355.
        assert!((trend.p_value - 8.303e-5).abs() < 1e-7, "{trend:?}");
        let falling: Vec<f64> = rising.iter().rev().copied().collect();
        assert_eq!(Trend::new(&falling).unwrap().tau, -1.0);
        let level = Trend::new(&[5.0; 12]).unwrap();
        assert_eq!((level.tau, level.p_value), (0.0, 1.0));
        assert_eq!(Trend::new(&[1.0, 2.0]), None);
    }
}
