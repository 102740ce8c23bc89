//! Whether a rate is certainly above or below a threshold, decided at several looks.
//!
//! Exact binomial boundaries by error spending (Lan and DeMets, "Discrete sequential boundaries for
//! clinical trials", Biometrika 70, 1983): at each look, the boundary spends at most the share of its
//! error that belongs to the share of the planned trials (the power family of Kim and DeMets,
//! Biometrika 74, 1987, with exponent 1: a good or a bad server is decided early). The two boundaries do
//! not know of each other, so that a decision may be ignored without a larger error of the other one.

use crate::distributions::{binomial_at_most, binomial_probability};

/// The most trials that [`RateTest::trials_needed`] returns.
const MAX_TRIALS: usize = 10_000_000;

/// A test of a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateTest {
    /// The share, between 0 and 1.
    pub threshold: f64,
    /// The largest chance to decide that the rate is above the threshold although it is not.
    pub above_error: f64,
    /// The largest chance to decide that it is below the threshold although it is not.
    pub below_error: f64,
    /// The planned number of trials.
    pub planned: usize,
}

/// The trials and hits from the start until a look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    pub hits: usize,
    pub of: usize,
}

impl RateTest {
    /// Whether the rate is above (`Some(true)`) or below the threshold, from all looks so far. A later
    /// look does not change a decision. `is_last` spends the whole error: no look follows.
    pub fn decide(&self, looks: &[Look], is_last: bool) -> Option<bool> {
        let misses: Vec<Look> = looks.iter().map(|look| look.complement()).collect();
        let above = crossing(
            looks,
            self.threshold,
            self.above_error,
            self.planned,
            is_last,
        );
        let below = crossing(
            &misses,
            1.0 - self.threshold,
            self.below_error,
            self.planned,
            is_last,
        );
        match (above, below) {
            (Some(above), Some(below)) => Some(above < below),
            (Some(_), None) => Some(true),
            (None, Some(_)) => Some(false),
            (None, None) => None,
        }
    }

    /// The largest share that the looks show to be exceeded, with the error of *above*.
    pub fn lower_bound(&self, looks: &[Look], is_last: bool) -> f64 {
        largest_crossed(looks, self.above_error, self.planned, is_last)
    }

    /// The smallest share that the looks show not to be reached, with the error of *above*.
    pub fn upper_bound(&self, looks: &[Look], is_last: bool) -> f64 {
        let misses: Vec<Look> = looks.iter().map(|look| look.complement()).collect();
        1.0 - largest_crossed(&misses, self.above_error, self.planned, is_last)
    }

    /// About how many trials decide at the last of some looks if the share stays as it is; `None` if none
    /// do. Earlier looks take about half of the error, and none if all requests are hits: then they cannot
    /// decide.
    pub fn trials_needed(&self, share: f64, looks: usize) -> Option<usize> {
        let (share, threshold, error) = match share > self.threshold {
            true => (share, self.threshold, self.above_error),
            false => (1.0 - share, 1.0 - self.threshold, self.below_error),
        };
        let error = if looks > 1 && share < 1.0 {
            error / 2.0
        } else {
            error
        };
        let is_decided = |of: usize| {
            let hits = (share * of as f64).round() as usize;
            at_least(hits, of, threshold) <= error
        };
        let mut high = 1;
        while !is_decided(high) {
            high *= 2;
            if high > MAX_TRIALS {
                return None;
            }
        }
        let mut low = high / 2;
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            match is_decided(middle) {
                true => high = middle,
                false => low = middle,
            }
        }
        Some(high)
    }
}

impl Look {
    fn complement(self) -> Self {
        Self {
            hits: self.of - self.hits,
            of: self.of,
        }
    }
}

/// The probability of at least this many hits.
fn at_least(hits: usize, of: usize, chance: f64) -> f64 {
    if hits == 0 {
        return 1.0;
    }
    // Of the misses, because the tail is small.
    binomial_at_most(of - hits, of, 1.0 - chance)
}

/// The first look whose hits reach the upper boundary of a rate of `chance`.
fn crossing(
    looks: &[Look],
    chance: f64,
    error: f64,
    planned: usize,
    is_last: bool,
) -> Option<usize> {
    if !(0.0..1.0).contains(&chance) {
        return None;
    }
    // The probability of each number of hits with no boundary reached so far.
    let mut open = vec![1.0];
    let (mut spent, mut before) = (0.0, 0);
    for (index, look) in looks.iter().enumerate() {
        let added = look.of - before;
        before = look.of;
        open = with_trials(&open, added, chance);
        let share = if is_last && index + 1 == looks.len() {
            1.0
        } else {
            (look.of as f64 / planned.max(1) as f64).min(1.0)
        };
        // The boundary: the fewest hits whose probability, with all above, fits into the error.
        let left = error * share - spent;
        let (mut boundary, mut tail) = (open.len(), 0.0);
        while boundary > 0 && tail + open[boundary - 1] <= left {
            boundary -= 1;
            tail += open[boundary];
        }
        if look.hits >= boundary {
            return Some(index);
        }
        spent += tail;
        open.truncate(boundary);
    }
    None
}

/// The probabilities after more trials.
fn with_trials(open: &[f64], added: usize, chance: f64) -> Vec<f64> {
    let more: Vec<f64> = (0..=added)
        .map(|hits| binomial_probability(hits, added, chance))
        .collect();
    let mut all = vec![0.0; open.len() + added];
    for (hits, probability) in open.iter().enumerate() {
        for (new, chance) in more.iter().enumerate() {
            all[hits + new] += probability * chance;
        }
    }
    all
}

/// The largest chance whose boundary the looks reach, by bisection.
fn largest_crossed(looks: &[Look], error: f64, planned: usize, is_last: bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..20 {
        let middle = f64::midpoint(low, high);
        match crossing(looks, middle, error, planned, is_last) {
            Some(_) => low = middle,
            None => high = middle,
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::SplitMix;

    fn test(threshold: f64, planned: usize) -> RateTest {
        RateTest {
            threshold,
            above_error: 0.05,
            below_error: 0.001,
            planned,
        }
    }

    #[test]
    fn one_look_is_the_exact_test() {
        let decide = |hits, of| test(0.99, of).decide(&[Look { hits, of }], true);
        assert_eq!(decide(299, 299), Some(true), "0.99^299 < 5 %");
        assert_eq!(decide(298, 298), None);
        assert_eq!(decide(290, 299), None, "P(9 or more misses) is 0.2 %");
        assert_eq!(decide(287, 299), Some(false));
    }

    #[test]
    fn bounds_agree_with_decisions() {
        let looks = [Look { hits: 100, of: 100 }, Look { hits: 199, of: 200 }];
        let test = test(0.9, 400);
        assert_eq!(test.decide(&looks, false), Some(true));
        let bound = test.lower_bound(&looks, false);
        assert!((0.96..0.98).contains(&bound), "{bound}");
        let at = |threshold: f64| RateTest { threshold, ..test }.decide(&looks, false);
        assert_eq!(at(bound - 0.001), Some(true));
        assert_eq!(at(bound + 0.001), None);
        assert!(test.upper_bound(&looks, false) > 0.995);
    }

    #[test]
    fn needed_trials_decide() {
        let test = test(0.99, 1);
        assert_eq!(test.trials_needed(1.0, 1), Some(299));
        let needed = test.trials_needed(0.95, 1).unwrap();
        assert!((100..220).contains(&needed), "{needed}");
        assert_eq!(test.trials_needed(0.99, 1), None);
    }

    /// Shares of *above*, *below*, and the mean trials, of simulated rates.
    fn simulate(share: f64, looks: usize, of: usize) -> (f64, f64, f64) {
        const RUNS: usize = 1000;
        let (mut above, mut below, mut trials) = (0, 0, 0);
        let test = test(0.99, of);
        let decided = |seen: &[Look], is_last| test.decide(seen, is_last);
        for run in 0..RUNS {
            let mut random = SplitMix::new(7, run as u64);
            let mut seen: Vec<Look> = Vec::new();
            let mut hits = 0;
            for look in 1..=looks {
                hits += (0..of / looks).filter(|_| random.unit() < share).count();
                let of = look * (of / looks);
                seen.push(Look { hits, of });
                let decision = decided(&seen, look == looks);
                if decision.is_some() || look == looks {
                    above += usize::from(decision == Some(true));
                    below += usize::from(decision == Some(false));
                    trials += of;
                    break;
                }
            }
        }
        let runs = RUNS as f64;
        (
            above as f64 / runs,
            below as f64 / runs,
            trials as f64 / runs,
        )
    }

    #[test]
    fn errors_stay_below_their_limits_and_clear_rates_stop_early() {
        let (above, below, _) = simulate(0.99, 5, 600);
        assert!(above <= 0.05 && below <= 0.005, "{above} {below}");
        let (above, _, trials) = simulate(0.9999, 5, 600);
        assert!(above > 0.95 && trials < 500.0, "{above} {trials}");
        let (_, below, trials) = simulate(0.9, 5, 600);
        assert!(below > 0.99 && trials < 150.0, "{below} {trials}");
    }
}
