//! Client overhead: send delay, resource usage, and how much of each figure the client can have
//! added ([`Bounds`]), from which the verdict follows.
//!
//! Three delays are separate. From *due* to *ready*, a request waits for a free slot under the
//! concurrency cap, which depends on the server. From *ready* to *sent*, only the client delays it:
//! the send delay. If all requests are due at once, those under the cap are ready at the start and
//! are sent one after the other: the time to send them is the width of the burst.

mod bounds;
mod clients;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::bounds::{Bound, Bounds, MAX_SHARE, MIN_LIMIT_MS};
pub use self::clients::{run_overhead, shard_overhead};
use super::registry::Values;
use sobench_facts::Sample;
use sobench_plan::metrics::MetricsSettings;
use sobench_plan::record::ClientCost;
use sobench_statistics::Summary;
pub use sobench_statistics::contrast::MIN_VALUES;

const NS_PER_MS: f64 = 1e6;

/// Percentiles of the send delay.
const SEND_DELAY_PERCENTILES: [f64; 2] = [50.0, 99.0];

/// The overhead of the client in a run.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct ClientOverhead {
    #[serde(flatten)]
    pub cost: ClientCost,
    /// CPU time as a percentage of the time of the cores that the client's threads can use.
    pub cpu_percent: Option<f64>,
    /// `None` also if a count of output tokens is unknown.
    pub cpu_s_per_million_output_tokens: Option<f64>,
    /// Ready to sent, of all requests that were not ready at the start.
    #[serde(rename = "own_delay_ms")]
    pub send_delay_ms: Summary,
    /// The requests that were ready at the start.
    pub burst: Option<Burst>,
    /// Deviation of the send rate from the rate that schedule and cap allow, in percent.
    pub rate_deviation_percent: Option<f64>,
    /// Number of requests that waited for a free slot.
    pub held_by_cap: usize,
    /// Number of requests with timestamps out of order, which indicates a bug in the client's
    /// clock; all answers if none took any time.
    pub disordered: usize,
    pub verdict: ClientVerdict,
    /// Why the verdict is [`ClientVerdict::DoNotTrust`].
    pub doubts: Vec<Doubt>,
    /// How much of each latency and throughput the client can have added.
    pub bounds: Bounds,
}

/// A client, for the bounds of its requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientRun {
    pub cost: ClientCost,
    /// The concurrency cap of this client.
    pub max_concurrency: Option<usize>,
    /// The start of the client, relative to the start of the run.
    pub start_ns: u64,
}

/// Requests that were ready at the start.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Burst {
    pub requests: usize,
    /// From the start to the sending of the last of them.
    pub width_ms: f64,
}

/// Whether the client can have distorted a figure.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum ClientVerdict {
    /// Every bound is within its limit.
    #[default]
    NotTheBottleneck,
    /// A bound is unknown, as in logs of older versions and on systems without kernel time stamps;
    /// the others are within their limits.
    Unknown,
    DoNotTrust,
}

/// A bound beyond its limit.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Doubt {
    /// The name of a figure, or [`DISORDERED_REQUESTS`].
    pub measure: String,
    pub value: f64,
    pub limit: f64,
}

/// The measure of requests whose timestamps are out of order.
pub const DISORDERED_REQUESTS: &str = "disordered_requests";

impl ClientOverhead {
    /// Computes the overhead from the times of all requests of a client and the used resources.
    /// `values` are the figures of the whole run.
    pub fn new(
        samples: &[Sample<'_>],
        options: &MetricsSettings,
        run: ClientRun,
        values: &Values,
    ) -> Self {
        let ClientRun {
            cost,
            max_concurrency,
            start_ns,
        } = run;
        let bounds = Bounds::new(
            &bounds::Client {
                samples,
                options,
                max_concurrency,
                start_ns,
            },
            values,
        );
        let times = || {
            let answers = samples.iter().filter(|sample| sample.outcome().is_answer());
            answers.map(|sample| sample.request_times())
        };
        let clock_stood_still = times().all(|at| at.sent_ns.is_some() && at.end_ns <= at.sent_ns);
        let is_wrong = |sample: &&Sample<'_>| {
            !sample.is_in_order() || (clock_stood_still && sample.outcome().is_answer())
        };
        let disordered = samples.iter().filter(is_wrong).count();
        let doubts = doubts(&bounds, disordered);
        let since = |time_ns: u64| time_ns.saturating_sub(start_ns);
        let ready = || {
            let moments = samples.iter().map(|sample| sample.request_times());
            moments
                .filter_map(|at| Some((since(at.due_ns), since(at.ready_ns?), since(at.sent_ns?))))
        };
        let delays = ready()
            .filter(|(_, ready, _)| *ready > 0)
            .map(|(_, ready, sent)| (sent as f64 - ready as f64) / NS_PER_MS);
        let first = || ready().filter(|(_, ready, _)| *ready == 0);
        let output = super::throughput::sum(
            samples
                .iter()
                .filter(|sample| sample.outcome().is_answer())
                .map(|sample| sample.tokens().output),
        );
        // Resources of concurrent runs cannot be divided by the tokens of this run.
        let tokens = output.filter(|tokens| *tokens > 0 && cost.other_runs == 0);
        let cores_s = cost
            .usable_cores()
            .map(|cores| cost.wall_s * cores as f64)
            .filter(|cores_s| *cores_s > 0.0);
        Self {
            cpu_percent: cost
                .cpu_s
                .zip(cores_s)
                .map(|(cpu_s, cores_s)| 100.0 * cpu_s / cores_s),
            cpu_s_per_million_output_tokens: cost
                .cpu_s
                .zip(tokens)
                .map(|(cpu_s, tokens)| cpu_s * 1e6 / tokens as f64),
            send_delay_ms: Summary::new(delays.collect(), &SEND_DELAY_PERCENTILES),
            burst: first().map(|(.., sent)| sent).max().map(|last| Burst {
                requests: first().count(),
                width_ms: last as f64 / NS_PER_MS,
            }),
            rate_deviation_percent: rate_deviation_percent(ready()),
            held_by_cap: ready().filter(|(due, ready, _)| ready > due).count(),
            disordered,
            cost,
            verdict: match doubts[..] {
                [] if bounds.has_unknown() => ClientVerdict::Unknown,
                [] => ClientVerdict::NotTheBottleneck,
                _ => ClientVerdict::DoNotTrust,
            },
            doubts,
            bounds,
        }
    }

    /// Whether figures are doubted only because the run is short: with fewer than [`MIN_VALUES`]
    /// requests, one late wake-up is a large part of every figure.
    pub fn is_too_short(&self) -> bool {
        let at_start = self.burst.map_or(0, |burst| burst.requests);
        let is_short = self.send_delay_ms.n + at_start < MIN_VALUES;
        self.verdict == ClientVerdict::DoNotTrust && self.disordered == 0 && is_short
    }

    /// The severity of the overhead, for comparing clients: the verdict, and the largest ratio of a
    /// bound to its limit.
    pub fn severity(&self) -> (ClientVerdict, f64) {
        let ratios = self
            .bounds
            .iter()
            .filter_map(|bound| Some(bound.added? / bound.limit()));
        (self.verdict, ratios.fold(0.0, f64::max))
    }
}

fn doubts(bounds: &Bounds, disordered: usize) -> Vec<Doubt> {
    let of_clock = (disordered > 0).then(|| Doubt {
        measure: DISORDERED_REQUESTS.to_owned(),
        value: disordered as f64,
        limit: 0.0,
    });
    let of_bounds = bounds.distrusted().map(|bound| Doubt {
        measure: bound.figure.to_string(),
        value: bound.added.unwrap_or_default(),
        limit: bound.limit(),
    });
    of_clock.into_iter().chain(of_bounds).collect()
}

/// The send rate compared with the rate at which requests were ready; `None` if all were ready at
/// the start.
fn rate_deviation_percent(ready: impl Iterator<Item = (u64, u64, u64)>) -> Option<f64> {
    let (mut last_ready, mut last_sent) = (0, 0);
    for (_, ready, sent) in ready {
        last_ready = last_ready.max(ready);
        last_sent = last_sent.max(sent);
    }
    if last_ready == 0 || last_sent == 0 {
        return None;
    }
    Some(100.0 * (last_ready as f64 / last_sent as f64 - 1.0))
}

#[cfg(test)]
mod tests;
