//! What a verdict and the end of a request say: whether an answer is correct, complies, or counts.

use schemars::JsonSchema;
use serde::Serialize;

use sobench_core::case::Arm;
use sobench_core::observation::{Outcome, TOO_MANY_REQUESTS};
use sobench_core::verdict::{NotScored, Reason, Verdict};
use sobench_facts::Sample;

/// Finish reasons of answers that the model ended normally: OpenAI's, and two of TGI.
const ENDED_BY_ITSELF: [&str; 4] = ["stop", "eos_token", "stop_sequence", "tool_calls"];

/// Why an answer is not correct.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    Invalid,
    Truncated,
    Refused,
    Failed,
}

impl Cause {
    /// The word for answers with this cause.
    pub fn name(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Truncated => "cut",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

/// Whether the answer to a constrained request is correct, or why not; `None` for requests that the
/// correct rate leaves out. An answer that violated its constraint before it was cut is invalid.
pub fn judged(sample: &Sample<'_>) -> Option<Result<(), Cause>> {
    if sample.arm() != Arm::Constrained {
        return None;
    }
    let is_overloaded = matches!(
        sample.outcome(),
        Outcome::Rejected {
            status: TOO_MANY_REQUESTS,
            ..
        }
    );
    match sample.verdict() {
        Verdict::Valid => Some(Ok(())),
        Verdict::Invalid {
            reason: Reason::Truncated,
        } => Some(Err(Cause::Truncated)),
        Verdict::Invalid { .. } => Some(Err(Cause::Invalid)),
        Verdict::NotScored {
            why: NotScored::Refused,
        } if !is_overloaded => Some(Err(Cause::Refused)),
        Verdict::NotScored {
            why: NotScored::Refused | NotScored::Failed,
        } => Some(Err(Cause::Failed)),
        Verdict::NotScored { .. } => None,
    }
}

/// Whether the server accepted a request, with an answer or the start of one. `None` if the request
/// did not reach the server, or was cancelled before.
pub fn is_taken_up(outcome: &Outcome, has_content: bool) -> Option<bool> {
    let is_taken_up = outcome.is_answer() || has_content;
    (is_taken_up || outcome.has_result()).then_some(is_taken_up)
}

/// Whether a verdict counts as correct. Rejected and failed requests do not; `None` if it cannot be
/// judged.
pub fn is_correct(verdict: &Verdict) -> Option<bool> {
    match verdict {
        Verdict::Valid => Some(true),
        Verdict::Invalid { .. }
        | Verdict::NotScored {
            why: NotScored::Refused | NotScored::Failed,
        } => Some(false),
        Verdict::NotScored { .. } => None,
    }
}

/// Whether an answer has no verdict.
pub fn is_unjudged(verdict: &Verdict) -> bool {
    let Verdict::NotScored { why } = verdict else {
        return false;
    };
    matches!(
        why,
        NotScored::NoConstraint | NotScored::Unsupported { .. } | NotScored::Limit { .. }
    )
}

/// Whether an answer that was cut at the token limit could not have become valid by any end.
pub fn breaks_before_cut(sample: &Sample<'_>) -> bool {
    *sample.outcome() == Outcome::Truncated && is_final_violation(sample.verdict())
}

fn is_final_violation(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Invalid { reason } if *reason != Reason::Truncated)
}

/// Whether an answer that ended normally and has a verdict is valid; `None` for other requests.
pub fn complied(sample: &Sample<'_>) -> Option<bool> {
    compliance(
        sample.arm(),
        sample.verdict(),
        sample.outcome().name(),
        sample.finish_reason(),
    )
}

/// As [`complied`], for an answer in a file; `outcome` is the name of its outcome. A complete answer
/// without a finish reason counts: the server ended it, and named no other reason. An answer that
/// was cut after it had broken its constraint does not comply, if the constraint was sent.
pub fn compliance(
    arm: Arm,
    verdict: &Verdict,
    outcome: &str,
    finish_reason: Option<&str>,
) -> Option<bool> {
    match outcome {
        "truncated" => (arm.sends_constraint() && is_final_violation(verdict)).then_some(false),
        "completed" => {
            let ended = finish_reason.is_none_or(|reason| ENDED_BY_ITSELF.contains(&reason));
            let is_judged = !matches!(verdict, Verdict::NotScored { .. });
            (ended && is_judged).then_some(*verdict == Verdict::Valid)
        }
        _ => None,
    }
}

/// Whether a request timed out, or failed in the server, the stream or the network.
pub fn is_failure(outcome: &Outcome) -> bool {
    use Outcome::{ServerError, StreamError, TimedOut, Transport};
    matches!(
        outcome,
        ServerError { .. } | StreamError { .. } | TimedOut { .. } | Transport { .. }
    ) && !outcome.is_local()
}
