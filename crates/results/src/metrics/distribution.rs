//! Durations with those that never ended among them, and sizes: what is said of either in a few
//! figures. Knows no engine.

use serde::{Serialize, Serializer};
use serde_json::json;

use sobench_statistics::durations::{Durations, rank_of};
use sobench_statistics::samples_needed;

/// The percentiles that the saved file has of every distribution.
pub const PERCENTILES: [f64; 7] = [25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9];

/// Masks that take longer than this are told apart: a step of a busy server takes several of these.
pub const SLOW_NS: u64 = 1_000_000;

/// Masks that take longer than this hold up a whole step of a server.
pub const VERY_SLOW_NS: u64 = 10_000_000;

/// Durations of which some were cut off at a limit. Ranks count those as longer than the limit; a
/// mean is not given with them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    durations: Durations,
    censored: u64,
    limit_ns: u64,
}

/// A rank's value, or what it is known to exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    At(u64),
    Above(u64),
}

/// Sizes in bytes, one for each schema.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes(Vec<u64>);

impl Distribution {
    /// Adds one duration.
    pub fn record(&mut self, ns: u64) {
        self.durations.record(ns);
    }

    /// Adds many.
    pub fn merge(&mut self, durations: &Durations) {
        self.durations.merge(durations);
    }

    /// Adds one that had not ended after `limit_ns`.
    pub fn censor(&mut self, limit_ns: u64) {
        self.censored += 1;
        self.limit_ns = self.limit_ns.max(limit_ns);
    }

    /// How many, the cut off ones among them.
    pub fn n(&self) -> u64 {
        self.durations.count() + self.censored
    }

    /// How many were cut off.
    pub fn censored(&self) -> u64 {
        self.censored
    }

    /// The mean; `None` where there are none, or where one was cut off.
    pub fn mean_ns(&self) -> Option<f64> {
        if self.censored > 0 {
            None
        } else {
            self.durations.mean_ns()
        }
    }

    /// The mean with every cut off duration taken for the limit, as MaskBench takes it.
    pub fn mean_at_limit_ns(&self) -> Option<f64> {
        let sum = self.durations.sum_ns() as f64 + self.censored as f64 * self.limit_ns as f64;
        (self.n() > 0).then(|| sum / self.n() as f64)
    }

    /// The smallest duration that at least `percent` % of all do not exceed.
    pub fn percentile(&self, percent: f64) -> Option<Bound> {
        let found = self.durations.at_rank(rank_of(percent / 100.0, self.n()));
        (self.n() > 0).then(|| found.map_or(Bound::Above(self.limit_ns), Bound::At))
    }

    /// The longest.
    pub fn max(&self) -> Option<Bound> {
        if self.censored > 0 {
            Some(Bound::Above(self.limit_ns))
        } else {
            self.durations.max_ns().map(Bound::At)
        }
    }

    /// Whether there are enough of them to speak of this percentile; see [`samples_needed`].
    pub fn carries(&self, percent: f64) -> bool {
        samples_needed(percent).is_some_and(|needs| self.n() >= needs)
    }

    /// Which share (0 to 1) took longer than `ns`, which is below the limit.
    pub fn share_above(&self, ns: u64) -> Option<f64> {
        (self.n() > 0).then(|| (self.durations.above(ns) + self.censored) as f64 / self.n() as f64)
    }

    /// Every value with the share (0 to 1) of all durations that do not exceed it. It ends below 1
    /// where some were cut off.
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, f64)> + '_ {
        let (n, mut seen) = (self.n() as f64, 0);
        self.durations.iter().map(move |(ns, count)| {
            seen += count;
            (ns, seen as f64 / n)
        })
    }
}

impl Bound {
    /// The value, where it is known.
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
    /// Adds one.
    pub fn record(&mut self, bytes: u64) {
        let place = self.0.partition_point(|it| *it <= bytes);
        self.0.insert(place, bytes);
    }

    /// How many.
    pub fn n(&self) -> usize {
        self.0.len()
    }

    /// The smallest size that at least `percent` % do not exceed.
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        self.0
            .get(rank_of(percent / 100.0, self.n() as u64) as usize - 1)
            .copied()
    }

    /// The largest.
    pub fn max(&self) -> Option<u64> {
        self.0.last().copied()
    }
}

impl Serialize for Distribution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entry = |p: f64| {
            let bound = self.percentile(p);
            let (ns, above_ns) = (
                bound.and_then(Bound::known_ns),
                bound.and_then(Bound::above_ns),
            );
            json!({ "p": p, "ns": ns, "above_ns": above_ns, "enough": self.carries(p) })
        };
        let file = json!({
            "n": self.n(),
            "censored": self.censored,
            "mean_ns": self.mean_ns(),
            "percentiles": PERCENTILES.map(entry),
            "max_ns": self.max().and_then(Bound::known_ns),
            "max_above_ns": self.max().and_then(Bound::above_ns),
            "share_over_1_ms": self.share_above(SLOW_NS),
            "share_over_10_ms": self.share_above(VERY_SLOW_NS),
        });
        file.serialize(serializer)
    }
}

impl Serialize for Sizes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (p50, p99) = (self.percentile(50.0), self.percentile(99.0));
        json!({ "n": self.n(), "p50_bytes": p50, "p99_bytes": p99, "max_bytes": self.max() })
            .serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT_NS: u64 = 60_000_000_000;

    #[test]
    fn ranks_count_the_cut_off_as_longer_than_the_limit_and_no_mean_hides_them() {
        let made = |measured: u64, censored: u64| {
            let mut it = Distribution::default();
            (1..=measured).for_each(|ns| it.record(ns));
            (0..censored).for_each(|_| it.censor(LIMIT_NS));
            it
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
                made(measured, censored).percentile(percent),
                expected,
                "{measured} + {censored}, p{percent}"
            );
        }
        let cut = made(90, 10);
        assert_eq!((cut.n(), cut.mean_ns(), cut.max()), (100, None, above));
        assert_eq!(cut.share_above(SLOW_NS), Some(0.1));
        assert!(cut.cumulative().all(|(_, share)| share <= 0.9));
        assert_eq!(made(3, 0).mean_ns(), Some(2.0));
        assert_eq!(made(3, 0).max(), Some(Bound::At(3)));
        let as_maskbench = made(1, 1).mean_at_limit_ns().unwrap();
        assert!((as_maskbench - (1.0 + LIMIT_NS as f64) / 2.0).abs() < 1.0);
    }

    #[test]
    fn merged_is_as_if_recorded_at_once() {
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
    fn what_is_unknown_is_null_and_a_bound_is_no_value() {
        let file = |it: &Distribution| serde_json::to_value(it).unwrap();
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
    fn sizes_keep_their_order() {
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
