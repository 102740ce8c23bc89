//! Reasoning of a run: whether constraints suppress it, and answers that it took the place of.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::mean_difference::Difference;
use super::registry::{Kind, Metric, rates};
use sobench_core::case::Arm;
use sobench_facts::Sample;
use sobench_statistics::{Rate, mean};

/// Reasoning of a run.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Reasoning {
    /// The arms with answers.
    pub arms: Vec<ArmReasoning>,
    /// Constrained answers without reasoning / those whose request has a control with reasoning.
    pub suppressed: Option<Rate>,
    /// Reasoning tokens of constrained answers less those of controls: of pairs of the same request
    /// if there are any, else of the means. `None` without both.
    pub tokens: Option<Difference>,
}

/// Reasoning of one arm. Rates cover answers, complete or truncated at the token limit.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct ArmReasoning {
    pub arm: Arm,
    /// Answers with reasoning / answers.
    pub reasoned: Option<Rate>,
    /// Mean reasoning tokens of answers, without reasoning as 0; `None` if a count is unknown.
    pub mean_tokens: Option<f64>,
    /// See [`rates::THINKING_BUDGET`], [`rates::JSON_IN_REASONING`] and [`rates::END_MARKER`].
    pub budget_used: Option<Rate>,
    pub json_only: Option<Rate>,
    pub end_marker: Option<Rate>,
}

impl Reasoning {
    /// `None` if no answer has reasoning or marks of it. `seed` is for the interval.
    pub fn new(samples: &[Sample<'_>], seed: u64) -> Option<Self> {
        let has_signs = |sample: &Sample<'_>| {
            sample.outcome().is_answer()
                && (sample.has_reasoning() || sample.reasoning_facts().is_some())
        };
        if !samples.iter().any(has_signs) {
            return None;
        }
        let arms = [Arm::Constrained, Arm::Control, Arm::Free];
        Some(Self {
            arms: arms
                .into_iter()
                .filter_map(|arm| ArmReasoning::new(samples, arm))
                .collect(),
            suppressed: rates::THINKING_SUPPRESSED.rate(samples),
            tokens: token_difference(samples, seed),
        })
    }
}

impl ArmReasoning {
    fn new(samples: &[Sample<'_>], arm: Arm) -> Option<Self> {
        let answers: Vec<&Sample<'_>> = samples
            .iter()
            .filter(|sample| sample.arm() == arm && sample.outcome().is_answer())
            .collect();
        let tokens: Option<Vec<f64>> = answers.iter().map(|sample| tokens(sample)).collect();
        (!answers.is_empty()).then(|| Self {
            arm,
            reasoned: rate(&answers, |sample| Some(sample.has_reasoning())),
            mean_tokens: tokens.as_deref().and_then(mean),
            budget_used: rate(&answers, hit_of(&rates::THINKING_BUDGET)),
            json_only: rate(&answers, hit_of(&rates::JSON_IN_REASONING)),
            end_marker: rate(&answers, hit_of(&rates::END_MARKER)),
        })
    }
}

type Hit = fn(&Sample<'_>) -> Option<bool>;

/// The definition of a rate, without its population.
fn hit_of(metric: &Metric) -> Hit {
    match metric.kind {
        Kind::Rate(hit) => hit,
        _ => |_| None,
    }
}

fn rate(answers: &[&Sample<'_>], hit: Hit) -> Option<Rate> {
    let answers = answers.iter();
    Rate::of_members(answers.filter_map(|sample| Some((hit(sample)?, sample.copy_hash()))))
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
    use sobench_core::observation::Outcome;
    use sobench_facts::reasoning::ReasoningFacts;
    use sobench_facts::testing::{TestRequest, test_request, with_samples};

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
        let found = with_samples(&run, |samples| Reasoning::new(samples, 0)).unwrap();
        let counts = |rate: Option<Rate>| rate.map(|rate| (rate.hits, rate.of));
        assert_eq!(counts(found.suppressed), Some((1, 2)));
        let arms: Vec<_> = found
            .arms
            .iter()
            .map(|arm| (arm.arm, counts(arm.reasoned), arm.mean_tokens))
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

    #[test]
    fn reasoning_in_place_of_the_answer_is_counted() {
        let cut = TestRequest {
            outcome: Outcome::Truncated,
            answer: None,
            ..reasoned(Arm::Constrained, 9)
        };
        let json = TestRequest {
            reasoning_facts: Some(ReasoningFacts {
                json_only: true,
                ..ReasoningFacts::default()
            }),
            ..reasoned(Arm::Constrained, 9)
        };
        let marked = TestRequest {
            reasoning_facts: Some(ReasoningFacts {
                end_marker: true,
                ..ReasoningFacts::default()
            }),
            ..test_request()
        };
        let run = [cut, json, marked, test_request()];
        let found = with_samples(&run, |samples| Reasoning::new(samples, 0)).unwrap();
        let counts = |rate: Option<Rate>| rate.map(|rate| (rate.hits, rate.of));
        let [arm] = &found.arms[..] else {
            panic!("{found:?}")
        };
        assert_eq!(counts(arm.budget_used), Some((1, 2)));
        assert_eq!(counts(arm.json_only), Some((1, 2)));
        assert_eq!(counts(arm.end_marker), Some((1, 3)));
        assert_eq!((arm.mean_tokens, found.tokens), (None, None));
    }
}
