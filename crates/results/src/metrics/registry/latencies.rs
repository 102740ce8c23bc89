//! Latency metrics: one or more values per request, in milliseconds. The formulas are in
//! [`sobench_facts::latency`].

use super::{Better, Metric, MetricKind, Unit, VllmNames};
use crate::metrics::channel_latency;
use crate::metrics::token_gaps::token_gaps_ms;
use sobench_core::answer::Channel;
use sobench_facts::Sample;
use sobench_facts::latency::{chunk_gaps_ms, tokens_per_chunk};
use sobench_plan::metrics::MetricsSettings;

/// TTFT: sent to first content. One value per streamed answer.
pub static TTFT: Metric = of_answers("ttft_ms", "TTFT", |sample, options| {
    sample.latency(options).ttft_ms
})
.printed("ttft", "Time to First Token");

/// TPOT: (last content - first content) / (output tokens - 1). One value per streamed answer with
/// at least two tokens in at least two chunks.
pub static TPOT: Metric = of_answers("tpot_ms", "TPOT", |sample, options| {
    sample.latency(options).tpot_ms
})
.printed("tpot", "Time per Output Token (excl. 1st token)");

/// ITL: gaps between consecutive content chunks of streamed answers, pooled over all answers, as in
/// vLLM.
pub static ITL: Metric = pooled("itl_ms", "ITL", |sample, options| {
    match sample.streamed(options) {
        true => chunk_gaps_ms(&sample.chunks_ns()).collect(),
        false => Vec::new(),
    }
})
.printed("itl", "Inter-token Latency");

/// E2EL: sent to last content. One value per answer.
pub static E2EL: Metric = of_answers("e2el_ms", "E2EL", |sample, options| {
    sample.latency(options).e2el_ms
})
.printed("e2el", "End-to-end Latency");

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
    true,
    |sample, options| sample.latency(options).ttft_from_due_ms,
);

/// E2EL including the time before sending: due to last content.
pub static E2EL_FROM_DUE: Metric = queued(
    "e2el_from_due_ms",
    "E2EL from due",
    true,
    |sample, options| sample.latency(options).e2el_from_due_ms,
)
.printed_queued(
    "e2el_including_client_queue",
    "E2EL incl. Client Queue",
    "Queue-inclusive End-to-end Latency",
);

/// Sent - due, over every sent request: the wait for a free slot plus the client's send delay.
pub static SCHEDULE_LAG: Metric = queued(
    "schedule_lag_ms",
    "schedule lag",
    false,
    |sample, options| sample.latency(options).schedule_lag_ms,
)
.printed_queued(
    "client_queue_time",
    "Client Queue Time",
    "Client-side Queueing",
);

impl Metric {
    /// With the names under which vLLM prints it.
    const fn printed(self, key: &'static str, title: &'static str) -> Self {
        let vllm = Some(VllmNames {
            key,
            row: self.label,
            title,
            queued: false,
        });
        Self { vllm, ..self }
    }

    /// As [`Metric::printed`], for a latency that includes the wait before sending.
    const fn printed_queued(
        self,
        key: &'static str,
        row: &'static str,
        title: &'static str,
    ) -> Self {
        let vllm = Some(VllmNames {
            key,
            row,
            title,
            queued: true,
        });
        Self { vllm, ..self }
    }
}

type ValueOf = fn(&Sample<'_>, &MetricsSettings) -> Option<f64>;

const fn of_answers(name: &'static str, label: &'static str, value: ValueOf) -> Metric {
    latency(
        name,
        label,
        MetricKind::Distribution {
            of_answers: true,
            queued: false,
            value,
        },
    )
}

const fn queued(
    name: &'static str,
    label: &'static str,
    of_answers: bool,
    value: ValueOf,
) -> Metric {
    latency(
        name,
        label,
        MetricKind::Distribution {
            of_answers,
            queued: true,
            value,
        },
    )
}

const fn pooled(
    name: &'static str,
    label: &'static str,
    values: fn(&Sample<'_>, &MetricsSettings) -> Vec<f64>,
) -> Metric {
    latency(name, label, MetricKind::Pooled(values))
}

const fn latency(name: &'static str, label: &'static str, kind: MetricKind) -> Metric {
    Metric::new(name, label, Unit::Milliseconds, Better::Down, kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::registry::{Values, totals};
    use crate::metrics::summarise;
    use sobench_core::observation::Outcome;
    use sobench_facts::testing::{TestRequest, test_request, with_samples};

    fn measured(run: &[TestRequest<'_>], streamed: bool) -> Values {
        let options = MetricsSettings {
            streamed,
            ..MetricsSettings::default()
        };
        with_samples(run, |samples| summarise(samples, 1, &options).values)
    }

    #[test]
    fn ttft_is_split_with_reasoning() {
        let reasoned = TestRequest {
            reasoning: Some(10),
            answer: Some(25),
            ..test_request()
        };
        let cut = TestRequest {
            reasoning: Some(20),
            answer: None,
            outcome: Outcome::Truncated,
            ..test_request()
        };
        let whole = TestRequest {
            reasoning: Some(30),
            answer: Some(30),
            streamed: false,
            chunks: vec![30],
            ..test_request()
        };
        let failed = TestRequest {
            outcome: Outcome::TimedOut {
                limit_ms: 1,
                limit: Default::default(),
                stage: None,
            },
            ..reasoned.clone()
        };
        let latency = measured(&[test_request(), reasoned, cut, whole, failed], true);
        let counts = [&totals::REASONED_ANSWERS, &totals::REASONING_ONLY_ANSWERS];
        assert_eq!(counts.map(|metric| latency.count(metric)), [3, 1]);
        assert_eq!(
            (
                latency.summary(&TTFT_REASONING).n,
                latency.summary(&TTFT_REASONING).mean
            ),
            (2, Some(15.0))
        );
        assert_eq!(
            (
                latency.summary(&TTFT_ANSWER).n,
                latency.summary(&TTFT_ANSWER).mean
            ),
            (1, Some(25.0))
        );
        assert_eq!(
            latency.summary(&TTFT).n,
            3,
            "TTFT ends at the first generated content of every streamed answer"
        );
        assert_eq!(
            measured(&[test_request()], true).count(&totals::REASONED_ANSWERS),
            0
        );
    }

    #[test]
    fn end_token_is_not_a_second_token_of_a_chunk() {
        for (chunks, tokens, multi, single, per_token) in [
            (&[10][..], 1, 0, 0, None),
            // The answer of a choice: its one token and the end token.
            (&[10][..], 2, 0, 0, None),
            (&[10][..], 3, 1, 1, None),
            (&[10, 20, 40][..], 3, 0, 0, Some(15.0)),
            (&[10, 20, 40][..], 4, 0, 0, Some(15.0)),
            (&[10, 20, 40][..], 6, 1, 0, Some(7.5)),
        ] {
            let run = [TestRequest {
                chunks: chunks.to_vec(),
                output: Some(tokens),
                ..test_request()
            }];
            let latency = measured(&run, true);
            let counts = (
                latency.count(&totals::MULTI_TOKEN_CHUNK_ANSWERS),
                latency.count(&totals::SINGLE_CHUNK_ANSWERS),
            );
            assert_eq!(
                (counts, latency.summary(&ITL_PER_TOKEN).mean),
                ((multi, single), per_token),
                "{tokens} tokens at {chunks:?}"
            );
        }
    }

    #[test]
    fn counted_tokens_have_single_latencies() {
        let counted = TestRequest {
            chunk_tokens: vec![1, 3, 4],
            output: Some(4),
            ..test_request()
        };
        let latency = measured(&[counted, test_request()], true);
        assert_eq!(
            (latency.summary(&ITL).n, latency.summary(&ITL_COUNTED).n),
            (4, 3)
        );
        assert_eq!(
            (
                latency.summary(&ITL_COUNTED).min,
                latency.summary(&ITL_COUNTED).max
            ),
            (Some(5.0), Some(10.0))
        );
        assert_eq!(
            measured(&[test_request()], true).summary(&ITL_COUNTED).mean,
            None
        );
    }

    #[test]
    fn unstreamed_answer_has_only_e2el() {
        let whole = TestRequest {
            streamed: false,
            chunks: vec![500],
            output: Some(9),
            ..test_request()
        };
        let failed = TestRequest {
            outcome: Outcome::TimedOut {
                limit_ms: 1,
                limit: Default::default(),
                stage: None,
            },
            chunks: vec![],
            ..whole.clone()
        };
        let latency = measured(&[test_request(), whole.clone(), failed], true);
        assert_eq!(
            (
                latency.count(&totals::UNSTREAMED_ANSWERS),
                latency.count(&totals::SINGLE_CHUNK_ANSWERS),
                latency.count(&totals::MULTI_TOKEN_CHUNK_ANSWERS)
            ),
            (1, 0, 0)
        );
        for (summary, n) in [
            (latency.summary(&TTFT), 1),
            (latency.summary(&TTFT_FROM_DUE), 1),
            (latency.summary(&TPOT), 1),
            (latency.summary(&ITL), 2),
            (latency.summary(&ITL_PER_TOKEN), 2),
            (latency.summary(&E2EL), 2),
            (latency.summary(&E2EL_FROM_DUE), 2),
        ] {
            assert_eq!(summary.n, n, "{latency:?}");
        }
        assert_eq!(
            (latency.summary(&TTFT).max, latency.summary(&E2EL).max),
            (Some(10.0), Some(500.0))
        );
        let without_stream = measured(&[whole], false);
        assert_eq!(
            (
                without_stream.count(&totals::UNSTREAMED_ANSWERS),
                without_stream.summary(&TTFT).n,
                without_stream.summary(&E2EL).n
            ),
            (0, 0, 1)
        );
    }
}
