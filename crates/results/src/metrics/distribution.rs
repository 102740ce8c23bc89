//! Distributions of durations, some of which are censored at a limit, and of sizes.

use schemars::JsonSchema;
use serde::Serialize;

use sobench_core::json_struct;
use sobench_statistics::durations::{Durations, quantile_rank};
use sobench_statistics::samples_needed;

/// Percentiles in saved results.
pub const PERCENTILES: [f64; 7] = [25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9];

/// Threshold of slow masks. A step of a busy server computes several masks.
pub const SLOW_NS: u64 = 1_000_000;

/// Threshold of very slow masks, which delay a whole step of a server.
pub const VERY_SLOW_NS: u64 = 10_000_000;

/// Durations, some of which are censored at a limit. Percentiles count censored ones as longer than
/// the limit. With censored ones there is no mean.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
#[serde(into = "DistributionFile")]
pub struct Distribution {
    durations: Durations,
    censored: u64,
    limit_ns: u64,
}

/// The value of a percentile, or its lower bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    At(u64),
    Above(u64),
}

/// Sizes in bytes, one per schema.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(into = "SizesFile")]
pub struct Sizes(Vec<u64>);

json_struct! {
    /// [`Distribution`] in files.
    struct DistributionFile = |found: &Distribution| [
        let max = found.max();
    ] {
        /// Number of durations, including censored ones.
        n: u64 = found.n(),
        /// Durations longer than the limit.
        censored: u64 = found.censored(),
        /// `null` with censored durations.
        mean_ns: Option<f64> = found.mean_ns(),
        percentiles: [Percentile; PERCENTILES.len()] = PERCENTILES.map(|p| Percentile::new(p, found)),
        max_ns: Option<u64> = max.and_then(Bound::known_ns),
        max_above_ns: Option<u64> = max.and_then(Bound::above_ns),
        share_over_1_ms: Option<f64> = found.share_above(SLOW_NS),
        share_over_10_ms: Option<f64> = found.share_above(VERY_SLOW_NS),
    }
}

json_struct! {
    /// The smallest duration that this share of all does not exceed.
    struct Percentile = |p: f64, found: &Distribution| [
        let bound = found.percentile(p);
    ] {
        /// The share in percent.
        p: f64 = p,
        ns: Option<u64> = bound.and_then(Bound::known_ns),
        /// The limit, if the percentile is censored.
        above_ns: Option<u64> = bound.and_then(Bound::above_ns),
        /// Whether there are enough durations for it.
        enough: bool = found.has_enough_for(p),
    }
}

json_struct! {
    /// [`Sizes`] in files.
    struct SizesFile = |sizes: &Sizes| {
        n: usize = sizes.n(),
        p50_bytes: Option<u64> = sizes.percentile(50.0),
        p99_bytes: Option<u64> = sizes.percentile(99.0),
        max_bytes: Option<u64> = sizes.max(),
    }
}

impl Distribution {
    /// Adds one duration.
    pub fn record(&mut self, ns: u64) {
        self.durations.record(ns);
    }

    /// Adds durations.
    pub fn merge(&mut self, durations: &Durations) {
        self.durations.merge(durations);
    }

    /// Adds a duration that had not ended after `limit_ns`.
    pub fn censor(&mut self, limit_ns: u64) {
        self.censored += 1;
        self.limit_ns = self.limit_ns.max(limit_ns);
    }

    /// Number of durations, including censored ones.
    pub fn n(&self) -> u64 {
        self.durations.count() + self.censored
    }

    /// Number of censored durations.
    pub fn censored(&self) -> u64 {
        self.censored
    }

    /// The mean; `None` without durations or with censored ones.
    pub fn mean_ns(&self) -> Option<f64> {
        if self.censored > 0 {
            None
        } else {
            self.durations.mean_ns()
        }
    }

    /// The mean with censored durations counted as the limit, as in MaskBench.
    pub fn mean_at_limit_ns(&self) -> Option<f64> {
        let sum = self.durations.sum_ns() as f64 + self.censored as f64 * self.limit_ns as f64;
        (self.n() > 0).then(|| sum / self.n() as f64)
    }

    /// The smallest duration that at least `percent` % of all do not exceed.
    pub fn percentile(&self, percent: f64) -> Option<Bound> {
        let found = self
            .durations
            .at_rank(quantile_rank(percent / 100.0, self.n()));
        (self.n() > 0).then(|| found.map_or(Bound::Above(self.limit_ns), Bound::At))
    }

    /// The maximum.
    pub fn max(&self) -> Option<Bound> {
        if self.censored > 0 {
            Some(Bound::Above(self.limit_ns))
        } else {
            self.durations.max_ns().map(Bound::At)
        }
    }

    /// Whether there are enough durations for a percentile; see [`samples_needed`].
    pub fn has_enough_for(&self, percent: f64) -> bool {
        samples_needed(percent).is_some_and(|needs| self.n() >= needs)
    }

    /// The share (0 to 1) of durations above `ns`, which has to be below the limit.
    pub fn share_above(&self, ns: u64) -> Option<f64> {
        (self.n() > 0)
            .then(|| (self.durations.count_above(ns) + self.censored) as f64 / self.n() as f64)
    }

    /// Every value with the share (0 to 1) of durations that do not exceed it. The last share is
    /// below 1 with censored durations.
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, f64)> + '_ {
        let (n, mut seen) = (self.n() as f64, 0);
        self.durations.iter().map(move |(ns, count)| {
            seen += count;
            (ns, seen as f64 / n)
        })
    }
}

impl Bound {
    /// The value, if it is known.
    pub fn known_ns(self) -> Option<u64> {
        match self {
            Self::At(ns) => Some(ns),
            Self::Above(_) => None,
        }
    }

    fn above_ns(self) -> Option<u64> {
        match self {
            Self::At(_) => None,
            Self::Above(ns) => Some(ns),
        }
    }
}

impl Sizes {
    /// Adds a size.
    pub fn record(&mut self, bytes: u64) {
        let index = self.0.partition_point(|size| *size <= bytes);
        self.0.insert(index, bytes);
    }

    /// Number of sizes.
    pub fn n(&self) -> usize {
        self.0.len()
    }

    /// The smallest size that at least `percent` % do not exceed.
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        self.0
            .get(quantile_rank(percent / 100.0, self.n() as u64) as usize - 1)
            .copied()
    }

    /// The maximum.
    pub fn max(&self) -> Option<u64> {
        self.0.last().copied()
    }
}

impl From<Distribution> for DistributionFile {
    fn from(found: Distribution) -> Self {
        Self::new(&found)
    }
}

impl From<Sizes> for SizesFile {
    fn from(sizes: Sizes) -> Self {
        Self::new(&sizes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT_NS: u64 = 60_000_000_000;

    #[test]
    fn percentiles_count_censored_durations_as_longer_than_the_limit() {
        let distribution = |measured: u64, censored: u64| {
            let mut durations = Distribution::default();
            (1..=measured).for_each(|ns| durations.record(ns));
            (0..censored).for_each(|_| durations.censor(LIMIT_NS));
            durations
        };
        let above = Some(Bound::Above(LIMIT_NS));
        for (measured, censored, percent, expected) in [
            (100, 0, 50.0, Some(Bound::At(50))),
            (100, 0, 99.0, Some(Bound::At(99))),
            (1000, 0, 99.9, Some(Bound::At(999))),
            (1, 0, 0.0, Some(Bound::At(1))),
            (90, 10, 90.0, Some(Bound::At(90))),
            (90, 10, 91.0, above),
            (90, 10, 100.0, above),
            (0, 3, 50.0, above),
            (0, 0, 50.0, None),
        ] {
            assert_eq!(
                distribution(measured, censored).percentile(percent),
                expected,
                "{measured} + {censored}, p{percent}"
            );
        }
        let cut = distribution(90, 10);
        assert_eq!((cut.n(), cut.mean_ns(), cut.max()), (100, None, above));
        assert_eq!(cut.share_above(SLOW_NS), Some(0.1));
        assert!(cut.cumulative().all(|(_, share)| share <= 0.9));
        assert_eq!(distribution(3, 0).mean_ns(), Some(2.0));
        assert_eq!(distribution(3, 0).max(), Some(Bound::At(3)));
        let as_maskbench = distribution(1, 1).mean_at_limit_ns().unwrap();
        assert!((as_maskbench - (1.0 + LIMIT_NS as f64) / 2.0).abs() < 1.0);
    }

    #[test]
    fn merged_durations_equal_recorded_durations() {
        let (mut parts, mut whole) = (Distribution::default(), Distribution::default());
        for part in 0..3 {
            let mut durations = Durations::default();
            for step in 0..50 {
                durations.record(1 + part * 1000 + step);
                whole.record(1 + part * 1000 + step);
            }
            parts.merge(&durations);
        }
        assert_eq!(parts, whole);
    }

    #[test]
    fn unknown_values_are_null() {
        let file = |distribution: &Distribution| serde_json::to_value(distribution).unwrap();
        let empty = file(&Distribution::default());
        assert!(
            empty["mean_ns"].is_null()
                && empty["max_ns"].is_null()
                && empty["share_over_1_ms"].is_null(),
            "{empty}"
        );
        let mut cut = Distribution::default();
        cut.censor(LIMIT_NS);
        let cut = file(&cut);
        assert!(cut["max_ns"].is_null() && cut["percentiles"][1]["ns"].is_null());
        assert_eq!(cut["percentiles"][1]["above_ns"].as_u64(), Some(LIMIT_NS));
        assert_eq!(cut["percentiles"][1]["enough"], false);
    }

    #[test]
    fn sizes_are_sorted() {
        let mut sizes = Sizes::default();
        [30, 10, 20]
            .into_iter()
            .for_each(|bytes| sizes.record(bytes));
        assert_eq!(
            (sizes.percentile(50.0), sizes.percentile(99.0), sizes.max()),
            (Some(20), Some(30), Some(30))
        );
        assert_eq!(
            (Sizes::default().percentile(50.0), Sizes::default().max()),
            (None, None)
        );
    }
}
