//! Histograms of durations with fixed bounds, as Prometheus has them.

use serde::{Serialize, Serializer};
use serde_json::json;

/// Upper bounds of the buckets, in nanoseconds. A last bucket has no bound.
const BOUNDS_NS: [u64; 16] = [
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
    30_000_000_000,
    60_000_000_000,
];

/// Number of durations by bucket, and their exact sum. JSON has the cumulative counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeHistogram {
    /// Not cumulative. The last one is that of the bucket without a bound.
    counts: [u64; BOUNDS_NS.len() + 1],
    sum_ns: u64,
}

impl TimeHistogram {
    pub(super) fn add(&mut self, ns: u64) {
        self.counts[BOUNDS_NS.partition_point(|bound| *bound < ns)] += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Sum of the durations in seconds.
    pub fn sum_s(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }

    /// Upper bounds in seconds, each with the number of durations up to it. The last bound is
    /// infinite.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        let bounds = BOUNDS_NS.iter().map(|bound| *bound as f64 / 1e9);
        let mut cumulative = 0;
        bounds
            .chain([f64::INFINITY])
            .zip(self.counts)
            .map(move |(bound, count)| {
                cumulative += count;
                (bound, cumulative)
            })
    }
}

impl Serialize for TimeHistogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let buckets: Vec<_> = self
            .buckets()
            .filter(|(bound, _)| bound.is_finite())
            .map(|(bound, count)| json!({"le_s": bound, "count": count}))
            .collect();
        json!({"count": self.count(), "sum_s": self.sum_s(), "buckets": buckets})
            .serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_in_every_bucket_from_its_own_on() {
        let mut times = TimeHistogram::default();
        for ns in [0, 1_000_000, 1_000_001, 90_000_000_000] {
            times.add(ns);
        }
        let buckets: Vec<(f64, u64)> = times.buckets().collect();
        assert_eq!(buckets[..3], [(0.0005, 1), (0.001, 2), (0.0025, 3)]);
        assert_eq!(buckets[15], (60.0, 3));
        assert_eq!(buckets[16], (f64::INFINITY, 4));
        assert_eq!((times.count(), times.sum_s()), (4, 90.002_000_001));
        let json = serde_json::to_value(&times).unwrap();
        assert_eq!(json["buckets"].as_array().unwrap().len(), 16);
    }
}
