//! A run as the output formats read it: the report, every request, and answers on demand.

use std::path::Path;

use super::Report;
use super::curl::Resend;
use sobench_core::answer::Answer;
use sobench_core::case::Arm;
use sobench_core::error::Result;
use sobench_core::observation::{Outcome, failure_message};
use sobench_core::verdict::{Reason, Verdict};
use sobench_facts::Sample;
use sobench_results::compare::gate::GateVerdict;

/// A run with its report.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub report: &'a Report,
    /// Every request, in plan order, without the texts of answers.
    pub samples: &'a [Sample<'a>],
    /// Reads the whole answer of the request at an index of `samples`.
    pub answer: &'a dyn Fn(usize) -> Result<Answer>,
    /// How to send requests again; `None` where the log does not have it.
    pub resend: Option<&'a Resend>,
    /// The file of the run log; `None` where none was kept.
    pub run_log: Option<&'a Path>,
    /// The outcome of `--require`; `None` without it.
    pub requirements: Option<&'a Requirements>,
}

/// The limits that a run has to keep (`--require`), and whether it keeps them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirements {
    /// How many limits there are.
    pub rules: usize,
    /// A line for each limit that is not kept.
    pub notes: Vec<String>,
    pub verdict: GateVerdict,
}

/// A request as a test of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TestStatus<'a> {
    Passed,
    /// Sent with its constraint, and invalid.
    Invalid(&'a Reason),
    /// Refused or failed, in any arm, with the message of the server or of the network.
    NoAnswer(String),
    /// Not a test of the constraint, for this reason.
    Skipped(String),
}

impl<'a> TestStatus<'a> {
    pub fn new(sample: &Sample<'a>) -> Self {
        let outcome = sample.outcome();
        if *outcome == Outcome::Cancelled {
            return Self::Skipped("the run ended first".to_owned());
        }
        if *outcome == Outcome::Abandoned {
            return Self::Skipped("the client closed the connection by plan".to_owned());
        }
        if !outcome.is_answer() {
            return Self::NoAnswer(failure_message(outcome));
        }
        match (sample.arm(), sample.verdict()) {
            (arm, Verdict::Valid) if arm.sends_constraint() => Self::Passed,
            (arm, Verdict::Invalid { reason }) if arm.sends_constraint() => Self::Invalid(reason),
            (Arm::Control, Verdict::Valid) => {
                Self::Skipped("control arm: valid, the constraint was not sent".to_owned())
            }
            (Arm::Control, Verdict::Invalid { .. }) => {
                Self::Skipped("control arm: invalid, the constraint was not sent".to_owned())
            }
            (_, Verdict::Valid | Verdict::Invalid { .. }) => {
                Self::Skipped("there is no constraint".to_owned())
            }
            (_, Verdict::NotScored { why }) => Self::Skipped(why.to_string()),
        }
    }

    /// Why the test did not pass.
    pub(super) fn message(&self) -> String {
        match self {
            Self::Invalid(reason) => reason.to_string(),
            Self::NoAnswer(message) | Self::Skipped(message) => message.clone(),
            Self::Passed => String::new(),
        }
    }
}

/// The name of a failure: its reason, or the outcome of a request without an answer.
pub fn failing_as(sample: &Sample<'_>) -> Option<&'static str> {
    match TestStatus::new(sample) {
        TestStatus::Invalid(reason) => Some(reason.name()),
        TestStatus::NoAnswer(_) => Some(sample.outcome().name()),
        TestStatus::Passed | TestStatus::Skipped(_) => None,
    }
}

#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used)]
pub mod testing;

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::verdict::NotScored;
    use sobench_facts::testing::{TestRequest, test_request, with_samples};

    #[test]
    fn a_request_passes_fails_or_is_skipped() {
        let invalid = Verdict::Invalid {
            reason: Reason::Choice,
        };
        let refused = Outcome::Rejected {
            status: 400,
            body: "no".into(),
            advice: None,
        };
        let unjudged = Verdict::NotScored {
            why: NotScored::Limit {
                what: "too deep".into(),
            },
        };
        let not_scored = |why| Verdict::NotScored { why };
        for (request, expected) in [
            (test_request(), TestStatus::Passed),
            (
                TestRequest {
                    verdict: invalid.clone(),
                    ..test_request()
                },
                TestStatus::Invalid(&Reason::Choice),
            ),
            (
                TestRequest {
                    verdict: unjudged,
                    ..test_request()
                },
                TestStatus::Skipped("too deep".into()),
            ),
            (
                TestRequest {
                    arm: Arm::Control,
                    verdict: invalid,
                    ..test_request()
                },
                TestStatus::Skipped("control arm: invalid, the constraint was not sent".into()),
            ),
            (
                TestRequest {
                    arm: Arm::Control,
                    outcome: refused,
                    verdict: not_scored(NotScored::Refused),
                    ..test_request()
                },
                TestStatus::NoAnswer("HTTP 400: no".into()),
            ),
            (
                TestRequest {
                    outcome: Outcome::Cancelled,
                    verdict: not_scored(NotScored::Cancelled),
                    ..test_request()
                },
                TestStatus::Skipped("the run ended first".into()),
            ),
            (
                TestRequest {
                    arm: Arm::Free,
                    verdict: not_scored(NotScored::NoConstraint),
                    ..test_request()
                },
                TestStatus::Skipped("the case has no constraint".into()),
            ),
        ] {
            with_samples(&[request], |samples| {
                assert_eq!(TestStatus::new(&samples[0]), expected);
                assert_eq!(
                    failing_as(&samples[0]).is_some(),
                    matches!(expected, TestStatus::Invalid(_) | TestStatus::NoAnswer(_))
                );
            });
        }
    }
}
