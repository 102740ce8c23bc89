//! The control arm: requests that are judged by their constraint and sent without it.

use serde::Serialize;

use super::examples::Group;
use super::quality::reason;
use super::registry::rates;
use sobench_core::case::Arm;
use sobench_core::observation::Outcome;
use sobench_facts::Sample;
use sobench_statistics::Rate;

/// What the answers of the control arm were.
#[derive(Clone, Debug, PartialEq, schemars::JsonSchema, Serialize)]
pub struct ControlArm {
    pub requests: usize,
    /// Answers, complete or truncated at the token limit.
    pub answers: usize,
    /// Answers truncated at the token limit.
    pub truncated: usize,
    /// Valid answers / answers that ended normally and have a verdict.
    pub ended: Option<Rate>,
    /// Reasons of invalid answers, the most frequent first.
    pub reasons: Vec<Group>,
}

impl ControlArm {
    /// The control arm of a run; `None` without one.
    pub fn new(samples: &[Sample<'_>]) -> Option<Self> {
        let controls = || samples.iter().filter(|sample| sample.arm() == Arm::Control);
        let count = |is_counted: fn(&Outcome) -> bool| {
            controls()
                .filter(|sample| is_counted(sample.outcome()))
                .count()
        };
        let requests = controls().count();
        (requests > 0).then(|| Self {
            requests,
            answers: count(Outcome::is_answer),
            truncated: count(|outcome| *outcome == Outcome::Truncated),
            ended: rates::CONTROL_ENDED_RATE.rate(samples),
            reasons: Group::by(controls(), reason),
        })
    }

    /// Whether every answer was cut at the token limit, so that none could be valid.
    pub fn is_all_cut(&self) -> bool {
        self.answers > 0 && self.truncated == self.answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::verdict::{Reason, Verdict};
    use sobench_facts::testing::{TestRequest, test_request, with_samples};

    #[test]
    fn controls_have_a_rate_of_ended_answers_and_reasons() {
        let control = |reason: Reason| TestRequest {
            arm: Arm::Control,
            verdict: Verdict::Invalid { reason },
            ..test_request()
        };
        let cut = TestRequest {
            outcome: Outcome::Truncated,
            finish_reason: Some("length"),
            ..control(Reason::Truncated)
        };
        let valid = TestRequest {
            arm: Arm::Control,
            ..test_request()
        };
        let run = [
            test_request(),
            cut.clone(),
            cut.clone(),
            control(Reason::Empty),
            valid,
        ];
        let arm = with_samples(&run, ControlArm::new).unwrap();
        assert_eq!((arm.requests, arm.answers, arm.truncated), (4, 4, 2));
        assert_eq!(arm.ended.map(|rate| (rate.hits, rate.of)), Some((1, 2)));
        let reasons: Vec<_> = arm
            .reasons
            .iter()
            .map(|group| (group.name, group.count))
            .collect();
        assert_eq!(reasons, [("truncated", 2), ("empty", 1)]);
        assert!(!arm.is_all_cut());
        let all_cut = with_samples(&[test_request(), cut], ControlArm::new).unwrap();
        assert!(all_cut.is_all_cut() && all_cut.ended.is_none());
        assert_eq!(with_samples(&[test_request()], ControlArm::new), None);
    }
}
