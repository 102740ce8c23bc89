//! The effect of never-seen constraints on concurrent requests.
//!
//! Other requests are compared by the last constrained request that was sent shortly before their
//! latency *started* (TTFT at its own sending, a gap at the preceding chunk): one with a new
//! schema, or one with a known schema. "Shortly" is the median TTFT of the new ones for both
//! groups. Three simpler methods fail on placebo runs (runs without new schemas):
//!
//! - By overlap, long gaps are more likely to be concurrent with a new schema.
//! - From sending to first token, the window ends at the end of a server step, so that its times are not spread
//!   evenly over steps, and TTFTs that start there are short.
//! - Compared with all other times, the cost of any arriving request is charged to the new schema.
//!
//! Latencies after the same new request are correlated, so the interval counts requests with a new
//! schema, not gaps.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::first_uses::ConstraintUse;
use super::pooled::Pooled;
use sobench_core::case::Arm;
use sobench_facts::Sample;
use sobench_facts::latency::chunk_gaps_ms;
use sobench_plan::metrics::MetricsSettings;
use sobench_statistics::Summary;
use sobench_statistics::contrast::Difference;

/// The tag of requests with a constraint generated for this run, which is compiled during the run.
pub const COLD_TAG: &str = "cold-schema";

/// The effect of new schemas on concurrent requests.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct ColdLoad {
    /// A new schema is sent with every K-th constrained request.
    pub every: usize,
    /// Number of sent requests with a new schema.
    pub requests: usize,
    /// The time after a request in which others count as concurrent: the median TTFT of requests
    /// with a new schema. `None` without such a TTFT.
    pub window_ms: Option<f64>,
    pub ttft: BesideLatencies,
    pub itl: BesideLatencies,
}

/// Latencies of other requests, by the last constrained request sent before they started.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct BesideLatencies {
    pub beside_new_ms: Summary,
    pub beside_known_ms: Summary,
    /// Mean over the new requests of the mean beside each, minus the same for the known ones.
    pub difference_ms: Option<Difference>,
}

impl ColdLoad {
    /// Compares the requests beside those tagged [`COLD_TAG`] with the requests beside other
    /// constrained ones.
    pub fn new(samples: &[Sample<'_>], options: &MetricsSettings, every: usize, seed: u64) -> Self {
        let new_uses: Vec<ConstraintUse<'_, '_>> = samples
            .iter()
            .filter(|sample| is_new(sample))
            .filter_map(|sample| ConstraintUse::new(sample, options))
            .collect();
        let window_ms = Summary::new(
            new_uses.iter().map(|new_use| new_use.ttft_ms).collect(),
            &[],
        )
        .median;
        let (mut ttft, mut itl) = (Sides::default(), Sides::default());
        if let Some(window_ms) = window_ms {
            let arrivals = Arrivals::new(samples, (window_ms * 1e6) as u64);
            for other in samples
                .iter()
                .filter(|sample| !is_new(sample))
                .filter_map(|sample| ConstraintUse::new(sample, options))
            {
                ttft.add(arrivals.before(other.sent_ns, other.sent_ns), other.ttft_ms);
                let chunks_ns = other.sample.chunks_ns();
                for (start_ns, gap_ms) in chunks_ns.iter().zip(chunk_gaps_ms(&chunks_ns)) {
                    itl.add(arrivals.before(*start_ns, other.sent_ns), gap_ms);
                }
            }
        }
        let requests = samples
            .iter()
            .filter(|sample| is_new(sample) && sample.request_times().sent_ns.is_some())
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
    sample
        .request_input()
        .tags
        .iter()
        .any(|tag| tag == COLD_TAG)
}

/// Send times of new and known constrained requests, sorted.
struct Arrivals {
    new: Vec<u64>,
    known: Vec<u64>,
    window_ns: u64,
}

/// The preceding constrained request, by its index within its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    New(usize),
    Known(usize),
}

impl Arrivals {
    fn new(samples: &[Sample<'_>], window_ns: u64) -> Self {
        let sent = |new: bool| {
            let constrained = samples
                .iter()
                .filter(|sample| sample.arm() == Arm::Constrained && is_new(sample) == new);
            let mut sent: Vec<u64> = constrained
                .filter_map(|sample| sample.request_times().sent_ns)
                .collect();
            sent.sort_unstable();
            sent
        };
        Self {
            new: sent(true),
            known: sent(false),
            window_ns,
        }
    }

    /// The last constrained request sent before a time, preferring new ones. The request's own
    /// sending at `own_ns` does not count.
    fn before(&self, at_ns: u64, own_ns: u64) -> Option<After> {
        let last = |sent: &[u64]| {
            let until = sent.partition_point(|sent_ns| *sent_ns <= at_ns);
            let index = sent[..until]
                .iter()
                .rposition(|sent_ns| *sent_ns != own_ns)?;
            (at_ns - sent[index] < self.window_ns).then_some(index)
        };
        last(&self.new)
            .map(After::New)
            .or_else(|| last(&self.known).map(After::Known))
    }
}

/// Latencies by preceding request.
#[derive(Default)]
struct Sides {
    new: BTreeMap<usize, Vec<f64>>,
    known: BTreeMap<usize, Vec<f64>>,
}

impl Sides {
    fn add(&mut self, after: Option<After>, value_ms: f64) {
        let (side, index) = match after {
            Some(After::New(index)) => (&mut self.new, index),
            Some(After::Known(index)) => (&mut self.known, index),
            None => return,
        };
        side.entry(index).or_default().push(value_ms);
    }

    fn compared(self, options: &MetricsSettings, seed: u64) -> BesideLatencies {
        let [(new, new_means), (known, known_means)] = [self.new, self.known].map(|side| {
            let mut pooled = Pooled::default();
            let mut means = Vec::new();
            for group in side.into_values() {
                means.push(group.iter().sum::<f64>() / group.len() as f64);
                pooled.add(group);
            }
            (pooled.summary(&options.percentiles), means)
        });
        BesideLatencies {
            difference_ms: Difference::from_samples(&new_means, &known_means, seed),
            beside_new_ms: new,
            beside_known_ms: known,
        }
    }
}

#[cfg(test)]
mod tests;
