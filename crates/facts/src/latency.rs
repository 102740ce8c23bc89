//! Latencies of one request, as defined in docs/metrics.md.
//!
//! TTFT, TPOT, ITL and E2EL follow vLLM's `calculate_metrics` (`vllm/benchmarks/serve.py`). Where
//! vLLM would enter an answer as 0 and this module leaves it out, a comment gives the reason.

use schemars::JsonSchema;
use serde::Serialize;

use crate::sample::Sample;
use crate::times::RequestTimes;
use sobench_plan::metrics::MetricsSettings;

/// The latencies of one request, in milliseconds; `None` if the definition does not apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct RequestLatency {
    pub ttft_ms: Option<f64>,
    /// Only for answers with reasoning.
    pub ttft_reasoning_ms: Option<f64>,
    pub ttft_answer_ms: Option<f64>,
    /// Only for answers with tool calls.
    pub ttft_arguments_ms: Option<f64>,
    pub tpot_ms: Option<f64>,
    pub e2el_ms: Option<f64>,
    pub ttft_from_due_ms: Option<f64>,
    pub e2el_from_due_ms: Option<f64>,
    pub schedule_lag_ms: Option<f64>,
}

impl RequestLatency {
    /// Computes the latencies of one request. `streamed` is whether the answer was requested as a
    /// stream and received as one ([`Sample::streamed`]). Otherwise the first content is the last,
    /// and TTFT and TPOT are meaningless.
    pub fn new(timing: &RequestTimes, output_tokens: Option<u64>, streamed: bool) -> Self {
        let (first, last) = (timing.first_content_ns, timing.last_content_ns);
        Self {
            ttft_ms: between(timing.sent_ns, first).filter(|_| streamed),
            ttft_reasoning_ms: between(timing.sent_ns, timing.first_reasoning_ns)
                .filter(|_| streamed),
            ttft_answer_ms: between(timing.sent_ns, timing.first_answer_ns)
                .filter(|_| streamed && timing.first_reasoning_ns.is_some()),
            ttft_arguments_ms: between(timing.sent_ns, timing.first_arguments_ns)
                .filter(|_| streamed),
            tpot_ms: tpot_ms(timing, output_tokens).filter(|_| streamed),
            e2el_ms: between(timing.sent_ns, last),
            ttft_from_due_ms: between(Some(timing.due_ns), first).filter(|_| streamed),
            e2el_from_due_ms: between(Some(timing.due_ns), last),
            schedule_lag_ms: between(Some(timing.due_ns), timing.sent_ns),
        }
    }
}

impl Sample<'_> {
    /// The latencies of this request.
    pub fn latency(&self, options: &MetricsSettings) -> RequestLatency {
        RequestLatency::new(
            &self.request_times(),
            self.tokens().output,
            self.streamed(options),
        )
    }

    /// Whether the answer was requested as a stream and received as one. Only then its chunks
    /// determine TTFT, TPOT and ITL.
    pub fn streamed(&self, options: &MetricsSettings) -> bool {
        options.streamed && self.came_as_stream()
    }
}

/// The gaps between consecutive content chunks, in milliseconds.
pub fn chunk_gaps_ms(chunks_ns: &[u64]) -> impl Iterator<Item = f64> + '_ {
    let pairs = chunks_ns.windows(2);
    pairs.filter_map(|pair| between(Some(pair[0]), Some(pair[1])))
}

/// vLLM's TPOT, for answers with at least two tokens. An answer in a single chunk would be 0 ms per
/// token, which is not a measurement, so it has none.
fn tpot_ms(timing: &RequestTimes, output_tokens: Option<u64>) -> Option<f64> {
    let gaps = output_tokens?
        .checked_sub(1)
        .filter(|&gaps| gaps > 0 && timing.chunks > 1)?;
    Some(between(timing.first_content_ns, timing.last_content_ns)? / gaps as f64)
}

/// Milliseconds between two times; unknown if they are not in order, as in a log that was edited.
fn between(from: Option<u64>, to: Option<u64>) -> Option<f64> {
    Some(to?.checked_sub(from?)? as f64 / 1e6)
}

/// Whether some chunk must have several tokens. Servers count the end token, which has no text, so
/// one more token than chunks is one token per chunk.
pub fn has_multi_token_chunks(tokens: u64, chunks: u64) -> bool {
    chunks > 0 && tokens > chunks.saturating_add(1)
}

/// Mean number of tokens per chunk for ITL per token; 1 if no chunk must have
/// several.
pub fn tokens_per_chunk(tokens: u64, chunks: u64) -> f64 {
    if has_multi_token_chunks(tokens, chunks) {
        tokens as f64 / chunks as f64
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn timing(due: u64, sent: Option<u64>, chunks: &[u64]) -> RequestTimes {
        RequestTimes {
            due_ns: due * MS,
            sent_ns: sent.map(|at| at * MS),
            first_content_ns: chunks.first().map(|at| at * MS),
            last_content_ns: chunks.last().map(|at| at * MS),
            chunks: chunks.len() as u64,
            ..RequestTimes::default()
        }
    }

    #[test]
    fn latencies_match_the_definitions() {
        let timing = timing(100, Some(130), &[180, 190, 220]);
        let latency = RequestLatency::new(&timing, Some(3), true);
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
    fn tpot_needs_two_tokens_and_two_chunks() {
        for (chunks, tokens, expected) in [
            (&[10, 20, 40][..], Some(5), Some(7.5)),
            (&[10, 20][..], Some(1), None),
            (&[10, 20][..], Some(0), None),
            (&[10, 20][..], None, None),
            (&[10][..], Some(8), None),
            (&[][..], Some(8), None),
        ] {
            assert_eq!(
                RequestLatency::new(&timing(0, Some(0), chunks), tokens, true).tpot_ms,
                expected,
                "{chunks:?} {tokens:?}"
            );
        }
    }

    #[test]
    fn without_a_stream_only_e2el_is_measured() {
        let latency = RequestLatency::new(&timing(0, Some(5), &[25, 25]), Some(9), false);
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
    fn missing_times_have_no_latency() {
        assert_eq!(
            RequestLatency::new(&timing(7, None, &[]), Some(3), true),
            RequestLatency::default()
        );
        let sent_only = RequestLatency::new(&timing(7, Some(9), &[]), None, true);
        assert_eq!(
            sent_only,
            RequestLatency {
                schedule_lag_ms: Some(2.0),
                ..RequestLatency::default()
            }
        );
    }

    #[test]
    fn times_out_of_order_have_no_latency() {
        let found = RequestLatency::new(&timing(10, Some(8), &[7, 9]), Some(2), true);
        assert_eq!((found.schedule_lag_ms, found.ttft_ms), (None, None));
        assert_eq!((found.e2el_ms, found.tpot_ms), (Some(1.0), Some(2.0)));
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
}
