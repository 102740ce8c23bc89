//! Throughput, goodput and peaks of a run.
//!
//! Definitions follow vLLM's `calculate_metrics` (`vllm/benchmarks/serve.py`), except that vLLM's
//! `max_output_tokens_per_s` counts chunks. Here it counts tokens, and vLLM's figure is
//! `max_output_chunks_per_s`. They differ if chunks have several tokens, and by end tokens, which
//! have no chunk. `max_concurrent_requests` is vLLM's figure; `max_in_flight` is added.

use std::collections::BTreeMap;

use super::in_flight::{end_ns, levels};
use sobench_core::case::Arm;
use sobench_core::verdict::Verdict;
use sobench_facts::Sample;
use sobench_plan::metrics::{Answers, MetricsSettings, Slo};

const NS_PER_S: u64 = 1_000_000_000;

/// Counts before division by the duration. `None` if a count is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    pub answers: Option<u64>,
    pub output_tokens: Option<u64>,
    pub total_tokens: Option<u64>,
    /// Answers that meet every SLO.
    pub good: Option<u64>,
    pub valid_good: Option<u64>,
    pub valid: Option<u64>,
}

impl Counts {
    /// Counts the answers of a group.
    pub(super) fn new(answers: &[&Sample<'_>], options: &MetricsSettings) -> Self {
        let input = sum(answers.iter().map(|sample| sample.tokens().input));
        let is_generated = options.answers == Answers::Generated;
        let output =
            sum(answers.iter().map(|sample| sample.tokens().output)).filter(|_| is_generated);
        let total = if is_generated {
            sum([output, input].into_iter())
        } else {
            input
        };
        let valid = |sample: &&&Sample<'_>| *sample.verdict() == Verdict::Valid;
        // Without any verdict, the number of valid answers is unknown.
        let has_verdicts = answers.is_empty()
            || answers
                .iter()
                .any(|sample| !matches!(sample.verdict(), Verdict::NotScored { .. }));
        let valid_of = |answers: &[&Sample<'_>]| {
            has_verdicts.then(|| answers.iter().filter(valid).count() as u64)
        };
        let good: Option<Vec<&Sample<'_>>> =
            options.goodput.and_then(|slo| good(answers, slo, options));
        Self {
            answers: Some(answers.len() as u64),
            output_tokens: output,
            total_tokens: total,
            good: good.as_ref().map(|good| good.len() as u64),
            valid_good: good.as_ref().and_then(|good| valid_of(good)),
            valid: valid_of(answers),
        }
    }
}

/// The sum, or `None` if a term is unknown. The sum of no terms is 0.
pub(super) fn sum(mut terms: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    terms.try_fold(0_u64, |total, term| Some(total.saturating_add(term?)))
}

/// The answers that meet every SLO; `None` if this cannot be checked: no SLO, a TPOT limit with
/// unknown token counts, or a TTFT or TPOT limit with an answer that was not streamed.
fn good<'s, 'a>(
    answers: &[&'s Sample<'a>],
    slo: Slo,
    options: &MetricsSettings,
) -> Option<Vec<&'s Sample<'a>>> {
    let needs_streaming = slo.ttft_ms.is_some() || slo.tpot_ms.is_some();
    let unstreamed = !options.streamed || answers.iter().any(|sample| !sample.streamed(options));
    let tokens_missing = slo.tpot_ms.is_some()
        && answers
            .iter()
            .any(|sample| sample.tokens().output.is_none());
    if slo == Slo::default() || (needs_streaming && unstreamed) || tokens_missing {
        return None;
    }
    let meets = |sample: &&&'s Sample<'a>| {
        let latency = sample.latency(options);
        let within = |bound: Option<f64>, value: Option<f64>| {
            bound.is_none_or(|bound| value.is_some_and(|value| value <= bound))
        };
        // As in vLLM, an answer without a TPOT (too short, or in one chunk) meets the TPOT limit.
        // An answer without content meets no limit.
        let content = latency.e2el_ms.is_some();
        // Without a constraint there is no validity to check.
        let valid = !slo.valid || sample.arm() == Arm::Free || *sample.verdict() == Verdict::Valid;
        let tpot = slo
            .tpot_ms
            .is_none_or(|bound| latency.tpot_ms.is_none_or(|tpot_ms| tpot_ms <= bound));
        content
            && valid
            && tpot
            && within(slo.ttft_ms, latency.ttft_ms)
            && within(slo.e2el_ms, latency.e2el_ms)
    };
    Some(answers.iter().filter(meets).copied().collect())
}

/// Maxima over buckets of one second, counted as in vLLM from the first sending of an answered
/// request.
#[derive(Default)]
pub struct Peaks {
    pub(super) tokens: Option<f64>,
    pub(super) chunks: Option<u64>,
    pub(super) overlapping: Option<u64>,
}

impl Peaks {
    pub(super) fn new(answers: &[&Sample<'_>], kind: Answers) -> Self {
        let Some(start_ns) = answers
            .iter()
            .filter_map(|sample| sample.request_times().sent_ns)
            .min()
        else {
            return Self::default();
        };
        // Maps instead of arrays, so that an implausible time does not exhaust memory.
        let mut chunks: BTreeMap<u64, u64> = BTreeMap::new();
        let mut tokens: BTreeMap<u64, f64> = BTreeMap::new();
        let mut overlapping: BTreeMap<u64, i64> = BTreeMap::new();
        let bucket = |at_ns: u64| at_ns.saturating_sub(start_ns) / NS_PER_S;
        for sample in answers {
            let timing = sample.request_times();
            let weight = sample
                .tokens()
                .output
                .map_or(0.0, |tokens| tokens as f64 / timing.chunks.max(1) as f64);
            for at_ns in sample.chunks_ns() {
                *chunks.entry(bucket(at_ns)).or_default() += 1;
                *tokens.entry(bucket(at_ns)).or_default() += weight;
            }
            if let Some(sent_ns) = timing.sent_ns {
                let end_ns = timing.last_content_ns.unwrap_or(sent_ns).max(sent_ns);
                *overlapping.entry(bucket(sent_ns)).or_default() += 1;
                *overlapping.entry(bucket(end_ns) + 1).or_default() -= 1;
            }
        }
        let generated = kind == Answers::Generated;
        let known = generated
            && answers
                .iter()
                .all(|sample| sample.tokens().output.is_some());
        Self {
            tokens: tokens
                .into_values()
                .max_by(f64::total_cmp)
                .filter(|_| known),
            chunks: chunks.into_values().max().filter(|_| generated),
            overlapping: highest(overlapping.into_iter().collect()),
        }
    }
}

/// Maximum number of requests in flight. A request without an end was in flight until the end of
/// the run.
pub(super) fn max_in_flight(samples: &[&Sample<'_>], duration_ns: u64) -> Option<u64> {
    let timings = || samples.iter().map(|sample| sample.request_times());
    let mut starts_ns: Vec<u64> = timings().filter_map(|timing| timing.sent_ns).collect();
    starts_ns.sort_unstable();
    let ends_ns = timings().filter_map(|timing| end_ns(&timing, Some(duration_ns)));
    levels(starts_ns.into_iter(), ends_ns.collect()).max()
}

/// The maximum of the running sum of steps. At equal times, ends come before starts.
fn highest(mut steps: Vec<(u64, i64)>) -> Option<u64> {
    steps.sort_unstable();
    let mut level = 0;
    let levels = steps.iter().map(|(_, step)| {
        level += step;
        level
    });
    u64::try_from(levels.max()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::registry::Values;
    use crate::metrics::registry::totals::*;
    use crate::metrics::summarise;
    use sobench_core::observation::Outcome;
    use sobench_core::verdict::{NotScored, Reason};
    use sobench_facts::testing::{TestRequest, test_request, with_samples};

    const MS: u64 = 1_000_000;

    fn measured(run: &[TestRequest<'_>], duration_ms: u64, options: &MetricsSettings) -> Values {
        with_samples(run, |samples| {
            summarise(samples, duration_ms * MS, options).values
        })
    }

    fn with_slo(slo: Slo) -> MetricsSettings {
        MetricsSettings {
            goodput: Some(slo),
            ..MetricsSettings::default()
        }
    }

    #[test]
    fn rates_cover_the_whole_run() {
        let run = [
            test_request(),
            TestRequest {
                outcome: Outcome::Truncated,
                ..test_request()
            },
            TestRequest {
                outcome: Outcome::Cancelled,
                ..test_request()
            },
        ];
        let throughput = measured(&run, 4000, &MetricsSettings::default());
        assert_eq!(throughput.number(&REQUEST_THROUGHPUT), Some(0.5));
        assert_eq!(throughput.number(&OUTPUT_THROUGHPUT), Some(1.5));
        assert_eq!(throughput.number(&TOTAL_TOKEN_THROUGHPUT), Some(5.0));
        assert_eq!(throughput.number(&VALID_THROUGHPUT), Some(0.5));
        assert_eq!(
            (
                throughput.number(&REQUEST_GOODPUT),
                throughput.number(&VALID_GOODPUT)
            ),
            (None, None)
        );
    }

    #[test]
    fn valid_throughput_is_unknown_without_verdicts() {
        let unjudged = TestRequest {
            verdict: Verdict::NotScored {
                why: NotScored::NoConstraint,
            },
            ..test_request()
        };
        assert_eq!(
            measured(
                std::slice::from_ref(&unjudged),
                1000,
                &MetricsSettings::default()
            )
            .number(&VALID_THROUGHPUT),
            None
        );
        assert_eq!(
            measured(
                &[unjudged, test_request()],
                1000,
                &MetricsSettings::default()
            )
            .number(&VALID_THROUGHPUT),
            Some(1.0)
        );
        assert_eq!(
            measured(&[], 1000, &MetricsSettings::default()).number(&VALID_THROUGHPUT),
            Some(0.0)
        );
    }

    #[test]
    fn computed_answers_have_no_output_tokens() {
        let computed = MetricsSettings {
            streamed: false,
            answers: Answers::Computed,
            ..MetricsSettings::default()
        };
        let run = [TestRequest {
            output: None,
            chunks: vec![30],
            streamed: false,
            ..test_request()
        }];
        let throughput = measured(&run, 1000, &computed);
        assert_eq!(
            (
                throughput.number(&REQUEST_THROUGHPUT),
                throughput.number(&TOTAL_TOKEN_THROUGHPUT)
            ),
            (Some(1.0), Some(7.0))
        );
        assert_eq!(
            (
                throughput.number(&OUTPUT_THROUGHPUT),
                throughput.number(&MAX_OUTPUT_TOKENS)
            ),
            (None, None)
        );
        assert_eq!(
            (
                throughput.number(&MAX_OUTPUT_CHUNKS),
                throughput.number(&MAX_CONCURRENT_REQUESTS)
            ),
            (None, Some(1.0))
        );
        assert_eq!(
            measured(
                &[TestRequest {
                    input: None,
                    ..test_request()
                }],
                1000,
                &computed
            )
            .number(&TOTAL_TOKEN_THROUGHPUT),
            None
        );
    }

    #[test]
    fn goodput_counts_answers_that_meet_every_limit() {
        let invalid = Verdict::Invalid {
            reason: Reason::Choice,
        };
        let run = [
            test_request(),
            TestRequest {
                verdict: invalid,
                ..test_request()
            },
            TestRequest {
                chunks: vec![10, 50],
                output: Some(3),
                ..test_request()
            },
            TestRequest {
                chunks: vec![],
                output: Some(0),
                ..test_request()
            },
            TestRequest {
                chunks: vec![11],
                output: Some(1),
                ..test_request()
            },
            TestRequest {
                outcome: Outcome::TimedOut {
                    limit_ms: 1,
                    limit: Default::default(),
                    stage: None,
                },
                ..test_request()
            },
        ];
        for (slo, good, valid) in [
            (
                Slo {
                    ttft_ms: Some(10.0),
                    ..Slo::default()
                },
                3.0,
                2.0,
            ),
            (
                Slo {
                    ttft_ms: Some(11.0),
                    tpot_ms: Some(10.0),
                    ..Slo::default()
                },
                3.0,
                2.0,
            ),
            (
                Slo {
                    e2el_ms: Some(29.9),
                    ..Slo::default()
                },
                1.0,
                1.0,
            ),
            (
                Slo {
                    tpot_ms: Some(1e9),
                    ..Slo::default()
                },
                4.0,
                3.0,
            ),
            (
                Slo {
                    valid: true,
                    ..Slo::default()
                },
                3.0,
                3.0,
            ),
            (
                Slo {
                    e2el_ms: Some(29.9),
                    valid: true,
                    ..Slo::default()
                },
                1.0,
                1.0,
            ),
        ] {
            let throughput = measured(&run, 1000, &with_slo(slo));
            assert_eq!(
                (
                    throughput.number(&REQUEST_GOODPUT),
                    throughput.number(&VALID_GOODPUT)
                ),
                (Some(good), Some(valid)),
                "{slo:?}"
            );
        }
    }

    #[test]
    fn limit_that_cannot_be_checked_gives_no_goodput() {
        let tpot = with_slo(Slo {
            tpot_ms: Some(1.0),
            ..Slo::default()
        });
        assert_eq!(
            measured(
                &[TestRequest {
                    output: None,
                    ..test_request()
                }],
                1000,
                &tpot
            )
            .number(&REQUEST_GOODPUT),
            None
        );
        let unstreamed = |slo| MetricsSettings {
            streamed: false,
            ..with_slo(slo)
        };
        let ttft = unstreamed(Slo {
            ttft_ms: Some(99.0),
            ..Slo::default()
        });
        assert_eq!(
            measured(&[test_request()], 1000, &ttft).number(&REQUEST_GOODPUT),
            None
        );
        let whole = TestRequest {
            streamed: false,
            ..test_request()
        };
        for slo in [
            Slo {
                ttft_ms: Some(99.0),
                ..Slo::default()
            },
            Slo {
                tpot_ms: Some(99.0),
                ..Slo::default()
            },
        ] {
            assert_eq!(
                measured(&[test_request(), whole.clone()], 1000, &with_slo(slo))
                    .number(&REQUEST_GOODPUT),
                None,
                "{slo:?}"
            );
        }
        let by_end = with_slo(Slo {
            e2el_ms: Some(99.0),
            ..Slo::default()
        });
        assert_eq!(
            measured(&[test_request(), whole], 1000, &by_end).number(&REQUEST_GOODPUT),
            Some(2.0)
        );
        let e2el = unstreamed(Slo {
            e2el_ms: Some(99.0),
            ..Slo::default()
        });
        assert_eq!(
            measured(&[test_request()], 1000, &e2el).number(&REQUEST_GOODPUT),
            Some(1.0)
        );
        assert_eq!(
            measured(&[test_request()], 1000, &with_slo(Slo::default())).number(&REQUEST_GOODPUT),
            None
        );
    }

    #[test]
    fn peaks_use_buckets_from_the_first_sending() {
        let run = [
            // Sent at 500 ms, where the buckets start: 1499 ms is in the first and 1500 ms in the
            // second.
            TestRequest {
                sent: Some(500),
                chunks: vec![600, 1499, 1500, 1600],
                output: Some(8),
                end: Some(1700),
                ..test_request()
            },
            TestRequest {
                sent: Some(1600),
                chunks: vec![1700],
                output: Some(1),
                end: Some(1800),
                ..test_request()
            },
            TestRequest {
                sent: Some(5000),
                chunks: vec![5001],
                output: Some(1),
                end: Some(5002),
                ..test_request()
            },
        ];
        let throughput = measured(&run, 6000, &MetricsSettings::default());
        assert_eq!(throughput.number(&MAX_OUTPUT_CHUNKS), Some(3.0));
        assert_eq!(throughput.number(&MAX_OUTPUT_TOKENS), Some(5.0));
        assert_eq!(throughput.number(&MAX_CONCURRENT_REQUESTS), Some(2.0));
        assert_eq!(throughput.number(&MAX_IN_FLIGHT), Some(2.0));
    }

    #[test]
    fn consecutive_requests_are_not_concurrent() {
        let run = [
            TestRequest {
                sent: Some(0),
                chunks: vec![10],
                end: Some(20),
                ..test_request()
            },
            TestRequest {
                sent: Some(20),
                chunks: vec![30],
                end: Some(40),
                ..test_request()
            },
            TestRequest {
                sent: Some(40),
                chunks: vec![],
                end: None,
                outcome: Outcome::Cancelled,
                ..test_request()
            },
            TestRequest {
                sent: None,
                chunks: vec![],
                end: None,
                outcome: Outcome::Cancelled,
                ..test_request()
            },
        ];
        let throughput = measured(&run, 100, &MetricsSettings::default());
        assert_eq!(
            (
                throughput.number(&MAX_IN_FLIGHT),
                throughput.number(&MAX_CONCURRENT_REQUESTS)
            ),
            (Some(1.0), Some(2.0))
        );
        assert_eq!(
            measured(&run[3..], 100, &MetricsSettings::default()).number(&MAX_IN_FLIGHT),
            None
        );
    }

    #[test]
    fn implausible_time_does_not_exhaust_memory() {
        let far = u64::MAX / MS - 1;
        let run = [TestRequest {
            sent: Some(0),
            chunks: vec![far],
            end: Some(far),
            ..test_request()
        }];
        assert_eq!(
            measured(&run, 100, &MetricsSettings::default()).number(&MAX_CONCURRENT_REQUESTS),
            Some(1.0)
        );
    }
}
