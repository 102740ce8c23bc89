//! Rates with Wilson's score interval.

use serde::{Deserialize, Serialize};

use super::{Z_95, effective_size};

/// A rate in percent with its 95 % Wilson score interval.
#[derive(Clone, Copy, Debug, PartialEq, schemars::JsonSchema, Serialize, Deserialize)]
pub struct Rate {
    pub percent: f64,
    pub low_percent: f64,
    pub high_percent: f64,
    pub hits: usize,
    pub of: usize,
    /// The effective number of trials where some repeat others; the interval is for this number.
    /// `None` if every trial counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective: Option<f64>,
}

/// Wilson's score interval of a proportion (1927), as fractions of 1.
///
/// Brown, Cai and DasGupta, "Interval Estimation for a Binomial Proportion" (2001), recommend it:
/// it stays within 0 to 1 and does not collapse at the ends, where a good server's rate lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wilson {
    pub share: f64,
    center: f64,
    half: f64,
}

impl Wilson {
    /// The interval of `hits` in `of` trials with the normal quantile `z`; `of` is above 0.
    pub fn new(hits: usize, of: usize, z: f64) -> Self {
        Self::from_share(hits as f64 / of as f64, of as f64, z)
    }

    /// The interval of a share of `n` trials, above 0 and not necessarily whole.
    pub fn from_share(share: f64, n: f64, z: f64) -> Self {
        let z2 = z * z;
        let scale = 1.0 + z2 / n;
        let center = (share + z2 / (2.0 * n)) / scale;
        let half = z / scale * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt();
        Self {
            share,
            center,
            half,
        }
    }

    /// The lower bound. At a share of 0 it is exactly 0, without rounding error.
    pub fn low(&self) -> f64 {
        if self.share == 0.0 {
            0.0
        } else {
            self.center - self.half
        }
    }

    /// The upper bound. At a share of 1 it is exactly 1.
    pub fn high(&self) -> f64 {
        if self.share == 1.0 {
            1.0
        } else {
            self.center + self.half
        }
    }

    /// Distance from the share to the lower bound.
    pub fn down(&self) -> f64 {
        (self.share - self.center + self.half).max(0.0)
    }

    /// Distance from the share to the upper bound.
    pub fn up(&self) -> f64 {
        (self.center + self.half - self.share).max(0.0)
    }
}

impl Rate {
    /// The rate of `hits` in `of` trials; `None` if `of` is 0.
    pub fn new(hits: usize, of: usize) -> Option<Self> {
        Self::with_effective(hits, of, of as f64)
    }

    /// The rate of hits among members, where those with equal numbers are copies
    /// ([`crate::effective_size`]); `None` without members.
    pub fn of_members(members: impl IntoIterator<Item = (bool, u64)>) -> Option<Self> {
        let (mut hits, mut copies) = (0, Vec::new());
        for (is_hit, copy) in members {
            hits += usize::from(is_hit);
            copies.push(copy);
        }
        let of = copies.len();
        Self::with_effective(hits, of, effective_size(copies))
    }

    /// The rate of `hits` in `of` trials that are worth `effective` independent ones, at least 1
    /// ([`crate::effective_size`]); `None` if `of` is 0.
    pub fn with_effective(hits: usize, of: usize, effective: f64) -> Option<Self> {
        debug_assert!(hits <= of, "hits are at most the number of trials");
        if of == 0 {
            return None;
        }
        let size = effective.clamp(1.0, of as f64);
        let wilson = Wilson::from_share(hits as f64 / of as f64, size, Z_95);
        let (low_percent, high_percent) = (100.0 * wilson.low(), 100.0 * wilson.high());
        Some(Self {
            percent: 100.0 * wilson.share,
            low_percent,
            high_percent,
            hits,
            of,
            effective: (size < of as f64).then_some(size),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        let tolerance = 1e-12 * expected.abs().max(1.0);
        assert!(
            (found - expected).abs() <= tolerance,
            "found {found}, expected {expected}"
        );
    }

    #[test]
    fn wilson_intervals_match_hand_computed_ones() {
        assert_eq!(Rate::new(0, 0), None);
        for (hits, of, low, high) in [
            (0, 10, 0.0, 27.753_279_986_288_92),
            (10, 10, 72.246_720_013_711_07, 100.0),
            (7, 10, 39.677_814_746_114_535, 89.220_873_259_369_9),
            (982, 1000, 97.172_674_482_949_26, 98.858_425_999_043_22),
            (1, 1, 20.654_931_437_723_747, 100.0),
            (81, 263, 25.528_851_987_827_423, 36.620_957_698_28),
        ] {
            let rate = Rate::new(hits, of).unwrap();
            near(rate.percent, 100.0 * hits as f64 / of as f64);
            near(rate.low_percent, low);
            near(rate.high_percent, high);
        }
        assert_eq!(Rate::new(3, 3).unwrap().high_percent, 100.0);
        assert_eq!(Rate::new(3, 3).unwrap().effective, None);
        assert_eq!(Rate::new(0, 3).unwrap().low_percent, 0.0);
    }

    #[test]
    fn repeated_trials_have_the_interval_of_the_effective_number() {
        let (repeated, single) = (Rate::with_effective(20, 20, 1.0), Rate::new(1, 1));
        let (repeated, single) = (repeated.unwrap(), single.unwrap());
        assert_eq!(repeated.low_percent, single.low_percent);
        assert_eq!((repeated.of, repeated.effective), (20, Some(1.0)));
        // More trials than there are is no gain.
        assert_eq!(Rate::with_effective(7, 10, 11.0), Rate::new(7, 10));
    }
}
