//! Latencies of requests, as defined in docs/metrics.md.
//!
//! TTFT, TPOT, ITL and E2EL follow vLLM's `calculate_metrics` (`vllm/benchmarks/serve.py`). Where
//! vLLM would enter an answer as 0 and this module leaves it out, a comment gives the reason.

use schemars::JsonSchema;
use serde::Serialize;

use super::registry::{Metric, latencies};
use sobench_facts::RequestTimes;
use sobench_facts::Sample;
use sobench_facts::latency::has_multi_token_chunks;
use sobench_plan::metrics::{LatencyMetric, MetricsOptions, QueueMetric};
use sobench_statistics::Summary;

/// The latencies of a group of requests, in milliseconds. Except for `schedule_lag_ms`, they cover
/// requests with an answer, complete or truncated at the token limit (vLLM's "successful").
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Latency {
    /// TTFT: sent to first content. One value per streamed answer.
    pub ttft_ms: Summary,
    /// TPOT: (last content - first content) / (output tokens - 1). One value per streamed answer
    /// with at least two tokens in at least two chunks.
    pub tpot_ms: Summary,
    /// ITL: gaps between consecutive content chunks of streamed answers, pooled over all answers,
    /// as in vLLM.
    pub itl_ms: Summary,
    /// ITL divided by the mean number of tokens per chunk of the answer. If an answer has at most
    /// one token more than chunks, that token is taken as its end token, and gaps are unchanged.
    /// Otherwise the mean is tokens / chunks. If the count includes an end token, this is too large
    /// by 1 / chunks.
    pub itl_per_token_ms: Summary,
    /// ITL of single tokens, if the server counts the tokens of each chunk.
    pub itl_counted_ms: Summary,
    /// E2EL: sent to last content. One value per answer.
    pub e2el_ms: Summary,
    /// TTFT including the time before sending: due to first content.
    pub ttft_from_due_ms: Summary,
    /// E2EL including the time before sending: due to last content.
    pub e2el_from_due_ms: Summary,
    /// Sent - due, over every sent request: the wait for a free slot plus the client's send delay.
    pub schedule_lag_ms: Summary,
    /// Number of requests that were due and never sent.
    pub never_sent: usize,
    /// Number of content chunks of all answers.
    pub chunks: u64,
    /// Number of streamed answers with more tokens than chunks, not counting an end token. Their
    /// ITL is not the time per token.
    pub multi_token_chunk_answers: usize,
    /// Number of streamed answers with at least two tokens, not counting an end token, in a single
    /// chunk. They have no TPOT.
    pub single_chunk_answers: usize,
    /// Number of answers that were not streamed although a stream was requested. They have an E2EL,
    /// but no TTFT, TPOT or ITL.
    pub unstreamed_answers: usize,
    /// Number of answers without content. They have no latency.
    pub empty_answers: usize,
    /// TTFT of the arguments of tool calls, if there were any: sent to the first arguments, where
    /// TTFT is the name of the function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_arguments_ms: Option<Summary>,
    /// Reasoning latencies, if there was reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Reasoning>,
}

/// TTFT split into reasoning and answer. TTFT itself ends at the first reasoning token.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Reasoning {
    /// Number of answers with reasoning, streamed or not.
    pub answers: usize,
    /// Number of them with an empty answer.
    pub without_answer: usize,
    /// Sent to first reasoning. One value per streamed answer with reasoning.
    pub ttft_reasoning_ms: Summary,
    /// Sent to first content of the answer. One value per streamed answer with reasoning and an
    /// answer.
    pub ttft_answer_ms: Summary,
}

impl Latency {
    /// The summary of a latency that vLLM prints.
    pub fn summary(&self, latency: LatencyMetric) -> &Summary {
        self.metric_summary(Metric::of_latency(latency))
            .expect("Latency has every latency that vLLM prints")
    }

    /// The summary of a wait before sending, which covers all sent requests.
    pub fn queue_summary(&self, metric: QueueMetric) -> &Summary {
        match metric {
            QueueMetric::ClientQueueTime => &self.schedule_lag_ms,
            QueueMetric::E2elIncludingClientQueue => &self.e2el_from_due_ms,
        }
    }

    /// Computes the latencies of a group of requests.
    pub fn new(samples: &[&Sample<'_>], options: &MetricsOptions) -> Self {
        let summary = |metric: &Metric| metric.summary(samples, options);
        let schedule_lag_ms = summary(&latencies::SCHEDULE_LAG);
        Self {
            ttft_ms: summary(&latencies::TTFT),
            tpot_ms: summary(&latencies::TPOT),
            itl_ms: summary(&latencies::ITL),
            itl_per_token_ms: summary(&latencies::ITL_PER_TOKEN),
            itl_counted_ms: summary(&latencies::ITL_COUNTED),
            e2el_ms: summary(&latencies::E2EL),
            ttft_from_due_ms: summary(&latencies::TTFT_FROM_DUE),
            e2el_from_due_ms: summary(&latencies::E2EL_FROM_DUE),
            never_sent: samples.len() - schedule_lag_ms.n,
            schedule_lag_ms,
            ttft_arguments_ms: Some(summary(&latencies::TTFT_ARGUMENTS))
                .filter(|summary| summary.n > 0),
            reasoning: Reasoning::new(samples).map(|counts| Reasoning {
                ttft_reasoning_ms: summary(&latencies::TTFT_REASONING),
                ttft_answer_ms: summary(&latencies::TTFT_ANSWER),
                ..counts
            }),
            ..Self::chunk_counts(samples, options)
        }
    }

    /// The summary of a metric, if it is one of these latencies.
    pub fn metric_summary(&self, metric: &Metric) -> Option<&Summary> {
        let mut kept = vec![
            (&latencies::TTFT, &self.ttft_ms),
            (&latencies::TPOT, &self.tpot_ms),
            (&latencies::ITL, &self.itl_ms),
            (&latencies::ITL_PER_TOKEN, &self.itl_per_token_ms),
            (&latencies::ITL_COUNTED, &self.itl_counted_ms),
            (&latencies::E2EL, &self.e2el_ms),
            (&latencies::TTFT_FROM_DUE, &self.ttft_from_due_ms),
            (&latencies::E2EL_FROM_DUE, &self.e2el_from_due_ms),
            (&latencies::SCHEDULE_LAG, &self.schedule_lag_ms),
        ];
        if let Some(reasoning) = &self.reasoning {
            kept.push((&latencies::TTFT_REASONING, &reasoning.ttft_reasoning_ms));
            kept.push((&latencies::TTFT_ANSWER, &reasoning.ttft_answer_ms));
        }
        kept.extend(
            self.ttft_arguments_ms
                .iter()
                .map(|summary| (&latencies::TTFT_ARGUMENTS, summary)),
        );
        kept.into_iter()
            .find(|(own, _)| *own == metric)
            .map(|(_, summary)| summary)
    }

    /// The counts of chunks and of answers by chunks.
    fn chunk_counts(samples: &[&Sample<'_>], options: &MetricsOptions) -> Self {
        let mut latency = Self::default();
        for sample in samples.iter().filter(|sample| sample.outcome().is_answer()) {
            let chunks = sample.request_times().chunks;
            latency.chunks += chunks;
            latency.empty_answers += usize::from(chunks == 0);
            if !sample.streamed(options) {
                latency.unstreamed_answers += usize::from(options.streamed);
            } else if let Some(tokens) = sample.tokens().output {
                let several = has_multi_token_chunks(tokens, chunks);
                latency.multi_token_chunk_answers += usize::from(several);
                latency.single_chunk_answers += usize::from(several && chunks == 1);
            }
        }
        latency
    }
}

impl Reasoning {
    /// The counts; `None` if no answer has reasoning.
    fn new(samples: &[&Sample<'_>]) -> Option<Self> {
        let answers = samples.iter().filter(|sample| sample.outcome().is_answer());
        let reasoned: Vec<RequestTimes> = answers
            .map(|sample| sample.request_times())
            .filter(|timing| timing.first_reasoning_ns.is_some())
            .collect();
        let without_answer = reasoned
            .iter()
            .filter(|timing| timing.first_answer_ns.is_none())
            .count();
        (!reasoned.is_empty()).then(|| Self {
            answers: reasoned.len(),
            without_answer,
            ..Self::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::observation::Outcome;
    use sobench_facts::testing::{TestRequest, test_request, with_samples};

    fn measured(run: &[TestRequest<'_>], streamed: bool) -> Latency {
        let options = MetricsOptions {
            streamed,
            ..MetricsOptions::default()
        };
        with_samples(run, |samples| {
            Latency::new(&samples.iter().collect::<Vec<_>>(), &options)
        })
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
        let reasoning = latency.reasoning.unwrap();
        assert_eq!((reasoning.answers, reasoning.without_answer), (3, 1));
        assert_eq!(
            (
                reasoning.ttft_reasoning_ms.n,
                reasoning.ttft_reasoning_ms.mean
            ),
            (2, Some(15.0))
        );
        assert_eq!(
            (reasoning.ttft_answer_ms.n, reasoning.ttft_answer_ms.mean),
            (1, Some(25.0))
        );
        assert_eq!(
            latency.ttft_ms.n, 3,
            "TTFT ends at the first generated content of every streamed answer"
        );
        assert_eq!(measured(&[test_request()], true).reasoning, None);
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
                latency.multi_token_chunk_answers,
                latency.single_chunk_answers,
            );
            assert_eq!(
                (counts, latency.itl_per_token_ms.mean),
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
        assert_eq!((latency.itl_ms.n, latency.itl_counted_ms.n), (4, 3));
        assert_eq!(
            (latency.itl_counted_ms.min, latency.itl_counted_ms.max),
            (Some(5.0), Some(10.0))
        );
        assert_eq!(measured(&[test_request()], true).itl_counted_ms.mean, None);
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
                latency.unstreamed_answers,
                latency.single_chunk_answers,
                latency.multi_token_chunk_answers
            ),
            (1, 0, 0)
        );
        for (summary, n) in [
            (&latency.ttft_ms, 1),
            (&latency.ttft_from_due_ms, 1),
            (&latency.tpot_ms, 1),
            (&latency.itl_ms, 2),
            (&latency.itl_per_token_ms, 2),
            (&latency.e2el_ms, 2),
            (&latency.e2el_from_due_ms, 2),
        ] {
            assert_eq!(summary.n, n, "{latency:?}");
        }
        assert_eq!(
            (latency.ttft_ms.max, latency.e2el_ms.max),
            (Some(10.0), Some(500.0))
        );
        let without_stream = measured(&[whole], false);
        assert_eq!(
            (
                without_stream.unstreamed_answers,
                without_stream.ttft_ms.n,
                without_stream.e2el_ms.n
            ),
            (0, 0, 1)
        );
    }
}
