//! What the saved file holds of every single request. Knows no statistics.

use serde::Serialize;

use crate::case::Arm;
use crate::metrics::latency::{RequestLatency, chunk_gaps_ms};
use crate::metrics::quality::is_correct;
use crate::metrics::{MetricsOptions, Sample, Tokens};
use crate::observation::{Outcome, failure_words};
use crate::verdict::Verdict;

const MS_PER_S: f64 = 1000.0;
const NS_PER_S: f64 = 1e9;

/// Every request in plan order: vLLM's columns, in vLLM's units (seconds), and one record each.
///
/// Unlike vLLM's, the columns say `null` where there is nothing, not 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    /// Seconds from sent to first content of a streamed answer.
    pub ttfts: Vec<Option<f64>>,
    /// Seconds between consecutive content chunks of a streamed answer.
    pub itls: Vec<Vec<f64>>,
    /// Seconds from sent to last content.
    pub latencies: Vec<Option<f64>>,
    /// Seconds from the beginning of the run to sent.
    pub start_times: Vec<Option<f64>>,
    /// Seconds from due to sent.
    pub queue_times: Vec<Option<f64>>,
    /// The failure in the server's or the network's words; empty for an answer.
    pub errors: Vec<String>,
    pub outputs: Vec<Output>,
}

/// One request and its answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Output {
    /// The answer, whole.
    pub generated: String,
    /// The dataset's reference answer.
    pub expected: Option<String>,
    /// Whether the answer is valid; a refused or failed request is not; `null` where it cannot be judged.
    pub correctness: Option<bool>,
    /// What vLLM's script would put under `correctness`.
    pub vllm_correctness: Option<bool>,
    pub case: String,
    pub arm: Arm,
    pub outcome: Outcome,
    pub verdict: Verdict,
    pub finish_reason: Option<String>,
    /// The reasoning before the answer, if the server kept it apart.
    pub reasoning: Option<String>,
    /// TTFT taken apart, of a streamed answer with reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_reasoning_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_answer_ms: Option<f64>,
    pub tokens: Tokens,
    pub tags: Vec<String>,
}

impl Details {
    /// Keeps every request of a run; `samples` in plan order.
    pub fn of(samples: &[Sample<'_>], options: &MetricsOptions) -> Self {
        let mut details = Self::default();
        for sample in samples {
            let timing = sample.moments();
            let latency = sample.latency(options);
            let seconds = |ms: Option<f64>| ms.map(|ms| ms / MS_PER_S);
            details.ttfts.push(seconds(latency.ttft_ms));
            details.latencies.push(seconds(latency.e2el_ms));
            details.queue_times.push(seconds(latency.schedule_lag_ms));
            details.start_times.push(timing.sent_ns.map(|at_ns| at_ns as f64 / NS_PER_S));
            details.itls.push(if sample.streamed(options) {
                chunk_gaps_ms(&sample.chunks_ns()).map(|gap| gap / MS_PER_S).collect()
            } else {
                vec![]
            });
            details.errors.push(failure_words(sample.outcome()));
            details.outputs.push(Output::of(sample, &latency));
        }
        details
    }
}

impl Output {
    fn of(sample: &Sample<'_>, latency: &RequestLatency) -> Self {
        Self {
            generated: sample.text().to_owned(),
            expected: sample.question().completion.clone(),
            correctness: is_correct(sample.verdict()),
            vllm_correctness: sample.vllm_correct(),
            case: sample.id(),
            arm: sample.arm(),
            outcome: sample.outcome().clone(),
            verdict: sample.verdict().clone(),
            finish_reason: sample.finish_reason().map(str::to_owned),
            reasoning: Some(sample.reasoning().to_owned()).filter(|it| !it.is_empty()),
            ttft_reasoning_ms: latency.ttft_reasoning_ms,
            ttft_answer_ms: latency.ttft_answer_ms,
            tokens: sample.tokens(),
            tags: sample.question().tags.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::testing::{Made, made, with_samples};
    use crate::verdict::NotScored;

    #[test]
    fn columns_are_in_seconds_and_say_nothing_for_nothing() {
        let refused = Made {
            outcome: Outcome::Rejected { status: 400, body: "no".into(), advice: None },
            verdict: Verdict::NotScored { why: NotScored::Refused },
            chunks: vec![],
            text: "",
            output: None,
            ..made()
        };
        let run = [Made { due: 500, sent: Some(1500), chunks: vec![1750, 2000], ..made() }, refused];
        let details = with_samples(&run, |samples| Details::of(samples, &MetricsOptions::default()));
        assert_eq!(details.ttfts, [Some(0.25), None]);
        assert_eq!(details.itls, [vec![0.25], vec![]]);
        assert_eq!(details.latencies, [Some(0.5), None]);
        assert_eq!(details.start_times, [Some(1.5), Some(0.0)]);
        assert_eq!(details.queue_times, [Some(1.0), Some(0.0)]);
        assert_eq!(details.errors, ["", "HTTP 400: no"]);
        assert_eq!(details.outputs.iter().map(|it| it.correctness).collect::<Vec<_>>(), [Some(true), Some(false)]);
    }

    #[test]
    fn an_answer_that_came_whole_has_only_its_end() {
        let run = [Made { streamed: false, chunks: vec![500, 500], ..made() }];
        let details = with_samples(&run, |samples| Details::of(samples, &MetricsOptions::default()));
        assert_eq!((details.ttfts, details.itls, details.latencies), (vec![None], vec![vec![]], vec![Some(0.5)]));
    }

    #[test]
    fn what_cannot_be_judged_is_neither_right_nor_wrong() {
        assert_eq!(is_correct(&Verdict::NotScored { why: NotScored::Limit { what: "depth".into() } }), None);
        assert_eq!(is_correct(&Verdict::NotScored { why: NotScored::Cancelled }), None);
    }
}
