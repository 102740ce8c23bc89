//! Metrics with a single value per run: throughput, peaks and counts. The formulas are in
//! [`crate::metrics::throughput`].

use super::{Better, Kind, Metric, RunSamples, Unit};
use crate::metrics::channel_latency::late_percent;
use sobench_core::answer::Channel;

/// Answers per second.
pub static REQUEST_THROUGHPUT: Metric = per_second(
    "request_throughput",
    "Request throughput",
    Unit::RequestsPerSecond,
    |run| run.overall.throughput.counts.answers,
);

/// Output tokens of answers per second.
pub static OUTPUT_THROUGHPUT: Metric = per_second(
    "output_throughput",
    "Output token throughput",
    Unit::TokensPerSecond,
    |run| run.overall.throughput.counts.output_tokens,
);

/// Input and output tokens of answers per second; only input tokens if answers have none.
pub static TOTAL_TOKEN_THROUGHPUT: Metric = per_second(
    "total_token_throughput",
    "Total token throughput",
    Unit::TokensPerSecond,
    |run| run.overall.throughput.counts.total_tokens,
);

/// Valid answers per second.
pub static VALID_THROUGHPUT: Metric = per_second(
    "valid_throughput",
    "Valid answer throughput",
    Unit::RequestsPerSecond,
    |run| run.overall.throughput.counts.valid,
);

/// Answers that meet every objective, per second.
pub static REQUEST_GOODPUT: Metric = per_second(
    "request_goodput",
    "Request goodput",
    Unit::RequestsPerSecond,
    |run| run.overall.throughput.counts.good,
);

/// Valid answers that meet every objective, per second.
pub static VALID_GOODPUT: Metric = per_second(
    "valid_goodput",
    "Valid request goodput",
    Unit::RequestsPerSecond,
    |run| run.overall.throughput.counts.valid_good,
);

/// Maximum output tokens in a second of the run.
pub static MAX_OUTPUT_TOKENS: Metric = total(
    "max_output_tokens_per_s",
    "Peak output token throughput",
    Unit::TokensPerSecond,
    Better::Neither,
    |run| run.overall.throughput.max_output_tokens_per_s,
);

/// Maximum content chunks in a second of the run.
pub static MAX_OUTPUT_CHUNKS: Metric = total(
    "max_output_chunks_per_s",
    "Peak output chunk throughput",
    Unit::ChunksPerSecond,
    Better::Neither,
    |run| {
        run.overall
            .throughput
            .max_output_chunks_per_s
            .map(|count| count as f64)
    },
);

/// Maximum number of answers in progress during the same second of the run.
pub static MAX_CONCURRENT_REQUESTS: Metric = total(
    "max_concurrent_requests",
    "Peak concurrent requests",
    Unit::Count,
    Better::Neither,
    |run| {
        run.overall
            .throughput
            .max_concurrent_requests
            .map(|count| count as f64)
    },
);

/// Maximum number of requests in flight.
pub static MAX_IN_FLIGHT: Metric = total(
    "max_in_flight",
    "Peak requests in flight",
    Unit::Count,
    Better::Neither,
    |run| {
        run.overall
            .throughput
            .max_in_flight
            .map(|count| count as f64)
    },
);

/// Requests with an answer, complete or truncated at the token limit.
pub static COMPLETED: Metric = total(
    "completed",
    "Successful requests",
    Unit::Count,
    Better::Up,
    |run| Some(run.overall.completed as f64),
);

/// Requests that were rejected, timed out, or failed in the server, the stream or the network.
pub static FAILED: Metric = total(
    "failed",
    "Failed requests",
    Unit::Count,
    Better::Down,
    |run| Some(run.overall.failed as f64),
);

/// Requests cancelled at the end of the run.
pub static CANCELLED: Metric = total(
    "cancelled",
    "Cancelled requests",
    Unit::Count,
    Better::Neither,
    |run| Some(run.overall.cancelled as f64),
);

/// Answers truncated at the token limit, in all arms.
pub static TRUNCATED: Metric = total(
    "truncated",
    "Answers truncated at the token limit",
    Unit::Count,
    Better::Neither,
    |run| Some(run.overall.truncated as f64),
);

/// Requests that were due and never sent.
pub static NEVER_SENT: Metric = total(
    "never_sent",
    "Requests due and never sent",
    Unit::Count,
    Better::Neither,
    |run| Some(run.overall.latency.never_sent as f64),
);

/// Answers without content.
pub static EMPTY_ANSWERS: Metric = total(
    "empty_answers",
    "Answers without content",
    Unit::Count,
    Better::Down,
    |run| Some(run.overall.latency.empty_answers as f64),
);

/// Mean percentage of the reasoning that arrived in the last 100 ms of its answer.
pub static LATE_REASONING: Metric = total(
    "late_reasoning_percent",
    "Reasoning in the last 100 ms",
    Unit::Percent,
    Better::Down,
    |run| late_percent(run.samples, run.options, Channel::Reasoning),
);

/// Mean percentage of the content that arrived in the last 100 ms of its answer.
pub static LATE_CONTENT: Metric = total(
    "late_content_percent",
    "Content in the last 100 ms",
    Unit::Percent,
    Better::Down,
    |run| late_percent(run.samples, run.options, Channel::Content),
);

/// Mean percentage of the arguments of tool calls that arrived in the last 100 ms of their answer.
pub static LATE_ARGUMENTS: Metric = total(
    "late_arguments_percent",
    "Arguments in the last 100 ms",
    Unit::Percent,
    Better::Down,
    |run| late_percent(run.samples, run.options, Channel::ToolCalls),
);

/// Input tokens of all answers.
pub static INPUT_TOKENS: Metric = total(
    "total_input_tokens",
    "Total input tokens",
    Unit::Count,
    Better::Neither,
    |run| run.overall.tokens.input.map(|count| count as f64),
);

/// Output tokens of all answers.
pub static OUTPUT_TOKENS: Metric = total(
    "total_output_tokens",
    "Total generated tokens",
    Unit::Count,
    Better::Neither,
    |run| run.overall.tokens.output.map(|count| count as f64),
);

/// Seconds from the start of the schedule to the end of the last request.
pub static DURATION: Metric = total(
    "duration",
    "Benchmark duration",
    Unit::Seconds,
    Better::Neither,
    |run| Some(run.duration_ns as f64 / 1e9),
);

const fn per_second(
    name: &'static str,
    label: &'static str,
    unit: Unit,
    count: fn(&RunSamples<'_>) -> Option<u64>,
) -> Metric {
    Metric {
        name,
        label,
        unit,
        better: Better::Up,
        kind: Kind::PerSecond(count),
    }
}

pub(super) const fn total(
    name: &'static str,
    label: &'static str,
    unit: Unit,
    better: Better,
    value: fn(&RunSamples<'_>) -> Option<f64>,
) -> Metric {
    Metric {
        name,
        label,
        unit,
        better,
        kind: Kind::Total(value),
    }
}
