//! Histogram of durations with bounded memory.

use std::collections::BTreeMap;
use std::ops::Bound;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Durations above this limit, one hour, share a bucket.
pub const MAX_DURATION_NS: u64 = 3_600_000_000_000;

/// Significant bits of a bucket: quantiles are accurate to 0.1 %, as with the same buckets in an
/// HdrHistogram of three digits (Tene, hdrhistogram.org).
const KEPT_BITS: u32 = 11;

/// Histogram of durations in ns. Serialised as the exact sum and `[ns, count]` pairs, sorted by
/// value.
///
/// Sparse, because a row has a few dozen values in each of its parts, and there are many rows.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(from = "Counts", into = "Counts")]
pub struct Durations {
    counts: BTreeMap<u64, u64>,
    count: u64,
    sum_ns: u64,
}

/// Serialised form of [`Durations`].
#[derive(JsonSchema, Serialize, Deserialize)]
struct Counts {
    sum_ns: u64,
    counts: Vec<(u64, u64)>,
}

impl Durations {
    /// Relative error of values, in percent.
    pub const RELATIVE_ERROR_PERCENT: f64 = 0.1;

    /// Adds one duration.
    pub fn record(&mut self, ns: u64) {
        self.add(ns, 1);
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    /// Adds all durations of another.
    pub fn merge(&mut self, other: &Self) {
        other.iter().for_each(|(ns, count)| self.add(ns, count));
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Exact sum of the durations.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// The mean; `None` if empty.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum_ns as f64 / self.count() as f64)
    }

    /// The smallest value that at least `quantile` (0 to 1) of the durations do not exceed; `None`
    /// if empty.
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        self.at_rank(quantile_rank(quantile, self.count))
    }

    /// The value at a rank (1 is the shortest); `None` beyond the count.
    pub fn at_rank(&self, rank: u64) -> Option<u64> {
        let mut seen = 0;
        let found = self.iter().find(|(_, count)| {
            seen += count;
            seen >= rank
        });
        found.map(|(ns, _)| ns)
    }

    /// The longest duration; `None` if empty.
    pub fn max_ns(&self) -> Option<u64> {
        self.counts.last_key_value().map(|(ns, _)| *ns)
    }

    /// Number of durations longer than `ns`.
    pub fn count_above(&self, ns: u64) -> u64 {
        self.counts
            .range((Bound::Excluded(bucket(ns)), Bound::Unbounded))
            .map(|(_, count)| count)
            .sum()
    }

    /// Values with their counts, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.counts.iter().map(|(ns, count)| (*ns, *count))
    }

    fn add(&mut self, ns: u64, count: u64) {
        *self.counts.entry(bucket(ns)).or_default() += count;
        self.count += count;
    }
}

/// The rank (from 1) of the smallest of `n` values that at least `share` (0 to 1) of them do not
/// exceed.
pub fn quantile_rank(share: f64, n: u64) -> u64 {
    // Corrects rounding: rank 999 for 0.999 of 1000.
    (share * n as f64 - 1e-7).ceil().max(1.0) as u64
}

/// The upper end of the bucket of `ns`.
fn bucket(ns: u64) -> u64 {
    let ns = ns.clamp(1, MAX_DURATION_NS);
    let lost_bits = (u64::BITS - ns.leading_zeros()).saturating_sub(KEPT_BITS);
    ns | ((1 << lost_bits) - 1)
}

impl From<Counts> for Durations {
    fn from(counts: Counts) -> Self {
        let mut durations = Self {
            sum_ns: counts.sum_ns,
            ..Self::default()
        };
        counts
            .counts
            .into_iter()
            .for_each(|(ns, count)| durations.add(ns, count));
        durations
    }
}

impl From<Durations> for Counts {
    fn from(durations: Durations) -> Self {
        Self {
            sum_ns: durations.sum_ns,
            counts: durations.iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serialised_durations_read_back() {
        let mut durations = Durations::default();
        for ns in [0, 1, 999, 1_234_567, 1_234_567, u64::MAX / 2] {
            durations.record(ns);
        }
        let text = serde_json::to_string(&durations).unwrap();
        let read: Durations = serde_json::from_str(&text).unwrap();
        assert_eq!(read, durations);
        assert_eq!((read.count(), read.sum_ns()), (6, durations.sum_ns()));
        assert_eq!(
            read.count_above(1_000_000),
            3,
            "longer than an hour still counts"
        );
        let median = read.quantile_ns(0.5).unwrap();
        assert!(median.abs_diff(999) <= 1, "{median}");
        let mut twice = read;
        twice.merge(&durations);
        assert_eq!((twice.count(), twice.count_above(1_000_000)), (12, 6));
        assert_eq!(Durations::default().quantile_ns(0.5), None);
    }

    #[test]
    fn buckets_are_accurate_to_a_thousandth() {
        for (ns, expected) in [
            (0, 1),
            (1, 1),
            (2_047, 2_047),
            (2_048, 2_049),
            (2_049, 2_049),
            (1 << 20, (1 << 20) + 1_023),
        ] {
            assert_eq!(bucket(ns), expected, "{ns}");
        }
        assert_eq!(bucket(u64::MAX), bucket(MAX_DURATION_NS));
        for ns in (1..MAX_DURATION_NS).step_by(7_919_777_777) {
            let value = bucket(ns);
            assert!(
                value >= ns && (value - ns) as f64 <= ns as f64 / 1e3 && bucket(value) == value,
                "{ns} is in bucket {value}"
            );
        }
    }

    #[test]
    fn quantiles_match_sorted_values() {
        let mut durations = Durations::default();
        (1..=1000).rev().for_each(|ns| durations.record(ns));
        for (quantile, expected) in [
            (0.0, 1),
            (0.001, 1),
            (0.5, 500),
            (0.99, 990),
            (0.999, 999),
            (0.9991, 1000),
            (1.0, 1000),
        ] {
            assert_eq!(
                durations.quantile_ns(quantile),
                Some(expected),
                "{quantile}"
            );
        }
        assert_eq!(
            (
                durations.count_above(1),
                durations.count_above(999),
                durations.count_above(1000)
            ),
            (999, 1, 0)
        );
    }
}
