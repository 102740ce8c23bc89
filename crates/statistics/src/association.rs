//! Tests of whether a quantity goes with another one: shares with a score, and ranks with ranks.

use super::distributions::two_sided_p;

/// A trend of a share with a score: the test of Cochran (1954) and Armitage (1955).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShareTrend {
    /// Standard normal without a trend; above 0 if the share rises with the score.
    pub z: f64,
    /// Two-sided.
    pub p_value: f64,
}

impl ShareTrend {
    /// The trend of hits with the scores of trials; `None` if all trials, or none, are hits, or if
    /// all have the same score.
    pub fn new(trials: &[(f64, bool)]) -> Option<Self> {
        let n = trials.len() as f64;
        let hits = trials.iter().filter(|(_, is_hit)| *is_hit).count();
        let share = hits as f64 / n;
        let mean = trials.iter().map(|(score, _)| score).sum::<f64>() / n;
        let (mut covariance, mut variance) = (0.0, 0.0);
        for (score, is_hit) in trials {
            let deviation = score - mean;
            covariance += deviation * (f64::from(*is_hit) - share);
            variance += deviation * deviation;
        }
        if hits == 0 || hits == trials.len() || variance <= 0.0 {
            return None;
        }
        let z = covariance / (share * (1.0 - share) * variance).sqrt();
        Some(Self {
            z,
            p_value: two_sided_p(z),
        })
    }
}

/// Kendall's tau-b (1945) of pairs, with the normal approximation of its distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankCorrelation {
    pub tau: f64,
    /// Two-sided, with the variance for ties of Kendall, "Rank Correlation Methods" (1970), without
    /// a correction for continuity: as SciPy's `kendalltau(method="asymptotic")`.
    pub p_value: f64,
}

impl RankCorrelation {
    /// The correlation of at least three pairs without `NaN`; `None` with fewer, or if all values of
    /// a side are equal. By Knight's algorithm (1966), in n log n.
    pub fn new(pairs: &[(f64, f64)]) -> Option<Self> {
        let n = pairs.len();
        if n < 3 {
            return None;
        }
        let mut sorted = pairs.to_vec();
        sorted.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
        let left = Ties::new(
            sorted
                .chunk_by(|one, other| one.0 == other.0)
                .map(<[_]>::len),
        );
        let both = Ties::new(sorted.chunk_by(|one, other| one == other).map(<[_]>::len));
        let mut values: Vec<f64> = sorted.iter().map(|(_, value)| *value).collect();
        let discordant = sort_counting_swaps(&mut values) as f64;
        let right = Ties::new(values.chunk_by(|one, other| one == other).map(<[_]>::len));
        let count = n as f64;
        let all = count * (count - 1.0) / 2.0;
        if left.pairs >= all || right.pairs >= all {
            return None;
        }
        let score = all - left.pairs - right.pairs + both.pairs - 2.0 * discordant;
        let m = count * (count - 1.0);
        let variance = (m * (2.0 * count + 5.0) - left.fives - right.fives) / 18.0
            + 2.0 * left.pairs * right.pairs / m
            + left.triples * right.triples / (9.0 * m * (count - 2.0));
        Some(Self {
            tau: score / ((all - left.pairs) * (all - right.pairs)).sqrt(),
            p_value: two_sided_p(score / variance.sqrt()),
        })
    }
}

/// Sums over groups of `t` tied values.
struct Ties {
    /// t (t - 1) / 2
    pairs: f64,
    /// t (t - 1) (t - 2)
    triples: f64,
    /// t (t - 1) (2 t + 5)
    fives: f64,
}

impl Ties {
    fn new(groups: impl Iterator<Item = usize>) -> Self {
        let none = Self {
            pairs: 0.0,
            triples: 0.0,
            fives: 0.0,
        };
        groups.fold(none, |sum, size| {
            let t = size as f64;
            let ordered = t * (t - 1.0);
            Self {
                pairs: sum.pairs + ordered / 2.0,
                triples: sum.triples + ordered * (t - 2.0),
                fives: sum.fives + ordered * (2.0 * t + 5.0),
            }
        })
    }
}

/// Sorts by merging, and returns the number of pairs in the wrong order.
fn sort_counting_swaps(values: &mut [f64]) -> u64 {
    if values.len() < 2 {
        return 0;
    }
    let (low, high) = values.split_at_mut(values.len() / 2);
    let mut swaps = sort_counting_swaps(low) + sort_counting_swaps(high);
    let mut merged = Vec::with_capacity(low.len() + high.len());
    let (mut left, mut right) = (0, 0);
    while left < low.len() && right < high.len() {
        if high[right] < low[left] {
            swaps += (low.len() - left) as u64;
            merged.push(high[right]);
            right += 1;
        } else {
            merged.push(low[left]);
            left += 1;
        }
    }
    merged.extend_from_slice(&low[left..]);
    merged.extend_from_slice(&high[right..]);
    values.copy_from_slice(&merged);
    swaps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        let tolerance = 1e-9 * expected.abs().max(1e-3);
        assert!(
            (found - expected).abs() <= tolerance,
            "found {found}, expected {expected}"
        );
    }

    fn grouped(groups: &[(usize, usize)], score: impl Fn(usize) -> f64) -> Vec<(f64, bool)> {
        let groups = groups.iter().enumerate();
        let trials = groups.flat_map(|(at, (hits, of))| {
            let score = score(at);
            (0..*of).map(move |trial| (score, trial < *hits))
        });
        trials.collect()
    }

    /// The example of R's `prop.trend.test` (smokers of four groups of patients): X-squared 8.2249
    /// and p 0.004132; with the scores 0, 0, 0, 1, X-squared 12.173 and p 0.0004848.
    #[test]
    fn trends_of_shares_match_those_of_r() {
        let smokers = [(83, 86), (90, 93), (129, 136), (70, 82)];
        let trend = ShareTrend::new(&grouped(&smokers, |at| at as f64)).unwrap();
        assert!((trend.z * trend.z - 8.2249).abs() < 5e-5, "{trend:?}");
        assert!(
            trend.z < 0.0 && (trend.p_value - 0.004_132).abs() < 5e-7,
            "{trend:?}"
        );
        let scores = |at| f64::from(u8::from(at == 3));
        let trend = ShareTrend::new(&grouped(&smokers, scores)).unwrap();
        assert!((trend.z * trend.z - 12.173).abs() < 5e-4, "{trend:?}");
        assert!((trend.p_value - 0.000_484_8).abs() < 5e-8, "{trend:?}");
        for trials in [
            grouped(&[(0, 5), (0, 5)], |at| at as f64),
            grouped(&[(5, 5), (5, 5)], |at| at as f64),
            grouped(&[(1, 5), (2, 5)], |_| 1.0),
            Vec::new(),
        ] {
            assert_eq!(ShareTrend::new(&trials), None);
        }
    }

    /// The first is the example of SciPy's `kendalltau`: tau -0.47140452 and p 0.28274546. The
    /// others are from the definition, pair by pair.
    #[test]
    fn rank_correlations_match_those_of_scipy() {
        let found =
            RankCorrelation::new(&[(12.0, 1.0), (2.0, 4.0), (1.0, 7.0), (12.0, 1.0), (2.0, 0.0)]);
        let found = found.unwrap();
        near(found.tau, -0.471_404_520_791_031_6);
        near(found.p_value, 0.282_745_459_932_774_8);
        let mut state = 7_u64;
        let mut draw = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            ((state >> 33) % below) as f64
        };
        for n in 3..60 {
            let pairs: Vec<(f64, f64)> = (0..n).map(|_| (draw(9), draw(5))).collect();
            let (mut score, mut left, mut right) = (0.0, 0.0, 0.0);
            for (at, one) in pairs.iter().enumerate() {
                for other in &pairs[at + 1..] {
                    let sign = |difference: f64| {
                        if difference == 0.0 {
                            0.0
                        } else {
                            difference.signum()
                        }
                    };
                    let (x, y) = (sign(one.0 - other.0), sign(one.1 - other.1));
                    score += x * y;
                    left += x * x;
                    right += y * y;
                }
            }
            match RankCorrelation::new(&pairs) {
                Some(found) => near(found.tau, score / f64::sqrt(left * right)),
                None => assert!(left * right == 0.0, "{pairs:?}"),
            }
        }
        assert_eq!(RankCorrelation::new(&[(1.0, 1.0), (2.0, 2.0)]), None);
        assert_eq!(
            RankCorrelation::new(&[(1.0, 1.0), (1.0, 2.0), (1.0, 0.0)]),
            None
        );
    }

    #[test]
    fn independent_values_are_rarely_correlated() {
        let mut state = 1_u64;
        let mut draw = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(3);
            (state >> 40) as f64
        };
        let found = (0..400)
            .filter(|_| {
                let pairs: Vec<(f64, f64)> = (0..80).map(|_| (draw() % 16.0, draw())).collect();
                RankCorrelation::new(&pairs).unwrap().p_value < 0.01
            })
            .count();
        assert!(found <= 12, "{found} of 400");
    }
}
