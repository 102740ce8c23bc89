//! Cost of the first use of a run's only constraint, on a server that has never compiled it,
//! measured before the run.
//!
//! In the run itself nothing is cold, since the trial request compiles the constraint. Three
//! requests with one prompt measure the cost: one without the constraint, so that the prompt and
//! the first request of the server do not count; one with it (*cold*); and one more (*warm*).

use super::context::ServerHistory;
use super::sending::Sending;
use sobench_backend::unsupported;
use sobench_core::case::{Arm, Case};
use sobench_core::error::Result;
use sobench_core::observation::Observation;
use sobench_notices::notice::{BenchNotice, Notice};

/// TTFTs of the first and the second use of a constraint, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FirstUse {
    pub cold_ttft_ms: f64,
    pub warm_ttft_ms: f64,
}

/// Measures the first use; `None` where it is not cold, or has no answer. Also returns the number
/// of requests.
///
/// # Errors
/// A request cannot be sent.
pub(super) async fn first_use(
    sending: &Sending<'_>,
    history: &ServerHistory,
    cases: &[Case],
) -> Result<(usize, Option<FirstUse>)> {
    let only = only_constraint(cases).filter(|_| sending.request.stream);
    let Some(cold) = only.filter(|case| {
        is_new(case, history) && unsupported(sending.adapter.kind(), case).is_none()
    }) else {
        return Ok((0, None));
    };
    let opener = Case {
        arm: Arm::Control,
        ..cold.clone()
    };
    let mut ttfts_ms = Vec::new();
    for (sent, (case, label)) in [
        (&opener, "opener"),
        (cold, "first-use"),
        (cold, "second-use"),
    ]
    .into_iter()
    .enumerate()
    {
        let Some(ttft_ms) = ttft_ms(&sending.send(case, label).await?) else {
            return Ok((sent + 1, None));
        };
        ttfts_ms.push(ttft_ms);
    }
    let found = FirstUse {
        cold_ttft_ms: ttfts_ms[1],
        warm_ttft_ms: ttfts_ms[2],
    };
    Ok((ttfts_ms.len(), Some(found)))
}

impl FirstUse {
    /// The notice on this cost.
    pub(super) fn notice(self) -> Notice {
        BenchNotice::FirstUse {
            cold_ttft_ms: self.cold_ttft_ms,
            warm_ttft_ms: self.warm_ttft_ms,
        }
        .into()
    }
}

fn is_new(case: &Case, history: &ServerHistory) -> bool {
    case.constraint
        .as_ref()
        .is_some_and(|constraint| history.excludes(&constraint.fingerprint()))
}

/// The first constrained case of a run with a single constraint.
fn only_constraint(cases: &[Case]) -> Option<&Case> {
    let constrained = || cases.iter().filter(|case| case.arm.sends_constraint());
    let first = constrained().next()?;
    constrained()
        .all(|case| case.constraint == first.constraint)
        .then_some(first)
}

/// The TTFT of a streamed answer.
pub(super) fn ttft_ms(seen: &Observation) -> Option<f64> {
    let timing = &seen.timing;
    let is_timed = seen.outcome.is_answer() && timing.streamed;
    let first_ns = timing.first_content_ns().filter(|_| is_timed)?;
    Some(first_ns.checked_sub(timing.sent_ns?)? as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;

    use super::*;
    use sobench_core::answer::Answer;
    use sobench_core::case::Prompt;
    use sobench_core::constraint::Constraint;
    use sobench_core::observation::{Outcome, Timing};

    fn case(regex: &str, arm: Arm) -> Case {
        Case {
            arm,
            ..Case::new(
                "t-0",
                Prompt::Text("?".into()),
                Some(Arc::new(Constraint::Regex(regex.into()))),
                8,
            )
        }
    }

    #[test]
    fn first_use_needs_one_new_constraint() {
        let asks = |cases: &[Case], history: &ServerHistory| {
            only_constraint(cases).is_some_and(|case| is_new(case, history))
        };
        let one = [
            case("a", Arm::Control),
            case("a", Arm::Constrained),
            case("a", Arm::Constrained),
        ];
        let nothing = ServerHistory {
            sent: HashSet::new(),
            is_whole: true,
        };
        let sent = one[1]
            .constraint
            .as_ref()
            .map(|constraint| constraint.fingerprint());
        for (cases, history, expected) in [
            (&one[..], &nothing, true),
            (
                &one[..],
                &ServerHistory {
                    sent: sent.into_iter().collect(),
                    is_whole: true,
                },
                false,
            ),
            (&one[..], &ServerHistory::default(), false),
            (
                &[case("a", Arm::Constrained), case("b", Arm::Constrained)],
                &nothing,
                false,
            ),
            (&one[..1], &nothing, false),
        ] {
            assert_eq!(asks(cases, history), expected, "{history:?}");
        }
    }

    #[test]
    fn the_time_is_from_sent_to_first_content() {
        let timing = Timing {
            sent_ns: Some(2_000_000),
            chunks_ns: vec![5_500_000, 9_000_000],
            streamed: true,
            ..Timing::default()
        };
        let seen = Observation {
            case_index: 0,
            outcome: Outcome::Completed,
            timing,
            answer: Answer::default(),
            finish_reason: None,
            usage: None,
        };
        assert_eq!(ttft_ms(&seen), Some(3.5));
        assert_eq!(
            ttft_ms(&Observation {
                outcome: Outcome::Cancelled,
                ..seen.clone()
            }),
            None
        );
        assert_eq!(
            ttft_ms(&Observation {
                timing: Timing::default(),
                ..seen
            }),
            None
        );
    }
}
