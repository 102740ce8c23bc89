//! Metrics that the server reports about itself ([`crate::metrics::server`]). They are unknown
//! without a metrics page, or if the page does not have them.

use super::totals::total;
use super::{Better, Metric, RunSamples, Unit};
use crate::metrics::server::{GaugeSummary, HistogramSummary};
use sobench_core::server_sample::Quantity;

/// Mean time to first token, from its histogram.
pub static TTFT: Metric = total(
    "server.ttft_ms",
    "Server: mean TTFT",
    Unit::Milliseconds,
    Better::Down,
    |run| mean_ms(run, Quantity::Ttft),
);

/// 99th percentile of the time to first token, from its histogram.
pub static TTFT_P99: Metric = total(
    "server.ttft_p99_ms",
    "Server: P99 TTFT",
    Unit::Milliseconds,
    Better::Down,
    |run| durations(run, Quantity::Ttft)?.p99_ms,
);

/// Mean time in the queue.
pub static QUEUE_TIME: Metric = total(
    "server.queue_time_ms",
    "Server: mean queue time",
    Unit::Milliseconds,
    Better::Down,
    |run| mean_ms(run, Quantity::QueueTime),
);

/// Prompt tokens that the server processed.
pub static PROMPT_TOKENS: Metric = total(
    "server.prompt_tokens",
    "Server: prompt tokens",
    Unit::Count,
    Better::Neither,
    |run| run.server?.count(Quantity::PromptTokens),
);

/// Tokens that the server generated.
pub static GENERATED_TOKENS: Metric = total(
    "server.generated_tokens",
    "Server: generated tokens",
    Unit::Count,
    Better::Neither,
    |run| run.server?.count(Quantity::GeneratedTokens),
);

/// Most requests in the batch, at a sample.
pub static RUNNING_PEAK: Metric = total(
    "server.running_peak",
    "Server: peak running requests",
    Unit::Count,
    Better::Neither,
    |run| peak(run, Quantity::Running),
);

/// Most waiting requests, at a sample.
pub static WAITING_PEAK: Metric = total(
    "server.waiting_peak",
    "Server: peak waiting requests",
    Unit::Count,
    Better::Down,
    |run| peak(run, Quantity::Waiting),
);

/// Most requests that wait for another reason than the capacity, at a sample.
pub static DEFERRED_PEAK: Metric = total(
    "server.deferred_peak",
    "Server: peak deferred requests",
    Unit::Count,
    Better::Down,
    |run| peak(run, Quantity::Deferred),
);

/// Highest use of the KV cache, at a sample.
pub static CACHE_USAGE_PEAK: Metric = total(
    "server.cache_usage_peak",
    "Server: peak KV cache use",
    Unit::Percent,
    Better::Neither,
    |run| peak(run, Quantity::CacheUsage),
);

/// Requests that lost their place in the batch.
pub static PREEMPTIONS: Metric = total(
    "server.preemptions",
    "Server: preemptions",
    Unit::Count,
    Better::Down,
    |run| run.server?.count(Quantity::Preemptions),
);

/// Mean time to compile a constraint.
pub static COMPILE_TIME: Metric = total(
    "server.compile_time_ms",
    "Server: mean compile time",
    Unit::Milliseconds,
    Better::Down,
    |run| mean_ms(run, Quantity::CompileTime),
);

/// Mean time that a constraint waits for its compile.
pub static COMPILE_WAIT: Metric = total(
    "server.compile_wait_ms",
    "Server: mean wait for compile",
    Unit::Milliseconds,
    Better::Down,
    |run| mean_ms(run, Quantity::CompileWait),
);

/// Most requests that wait for the compile of their constraint, at a sample.
pub static COMPILE_QUEUE_PEAK: Metric = total(
    "server.compile_queue_peak",
    "Server: peak compile queue",
    Unit::Count,
    Better::Down,
    |run| peak(run, Quantity::CompileQueue),
);

/// Accepted draft tokens in percent of drafted ones.
pub static DRAFT_ACCEPTANCE: Metric = total(
    "server.draft_acceptance",
    "Server: accepted draft tokens",
    Unit::Percent,
    Better::Up,
    |run| run.server?.draft_acceptance_percent(),
);

/// Highest resident memory, at a sample.
pub static MEMORY_PEAK: Metric = total(
    "server.memory_peak_bytes",
    "Server: peak memory",
    Unit::Bytes,
    Better::Down,
    |run| peak(run, Quantity::Memory),
);

/// Resident memory at the last sample minus that at the first one.
pub static MEMORY_GROWTH: Metric = total(
    "server.memory_growth_bytes",
    "Server: memory growth",
    Unit::Bytes,
    Better::Down,
    |run| gauge(run, Quantity::Memory).map(|memory| memory.last - memory.first),
);

/// Slope of the resident memory over the number of distinct constraints.
pub static MEMORY_PER_SCHEMA: Metric = total(
    "server.memory_per_schema_bytes",
    "Server: memory per distinct constraint",
    Unit::Bytes,
    Better::Down,
    |run| Some(run.server?.memory_growth?.bytes_per_constraint),
);

/// Restarts of the server, by its counters.
pub static RESTARTS: Metric = total(
    "server.restarts",
    "Server: restarts",
    Unit::Count,
    Better::Down,
    |run| Some(run.server?.restarts as f64),
);

fn durations<'r>(run: &RunSamples<'r>, quantity: Quantity) -> Option<&'r HistogramSummary> {
    run.server?.duration(quantity)
}

fn mean_ms(run: &RunSamples<'_>, quantity: Quantity) -> Option<f64> {
    Some(durations(run, quantity)?.mean_ms)
}

fn gauge<'r>(run: &RunSamples<'r>, quantity: Quantity) -> Option<&'r GaugeSummary> {
    run.server?.gauge(quantity)
}

fn peak(run: &RunSamples<'_>, quantity: Quantity) -> Option<f64> {
    gauge(run, quantity)?.peak
}
