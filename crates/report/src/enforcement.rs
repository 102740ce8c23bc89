//! Notices on whether constraints were enforced during a run.

use sobench_core::printable::{NAME_CHARS, printable};
use sobench_notices::enforcement::{Enforcement, State};
use sobench_notices::notice::{BreachCount, FigureNotice, LossSplit};
use sobench_results::metrics::Metrics;
use sobench_results::metrics::registry::rates;
use sobench_results::metrics::validity_pattern::ValidityLoss;

/// The notices of constraints that did not hold.
pub(crate) fn notices(enforcement: &Enforcement, metrics: &Metrics) -> Vec<FigureNotice> {
    let broken = metrics
        .values
        .rate(&rates::COMPLIANCE)
        .filter(|rate| rate.hits < rate.of)
        .map(|rate| {
            let reasons = metrics
                .findings
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
    let white_space = metrics.values.count(&rates::WHITE_SPACE_RATE);
    let white_space = (white_space > 0).then_some(FigureNotice::WhiteSpaceAnswers {
        answers: white_space,
        truncated: metrics.values.count(&rates::TRUNCATED_RATE),
    });
    FigureNotice::engine_fixed(enforcement)
        .into_iter()
        .chain(broken)
        .chain(loss.map(lost))
        .chain(white_space)
        .collect()
}

fn lost(loss: &ValidityLoss) -> FigureNotice {
    let explanations = loss.explanations.iter().map(|split| LossSplit {
        request: split
            .request
            .as_deref()
            .map(|request| printable(request, NAME_CHARS)),
        ..split.clone()
    });
    FigureNotice::ConstraintsLost {
        explanations: explanations.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::observation::Outcome;
    use sobench_core::verdict::{Reason, Verdict};
    use sobench_facts::testing::{TestRequest, test_request, with_samples};
    use sobench_plan::metrics::MetricsSettings;
    use sobench_results::metrics::summarise;

    #[test]
    fn broken_constraints_are_reported() {
        let texts = |run: &[TestRequest<'_>], state| {
            let enforcement = Enforcement {
                state,
                ..Enforcement::default()
            };
            let notices = with_samples(run, |samples| {
                let metrics = summarise(samples, 1_000_000_000, &MetricsSettings::default());
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
        let run: Vec<TestRequest<'_>> = (0..12)
            .map(|at| late(if at < 6 { test_request() } else { wrong() }, at))
            .collect();
        let found = texts(&run, State::NotChecked);
        assert_eq!(
            (
                found.len(),
                found[1].starts_with(
                    "constraints were no longer enforced above 6 requests in flight: all 6 answers up to there are valid, none of the 6 above; \
                     as likely by this run: from request case-6 on; runs with"
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
