//! Rates: shares of requests, those of constrained ones first of all.

use super::{Among, Better, Kind, Metric, Unit};
use crate::metrics::Sample;
use crate::metrics::quality::{complied, is_correct, is_failure, is_taken_up, is_unjudged};
use sobench_core::case::Arm;
use sobench_core::observation::{Outcome, TOO_MANY_REQUESTS};

const CONSTRAINED: Among = Among::Arm(Arm::Constrained);

/// Valid answers of constrained requests that can be judged: answers with a verdict, and requests
/// that were refused or failed.
pub static CORRECT_RATE: Metric = rate(
    "correct_rate",
    "correct rate",
    Better::Up,
    CONSTRAINED,
    |sample| is_correct(sample.verdict()),
);

/// Valid answers of those that ended by themselves and have a verdict: what is left is the engine's
/// own fault.
pub static COMPLIANCE: Metric = rate(
    "compliance",
    "compliance",
    Better::Up,
    CONSTRAINED,
    complied,
);

/// Requests that the server took up (an answer, or the start of one) of those that reached it and
/// were not stopped before.
pub static COVERAGE: Metric = rate("coverage", "coverage", Better::Up, CONSTRAINED, |sample| {
    is_taken_up(
        sample.outcome(),
        sample.moments().first_content_ns.is_some(),
    )
});

/// Valid answers of requests that were sent without their constraint.
pub static CONTROL_RATE: Metric = rate(
    "control_rate",
    "control rate",
    Better::Neither,
    Among::Arm(Arm::Control),
    |sample| is_correct(sample.verdict()),
);

/// What vLLM's script would call correct, of every request that it scores.
pub static VLLM_CORRECT_RATE: Metric = rate(
    "vllm_correct_rate",
    "vLLM's formula",
    Better::Up,
    Among::Every,
    |sample| sample.vllm_correct(),
);

/// Answers that are the call that the reference asks for, of requests whose reference is a call.
pub static RIGHT_CALLS: Metric = rate(
    "right_calls",
    "right calls",
    Better::Up,
    CONSTRAINED,
    |sample| sample.right_call(),
);

/// Answers cut at the token limit.
pub static TRUNCATED_RATE: Metric = rate(
    "truncated_rate",
    "truncated",
    Better::Down,
    CONSTRAINED,
    |sample| Some(*sample.outcome() == Outcome::Truncated),
);

/// Answers cut at the token limit that end in white space.
pub static WHITE_SPACE_RATE: Metric = rate(
    "white_space_rate",
    "white-space runs",
    Better::Down,
    CONSTRAINED,
    |sample| Some(sample.white_space_run()),
);

/// Requests that the server refused.
pub static REFUSED_RATE: Metric = rate(
    "refused_rate",
    "refused",
    Better::Down,
    CONSTRAINED,
    |sample| {
        Some(matches!(
            sample.outcome(),
            Outcome::Rejected { .. } | Outcome::Unsupported { .. }
        ))
    },
);

/// Requests that the server refused for its load or a limit on the rate: status 429.
pub static OVERLOADED_RATE: Metric = rate(
    "overloaded_rate",
    "refused for load",
    Better::Down,
    CONSTRAINED,
    |sample| {
        Some(matches!(
            sample.outcome(),
            Outcome::Rejected {
                status: TOO_MANY_REQUESTS,
                ..
            }
        ))
    },
);

/// Requests that failed in the server, in the stream, on the way, or by time.
pub static FAILED_RATE: Metric = rate(
    "failed_rate",
    "failed",
    Better::Down,
    CONSTRAINED,
    |sample| Some(is_failure(sample.outcome())),
);

/// Requests that the end of the run overtook.
pub static CANCELLED_RATE: Metric = rate(
    "cancelled_rate",
    "cancelled",
    Better::Neither,
    CONSTRAINED,
    |sample| Some(*sample.outcome() == Outcome::Cancelled),
);

/// Requests that this machine had no connection for.
pub static NOT_SENT_RATE: Metric = rate(
    "not_sent_rate",
    "not sent",
    Better::Down,
    CONSTRAINED,
    |sample| Some(sample.outcome().is_local()),
);

/// Answers without a verdict: they are in no rate of verdicts.
pub static NOT_JUDGED_RATE: Metric = rate(
    "not_judged_rate",
    "not judged",
    Better::Down,
    CONSTRAINED,
    |sample| Some(is_unjudged(sample.verdict())),
);

const fn rate(
    name: &'static str,
    label: &'static str,
    better: Better,
    among: Among,
    hit: fn(&Sample<'_>) -> Option<bool>,
) -> Metric {
    Metric {
        name,
        label,
        unit: Unit::Percent,
        better,
        kind: Kind::Rate { among, hit },
    }
}
