//! What constraints that a server has not seen do to the requests beside them. Knows no engine.
//!
//! The others are compared by what was sent shortly before each *began* (its TTFT at its sending, a
//! gap at the chunk before it): a request with a new schema, or else one with a schema that the
//! server knew. "Shortly" is the same for both, the median TTFT of the new ones. Three simpler ways
//! go wrong, which placebos show (runs in which nothing was new):
//!
//! - By overlap, long gaps are beside a new schema for being long.
//! - From its sending to its first token, the time beside it ends where the server ends a step, so that the instants in it are not
//!   spread evenly over the steps, and TTFTs that begin there are short.
//! - Against all other times, what any request costs that arrives is charged to the new schema.
//!
//! What began after the same new request hangs together, so the interval counts requests with a new
//! schema, and not gaps.

use std::collections::BTreeMap;

use serde::Serialize;

use super::cold::Use;
use super::difference::Difference;
use super::latency::chunk_gaps_ms;
use super::pooled::Pooled;
use super::{MetricsOptions, Sample};
use sobench_core::case::Arm;
use sobench_statistics::Summary;

/// The tag of requests that carry a constraint made for this run, to be compiled in the middle of
/// it.
pub const COLD_TAG: &str = "cold-schema";

/// What new schemas in a warm load do to the requests beside them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ColdLoad {
    /// Every how many constrained requests a new schema was sent.
    pub every: usize,
    /// Requests with a new schema that were sent.
    pub requests: usize,
    /// How long after a request another one counts as beside it: the median TTFT of those with a
    /// new schema. `None` where none of them has one.
    pub window_ms: Option<f64>,
    pub ttft: Beside,
    pub itl: Beside,
}

/// The others' latencies, by what was sent last before they began.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Beside {
    pub beside_new_ms: Summary,
    pub beside_known_ms: Summary,
    /// The mean over the new requests of the mean beside each, less the same of the known ones.
    pub difference_ms: Option<Difference>,
}

impl ColdLoad {
    /// Compares the requests beside those that are tagged [`COLD_TAG`] with those beside other
    /// constrained ones.
    pub fn of(samples: &[Sample<'_>], options: &MetricsOptions, every: usize, seed: u64) -> Self {
        let new_uses: Vec<Use<'_, '_>> = samples
            .iter()
            .filter(|it| is_new(it))
            .filter_map(|it| Use::of(it, options))
            .collect();
        let window_ms = Summary::of(new_uses.iter().map(|it| it.ttft_ms).collect(), &[]).median;
        let (mut ttft, mut itl) = (Sides::default(), Sides::default());
        if let Some(window_ms) = window_ms {
            let arrivals = Arrivals::of(samples, (window_ms * 1e6) as u64);
            for other in samples
                .iter()
                .filter(|it| !is_new(it))
                .filter_map(|sample| Use::of(sample, options))
            {
                ttft.add(arrivals.before(other.sent_ns, other.sent_ns), other.ttft_ms);
                let chunks_ns = other.sample.chunks_ns();
                for (began_ns, gap_ms) in chunks_ns.iter().zip(chunk_gaps_ms(&chunks_ns)) {
                    itl.add(arrivals.before(*began_ns, other.sent_ns), gap_ms);
                }
            }
        }
        let requests = samples
            .iter()
            .filter(|it| is_new(it) && it.moments().sent_ns.is_some())
            .count();
        Self {
            every,
            requests,
            window_ms,
            ttft: ttft.compared(options, seed),
            itl: itl.compared(options, seed),
        }
    }
}

fn is_new(sample: &Sample<'_>) -> bool {
    sample.question().tags.iter().any(|tag| tag == COLD_TAG)
}

/// When requests of either kind were sent, in order.
struct Arrivals {
    new: Vec<u64>,
    known: Vec<u64>,
    window_ns: u64,
}

/// The request that something began shortly after, by its place among its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    New(usize),
    Known(usize),
}

impl Arrivals {
    fn of(samples: &[Sample<'_>], window_ns: u64) -> Self {
        let sent = |new: bool| {
            let constrained = samples
                .iter()
                .filter(|it| it.arm() == Arm::Constrained && is_new(it) == new);
            let mut sent: Vec<u64> = constrained.filter_map(|it| it.moments().sent_ns).collect();
            sent.sort_unstable();
            sent
        };
        Self {
            new: sent(true),
            known: sent(false),
            window_ns,
        }
    }

    /// What was sent last before an instant, a new one first; `own_ns`, the request's own sending,
    /// does not count.
    fn before(&self, instant_ns: u64, own_ns: u64) -> Option<After> {
        let last = |sent: &[u64]| {
            let until = sent.partition_point(|at| *at <= instant_ns);
            let place = sent[..until].iter().rposition(|at| *at != own_ns)?;
            (instant_ns - sent[place] < self.window_ns).then_some(place)
        };
        last(&self.new)
            .map(After::New)
            .or_else(|| last(&self.known).map(After::Known))
    }
}

/// Latencies by the request that they began after.
#[derive(Default)]
struct Sides {
    new: BTreeMap<usize, Vec<f64>>,
    known: BTreeMap<usize, Vec<f64>>,
}

impl Sides {
    fn add(&mut self, after: Option<After>, value_ms: f64) {
        let (side, place) = match after {
            Some(After::New(place)) => (&mut self.new, place),
            Some(After::Known(place)) => (&mut self.known, place),
            None => return,
        };
        side.entry(place).or_default().push(value_ms);
    }

    fn compared(self, options: &MetricsOptions, seed: u64) -> Beside {
        let [(new, new_means), (known, known_means)] = [self.new, self.known].map(|side| {
            let mut pooled = Pooled::default();
            let mut means = Vec::new();
            for group in side.into_values() {
                means.push(group.iter().sum::<f64>() / group.len() as f64);
                pooled.add(group);
            }
            (pooled.sum_up(&options.percentiles), means)
        });
        Beside {
            difference_ms: Difference::of(&new_means, &known_means, seed),
            beside_new_ms: new,
            beside_known_ms: known,
        }
    }
}

#[cfg(test)]
mod tests;
