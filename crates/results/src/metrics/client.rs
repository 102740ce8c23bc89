//! Whether the client itself stood in the way: how late it was by its own doing, what it took from
//! its machine, and the verdict on both. Knows no operating system: what was taken is handed in.
//!
//! Three delays are kept apart. From *due* to *ready* a request waits for a free slot under the
//! cap, which is the server's pace. From *ready* to *sent* nothing but the client holds it back:
//! that is its own delay. And where all requests are due at once, as many as the cap lets through
//! are ready at the very begin, and leave one after the other: that is no lateness of each, but the
//! width of the burst.

use serde::{Deserialize, Serialize};

use super::latency::RequestLatency;
use super::quality::is_zero;
use super::{MetricsOptions, Sample};
use sobench_statistics::Summary;

const NS_PER_MS: f64 = 1e6;

/// The most own delay, at p99, that lets a schedule count as kept. An inter-token latency is some
/// 10 ms; arrivals that are off by a fifth of it are not the ones that were asked for.
pub const MAX_OWN_DELAY_P99_MS: f64 = 2.0;

/// Beside a fast server the same delay has to be this small a part of the median TTFT, since
/// queueing follows arrivals ...
pub const MAX_OWN_DELAY_SHARE_OF_TTFT: f64 = 0.1;

/// ... but never under what a kernel's timer and one thread's turn take on a machine that has other
/// work.
pub const LEAST_OWN_DELAY_LIMIT_MS: f64 = 0.5;

/// The widest burst that still is one, as a part of the median TTFT: past half of it, the first are
/// answered while the last have not left, and the server never had them all at once.
pub const MAX_BURST_SHARE_OF_TTFT: f64 = 0.5;

/// The share of the cores that it can fill past which a client has no time left over for bursts:
/// chunks then wait to be read, and carry late instants.
pub const MAX_CPU_SHARE: f64 = 0.85;

/// The share of the whole machine past which threads wait for each other, whoever they belong to.
pub const MAX_MACHINE_SHARE: f64 = 0.9;

/// How far the sending rate may be off what schedule and cap allowed.
pub const MAX_RATE_DEVIATION: f64 = 0.005;

/// The percentiles of the own delay.
const OWN_DELAY_PERCENTILES: [f64; 2] = [50.0, 99.0];

/// What the run took from the machine that the client ran on; `None` where the system does not
/// tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientCost {
    /// The time that CPU was counted over.
    pub wall_s: f64,
    /// CPU time of the process, all its threads.
    pub cpu_s: Option<f64>,
    /// Cores that the process may use.
    pub cores: Option<usize>,
    /// Threads that the client's work is spread over; `None` for as many as there are cores.
    pub threads: Option<usize>,
    /// Of all CPU time of the machine, whoever used it.
    pub machine_busy_percent: Option<f64>,
    /// The most memory of the process, from its start.
    pub peak_memory_mib: Option<f64>,
    /// Connections opened, from the client's start.
    pub connections_opened: Option<u64>,
    /// Those of them that a request had to wait for; the wait is part of its own delay, and of no
    /// TTFT.
    pub connections_waited_for: Option<u64>,
    /// Other runs of a comparison that this process made at the same time: threads, CPU and memory
    /// are those of all.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub other_runs: usize,
    /// Whether the embedded server ran in this very process: CPU and memory are then those of both.
    pub includes_server: bool,
}

/// The client's own part in a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ClientPart {
    #[serde(flatten)]
    pub cost: ClientCost,
    /// CPU time over the time of the cores that the client's threads can fill, in percent: one
    /// thread on many cores is full at one.
    pub cpu_percent: Option<f64>,
    /// `None` also where a count of output tokens is not known.
    pub cpu_s_per_million_output_tokens: Option<f64>,
    /// Due and with a free slot to sent, of all requests that were not ready at the very begin.
    pub own_delay_ms: Summary,
    /// The requests that were ready at the very begin.
    pub burst: Option<Burst>,
    /// How far the sending rate is off what schedule and cap allowed, in percent.
    pub rate_deviation_percent: Option<f64>,
    /// Requests that waited for a free slot.
    pub held_by_cap: usize,
    /// Requests whose instants do not follow each other, which only a defect of the client's clock
    /// can bring about.
    pub disordered: usize,
    pub verdict: ClientVerdict,
    /// What speaks against the client; empty if nothing does.
    pub doubts: Vec<Doubt>,
}

/// Requests that were all ready at the very begin.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Burst {
    pub requests: usize,
    /// From the begin to the sending of the last of them.
    pub width_ms: f64,
}

/// Whether to trust the latencies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientVerdict {
    /// Everything that could be measured is within its bound.
    #[default]
    NotTheBottleneck,
    DoNotTrust,
}

/// One measure that is past its bound.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Doubt {
    pub measure: Measure,
    pub value: f64,
    pub limit: f64,
}

/// What the client is judged by; the names carry the units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    OwnDelayP99Ms,
    BurstWidthMs,
    RateDeviationPercent,
    CpuPercent,
    MachineBusyPercent,
    DisorderedRequests,
}

impl ClientCost {
    /// The cores that the client's threads can fill; all of them where the embedded server's
    /// threads are in the same count.
    fn fillable_cores(&self) -> Option<usize> {
        let threads = self.threads.filter(|_| !self.includes_server);
        self.cores
            .map(|cores| threads.map_or(cores, |threads| threads.clamp(1, cores.max(1))))
    }
}

impl ClientPart {
    /// Judges a client that began so long after the begin that instants count from, by what every
    /// request's instants say, and by what the run took.
    pub fn of(
        samples: &[Sample<'_>],
        options: &MetricsOptions,
        cost: ClientCost,
        begin_ns: u64,
    ) -> Self {
        let since = |instant_ns: u64| instant_ns.saturating_sub(begin_ns);
        let moments = samples.iter().map(|it| it.moments());
        let instants = moments
            .filter_map(|at| Some((since(at.due_ns), since(at.ready_ns?), since(at.sent_ns?))));
        let ready: Vec<(u64, u64, u64)> = instants.collect();
        let delay_ms =
            |(_, ready, sent): &(u64, u64, u64)| (*sent as f64 - *ready as f64) / NS_PER_MS;
        let delays = ready
            .iter()
            .filter(|(_, ready, _)| *ready > 0)
            .map(delay_ms);
        let first: Vec<u64> = ready
            .iter()
            .filter(|(_, ready, _)| *ready == 0)
            .map(|(.., sent)| *sent)
            .collect();
        let output = super::throughput::sum(
            samples
                .iter()
                .filter(|it| it.outcome().is_answer())
                .map(|it| it.tokens().output),
        );
        // What other runs brought is not in this one's tokens.
        let tokens = output.filter(|tokens| *tokens > 0 && cost.other_runs == 0);
        let cores_s = cost
            .fillable_cores()
            .map(|cores| cost.wall_s * cores as f64)
            .filter(|cores_s| *cores_s > 0.0);
        let mut part = Self {
            cpu_percent: cost
                .cpu_s
                .zip(cores_s)
                .map(|(cpu_s, cores_s)| 100.0 * cpu_s / cores_s),
            cpu_s_per_million_output_tokens: cost
                .cpu_s
                .zip(tokens)
                .map(|(cpu_s, tokens)| cpu_s * 1e6 / tokens as f64),
            own_delay_ms: Summary::of(delays.collect(), &OWN_DELAY_PERCENTILES),
            burst: first.iter().max().map(|&last| Burst {
                requests: first.len(),
                width_ms: last as f64 / NS_PER_MS,
            }),
            rate_deviation_percent: rate_deviation_percent(&ready),
            held_by_cap: ready.iter().filter(|(due, ready, _)| ready > due).count(),
            disordered: samples.iter().filter(|it| !it.is_in_order()).count(),
            cost,
            verdict: ClientVerdict::NotTheBottleneck,
            doubts: Vec::new(),
        };
        part.doubts = part.doubts(median_first_ms(samples, options));
        if !part.doubts.is_empty() {
            part.verdict = ClientVerdict::DoNotTrust;
        }
        part
    }

    /// How much speaks against the client: of two, the one with more is the worse one. Whether
    /// anything does, and the farthest that a measure is past its bound, as a factor.
    pub fn severity(&self) -> (bool, f64) {
        let farthest = self
            .doubts
            .iter()
            .map(|doubt| doubt.value / doubt.limit)
            .fold(0.0, f64::max);
        (self.verdict == ClientVerdict::DoNotTrust, farthest)
    }

    /// `first_ms` is the median time to the first thing that came of an answer.
    fn doubts(&self, first_ms: Option<f64>) -> Vec<Doubt> {
        let past = |measure: Measure, value: Option<f64>, limit: Option<f64>| {
            value
                .zip(limit)
                .filter(|(value, limit)| value > limit)
                .map(|(value, limit)| Doubt {
                    measure,
                    value,
                    limit,
                })
        };
        // The embedded server's CPU cannot be told from the client's, and is meant to take what
        // there is.
        let alone = !self.cost.includes_server;
        let own_delay = self.own_delay_ms.at(99.0);
        let burst = self
            .burst
            .filter(|it| it.requests > 1)
            .map(|it| it.width_ms);
        let burst_limit =
            first_ms.map(|it| (it * MAX_BURST_SHARE_OF_TTFT).max(MAX_OWN_DELAY_P99_MS));
        let doubts = [
            past(
                Measure::OwnDelayP99Ms,
                own_delay,
                Some(own_delay_limit_ms(first_ms)),
            ),
            past(Measure::BurstWidthMs, burst, burst_limit),
            past(
                Measure::RateDeviationPercent,
                self.rate_deviation_percent.map(f64::abs),
                Some(100.0 * MAX_RATE_DEVIATION),
            ),
            past(
                Measure::CpuPercent,
                self.cpu_percent.filter(|_| alone),
                Some(100.0 * MAX_CPU_SHARE),
            ),
            past(
                Measure::DisorderedRequests,
                Some(self.disordered as f64),
                Some(0.0),
            ),
            past(
                Measure::MachineBusyPercent,
                self.cost.machine_busy_percent.filter(|_| alone),
                Some(100.0 * MAX_MACHINE_SHARE),
            ),
        ];
        doubts.into_iter().flatten().collect()
    }
}

/// The bound on the own delay beside a server of this median TTFT.
fn own_delay_limit_ms(first_ms: Option<f64>) -> f64 {
    let beside = first_ms.map_or(MAX_OWN_DELAY_P99_MS, |it| it * MAX_OWN_DELAY_SHARE_OF_TTFT);
    beside.clamp(LEAST_OWN_DELAY_LIMIT_MS, MAX_OWN_DELAY_P99_MS)
}

/// The median TTFT; without streams the median E2EL.
fn median_first_ms(samples: &[Sample<'_>], options: &MetricsOptions) -> Option<f64> {
    let median = |of: fn(&RequestLatency) -> Option<f64>| {
        let answers = samples.iter().filter(|it| it.outcome().is_answer());
        Summary::of(
            answers.filter_map(|it| of(&it.latency(options))).collect(),
            &[],
        )
        .median
    };
    median(|it| it.ttft_ms).or_else(|| median(|it| it.e2el_ms))
}

/// The rate at which requests were sent against the rate at which they were ready; `None` where all
/// were ready at the begin.
fn rate_deviation_percent(ready: &[(u64, u64, u64)]) -> Option<f64> {
    let last_ready = ready
        .iter()
        .map(|(_, ready, _)| *ready)
        .max()
        .filter(|&it| it > 0)?;
    let last_sent = ready
        .iter()
        .map(|(.., sent)| *sent)
        .max()
        .filter(|&it| it > 0)?;
    Some(100.0 * (last_ready as f64 / last_sent as f64 - 1.0))
}

#[cfg(test)]
mod tests;
