//! What is said of a run about whether its constraints held: before it, by a preflight, and in it.
//! Pure.

use sobench_core::printable::{NAME_CHARS, printable};
use sobench_notices::enforcement::{Enforcement, State};
use sobench_notices::notice::{BreachCount, FigureNotice};
use sobench_results::metrics::quality::Quality;

/// What is to be said of constraints that did not hold.
pub(crate) fn remarks(enforcement: &Enforcement, quality: &Quality) -> Vec<FigureNotice> {
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
                        .excerpts
                        .first()
                        .map(|it| printable(&it.case_id, NAME_CHARS))
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
    let lost = quality
        .lost_from
        .as_ref()
        .map(|lost| FigureNotice::ConstraintsLost {
            request: printable(&lost.case_id, NAME_CHARS),
            valid_before: lost.valid_before,
            invalid_after: lost.invalid_after,
        });
    let white_space = (quality.white_space_runs > 0).then_some(FigureNotice::WhiteSpaceAnswers {
        answers: quality.white_space_runs,
        truncated: quality.truncated,
    });
    FigureNotice::engine_fixed(enforcement)
        .into_iter()
        .chain(broken)
        .chain(lost)
        .chain(white_space)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::observation::Outcome;
    use sobench_core::verdict::{Reason, Verdict};
    use sobench_results::metrics::testing::{Made, made, with_samples};

    #[test]
    fn what_did_not_hold_in_the_run_is_named() {
        let said = |run: &[Made<'_>], state| {
            let enforcement = Enforcement {
                state,
                ..Enforcement::default()
            };
            let remarks = with_samples(run, |samples| remarks(&enforcement, &Quality::of(samples)));
            remarks.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let wrong = || Made {
            verdict: Verdict::Invalid {
                reason: Reason::Choice,
            },
            ..made()
        };
        assert!(said(&[made(), made()], State::Enforced).is_empty());
        let run = [made(), wrong()];
        assert_eq!(
            said(&run, State::Enforced),
            [
                "1 of 2 constrained answers that ended by themselves break their constraint, although the server was seen to enforce such \
              constraints: 1 choice (first in case-1)"
            ]
        );
        let late = |made: Made<'static>, sent| Made {
            sent: Some(sent),
            ..made
        };
        let run: Vec<Made<'_>> = (0..6)
            .map(|at| late(if at < 3 { made() } else { wrong() }, at))
            .collect();
        let words = said(&run, State::NotAsked);
        assert_eq!(
            (
                words.len(),
                words[1]
                    .starts_with("constraints stopped holding with request case-3: all of the 3")
            ),
            (2, true)
        );
        let text = " ".repeat(80);
        let verdict = Verdict::Invalid {
            reason: Reason::Truncated,
        };
        let run = [Made {
            outcome: Outcome::Truncated,
            finish_reason: Some("length"),
            text: &text,
            verdict,
            ..made()
        }];
        let words = said(&run, State::NotAsked);
        assert!(
            words.len() == 1 && words[0].starts_with("white space without end: 1 of 1"),
            "{words:?}"
        );
    }
}
