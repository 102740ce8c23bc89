//! Durations as they are kept in a row: counts by value, and how they grow over a text. Knows no clock.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The longest duration that is told apart from longer ones: an hour.
pub const LONGEST_NS: u64 = 3_600_000_000_000;

/// Digits that a value keeps: quantiles are right within 0.1 %.
const SIGNIFICANT_DIGITS: u8 = 3;

/// How often which duration was seen, in ns. In files: the exact sum, and `[ns, count]` by value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Counts", into = "Counts")]
pub struct Durations {
    histogram: Histogram<u64>,
    sum_ns: u64,
}

/// What a file holds of [`Durations`].
#[derive(Serialize, Deserialize)]
struct Counts {
    sum_ns: u64,
    counts: Vec<(u64, u64)>,
}

impl Default for Durations {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, SIGNIFICANT_DIGITS).expect("the bounds are constants");
        Self { histogram, sum_ns: 0 }
    }
}

impl Durations {
    /// Adds one duration.
    pub fn record(&mut self, ns: u64) {
        self.histogram.saturating_record(ns.max(1));
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    /// Adds all durations of another.
    pub fn merge(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("all histograms have the same bounds");
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Their exact sum.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// The mean, if there are any.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum_ns as f64 / self.count() as f64)
    }

    /// The smallest value that at least `quantile` (0 to 1) of the durations do not exceed, if there are any.
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        (self.count() > 0).then(|| self.histogram.value_at_quantile(quantile))
    }

    /// The longest, if there are any.
    pub fn max_ns(&self) -> Option<u64> {
        (self.count() > 0).then(|| self.histogram.max())
    }

    /// How many took longer than `ns`.
    pub fn above(&self, ns: u64) -> u64 {
        self.count() - self.histogram.count_between(0, ns)
    }

    /// Values with their counts, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.histogram.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value()))
    }
}

impl TryFrom<Counts> for Durations {
    type Error = String;
    fn try_from(counts: Counts) -> Result<Self, String> {
        let mut durations = Self { sum_ns: counts.sum_ns, ..Self::default() };
        for (ns, count) in counts.counts {
            durations.histogram.saturating_record_n(ns.max(1), count);
        }
        Ok(durations)
    }
}

impl From<Durations> for Counts {
    fn from(durations: Durations) -> Self {
        Self { sum_ns: durations.sum_ns, counts: durations.iter().collect() }
    }
}

/// Sums from which the straight line of least squares through (position, ns) follows; sums of several rows add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slope {
    pub n: f64,
    pub sum_position: f64,
    pub sum_ns: f64,
    pub sum_position_squared: f64,
    pub sum_product: f64,
}

impl Slope {
    /// Adds a duration at a token's position.
    pub fn record(&mut self, position: usize, ns: u64) {
        let (position, ns) = (position as f64, ns as f64);
        self.n += 1.0;
        self.sum_position += position;
        self.sum_ns += ns;
        self.sum_position_squared += position * position;
        self.sum_product += position * ns;
    }

    /// Adds another's sums.
    pub fn merge(&mut self, other: &Self) {
        self.n += other.n;
        self.sum_position += other.sum_position;
        self.sum_ns += other.sum_ns;
        self.sum_position_squared += other.sum_position_squared;
        self.sum_product += other.sum_product;
    }

    /// Nanoseconds that a mask takes longer for every token before it; `None` where all stand at one position.
    pub fn ns_per_position(&self) -> Option<f64> {
        let spread = self.n * self.sum_position_squared - self.sum_position * self.sum_position;
        (spread > 0.0).then(|| (self.n * self.sum_product - self.sum_position * self.sum_ns) / spread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        let mut durations = Durations::default();
        for ns in [0, 1, 999, 1_234_567, 1_234_567, u64::MAX / 2] {
            durations.record(ns);
        }
        let text = serde_json::to_string(&durations).unwrap();
        let read: Durations = serde_json::from_str(&text).unwrap();
        assert_eq!(read, durations);
        assert_eq!((read.count(), read.sum_ns()), (6, durations.sum_ns()));
        assert_eq!(read.above(1_000_000), 3, "longer than an hour still counts");
        let median = read.quantile_ns(0.5).unwrap();
        assert!(median.abs_diff(999) <= 1, "{median}");
        let mut twice = read;
        twice.merge(&durations);
        assert_eq!((twice.count(), twice.above(1_000_000)), (12, 6));
        assert_eq!(Durations::default().quantile_ns(0.5), None);
    }

    #[test]
    fn the_line_is_the_one_through_the_points() {
        let (mut first, mut second) = (Slope::default(), Slope::default());
        for position in 0..10 {
            first.record(position, 100 + 7 * position as u64);
            second.record(position + 10, 170 + 7 * position as u64);
        }
        first.merge(&second);
        assert!((first.ns_per_position().unwrap() - 7.0).abs() < 1e-9);
        assert_eq!(Slope::default().ns_per_position(), None);
    }
}
