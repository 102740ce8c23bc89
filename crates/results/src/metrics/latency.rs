//! Times to latencies, by the definitions of docs/metrics.md. Knows no clock: the instants were
//! taken by the driver.
//!
//! vLLM's `calculate_metrics` (`vllm/benchmarks/serve.py`) is the model for TTFT, TPOT, ITL and
//! E2EL. Where this module leaves an answer out of a figure that vLLM would enter as 0, the comment
//! says why.

use serde::Serialize;

use super::ledger::Moments;
use super::registry::{Metric, latencies};
use super::{MetricsOptions, Sample};
use sobench_statistics::Summary;

/// The latencies of a group of requests, in milliseconds. All but `schedule_lag_ms` are over the
/// requests that got an answer, whole or cut at the token limit (vLLM's "successful").
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// TTFT: sent to first content. One value a streamed answer.
    pub ttft_ms: Summary,
    /// TPOT: (last content - first content) / (output tokens - 1). One value a streamed answer of
    /// two tokens or more in two chunks or more.
    pub tpot_ms: Summary,
    /// ITL: gaps between consecutive content chunks of a streamed answer, those of all answers
    /// pooled, as vLLM has it.
    pub itl_ms: Summary,
    /// The same gaps, each divided by the tokens that a chunk of its answer carries on average.
    /// Where an answer has at most one token more than chunks, that one is its end token, a chunk
    /// is one token, and gaps stay as they are. Beyond that the count does not tell whether an end
    /// token is in it, and the average is tokens / chunks: where there is one, it is 1 / chunks too
    /// large.
    pub itl_per_token_ms: Summary,
    /// ITL of single tokens, where the server says how many came in each chunk ([`token_gaps_ms`]);
    /// no value of any other answer.
    pub itl_counted_ms: Summary,
    /// E2EL: sent to last content. One value an answer.
    pub e2el_ms: Summary,
    /// TTFT with the time before sending: due to first content.
    pub ttft_from_due_ms: Summary,
    /// E2EL with the time before sending: due to last content.
    pub e2el_from_due_ms: Summary,
    /// Sent - due, over every request that was sent, whatever became of it: waiting for a free
    /// slot, and the client's own delay.
    pub schedule_lag_ms: Summary,
    /// Requests that were due and never sent.
    pub never_sent: usize,
    /// Content chunks of all answers.
    pub chunks: u64,
    /// Streamed answers that carry more tokens than chunks, an end token aside: there ITL is not
    /// the time of one token.
    pub multi_token_chunk_answers: usize,
    /// Streamed answers of two tokens or more, an end token aside, that came in one chunk: they
    /// have no TPOT, since one instant spans no time.
    pub single_chunk_answers: usize,
    /// Answers that came whole where a stream was asked for: they have an E2EL, but no TTFT, TPOT
    /// or ITL. 0 where no stream was asked for.
    pub unstreamed_answers: usize,
    /// Answers that ended without any content: they have no latency.
    pub empty_answers: usize,
    /// Where there was reasoning before the answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Reasoning>,
}

/// TTFT taken apart: it is to the first token of the reasoning, and people wait for the first token
/// of the answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Reasoning {
    /// Answers with reasoning, streamed or not.
    pub answers: usize,
    /// Those of them in which the answer itself is empty: the reasoning was all that came.
    pub without_answer: usize,
    /// Sent to first reasoning. One value a streamed answer with reasoning.
    pub ttft_reasoning_ms: Summary,
    /// Sent to first content of the answer itself. One value a streamed answer with reasoning and
    /// an answer.
    pub ttft_answer_ms: Summary,
}

/// The latencies of one request, in milliseconds; `None` where the definition finds nothing to
/// measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RequestLatency {
    pub ttft_ms: Option<f64>,
    /// Of answers with reasoning only; elsewhere TTFT is all there is to say.
    pub ttft_reasoning_ms: Option<f64>,
    pub ttft_answer_ms: Option<f64>,
    pub tpot_ms: Option<f64>,
    pub e2el_ms: Option<f64>,
    pub ttft_from_due_ms: Option<f64>,
    pub e2el_from_due_ms: Option<f64>,
    pub schedule_lag_ms: Option<f64>,
}

impl RequestLatency {
    /// Measures one request. `output_tokens` is the best count there is; `streamed` tells whether
    /// the answer was asked for in a stream and came in one ([`Sample::streamed`]): without one,
    /// the first content is the last, and TTFT and TPOT have no meaning.
    pub fn of(timing: &Moments, output_tokens: Option<u64>, streamed: bool) -> Self {
        let (first, last) = (timing.first_content_ns, timing.last_content_ns);
        Self {
            ttft_ms: between(timing.sent_ns, first).filter(|_| streamed),
            ttft_reasoning_ms: between(timing.sent_ns, timing.first_reasoning_ns)
                .filter(|_| streamed),
            ttft_answer_ms: between(timing.sent_ns, timing.first_answer_ns)
                .filter(|_| streamed && timing.first_reasoning_ns.is_some()),
            tpot_ms: tpot_ms(timing, output_tokens).filter(|_| streamed),
            e2el_ms: between(timing.sent_ns, last),
            ttft_from_due_ms: between(Some(timing.due_ns), first).filter(|_| streamed),
            e2el_from_due_ms: between(Some(timing.due_ns), last),
            schedule_lag_ms: between(Some(timing.due_ns), timing.sent_ns),
        }
    }
}

impl Latency {
    /// Measures a group of requests.
    pub fn of(samples: &[&Sample<'_>], options: &MetricsOptions) -> Self {
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
            reasoning: Reasoning::of(samples).map(|counts| Reasoning {
                ttft_reasoning_ms: summary(&latencies::TTFT_REASONING),
                ttft_answer_ms: summary(&latencies::TTFT_ANSWER),
                ..counts
            }),
            ..Self::of_chunks(samples, options)
        }
    }

    /// The summary of a metric, where this has it: what is computed once is kept.
    pub fn of_metric(&self, metric: &Metric) -> Option<&Summary> {
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
        kept.into_iter()
            .find(|(own, _)| *own == metric)
            .map(|(_, summary)| summary)
    }

    /// The counts of chunks and of answers by their chunks.
    fn of_chunks(samples: &[&Sample<'_>], options: &MetricsOptions) -> Self {
        let mut latency = Self::default();
        for sample in samples.iter().filter(|sample| sample.outcome().is_answer()) {
            let chunks = sample.moments().chunks;
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
    /// The counts; `None` where no answer has reasoning.
    fn of(samples: &[&Sample<'_>]) -> Option<Self> {
        let answers = samples.iter().filter(|it| it.outcome().is_answer());
        let reasoned: Vec<Moments> = answers
            .map(|it| it.moments())
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

/// The gaps between consecutive content chunks, in milliseconds.
pub fn chunk_gaps_ms(chunks_ns: &[u64]) -> impl Iterator<Item = f64> + '_ {
    chunks_ns.windows(2).map(|pair| ms(pair[0], pair[1]))
}

/// Whether some chunk must carry several tokens. The token that ends an answer is counted by
/// servers and carries no text: one more token than chunks is one token a chunk.
fn has_multi_token_chunks(tokens: u64, chunks: u64) -> bool {
    chunks > 0 && tokens > chunks.saturating_add(1)
}

/// How many tokens a chunk carries on average, as [`latencies::ITL_PER_TOKEN`] says; 1 where none
/// need carry several.
pub(super) fn tokens_per_chunk(tokens: u64, chunks: u64) -> f64 {
    if has_multi_token_chunks(tokens, chunks) {
        tokens as f64 / chunks as f64
    } else {
        1.0
    }
}

/// vLLM's TPOT, for answers of two tokens or more. An answer in a single chunk would enter as 0 ms
/// a token, which nobody measured: it has none.
fn tpot_ms(timing: &Moments, output_tokens: Option<u64>) -> Option<f64> {
    let gaps = output_tokens?
        .checked_sub(1)
        .filter(|&gaps| gaps > 0 && timing.chunks > 1)?;
    Some(between(timing.first_content_ns, timing.last_content_ns)? / gaps as f64)
}

fn between(from: Option<u64>, to: Option<u64>) -> Option<f64> {
    Some(ms(from?, to?))
}

/// Milliseconds from one instant to another. A clock that ran backwards shows as a negative figure,
/// not as zero.
fn ms(from_ns: u64, to_ns: u64) -> f64 {
    let distance = from_ns.abs_diff(to_ns) as f64 / 1e6;
    if to_ns < from_ns { -distance } else { distance }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::testing::{Made, made, with_samples};
    use sobench_core::observation::Outcome;

    const MS: u64 = 1_000_000;

    fn measured(run: &[Made<'_>], streamed: bool) -> Latency {
        let options = MetricsOptions {
            streamed,
            ..MetricsOptions::default()
        };
        with_samples(run, |samples| {
            Latency::of(&samples.iter().collect::<Vec<_>>(), &options)
        })
    }

    fn timing(due: u64, sent: Option<u64>, chunks: &[u64]) -> Moments {
        Moments {
            due_ns: due * MS,
            sent_ns: sent.map(|at| at * MS),
            first_content_ns: chunks.first().map(|at| at * MS),
            last_content_ns: chunks.last().map(|at| at * MS),
            chunks: chunks.len() as u64,
            ..Moments::default()
        }
    }

    #[test]
    fn measures_by_the_definitions() {
        let timing = timing(100, Some(130), &[180, 190, 220]);
        let latency = RequestLatency::of(&timing, Some(3), true);
        assert_eq!(latency.schedule_lag_ms, Some(30.0));
        assert_eq!(latency.ttft_ms, Some(50.0));
        assert_eq!(latency.e2el_ms, Some(90.0));
        assert_eq!(latency.ttft_from_due_ms, Some(80.0));
        assert_eq!(latency.e2el_from_due_ms, Some(120.0));
        assert_eq!(latency.tpot_ms, Some(20.0));
        assert_eq!(
            chunk_gaps_ms(&[180 * MS, 190 * MS, 220 * MS]).collect::<Vec<_>>(),
            [10.0, 30.0]
        );
    }

    #[test]
    fn tpot_needs_two_tokens_and_two_instants() {
        for (chunks, tokens, expected) in [
            (&[10, 20, 40][..], Some(5), Some(7.5)),
            (&[10, 20][..], Some(1), None),
            (&[10, 20][..], Some(0), None),
            (&[10, 20][..], None, None),
            (&[10][..], Some(8), None),
            (&[][..], Some(8), None),
        ] {
            assert_eq!(
                RequestLatency::of(&timing(0, Some(0), chunks), tokens, true).tpot_ms,
                expected,
                "{chunks:?} {tokens:?}"
            );
        }
    }

    #[test]
    fn without_a_stream_only_the_end_is_measured() {
        let latency = RequestLatency::of(&timing(0, Some(5), &[25, 25]), Some(9), false);
        assert_eq!(
            (latency.ttft_ms, latency.tpot_ms, latency.ttft_from_due_ms),
            (None, None, None)
        );
        assert_eq!(
            (latency.e2el_ms, latency.e2el_from_due_ms),
            (Some(20.0), Some(25.0))
        );
    }

    #[test]
    fn time_to_the_first_token_is_taken_apart_where_there_is_reasoning() {
        let reasoned = Made {
            reasoning: Some(10),
            answer: Some(25),
            ..made()
        };
        let cut = Made {
            reasoning: Some(20),
            answer: None,
            outcome: Outcome::Truncated,
            ..made()
        };
        let whole = Made {
            reasoning: Some(30),
            answer: Some(30),
            streamed: false,
            chunks: vec![30],
            ..made()
        };
        let failed = Made {
            outcome: Outcome::TimedOut {
                limit_ms: 1,
                limit: Default::default(),
                stage: None,
            },
            ..reasoned.clone()
        };
        let latency = measured(&[made(), reasoned, cut, whole, failed], true);
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
            "TTFT is to whatever is generated first, of every streamed answer"
        );
        assert_eq!(measured(&[made()], true).reasoning, None);
    }

    #[test]
    fn what_never_happened_has_no_latency() {
        assert_eq!(
            RequestLatency::of(&timing(7, None, &[]), Some(3), true),
            RequestLatency::default()
        );
        let sent_only = RequestLatency::of(&timing(7, Some(9), &[]), None, true);
        assert_eq!(
            sent_only,
            RequestLatency {
                schedule_lag_ms: Some(2.0),
                ..RequestLatency::default()
            }
        );
    }

    #[test]
    fn a_clock_that_runs_backwards_is_not_hidden() {
        assert_eq!(
            RequestLatency::of(&timing(10, Some(8), &[]), None, true).schedule_lag_ms,
            Some(-2.0)
        );
    }

    #[test]
    fn gaps_are_spread_over_the_tokens_of_a_chunk() {
        for (tokens, chunks, expected) in [
            (12, 4, 3.0),
            (6, 4, 1.5),
            (5, 4, 1.0),
            (4, 4, 1.0),
            (3, 4, 1.0),
            (2, 1, 1.0),
            (3, 0, 1.0),
        ] {
            assert_eq!(
                tokens_per_chunk(tokens, chunks),
                expected,
                "{tokens} tokens in {chunks} chunks"
            );
        }
    }

    #[test]
    fn an_end_token_makes_no_chunk_of_several_tokens() {
        for (chunks, tokens, multi, single, per_token) in [
            (&[10][..], 1, 0, 0, None),
            // As of a choice: its one token, and the end token.
            (&[10][..], 2, 0, 0, None),
            (&[10][..], 3, 1, 1, None),
            (&[10, 20, 40][..], 3, 0, 0, Some(15.0)),
            (&[10, 20, 40][..], 4, 0, 0, Some(15.0)),
            (&[10, 20, 40][..], 6, 1, 0, Some(7.5)),
        ] {
            let run = [Made {
                chunks: chunks.to_vec(),
                output: Some(tokens),
                ..made()
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
    fn tokens_are_timed_one_by_one_where_the_server_counts_them() {
        let counted = Made {
            chunk_tokens: vec![1, 3, 4],
            output: Some(4),
            ..made()
        };
        let latency = measured(&[counted, made()], true);
        assert_eq!((latency.itl_ms.n, latency.itl_counted_ms.n), (4, 3));
        assert_eq!(
            (latency.itl_counted_ms.min, latency.itl_counted_ms.max),
            (Some(5.0), Some(10.0))
        );
        assert_eq!(measured(&[made()], true).itl_counted_ms.mean, None);
    }

    #[test]
    fn an_answer_that_came_whole_has_only_an_end() {
        let whole = Made {
            streamed: false,
            chunks: vec![500],
            output: Some(9),
            ..made()
        };
        let failed = Made {
            outcome: Outcome::TimedOut {
                limit_ms: 1,
                limit: Default::default(),
                stage: None,
            },
            chunks: vec![],
            ..whole.clone()
        };
        let latency = measured(&[made(), whole.clone(), failed], true);
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
        let unasked = measured(&[whole], false);
        assert_eq!(
            (
                unasked.unstreamed_answers,
                unasked.ttft_ms.n,
                unasked.e2el_ms.n
            ),
            (0, 0, 1)
        );
    }
}
