//! Notices on whether constraints were enforced during a run.

use sobench_core::printable::{NAME_CHARS, printable};
use sobench_notices::enforcement::{Enforcement, State};
use sobench_notices::notice::{BreachCount, FigureNotice, LossInFlight, LossInTime, ValidAnswers};
use sobench_results::metrics::Metrics;
use sobench_results::metrics::validity_pattern::{Explanation, Sides, ValidityLoss};

/// The notices of constraints that did not hold.
pub(crate) fn notices(enforcement: &Enforcement, metrics: &Metrics) -> Vec<FigureNotice> {
    let quality = &metrics.quality;
    let broken = quality
        .compliance
        .filter(|rate| rate.hits < rate.of)
        .map(|rate| {
            let reasons = quality
                .reasons
                .iter()
                .filter(|group| group.name != "truncated")
                .map(|group| {
                    let first = group
                        .examples
                        .first()
                        .map(|excerpt| printable(&excerpt.case_id, NAME_CHARS))
                        .unwrap_or_default();
                    BreachCount {
                        reason: group.name.to_owned(),
                        answers: group.count,
                        first_request: first,
                    }
                });
            FigureNotice::BrokenConstraints {
                broken: rate.of - rate.hits,
                answers: rate.of,
                seen_enforced: enforcement.state == State::Enforced,
                reasons: reasons.collect(),
            }
        });
    let loss = metrics
        .validity
        .as_ref()
        .and_then(|validity| validity.loss.as_ref());
    let white_space = (quality.white_space_runs > 0).then_some(FigureNotice::WhiteSpaceAnswers {
        answers: quality.white_space_runs,
        truncated: quality.truncated,
    });
    FigureNotice::engine_fixed(enforcement)
        .into_iter()
        .chain(broken)
        .chain(loss.map(lost))
        .chain(white_space)
        .collect()
}

/// The notice of a loss: its better explanation, or both.
fn lost(loss: &ValidityLoss) -> FigureNotice {
    let before = |sides: &Sides| ValidAnswers {
        valid: sides.valid_before,
        answers: sides.before,
    };
    let after = |sides: &Sides| ValidAnswers {
        valid: sides.valid_after,
        answers: sides.after,
    };
    let in_flight = loss.in_flight.as_ref().map(|split| LossInFlight {
        up_to: split.up_to,
        below: before(&split.sides),
        above: after(&split.sides),
    });
    let time = loss.time.as_ref().map(|split| LossInTime {
        request: printable(&split.request, NAME_CHARS),
        before: before(&split.sides),
        after: after(&split.sides),
    });
    FigureNotice::ConstraintsLost {
        in_flight: in_flight.filter(|_| loss.explained_by != Explanation::Time),
        time: time.filter(|_| loss.explained_by != Explanation::InFlight),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::observation::Outcome;
    use sobench_core::verdict::{Reason, Verdict};
    use sobench_results::metrics::testing::{TestRequest, test_request, with_samples};
    use sobench_results::metrics::{MetricsOptions, summarise};

    #[test]
    fn broken_constraints_are_reported() {
        let texts = |run: &[TestRequest<'_>], state| {
            let enforcement = Enforcement {
                state,
                ..Enforcement::default()
            };
            let notices = with_samples(run, |samples| {
                let metrics = summarise(samples, 1_000_000_000, &MetricsOptions::default());
                notices(&enforcement, &metrics)
            });
            notices.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let wrong = || TestRequest {
            verdict: Verdict::Invalid {
                reason: Reason::Choice,
            },
            ..test_request()
        };
        assert!(texts(&[test_request(), test_request()], State::Enforced).is_empty());
        let run = [test_request(), wrong()];
        assert_eq!(
            texts(&run, State::Enforced),
            [
                "1 of 2 constrained answers that ended normally violate their constraint, although preflight showed that the server enforces \
              such constraints: 1 choice (first in case-1)"
            ]
        );
        let late = |made: TestRequest<'static>, sent| TestRequest {
            sent: Some(sent),
            ..made
        };
        let run: Vec<TestRequest<'_>> = (0..6)
            .map(|at| late(if at < 3 { test_request() } else { wrong() }, at))
            .collect();
        let found = texts(&run, State::NotChecked);
        assert_eq!(
            (
                found.len(),
                found[1].starts_with(
                    "constraints were no longer enforced from request case-3 on, or above 3 requests in flight: all 3"
                )
            ),
            (2, true)
        );
        let text = " ".repeat(80);
        let verdict = Verdict::Invalid {
            reason: Reason::Truncated,
        };
        let run = [TestRequest {
            outcome: Outcome::Truncated,
            finish_reason: Some("length"),
            text: &text,
            verdict,
            ..test_request()
        }];
        let found = texts(&run, State::NotChecked);
        assert!(
            found.len() == 1 && found[0].starts_with("endless white space: 1 of 1"),
            "{found:?}"
        );
    }
}
