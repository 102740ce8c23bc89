//! A run as the forms of its report see it: the numbers, every request, and answers where they are
//! asked for. Knows no file.

use super::Report;
use super::curl::Resend;
use sobench_core::case::Arm;
use sobench_core::error::Result;
use sobench_core::observation::{Outcome, failure_words};
use sobench_core::verdict::{Reason, Verdict};
use sobench_results::metrics::Sample;

/// A run and everything in it.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub report: &'a Report,
    /// Every request, in plan order. Texts of answers need not be in them.
    pub samples: &'a [Sample<'a>],
    /// The answer to the request at a place of `samples`, whole. It may have to be read from a
    /// file, which can fail.
    pub answer: &'a dyn Fn(usize) -> Result<String>,
    /// How requests are sent again; `None` where the log does not tell.
    pub resend: Option<&'a Resend>,
}

/// What became of a request, seen as a test that the server passes or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing<'a> {
    Passed,
    /// It was sent with its constraint, and the answer is not valid.
    Invalid(&'a Reason),
    /// Refused, or failed on the way, in whichever arm: the words are the server's or the
    /// network's.
    NoAnswer(String),
    /// It says nothing of the constraint, for this reason.
    Skipped(String),
}

impl<'a> Standing<'a> {
    /// What became of this request.
    pub fn of(sample: &Sample<'a>) -> Self {
        let outcome = sample.outcome();
        if *outcome == Outcome::Cancelled {
            return Self::Skipped("the run ended first".to_owned());
        }
        if !outcome.is_answer() {
            return Self::NoAnswer(failure_words(outcome));
        }
        match (sample.arm(), sample.verdict()) {
            (Arm::Constrained, Verdict::Valid) => Self::Passed,
            (Arm::Constrained, Verdict::Invalid { reason }) => Self::Invalid(reason),
            (Arm::Control, Verdict::Valid) => {
                Self::Skipped("control arm: valid, though the constraint was not sent".to_owned())
            }
            (Arm::Control, Verdict::Invalid { .. }) => {
                Self::Skipped("control arm: not valid, and the constraint was not sent".to_owned())
            }
            (Arm::Free, Verdict::Valid | Verdict::Invalid { .. }) => {
                Self::Skipped("there is no constraint".to_owned())
            }
            (_, Verdict::NotScored { why }) => Self::Skipped(why.to_string()),
        }
    }

    /// Why it did not pass.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Invalid(reason) => reason.to_string(),
            Self::NoAnswer(words) | Self::Skipped(words) => words.clone(),
            Self::Passed => String::new(),
        }
    }
}

/// The name that failing requests are counted under: the reason, or the outcome of a request
/// without an answer.
pub fn failing_as(sample: &Sample<'_>) -> Option<&'static str> {
    match Standing::of(sample) {
        Standing::Invalid(reason) => Some(reason.name()),
        Standing::NoAnswer(_) => Some(sample.outcome().name()),
        Standing::Passed | Standing::Skipped(_) => None,
    }
}

#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used)]
pub mod testing {
    use super::*;
    use sobench_results::metrics::testing::{Made, with_samples};
    use sobench_results::metrics::{MetricsOptions, summarise};
    use sobench_results::record::RunRecord;

    /// Shows a made-up run of two seconds to `check`.
    pub fn with_view<T>(
        run: &[Made<'_>],
        record: RunRecord,
        check: impl FnOnce(View<'_>) -> T,
    ) -> T {
        let options = MetricsOptions {
            percentiles: vec![50.0, 99.0],
            ..MetricsOptions::default()
        };
        with_samples(run, |samples| {
            let report = Report::new(record, summarise(samples, 2_000_000_000, &options));
            let answer = |place: usize| Ok(samples[place].text().to_owned());
            check(View {
                report: &report,
                samples,
                answer: &answer,
                resend: None,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::verdict::NotScored;
    use sobench_results::metrics::testing::{Made, made, with_samples};

    #[test]
    fn a_request_passes_fails_or_says_nothing() {
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
            (made(), Standing::Passed),
            (
                Made {
                    verdict: invalid.clone(),
                    ..made()
                },
                Standing::Invalid(&Reason::Choice),
            ),
            (
                Made {
                    verdict: unjudged,
                    ..made()
                },
                Standing::Skipped("too deep".into()),
            ),
            (
                Made {
                    arm: Arm::Control,
                    verdict: invalid,
                    ..made()
                },
                Standing::Skipped("control arm: not valid, and the constraint was not sent".into()),
            ),
            (
                Made {
                    arm: Arm::Control,
                    outcome: refused,
                    verdict: not_scored(NotScored::Refused),
                    ..made()
                },
                Standing::NoAnswer("HTTP 400: no".into()),
            ),
            (
                Made {
                    outcome: Outcome::Cancelled,
                    verdict: not_scored(NotScored::Cancelled),
                    ..made()
                },
                Standing::Skipped("the run ended first".into()),
            ),
            (
                Made {
                    arm: Arm::Free,
                    verdict: not_scored(NotScored::NoConstraint),
                    ..made()
                },
                Standing::Skipped("the case has no constraint".into()),
            ),
        ] {
            with_samples(&[request], |samples| {
                assert_eq!(Standing::of(&samples[0]), expected);
                assert_eq!(
                    failing_as(&samples[0]).is_some(),
                    matches!(expected, Standing::Invalid(_) | Standing::NoAnswer(_))
                );
            });
        }
    }
}
