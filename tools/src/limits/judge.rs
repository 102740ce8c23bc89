//! What the steps of a ladder show.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Cancelled, End, Latencies, Step, StepOutcome};

/// How much longer than a small constraint a step may take to its first token until it is slow.
pub const SLOW_MS: f64 = 1000.0;

/// Other requests wait for a step if one of them takes longer than before by at least this time, and
/// by at least this share of the step.
pub const STALL_MS: f64 = 500.0;
pub const STALL_SHARE: f64 = 0.25;

/// What a ladder shows.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Dies,
    Hangs,
    KeepsCompiling,
    StallsOthers,
    StaysSlow,
    ServerError,
    Slow,
    RefusesLate,
    FailsFast,
    Fine,
    NotCarried,
    NotTested,
}

impl Verdict {
    /// Every verdict, the worst first.
    pub const ALL: [Self; 12] = [
        Self::Dies,
        Self::Hangs,
        Self::KeepsCompiling,
        Self::StallsOthers,
        Self::StaysSlow,
        Self::ServerError,
        Self::Slow,
        Self::RefusesLate,
        Self::FailsFast,
        Self::Fine,
        Self::NotCarried,
        Self::NotTested,
    ];

    /// The name used in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dies => "dies",
            Self::Hangs => "hangs",
            Self::KeepsCompiling => "keeps compiling",
            Self::StallsOthers => "stalls others",
            Self::StaysSlow => "stays slow",
            Self::ServerError => "server error",
            Self::Slow => "slow",
            Self::RefusesLate => "refuses late",
            Self::FailsFast => "fails fast",
            Self::Fine => "fine",
            Self::NotCarried => "not supported",
            Self::NotTested => "not tested",
        }
    }

    /// The meaning, for the legend of tables.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Dies => "the server accepts no connections after the step",
            Self::Hangs => {
                "after a cancelled request, no request with a small constraint was answered within the time limit"
            }
            Self::KeepsCompiling => {
                "after a cancelled request, the server worked on for as long as it was watched, by its metrics or its CPU time"
            }
            Self::StallsOthers => {
                "small requests without a constraint waited for this one, in two attempts"
            }
            Self::StaysSlow => {
                "after a cancelled request, small constraints took 1 s longer than before for as long as the server was watched"
            }
            Self::ServerError => "status 5xx, an error in the stream, or a lost connection",
            Self::Slow => {
                "from this size on, the first token takes 1 s longer than with a small constraint"
            }
            Self::RefusesLate => "the refusal takes 1 s longer than a small constraint",
            Self::FailsFast => "the server refuses the next size with a message at once",
            Self::Fine => "every size was accepted, up to the largest or to the limit on a request",
            Self::NotCarried => "this kind of server has no field for the constraint",
            Self::NotTested => "the ladder was not started or not ended, for the stated reason",
        }
    }

    /// Whether the server harms other requests, or does not come back.
    pub fn is_bad(self) -> bool {
        matches!(
            self,
            Self::Dies | Self::Hangs | Self::KeepsCompiling | Self::StallsOthers
        )
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The verdicts of a ladder that was tested, the worst first.
pub(super) fn verdicts(
    steps: &[Step],
    end: End,
    cancelled: Option<&Cancelled>,
    small_constraint: &Latencies,
) -> Vec<Verdict> {
    let is_slow = |ms: f64| is_slow(ms, small_constraint);
    let refused = steps
        .last()
        .filter(|step| step.outcome == StepOutcome::Refused);
    let applies = |verdict: Verdict| match verdict {
        Verdict::Dies => end == End::Died,
        Verdict::Hangs => {
            end != End::Died && cancelled.is_some_and(|cancelled| cancelled.answered_ms.is_none())
        }
        Verdict::StaysSlow => cancelled.is_some_and(|cancelled| {
            cancelled.answered_ms.is_some() && cancelled.recovered_ms.is_none()
        }),
        Verdict::KeepsCompiling => {
            end != End::Died && cancelled.is_some_and(|cancelled| cancelled.is_working)
        }
        Verdict::StallsOthers => steps.iter().any(|step| step.stalls_others),
        Verdict::ServerError => end == End::ServerError,
        Verdict::Slow => slow_from(steps, small_constraint).is_some(),
        Verdict::RefusesLate => refused.is_some_and(|step| is_slow(step.end_ms)),
        Verdict::FailsFast => refused.is_some_and(|step| !is_slow(step.end_ms)),
        Verdict::Fine | Verdict::NotCarried | Verdict::NotTested => false,
    };
    let mut found: Vec<Verdict> = Verdict::ALL
        .into_iter()
        .filter(|verdict| applies(*verdict))
        .collect();
    if found.is_empty() {
        found.push(match end {
            End::NotTested => Verdict::NotTested,
            _ => Verdict::Fine,
        });
    }
    found
}

/// The smallest size from which on every step is slow or without an answer in time, so that one pause
/// of the machine does not count.
pub fn slow_from(steps: &[Step], small_constraint: &Latencies) -> Option<u64> {
    let is_slow = |step: &&Step| match step.outcome {
        StepOutcome::Accepted => step.ttft_ms.is_some_and(|ms| is_slow(ms, small_constraint)),
        StepOutcome::TimedOut => true,
        _ => false,
    };
    let answered = steps
        .iter()
        .rev()
        .filter(|step| matches!(step.outcome, StepOutcome::Accepted | StepOutcome::TimedOut));
    answered.take_while(is_slow).last().map(|step| step.size)
}

fn is_slow(ms: f64, small_constraint: &Latencies) -> bool {
    ms > small_constraint.median_ms + SLOW_MS
}

/// Whether small requests waited for a step of this duration.
pub(super) fn is_stall(before: &Latencies, during: &Latencies, step_ms: f64) -> bool {
    during.worst_ms - before.worst_ms >= STALL_MS.max(STALL_SHARE * step_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Latencies = Latencies {
        requests: 5,
        failed: 0,
        median_ms: 20.0,
        worst_ms: 40.0,
    };

    fn step(size: u64, outcome: StepOutcome, ms: f64) -> Step {
        Step {
            size,
            request_bytes: 100,
            outcome,
            status: None,
            message: String::new(),
            ttft_ms: (outcome == StepOutcome::Accepted).then_some(ms),
            end_ms: ms,
            neighbours: None,
            stalls_others: false,
            memory_before_bytes: None,
            memory_after_bytes: None,
        }
    }

    fn cancelled(
        answered_ms: Option<f64>,
        recovered_ms: Option<f64>,
        is_working: bool,
    ) -> Cancelled {
        Cancelled {
            size: 8,
            after_ms: 100.0,
            watched_ms: 1000.0,
            answered_ms,
            recovered_ms,
            worked_ms: Some(1000.0),
            is_working,
        }
    }

    #[test]
    fn every_verdict_has_its_evidence() {
        use StepOutcome::{Accepted, Refused, TimedOut};
        let quick = step(4, Accepted, 30.0);
        let judged = |last: Step, end, cancelled: Option<Cancelled>| {
            verdicts(&[quick.clone(), last], end, cancelled.as_ref(), &SMALL)
        };
        let calm = Some(cancelled(Some(5.0), Some(5.0), false));
        for (last, end, cancelled, expected) in [
            (
                step(8, Accepted, 30.0),
                End::LargestSize,
                None,
                vec![Verdict::Fine],
            ),
            (
                step(8, Refused, 30.0),
                End::Refused,
                None,
                vec![Verdict::FailsFast],
            ),
            (
                step(8, Refused, 3000.0),
                End::Refused,
                None,
                vec![Verdict::RefusesLate],
            ),
            (
                step(8, Accepted, 3000.0),
                End::RequestSize,
                calm,
                vec![Verdict::Slow],
            ),
            (
                step(8, TimedOut, 10_000.0),
                End::TimedOut,
                calm,
                vec![Verdict::Slow],
            ),
            (
                step(8, TimedOut, 10_000.0),
                End::TimedOut,
                Some(cancelled(None, None, true)),
                vec![Verdict::Hangs, Verdict::KeepsCompiling, Verdict::Slow],
            ),
            (
                step(8, Accepted, 30.0),
                End::NotTested,
                None,
                vec![Verdict::NotTested],
            ),
            (
                step(8, Accepted, 900.0),
                End::LargestSize,
                Some(cancelled(Some(1500.0), None, true)),
                vec![Verdict::KeepsCompiling, Verdict::StaysSlow],
            ),
            (
                step(8, StepOutcome::Lost, 1.0),
                End::Died,
                None,
                vec![Verdict::Dies],
            ),
            (
                step(8, StepOutcome::Lost, 1.0),
                End::ServerError,
                None,
                vec![Verdict::ServerError],
            ),
            (
                Step {
                    stalls_others: true,
                    ..step(8, Accepted, 900.0)
                },
                End::LargestSize,
                None,
                vec![Verdict::StallsOthers],
            ),
        ] {
            assert_eq!(judged(last.clone(), end, cancelled), expected, "{last:?}");
        }
        let steps = [quick, step(8, Accepted, 3000.0), step(16, TimedOut, 1.0)];
        assert_eq!(slow_from(&steps, &SMALL), Some(8));
        let pause = [step(4, Accepted, 3000.0), step(8, Accepted, 30.0)];
        assert_eq!(slow_from(&pause, &SMALL), None, "later sizes are fast");
        assert!(Verdict::ALL.is_sorted());
    }

    #[test]
    fn a_stall_is_longer_than_noise_and_part_of_the_step() {
        let during = |worst_ms| Latencies { worst_ms, ..SMALL };
        assert!(is_stall(&SMALL, &during(600.0), 700.0));
        assert!(
            !is_stall(&SMALL, &during(600.0), 9000.0),
            "a hiccup in a long step"
        );
        assert!(
            !is_stall(&SMALL, &during(200.0), 200.0),
            "as short as noise"
        );
    }
}
