//! Reasoning of a run: whether constraints suppress it, and answers that it took the place of.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use sobench_core::case::Arm;
use sobench_facts::Sample;
use sobench_statistics::contrast::Difference;
use sobench_statistics::mean;

/// Reasoning of a run. Its rates are metrics of the arms.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Reasoning {
    /// The arms with answers.
    pub arms: Vec<ArmReasoning>,
    /// Reasoning tokens of constrained answers less those of controls: of pairs of the same request
    /// if there are any, else of the means. `None` without both.
    pub tokens: Option<Difference>,
}

/// Reasoning of one arm.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct ArmReasoning {
    pub arm: Arm,
    /// Mean reasoning tokens of answers, complete or truncated at the token limit, without reasoning
    /// as 0; `None` if a count is unknown.
    pub mean_tokens: Option<f64>,
}

impl Reasoning {
    /// `None` if no answer has reasoning or marks of it. `seed` is for the interval.
    pub fn new(samples: &[Sample<'_>], seed: u64) -> Option<Self> {
        let answers = || samples.iter().filter(|sample| sample.outcome().is_answer());
        let has_signs =
            |sample: &Sample<'_>| sample.has_reasoning() || sample.reasoning_facts().is_some();
        if !answers().any(has_signs) {
            return None;
        }
        let of_arm = |arm: Arm| {
            let of_arm = answers().filter(|sample| sample.arm() == arm);
            let tokens: Vec<Option<f64>> = of_arm.map(tokens).collect();
            let known: Option<Vec<f64>> = tokens.iter().copied().collect();
            (!tokens.is_empty()).then(|| ArmReasoning {
                arm,
                mean_tokens: known.as_deref().and_then(mean),
            })
        };
        let arms = [Arm::Constrained, Arm::Control, Arm::Free];
        Some(Self {
            arms: arms.into_iter().filter_map(of_arm).collect(),
            tokens: token_difference(samples, seed),
        })
    }
}

/// Reasoning tokens of an answer; `None` if unknown.
fn tokens(sample: &Sample<'_>) -> Option<f64> {
    if !sample.has_reasoning() {
        return Some(0.0);
    }
    Some(sample.reasoning_facts()?.tokens? as f64)
}

fn token_difference(samples: &[Sample<'_>], seed: u64) -> Option<Difference> {
    let mut by_request: BTreeMap<u64, [Vec<f64>; 2]> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample.outcome().is_answer()) {
        let place = match sample.arm() {
            Arm::Constrained => 0,
            Arm::Control => 1,
            _ => continue,
        };
        if let Some(tokens) = tokens(sample) {
            by_request.entry(sample.request_hash()).or_default()[place].push(tokens);
        }
    }
    let pairs: Vec<f64> = by_request
        .values()
        .filter_map(|[constrained, control]| Some(mean(constrained)? - mean(control)?))
        .collect();
    Difference::from_pairs(&pairs, seed).or_else(|| {
        let all = |place: usize| -> Vec<f64> {
            let values = by_request.values().flat_map(|arms| &arms[place]);
            values.copied().collect()
        };
        Difference::from_samples(&all(0), &all(1), seed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::registry::{Figure, Metric, rates};
    use crate::metrics::{Metrics, summarise};
    use sobench_core::observation::Outcome;
    use sobench_facts::reasoning::ReasoningFacts;
    use sobench_facts::testing::{TestRequest, test_request, with_samples};
    use sobench_plan::metrics::MetricsSettings;

    /// An answer of an arm with reasoning of this many tokens.
    fn reasoned(arm: Arm, tokens: u64) -> TestRequest<'static> {
        let facts = ReasoningFacts {
            tokens: Some(tokens),
            ..ReasoningFacts::default()
        };
        TestRequest {
            arm,
            reasoning: (tokens > 0).then_some(10),
            answer: Some(20),
            reasoning_facts: (tokens > 0).then_some(facts),
            ..test_request()
        }
    }

    #[test]
    fn constraints_that_suppress_thinking_are_counted() {
        let run = [
            reasoned(Arm::Constrained, 0),
            reasoned(Arm::Constrained, 40),
            reasoned(Arm::Control, 100),
            TestRequest {
                outcome: Outcome::Cancelled,
                ..reasoned(Arm::Constrained, 0)
            },
        ];
        let (found, metrics) = reasoning(&run);
        let rate = |metric, arm| counts(&metrics, metric, arm);
        let suppressed = rate(&rates::THINKING_SUPPRESSED, Arm::Constrained);
        assert_eq!(suppressed, Some((1, 2)));
        let arms: Vec<_> = found
            .arms
            .iter()
            .map(|of_arm| {
                let reasoned = rate(&rates::REASONED, of_arm.arm);
                (of_arm.arm, reasoned, of_arm.mean_tokens)
            })
            .collect();
        assert_eq!(
            arms,
            [
                (Arm::Constrained, Some((1, 2)), Some(20.0)),
                (Arm::Control, Some((1, 1)), Some(100.0))
            ]
        );
        // One request, because all have the same prompt.
        let tokens = found.tokens.unwrap();
        assert_eq!((tokens.difference, tokens.n, tokens.low), (-80.0, 1, None));
        let plain = with_samples(&[test_request()], |samples| Reasoning::new(samples, 0));
        assert_eq!(plain, None);
    }

    fn reasoning(run: &[TestRequest<'_>]) -> (Reasoning, Metrics) {
        let metrics = with_samples(run, |samples| {
            summarise(samples, 1, &MetricsSettings::default())
        });
        (metrics.reasoning.clone().unwrap(), metrics)
    }

    fn counts(metrics: &Metrics, metric: &'static Metric, arm: Arm) -> Option<(usize, usize)> {
        let rate = metrics.rate(Figure::of(metric, Some(arm)))?;
        Some((rate.hits, rate.of))
    }

    #[test]
    fn reasoning_in_place_of_the_answer_is_counted() {
        for arm in [Arm::Constrained, Arm::Free] {
            let cut = TestRequest {
                outcome: Outcome::Truncated,
                answer: None,
                ..reasoned(arm, 9)
            };
            let json = TestRequest {
                reasoning_facts: Some(ReasoningFacts {
                    json_only: true,
                    ..ReasoningFacts::default()
                }),
                ..reasoned(arm, 9)
            };
            let marked = TestRequest {
                reasoning_facts: Some(ReasoningFacts {
                    end_marker: true,
                    ..ReasoningFacts::default()
                }),
                arm,
                ..test_request()
            };
            let plain = TestRequest {
                arm,
                ..test_request()
            };
            let (found, metrics) = reasoning(&[cut, json, marked, plain]);
            let rates = [
                &rates::THINKING_BUDGET,
                &rates::JSON_IN_REASONING,
                &rates::END_MARKER,
            ]
            .map(|metric| counts(&metrics, metric, arm));
            assert_eq!(rates, [Some((1, 2)), Some((1, 2)), Some((1, 3))], "{arm:?}");
            assert_eq!((found.arms[0].mean_tokens, found.tokens), (None, None));
        }
    }
}
