//! Latencies: one value or several of each request, in milliseconds. [`crate::metrics::latency`]
//! has the formulas.

use super::{Among, Better, Kind, Metric, Unit};
use crate::metrics::latency::{chunk_gaps_ms, tokens_per_chunk};
use crate::metrics::token_gaps::token_gaps_ms;
use crate::metrics::{MetricsOptions, Sample};

/// TTFT: sent to first content. One value a streamed answer.
pub static TTFT: Metric = of_answers("ttft_ms", "TTFT", |sample, options| {
    sample.latency(options).ttft_ms
});

/// TPOT: (last content - first content) / (output tokens - 1). One value a streamed answer of two
/// tokens or more in two chunks or more.
pub static TPOT: Metric = of_answers("tpot_ms", "TPOT", |sample, options| {
    sample.latency(options).tpot_ms
});

/// ITL: gaps between consecutive content chunks of a streamed answer, those of all answers pooled,
/// as vLLM has it.
pub static ITL: Metric = pooled("itl_ms", "ITL", |sample, options| {
    match sample.streamed(options) {
        true => chunk_gaps_ms(&sample.chunks_ns()).collect(),
        false => Vec::new(),
    }
});

/// E2EL: sent to last content. One value an answer.
pub static E2EL: Metric = of_answers("e2el_ms", "E2EL", |sample, options| {
    sample.latency(options).e2el_ms
});

/// Sent to first reasoning. One value a streamed answer with reasoning.
pub static TTFT_REASONING: Metric = of_answers(
    "ttft_reasoning_ms",
    "TTFT of the reasoning",
    |sample, options| sample.latency(options).ttft_reasoning_ms,
);

/// Sent to first content of the answer itself. One value a streamed answer with reasoning and an
/// answer.
pub static TTFT_ANSWER: Metric =
    of_answers("ttft_answer_ms", "TTFT of the answer", |sample, options| {
        sample.latency(options).ttft_answer_ms
    });

/// The gaps of ITL, each divided by the tokens that a chunk of its answer carries on average. Where
/// an answer has at most one token more than chunks, that one is its end token, a chunk is one
/// token, and gaps stay as they are. Beyond that the count does not tell whether an end token is in
/// it, and the average is tokens / chunks: where there is one, it is 1 / chunks too large.
pub static ITL_PER_TOKEN: Metric = pooled(
    "itl_per_token_ms",
    "ITL spread over tokens",
    |sample, options| {
        let Some(tokens) = sample.tokens().output.filter(|_| sample.streamed(options)) else {
            return Vec::new();
        };
        let share = tokens_per_chunk(tokens, sample.moments().chunks).recip();
        chunk_gaps_ms(&sample.chunks_ns())
            .map(|gap| gap * share)
            .collect()
    },
);

/// ITL of single tokens, where the server says how many came in each chunk; no value of any other
/// answer.
pub static ITL_COUNTED: Metric = pooled(
    "itl_counted_ms",
    "ITL of counted tokens",
    |sample, options| {
        // Counts that cannot be right in the end were not right on the way.
        if !sample.streamed(options) || !sample.usage_makes_sense() {
            return Vec::new();
        }
        let (instants, counts) = sample.counted_chunks();
        token_gaps_ms(&instants, &counts)
            .into_iter()
            .flatten()
            .collect()
    },
);

/// TTFT with the time before sending: due to first content.
pub static TTFT_FROM_DUE: Metric = queued(
    "ttft_from_due_ms",
    "TTFT from due",
    Among::Answers,
    |sample, options| sample.latency(options).ttft_from_due_ms,
);

/// E2EL with the time before sending: due to last content.
pub static E2EL_FROM_DUE: Metric = queued(
    "e2el_from_due_ms",
    "E2EL from due",
    Among::Answers,
    |sample, options| sample.latency(options).e2el_from_due_ms,
);

/// Sent - due, over every request that was sent, whatever became of it: waiting for a free slot,
/// and the client's own delay.
pub static SCHEDULE_LAG: Metric = queued(
    "schedule_lag_ms",
    "schedule lag",
    Among::Every,
    |sample, options| sample.latency(options).schedule_lag_ms,
);

type ValueOf = fn(&Sample<'_>, &MetricsOptions) -> Option<f64>;

const fn of_answers(name: &'static str, label: &'static str, value: ValueOf) -> Metric {
    latency(
        name,
        label,
        Kind::Distribution {
            among: Among::Answers,
            queued: false,
            value,
        },
    )
}

const fn queued(name: &'static str, label: &'static str, among: Among, value: ValueOf) -> Metric {
    latency(
        name,
        label,
        Kind::Distribution {
            among,
            queued: true,
            value,
        },
    )
}

const fn pooled(
    name: &'static str,
    label: &'static str,
    values: fn(&Sample<'_>, &MetricsOptions) -> Vec<f64>,
) -> Metric {
    latency(name, label, Kind::Pooled(values))
}

const fn latency(name: &'static str, label: &'static str, kind: Kind) -> Metric {
    Metric {
        name,
        label,
        unit: Unit::Milliseconds,
        better: Better::Down,
        kind,
    }
}
