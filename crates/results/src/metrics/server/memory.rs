//! Resident memory of the server over the number of distinct constraints that it was sent.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use super::MIB;
use sobench_core::constraint::Constraint;
use sobench_core::server_sample::{Quantity, ServerSample};
use sobench_facts::Sample;
use sobench_statistics::Growth;

/// Share of the distinct constraints at the start that are left out: the cache of the server and the
/// areas of its allocator fill then.
const WARM_UP_SHARE: f64 = 0.5;

/// Minimum number of distinct constraints after the warm-up.
const MIN_CONSTRAINTS: usize = 16;

/// Confidence level of the interval.
const LEVEL: f64 = 0.99;

/// Share of the growth that must remain at the end for a cache that gives nothing back.
const KEPT_SHARE: f64 = 0.95;

/// The slope of the resident memory over the number of distinct constraints.
#[derive(Clone, Copy, Debug, PartialEq, schemars::JsonSchema, Serialize)]
pub struct MemoryGrowth {
    pub bytes_per_constraint: f64,
    /// 99 % interval, also for memory that moves as a random walk.
    pub low: f64,
    pub high: f64,
    /// Distinct constraints over the whole run.
    pub constraints: usize,
    /// Samples after the warm-up.
    pub samples: usize,
    /// Whether memory grows up to the end of the run, by more than chance.
    pub never_gives_back: bool,
}

impl MemoryGrowth {
    /// From the samples after the last restart. `None` if the server does not report its memory, or
    /// was sent too few distinct constraints or sampled too rarely.
    pub(super) fn new(server: &[ServerSample], samples: &[Sample<'_>]) -> Option<Self> {
        // Memory of the process that runs at the end.
        let restart = server
            .windows(2)
            .rposition(|pair| pair[1].is_after_restart(&pair[0]));
        let server = &server[restart.map_or(0, |before| before + 1)..];
        let firsts = first_uses(samples);
        let constraints = firsts.len();
        let points = points(server, &firsts);
        let growth = Growth::new(&points, LEVEL).filter(|_| constraints >= MIN_CONSTRAINTS)?;
        Some(Self {
            bytes_per_constraint: growth.slope,
            low: growth.low,
            high: growth.high,
            constraints,
            samples: points.len(),
            never_gives_back: growth.is_growing() && keeps_to_the_end(&points),
        })
    }
}

/// When each distinct constraint was first sent, in order.
fn first_uses(samples: &[Sample<'_>]) -> Vec<u64> {
    let mut fingerprints: HashMap<usize, String> = HashMap::new();
    let mut sent: Vec<(u64, &Arc<Constraint>)> = samples
        .iter()
        .filter(|sample| sample.arm().sends_constraint())
        .filter_map(|sample| Some((sample.request_times().sent_ns?, sample.constraint()?)))
        .collect();
    sent.sort_by_key(|(sent_ns, _)| *sent_ns);
    let mut known = HashSet::new();
    let mut firsts = Vec::new();
    for (sent_ns, constraint) in sent {
        let fingerprint = fingerprints
            .entry(Arc::as_ptr(constraint) as usize)
            .or_insert_with(|| constraint.fingerprint());
        if !known.contains(fingerprint) {
            known.insert(fingerprint.clone());
            firsts.push(sent_ns);
        }
    }
    firsts
}

/// Distinct constraints so far and memory, after the warm-up and up to the last new constraint.
fn points(server: &[ServerSample], firsts: &[u64]) -> Vec<(f64, f64)> {
    let count_at = |sample: &ServerSample| {
        let at_ns = u64::try_from(sample.offset_ns).unwrap_or(0);
        firsts.partition_point(|sent_ns| *sent_ns <= at_ns)
    };
    let warm_up = (firsts.len() as f64 * WARM_UP_SHARE).ceil() as usize;
    let mut points: Vec<(f64, f64)> = Vec::new();
    for sample in server {
        let count = count_at(sample);
        let Some(bytes) = sample.values.get(&Quantity::Memory) else {
            continue;
        };
        let is_after_last = points
            .last()
            .is_some_and(|(last, _)| *last == firsts.len() as f64);
        if count >= warm_up.max(1) && !is_after_last {
            points.push((count as f64, *bytes));
        }
    }
    points
}

/// Whether the last level is near the highest one, and the last third of the points grew.
fn keeps_to_the_end(points: &[(f64, f64)]) -> bool {
    let (Some((_, first)), Some((_, last))) = (points.first(), points.last()) else {
        return false;
    };
    let peak = points.iter().map(|point| point.1).fold(*last, f64::max);
    let (_, third) = points[points.len() * 2 / 3];
    last - first >= KEPT_SHARE * (peak - first) && last > &third
}

impl fmt::Display for MemoryGrowth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: f64| bytes / MIB;
        let Self {
            constraints,
            never_gives_back,
            ..
        } = self;
        let (slope, low, high) = (
            mib(self.bytes_per_constraint),
            mib(self.low),
            mib(self.high),
        );
        let interval = format!("99 % interval {low:.4} to {high:.4}, {constraints} constraints");
        if *never_gives_back {
            write!(
                f,
                "the server's memory grows by {slope:.4} MiB for each distinct constraint ({interval}), up to the end of the run: its cache \
                 of constraints gives nothing back, or its limit is above {constraints} constraints"
            )
        } else if self.low > 0.0 {
            write!(
                f,
                "the server's memory grows by {slope:.4} MiB for each distinct constraint ({interval}), but not up to the end of the run"
            )
        } else {
            write!(
                f,
                "the server's memory does not grow with distinct constraints by more than chance: {slope:.4} MiB for each ({interval})"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_facts::testing::{TestRequest, test_request, with_cases};
    use sobench_statistics::bootstrap::SplitMix;

    const MS: i64 = 1_000_000;
    const REQUESTS: u64 = 300;

    /// A request every 100 ms, each with a schema of its own, and memory every 500 ms.
    fn growth(distinct: usize, memory: impl Fn(i64) -> f64) -> Option<MemoryGrowth> {
        let run: Vec<TestRequest<'_>> = (0..REQUESTS)
            .map(|number| TestRequest {
                sent: Some(100 * number),
                ..test_request()
            })
            .collect();
        let server: Vec<ServerSample> = (0..60)
            .map(|number| ServerSample {
                offset_ns: number * 500 * MS,
                values: [(Quantity::Memory, memory(number * 5))].into(),
                ..ServerSample::default()
            })
            .collect();
        with_cases(
            &run,
            |index, case| {
                let pattern = format!("a{{{}}}", index % distinct);
                case.constraint = Some(Arc::new(Constraint::Regex(pattern.into())));
            },
            |samples| MemoryGrowth::new(&server, samples),
        )
    }

    /// The resident memory of a process: pages that are taken in steps, and sometimes given back.
    fn resident(seed: u64) -> impl Fn(i64) -> f64 {
        move |at| {
            let mut random = SplitMix::new(seed, 0);
            let mut bytes = 3e8;
            for _ in 0..at {
                if random.unit() < 0.1 {
                    bytes += (random.unit() - 0.5) * 4e6;
                }
            }
            bytes
        }
    }

    #[test]
    fn planted_leak_is_found_within_ten_percent_and_none_in_twenty_faithful_runs() {
        for seed in 0..20 {
            let base = resident(seed);
            let faithful = growth(300, &base).unwrap();
            assert!(
                faithful.low <= 0.0 && faithful.high >= 0.0 && !faithful.never_gives_back,
                "{seed}: {faithful:?}"
            );
            let leak = growth(300, |at| base(at) + 1e6 * at as f64).unwrap();
            let error = leak.bytes_per_constraint / 1e6 - 1.0;
            assert!(error.abs() < 0.1, "{seed}: {leak:?}");
            assert!(leak.never_gives_back, "{seed}: {leak:?}");
            assert_eq!(leak.constraints, 300);
            assert!(leak.to_string().contains("gives nothing back"), "{leak}");
        }
    }

    #[test]
    fn full_cache_stops_growing() {
        // 180 constraints are allocated in the warm-up and shortly after it.
        let bounded = growth(300, |at| 3e8 + 1e6 * (at.min(180)) as f64).unwrap();
        assert!(!bounded.never_gives_back, "{bounded:?}");
    }

    #[test]
    fn few_constraints_and_unknown_memory_have_no_slope() {
        assert_eq!(growth(4, |at| at as f64), None);
        let run = [test_request()];
        sobench_facts::testing::with_samples(&run, |samples| {
            assert_eq!(MemoryGrowth::new(&[], samples), None);
        });
    }
}
