//! Client overhead: send delay, resource usage, and the verdict on both.
//!
//! Three delays are separate. From *due* to *ready*, a request waits for a free slot under the
//! concurrency cap, which depends on the server. From *ready* to *sent*, only the client delays it:
//! the send delay. If all requests are due at once, those under the cap are ready at the start and
//! are sent one after the other: the time to send them is the width of the burst.

use serde::{Deserialize, Serialize};

use super::latency::RequestLatency;
use super::quality::is_zero;
use super::{MetricsOptions, Sample};
use sobench_statistics::Summary;

const NS_PER_MS: f64 = 1e6;

/// Maximum send delay at p99 of a valid schedule. ITL is about 10 ms; arrivals that are off by a
/// fifth of it differ from the requested schedule.
pub const MAX_SEND_DELAY_P99_MS: f64 = 2.0;

/// Maximum send delay as a fraction of the median TTFT, for fast servers, because queueing depends
/// on arrivals ...
pub const MAX_SEND_DELAY_SHARE_OF_TTFT: f64 = 0.1;

/// ... but not below the resolution of kernel timers and thread scheduling on a busy machine.
pub const MIN_SEND_DELAY_LIMIT_MS: f64 = 0.5;

/// Maximum width of a burst as a fraction of the median TTFT. Beyond half of it, the first answers
/// arrive before the last requests are sent, and the server never has all requests at once.
pub const MAX_BURST_SHARE_OF_TTFT: f64 = 0.5;

/// Maximum CPU usage of the client as a fraction of its usable cores. Beyond it, bursts of chunks
/// wait to be read and get late timestamps.
pub const MAX_CPU_SHARE: f64 = 0.85;

/// Maximum CPU usage of the machine as a fraction. Beyond it, threads wait for each other.
pub const MAX_MACHINE_SHARE: f64 = 0.9;

/// Maximum deviation of the send rate from the rate that schedule and cap allow, as a fraction.
pub const MAX_RATE_DEVIATION: f64 = 0.005;

/// Percentiles of the send delay.
const SEND_DELAY_PERCENTILES: [f64; 2] = [50.0, 99.0];

/// Resources that the client used during the run; `None` if the system does not report them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientCost {
    /// The period of the measurement.
    pub wall_s: f64,
    /// CPU time of all threads of the process.
    pub cpu_s: Option<f64>,
    /// Number of cores that the process may use.
    pub cores: Option<usize>,
    /// Number of client threads; `None` for the number of cores.
    pub threads: Option<usize>,
    /// CPU usage of the machine by all processes.
    pub machine_busy_percent: Option<f64>,
    /// Peak memory of the process since its start.
    pub peak_memory_mib: Option<f64>,
    /// Connections opened since the start of the client.
    pub connections_opened: Option<u64>,
    /// Connections that a request waited for. The wait is part of the send delay, not of TTFT.
    pub connections_waited_for: Option<u64>,
    /// Concurrent runs of a comparison in this process. Threads, CPU and memory include them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub other_runs: usize,
    /// Whether the embedded server ran in this process. CPU and memory include it.
    pub includes_server: bool,
}

/// The overhead of the client in a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
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
    /// clock.
    pub disordered: usize,
    pub verdict: ClientVerdict,
    /// The exceeded limits.
    #[serde(rename = "doubts")]
    pub exceeded: Vec<ExceededLimit>,
}

/// Requests that were ready at the start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Burst {
    pub requests: usize,
    /// From the start to the sending of the last of them.
    pub width_ms: f64,
}

/// Whether the latencies are reliable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientVerdict {
    /// Everything measured is within its limit.
    #[default]
    NotTheBottleneck,
    DoNotTrust,
}

/// A measure that exceeds its limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ExceededLimit {
    pub measure: Measure,
    pub value: f64,
    pub limit: f64,
}

/// The measures of client overhead; the names contain the units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    #[serde(rename = "own_delay_p99_ms")]
    SendDelayP99Ms,
    BurstWidthMs,
    RateDeviationPercent,
    CpuPercent,
    MachineBusyPercent,
    DisorderedRequests,
}

impl ClientCost {
    /// The number of cores that the client's threads can use; all cores if the embedded server's
    /// threads are included.
    fn usable_cores(&self) -> Option<usize> {
        let threads = self.threads.filter(|_| !self.includes_server);
        self.cores
            .map(|cores| threads.map_or(cores, |threads| threads.clamp(1, cores.max(1))))
    }
}

impl ClientOverhead {
    /// Computes the overhead from the times of all requests and the used resources. `start_ns` is
    /// the start of the client, relative to the start of the run.
    pub fn new(
        samples: &[Sample<'_>],
        options: &MetricsOptions,
        cost: ClientCost,
        start_ns: u64,
    ) -> Self {
        let since = |time_ns: u64| time_ns.saturating_sub(start_ns);
        let moments = samples.iter().map(|sample| sample.request_times());
        let times = moments
            .filter_map(|at| Some((since(at.due_ns), since(at.ready_ns?), since(at.sent_ns?))));
        let ready: Vec<(u64, u64, u64)> = times.collect();
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
                .filter(|sample| sample.outcome().is_answer())
                .map(|sample| sample.tokens().output),
        );
        // Resources of concurrent runs cannot be divided by the tokens of this run.
        let tokens = output.filter(|tokens| *tokens > 0 && cost.other_runs == 0);
        let cores_s = cost
            .usable_cores()
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
            send_delay_ms: Summary::new(delays.collect(), &SEND_DELAY_PERCENTILES),
            burst: first.iter().max().map(|&last| Burst {
                requests: first.len(),
                width_ms: last as f64 / NS_PER_MS,
            }),
            rate_deviation_percent: rate_deviation_percent(&ready),
            held_by_cap: ready.iter().filter(|(due, ready, _)| ready > due).count(),
            disordered: samples
                .iter()
                .filter(|sample| !sample.is_in_order())
                .count(),
            cost,
            verdict: ClientVerdict::NotTheBottleneck,
            exceeded: Vec::new(),
        };
        part.exceeded = part.exceeded_limits(median_first_ms(samples, options));
        if !part.exceeded.is_empty() {
            part.verdict = ClientVerdict::DoNotTrust;
        }
        part
    }

    /// The severity of the overhead, for comparing runs: whether a limit is exceeded, and the
    /// largest ratio of a value to its limit.
    pub fn severity(&self) -> (bool, f64) {
        let largest_ratio = self
            .exceeded
            .iter()
            .map(|exceeded| exceeded.value / exceeded.limit)
            .fold(0.0, f64::max);
        (self.verdict == ClientVerdict::DoNotTrust, largest_ratio)
    }

    /// `first_ms` is the median time to the first content.
    fn exceeded_limits(&self, first_ms: Option<f64>) -> Vec<ExceededLimit> {
        let exceeds = |measure: Measure, value: Option<f64>, limit: Option<f64>| {
            value
                .zip(limit)
                .filter(|(value, limit)| value > limit)
                .map(|(value, limit)| ExceededLimit {
                    measure,
                    value,
                    limit,
                })
        };
        // The CPU usage of the embedded server cannot be separated, and it may use all cores.
        let alone = !self.cost.includes_server;
        let send_delay = self.send_delay_ms.at(99.0);
        let burst = self
            .burst
            .filter(|burst| burst.requests > 1)
            .map(|burst| burst.width_ms);
        let burst_limit = first_ms
            .map(|first_ms| (first_ms * MAX_BURST_SHARE_OF_TTFT).max(MAX_SEND_DELAY_P99_MS));
        let exceeded = [
            exceeds(
                Measure::SendDelayP99Ms,
                send_delay,
                Some(send_delay_limit_ms(first_ms)),
            ),
            exceeds(Measure::BurstWidthMs, burst, burst_limit),
            exceeds(
                Measure::RateDeviationPercent,
                self.rate_deviation_percent.map(f64::abs),
                Some(100.0 * MAX_RATE_DEVIATION),
            ),
            exceeds(
                Measure::CpuPercent,
                self.cpu_percent.filter(|_| alone),
                Some(100.0 * MAX_CPU_SHARE),
            ),
            exceeds(
                Measure::DisorderedRequests,
                Some(self.disordered as f64),
                Some(0.0),
            ),
            exceeds(
                Measure::MachineBusyPercent,
                self.cost.machine_busy_percent.filter(|_| alone),
                Some(100.0 * MAX_MACHINE_SHARE),
            ),
        ];
        exceeded.into_iter().flatten().collect()
    }
}

/// The limit of the send delay for a server with this median TTFT.
fn send_delay_limit_ms(first_ms: Option<f64>) -> f64 {
    let limit_ms = first_ms.map_or(MAX_SEND_DELAY_P99_MS, |first_ms| {
        first_ms * MAX_SEND_DELAY_SHARE_OF_TTFT
    });
    limit_ms.clamp(MIN_SEND_DELAY_LIMIT_MS, MAX_SEND_DELAY_P99_MS)
}

/// The median TTFT, or the median E2EL without streams.
fn median_first_ms(samples: &[Sample<'_>], options: &MetricsOptions) -> Option<f64> {
    let median = |latency: fn(&RequestLatency) -> Option<f64>| {
        let answers = samples.iter().filter(|sample| sample.outcome().is_answer());
        Summary::new(
            answers
                .filter_map(|sample| latency(&sample.latency(options)))
                .collect(),
            &[],
        )
        .median
    };
    median(|latency| latency.ttft_ms).or_else(|| median(|latency| latency.e2el_ms))
}

/// The send rate compared with the rate at which requests were ready; `None` if all were ready at
/// the start.
fn rate_deviation_percent(ready: &[(u64, u64, u64)]) -> Option<f64> {
    let last_ready = ready
        .iter()
        .map(|(_, ready, _)| *ready)
        .max()
        .filter(|&ns| ns > 0)?;
    let last_sent = ready
        .iter()
        .map(|(.., sent)| *sent)
        .max()
        .filter(|&ns| ns > 0)?;
    Some(100.0 * (last_ready as f64 / last_sent as f64 - 1.0))
}

#[cfg(test)]
mod tests;
