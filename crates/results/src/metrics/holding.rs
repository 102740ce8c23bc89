//! Whether constraints held all the way through a run: where they stopped, and answers that end in
//! white space. Knows no latency and no rendering.

use serde::Serialize;

use super::Sample;
use sobench_core::observation::Outcome;
use sobench_core::verdict::Verdict;

/// White space at the end of a cut answer from which on it counts as running away; indentation is
/// far below.
const RUN_AWAY_CHARS: usize = 24;

/// Answers on each side of a change that are needed to call it one.
const MIN_ON_EACH_SIDE: usize = 3;

/// From one request on, no answer that ended by itself is valid, and every one before it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LostFrom {
    /// The first request whose answer breaks its constraint, in the order in which they were sent.
    pub case_id: String,
    /// Answers sent before it, all valid.
    pub valid_before: usize,
    /// Answers from it on, none valid.
    pub invalid_after: usize,
}

/// Where the constraints of `ended`, answers that ended by themselves and have a verdict, were lost
/// for good; `None` where they were not, or where there are fewer than three answers on either
/// side.
pub(super) fn lost_from(ended: &[&Sample<'_>]) -> Option<LostFrom> {
    let mut ended: Vec<&Sample<'_>> = ended.to_vec();
    ended.sort_by_key(|it| it.moments().sent_ns);
    let is_valid = |it: &&Sample<'_>| *it.verdict() == Verdict::Valid;
    let before = ended.iter().take_while(|it| is_valid(it)).count();
    let after = &ended[before..];
    let is_change = before >= MIN_ON_EACH_SIDE
        && after.len() >= MIN_ON_EACH_SIDE
        && !after.iter().any(is_valid);
    let first = after.first().filter(|_| is_change)?;
    Some(LostFrom {
        case_id: first.id(),
        valid_before: before,
        invalid_after: after.len(),
    })
}

/// Whether an answer was cut at the token limit while it wrote nothing but white space.
pub fn runs_away(outcome: &Outcome, text: &str) -> bool {
    *outcome == Outcome::Truncated
        && text[text.trim_end().len()..].chars().count() >= RUN_AWAY_CHARS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::testing::{Made, made, with_samples};
    use sobench_core::verdict::Reason;

    fn lost(verdicts: &str) -> Option<(String, usize, usize)> {
        let made: Vec<Made<'_>> = verdicts
            .bytes()
            .enumerate()
            .map(|(index, verdict)| {
                let verdict = if verdict == b'v' {
                    Verdict::Valid
                } else {
                    Verdict::Invalid {
                        reason: Reason::Choice,
                    }
                };
                // Sent in the reverse of the plan's order.
                Made {
                    verdict,
                    sent: Some(100 - index as u64),
                    ..made()
                }
            })
            .collect();
        with_samples(&made, |samples| {
            let all: Vec<&Sample<'_>> = samples.iter().collect();
            lost_from(&all).map(|it| (it.case_id, it.valid_before, it.invalid_after))
        })
    }

    #[test]
    fn a_change_for_good_is_told_from_a_share_of_wrong_answers() {
        assert_eq!(lost("iiiivvvvv"), Some(("case-3".to_owned(), 5, 4)));
        for other in [
            "", "v", "vvvvvv", "iiiiii", "iivvvv", "iiivv", "ivivivvv", "viiivvv",
        ] {
            assert_eq!(lost(other), None, "{other}");
        }
    }

    #[test]
    fn only_cut_answers_run_away() {
        let text = format!("{{{}", "\n ".repeat(20));
        let cut = Made {
            outcome: Outcome::Truncated,
            text: &text,
            ..made()
        };
        let run = [
            cut.clone(),
            Made {
                outcome: Outcome::Completed,
                ..cut.clone()
            },
            Made {
                text: "{ \n",
                ..cut
            },
        ];
        with_samples(&run, |samples| {
            assert_eq!(
                samples
                    .iter()
                    .filter(|sample| sample.white_space_run())
                    .count(),
                1
            );
        });
    }
}
