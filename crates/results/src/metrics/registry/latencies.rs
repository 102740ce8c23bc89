//! Latency metrics: one or more values per request, in milliseconds. The formulas are in
//! [`crate::metrics::latency`].

use super::{Better, Kind, Metric, Population, Unit};
use crate::metrics::channel_latency;
use crate::metrics::token_gaps::token_gaps_ms;
use sobench_core::answer::Channel;
use sobench_facts::Sample;
use sobench_facts::latency::{chunk_gaps_ms, tokens_per_chunk};
use sobench_plan::metrics::{LatencyMetric, MetricsOptions};

impl Metric {
    /// The metric of a latency that vLLM prints.
    pub fn of_latency(latency: LatencyMetric) -> &'static Self {
        match latency {
            LatencyMetric::Ttft => &TTFT,
            LatencyMetric::Tpot => &TPOT,
            LatencyMetric::Itl => &ITL,
            LatencyMetric::E2el => &E2EL,
        }
    }
}

/// TTFT: sent to first content. One value per streamed answer.
pub static TTFT: Metric = of_answers("ttft_ms", LatencyMetric::Ttft.label(), |sample, options| {
    sample.latency(options).ttft_ms
});

/// TPOT: (last content - first content) / (output tokens - 1). One value per streamed answer with
/// at least two tokens in at least two chunks.
pub static TPOT: Metric = of_answers("tpot_ms", LatencyMetric::Tpot.label(), |sample, options| {
    sample.latency(options).tpot_ms
});

/// ITL: gaps between consecutive content chunks of streamed answers, pooled over all answers, as in
/// vLLM.
pub static ITL: Metric = pooled(
    "itl_ms",
    LatencyMetric::Itl.label(),
    |sample, options| match sample.streamed(options) {
        true => chunk_gaps_ms(&sample.chunks_ns()).collect(),
        false => Vec::new(),
    },
);

/// E2EL: sent to last content. One value per answer.
pub static E2EL: Metric = of_answers("e2el_ms", LatencyMetric::E2el.label(), |sample, options| {
    sample.latency(options).e2el_ms
});

/// Sent to first reasoning. One value per streamed answer with reasoning.
pub static TTFT_REASONING: Metric = of_answers(
    "ttft_reasoning_ms",
    "TTFT of the reasoning",
    |sample, options| sample.latency(options).ttft_reasoning_ms,
);

/// Sent to first content of the answer. One value per streamed answer with reasoning and an answer.
pub static TTFT_ANSWER: Metric =
    of_answers("ttft_answer_ms", "TTFT of the answer", |sample, options| {
        sample.latency(options).ttft_answer_ms
    });

/// Sent to the first arguments of a tool call; TTFT is the name of its function. One value per
/// streamed answer with arguments.
pub static TTFT_ARGUMENTS: Metric = of_answers(
    "ttft_arguments_ms",
    "TTFT of the arguments",
    |sample, options| sample.latency(options).ttft_arguments_ms,
);

/// Sent to the first content. One value per streamed answer with content and another channel.
pub static TTFT_CONTENT: Metric = of_answers(
    "ttft_content_ms",
    "TTFT of the content",
    |sample, options| channel_latency::ttft_ms(sample, options, Channel::Content),
);

/// Sent to the first part of a tool call, such as its name. One value per streamed answer with tool
/// calls.
pub static TTFT_CALL: Metric = of_answers(
    "ttft_call_ms",
    "TTFT of the tool call",
    |sample, options| channel_latency::ttft_ms(sample, options, Channel::ToolCalls),
);

/// Gaps between consecutive chunks with reasoning, pooled over streamed answers with reasoning.
pub static ITL_REASONING: Metric = pooled(
    "itl_reasoning_ms",
    "ITL of the reasoning",
    |sample, options| channel_latency::gaps_ms(sample, options, Channel::Reasoning),
);

/// Gaps between consecutive chunks with content, pooled over streamed answers with content and
/// another channel.
pub static ITL_CONTENT: Metric =
    pooled("itl_content_ms", "ITL of the content", |sample, options| {
        channel_latency::gaps_ms(sample, options, Channel::Content)
    });

/// Gaps between consecutive chunks with parts of tool calls, pooled over streamed answers with tool
/// calls.
pub static ITL_CALL: Metric = pooled("itl_call_ms", "ITL of the tool calls", |sample, options| {
    channel_latency::gaps_ms(sample, options, Channel::ToolCalls)
});

/// Longest gap between consecutive chunks. One value per streamed answer with reasoning or tool
/// calls.
pub static DEAD_AIR: Metric = of_answers("dead_air_ms", "Dead air", channel_latency::dead_air_ms);

/// ITL divided by the mean number of tokens per chunk of the answer. If an answer has at most one
/// token more than chunks, that token is taken as its end token, and gaps are unchanged. Otherwise
/// the mean is tokens / chunks. If the count includes an end token, this is too large by 1 /
/// chunks.
pub static ITL_PER_TOKEN: Metric = pooled(
    "itl_per_token_ms",
    "ITL spread over tokens",
    |sample, options| {
        let Some(tokens) = sample.tokens().output.filter(|_| sample.streamed(options)) else {
            return Vec::new();
        };
        let share = tokens_per_chunk(tokens, sample.request_times().chunks).recip();
        chunk_gaps_ms(&sample.chunks_ns())
            .map(|gap| gap * share)
            .collect()
    },
);

/// ITL of single tokens, if the server counts the tokens of each chunk.
pub static ITL_COUNTED: Metric = pooled(
    "itl_counted_ms",
    "ITL of counted tokens",
    |sample, options| {
        // If the final counts are implausible, so are the counts of chunks.
        if !sample.streamed(options) || sample.has_ignored_count() {
            return Vec::new();
        }
        let (times, counts) = sample.counted_chunks();
        token_gaps_ms(&times, &counts)
            .into_iter()
            .flatten()
            .collect()
    },
);

/// TTFT including the time before sending: due to first content.
pub static TTFT_FROM_DUE: Metric = queued(
    "ttft_from_due_ms",
    "TTFT from due",
    Population::Answers,
    |sample, options| sample.latency(options).ttft_from_due_ms,
);

/// E2EL including the time before sending: due to last content.
pub static E2EL_FROM_DUE: Metric = queued(
    "e2el_from_due_ms",
    "E2EL from due",
    Population::Answers,
    |sample, options| sample.latency(options).e2el_from_due_ms,
);

/// Sent - due, over every sent request: the wait for a free slot plus the client's send delay.
pub static SCHEDULE_LAG: Metric = queued(
    "schedule_lag_ms",
    "schedule lag",
    Population::Every,
    |sample, options| sample.latency(options).schedule_lag_ms,
);

type ValueOf = fn(&Sample<'_>, &MetricsOptions) -> Option<f64>;

const fn of_answers(name: &'static str, label: &'static str, value: ValueOf) -> Metric {
    latency(
        name,
        label,
        Kind::Distribution {
            among: Population::Answers,
            queued: false,
            value,
        },
    )
}

const fn queued(
    name: &'static str,
    label: &'static str,
    among: Population,
    value: ValueOf,
) -> Metric {
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
