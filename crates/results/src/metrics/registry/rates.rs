//! Rates: shares of requests.

use super::{Better, Kind, Metric, Population, Unit};
use crate::metrics::quality::{
    breaks_before_cut, complied, is_correct, is_failure, is_taken_up, is_unjudged,
};
use sobench_core::case::Arm;
use sobench_core::observation::{Outcome, TOO_MANY_REQUESTS};
use sobench_core::verdict::{Reason, ToolCallFault, Verdict};
use sobench_facts::Sample;
use sobench_facts::parity::Parity;
use sobench_judge::accuracy::Grade;
use sobench_judge::canary::CanaryClass;

const CONSTRAINED: Population = Population::Arm(Arm::Constrained);

/// Share of valid answers among constrained requests that can be judged: answers with a verdict,
/// and rejected or failed requests.
pub static CORRECT_RATE: Metric = rate(
    "correct_rate",
    "correct rate",
    Better::Up,
    CONSTRAINED,
    |sample| is_correct(sample.verdict()),
);

/// Share of valid answers among answers that ended normally and have a verdict. An invalid one is
/// an error of the engine.
pub static COMPLIANCE: Metric = rate(
    "compliance",
    "compliance",
    Better::Up,
    CONSTRAINED,
    complied,
);

/// Share of requests that the server accepted (an answer, or the start of one), among those that
/// reached it and were not cancelled before.
pub static COVERAGE: Metric = rate("coverage", "coverage", Better::Up, CONSTRAINED, |sample| {
    is_taken_up(
        sample.outcome(),
        sample.request_times().first_content_ns.is_some(),
    )
});

/// Share of valid answers among requests of the control arm.
pub static CONTROL_RATE: Metric = rate(
    "control_rate",
    "control rate",
    Better::Neither,
    Population::Arm(Arm::Control),
    |sample| is_correct(sample.verdict()),
);

/// Share of valid answers among controls that ended normally and have a verdict.
pub static CONTROL_ENDED_RATE: Metric = rate(
    "control_ended_rate",
    "control, ended",
    Better::Neither,
    Population::Arm(Arm::Control),
    |sample| complied(sample).filter(|_| !breaks_before_cut(sample)),
);

/// Share of answers that vLLM's script counts as correct, among requests that it scores.
pub static VLLM_CORRECT_RATE: Metric = rate(
    "vllm_correct_rate",
    "vLLM's formula",
    Better::Up,
    Population::Every,
    |sample| sample.vllm_correct(),
);

/// Share of answers that are the expected call, among requests with an expected call.
pub static RIGHT_CALLS: Metric = rate(
    "right_calls",
    "right calls",
    Better::Up,
    CONSTRAINED,
    |sample| sample.right_call(),
);

/// Share of valid answers among answers with tool calls that have a verdict.
pub static CALL_VALIDITY: Metric = rate(
    "call_validity",
    "valid calls",
    Better::Up,
    CONSTRAINED,
    |sample| {
        sample.made_call().filter(|made| *made)?;
        is_correct(sample.verdict())
    },
);

/// Share of complete answers without a tool call among those to requests that make one due.
pub static MISSED_CALLS: Metric = rate(
    "missed_calls",
    "missed calls",
    Better::Down,
    CONSTRAINED,
    |sample| {
        sample.call_due().filter(|due| *due)?;
        let is_complete = *sample.outcome() == Outcome::Completed;
        sample.made_call().filter(|_| is_complete).map(|made| !made)
    },
);

/// Share of answers with a tool call among those to requests that make none due.
pub static FORBIDDEN_CALLS: Metric = rate(
    "forbidden_calls",
    "forbidden calls",
    Better::Down,
    CONSTRAINED,
    |sample| {
        sample.call_due().filter(|due| !due)?;
        sample.made_call()
    },
);

/// Share of answers with markup of tool calls in a text among answers to requests with tools.
pub static LEAKED_MARKUP_RATE: Metric = rate(
    "leaked_markup_rate",
    "leaked markup",
    Better::Down,
    CONSTRAINED,
    |sample| {
        sample.made_call()?;
        let is_leak = |reason: &Reason| {
            matches!(reason, Reason::ToolCall(ToolCallFault::LeakedMarkup { .. }))
        };
        Some(matches!(sample.verdict(), Verdict::Invalid { reason } if is_leak(reason)))
    },
);

/// Share of answers truncated at the token limit.
pub static TRUNCATED_RATE: Metric = rate(
    "truncated_rate",
    "truncated",
    Better::Down,
    CONSTRAINED,
    |sample| Some(*sample.outcome() == Outcome::Truncated && !breaks_before_cut(sample)),
);

/// Share of answers truncated at the token limit that follow their constraint all the same.
pub static WHOLE_TRUNCATED_RATE: Metric = rate(
    "whole_truncated_rate",
    "whole though cut",
    Better::Neither,
    CONSTRAINED,
    |sample| Some(sample.whole()),
);

/// Share of complete answers to which the server gave no finish reason.
pub static NO_FINISH_REASON_RATE: Metric = rate(
    "no_finish_reason_rate",
    "no finish reason",
    Better::Down,
    CONSTRAINED,
    |sample| Some(*sample.outcome() == Outcome::Completed && sample.finish_reason().is_none()),
);

/// Share of answers truncated at the token limit that end in white space.
pub static WHITE_SPACE_RATE: Metric = rate(
    "white_space_rate",
    "white-space runs",
    Better::Down,
    CONSTRAINED,
    |sample| Some(sample.white_space_run()),
);

/// Share of requests that the server or the model refused.
pub static REFUSED_RATE: Metric = rate(
    "refused_rate",
    "refused",
    Better::Down,
    CONSTRAINED,
    |sample| {
        Some(matches!(
            sample.outcome(),
            Outcome::Rejected { .. } | Outcome::Refused { .. } | Outcome::Unsupported { .. }
        ))
    },
);

/// Share of requests refused with status 429.
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

/// Share of requests that timed out, or failed in the server, the stream or the network.
pub static FAILED_RATE: Metric = rate(
    "failed_rate",
    "failed",
    Better::Down,
    CONSTRAINED,
    |sample| Some(is_failure(sample.outcome())),
);

/// Share of requests cancelled at the end of the run.
pub static CANCELLED_RATE: Metric = rate(
    "cancelled_rate",
    "cancelled",
    Better::Neither,
    CONSTRAINED,
    |sample| Some(*sample.outcome() == Outcome::Cancelled),
);

/// Share of requests without a connection on this machine.
pub static NOT_SENT_RATE: Metric = rate(
    "not_sent_rate",
    "not sent",
    Better::Down,
    CONSTRAINED,
    |sample| Some(sample.outcome().is_local()),
);

/// Share of answers without a verdict. They do not count in rates of verdicts.
pub static NOT_JUDGED_RATE: Metric = rate(
    "not_judged_rate",
    "not judged",
    Better::Down,
    CONSTRAINED,
    |sample| Some(is_unjudged(sample.verdict())),
);

/// Share of answers that are valid apart from the text around their JSON. They are not correct.
pub static VALID_IF_STRIPPED_RATE: Metric = rate(
    "valid_if_stripped_rate",
    "valid if stripped",
    Better::Neither,
    CONSTRAINED,
    |sample| {
        Some(matches!(
            sample.verdict(),
            Verdict::Invalid {
                reason: Reason::ExtraText {
                    valid_if_stripped: true,
                    ..
                }
            }
        ))
    },
);

/// Share of answers without reasoning among constrained answers whose request has a control with
/// reasoning.
pub static THINKING_SUPPRESSED: Metric = rate(
    "thinking_suppressed_rate",
    "thinking suppressed",
    Better::Down,
    CONSTRAINED,
    |sample| {
        let is_counted = sample.outcome().is_answer() && sample.control_has_reasoning()?;
        is_counted.then(|| !sample.has_reasoning())
    },
);

/// Share of answers with JSON in the reasoning and nothing else among answers with reasoning.
pub static JSON_IN_REASONING: Metric = rate(
    "json_in_reasoning_rate",
    "JSON in the reasoning",
    Better::Down,
    CONSTRAINED,
    |sample| {
        let is_counted = sample.outcome().is_answer() && sample.has_reasoning();
        is_counted.then(|| {
            sample
                .reasoning_facts()
                .is_some_and(|facts| facts.json_only)
        })
    },
);

/// Share of answers with a mark in the content that ends reasoning, among answers with reasoning or
/// such a mark.
pub static END_MARKER: Metric = rate(
    "end_marker_rate",
    "end marker in the content",
    Better::Down,
    CONSTRAINED,
    |sample| {
        let facts = sample.reasoning_facts();
        let is_counted =
            sample.outcome().is_answer() && (sample.has_reasoning() || facts.is_some());
        is_counted.then(|| facts.is_some_and(|facts| facts.end_marker))
    },
);

/// Share of answers that were cut at the token limit before the end of their reasoning, among
/// answers with reasoning.
pub static THINKING_BUDGET: Metric = rate(
    "thinking_budget_rate",
    "budget used by thinking",
    Better::Down,
    CONSTRAINED,
    |sample| {
        let is_counted = sample.outcome().is_answer() && sample.has_reasoning();
        let is_cut = *sample.outcome() == Outcome::Truncated;
        is_counted.then(|| is_cut && sample.request_times().first_answer_ns.is_none())
    },
);

/// Share of requests with the same answer streamed and whole, among those of which that is known.
pub static STREAM_PARITY: Metric = rate(
    "stream_parity_rate",
    "stream parity",
    Better::Up,
    Population::Every,
    |sample| match sample.parity()? {
        Parity::Equal => Some(true),
        Parity::Different { .. } => Some(false),
        Parity::NotDeterministic { .. } | Parity::Unconfirmed { .. } | Parity::NotCompared => None,
    },
);

/// Share of answers with another request's nonce among answers to canary requests.
pub static SWAPPED_RATE: Metric = rate(
    "swapped_rate",
    "swapped",
    Better::Down,
    CONSTRAINED,
    |sample| is_canary_class(sample, CanaryClass::Swapped),
);

/// Share of answers that leave the language of their constraint before its nonce, among answers to
/// canary requests.
pub static MASK_OFF_RATE: Metric = rate(
    "mask_off_rate",
    "mask off",
    Better::Down,
    CONSTRAINED,
    |sample| is_canary_class(sample, CanaryClass::MaskOff),
);

/// Share of answers that start again among answers to canary requests.
pub static RESTARTED_RATE: Metric = rate(
    "restarted_rate",
    "restarted",
    Better::Down,
    CONSTRAINED,
    |sample| is_canary_class(sample, CanaryClass::Restarted),
);

/// Share of answers that go on with other text after a start with their nonce, among answers to
/// canary requests.
pub static FAILED_OPEN_RATE: Metric = rate(
    "failed_open_rate",
    "failed open",
    Better::Down,
    CONSTRAINED,
    |sample| is_canary_class(sample, CanaryClass::FailedOpen),
);

/// Share of right answers among requests with a reference. Truncated, refused and failed requests
/// have no right answer. Requests that the client could not send, or that the end of the run cut
/// off, do not count. Of the arm `prompt+constraint`; the other arms have metrics of their own.
pub static ACCURACY: Metric = accuracy("accuracy", "accuracy", Arm::Constrained);

/// [`ACCURACY`] of the arm `free`.
pub static ACCURACY_FREE: Metric = accuracy("accuracy_free", "accuracy, free", Arm::Free);

/// [`ACCURACY`] of the arm `prompt`.
pub static ACCURACY_PROMPT: Metric = accuracy("accuracy_prompt", "accuracy, prompt", Arm::Control);

/// [`ACCURACY`] of the arm `constraint`.
pub static ACCURACY_CONSTRAINT: Metric = accuracy(
    "accuracy_constraint",
    "accuracy, constraint",
    Arm::ConstraintOnly,
);

/// [`ACCURACY`] of the arm `think+constraint`.
pub static ACCURACY_THINK: Metric = accuracy(
    "accuracy_think",
    "accuracy, think+constraint",
    Arm::ThinkConstraint,
);

/// Share of complete answers in which the scorer found nothing to compare, among requests with a
/// reference, as in [`ACCURACY`].
pub static UNPARSED_RATE: Metric = unparsed("unparsed_rate", "unparsed", Arm::Constrained);

/// [`UNPARSED_RATE`] of the arm `free`.
pub static UNPARSED_RATE_FREE: Metric = unparsed("unparsed_rate_free", "unparsed, free", Arm::Free);

/// [`UNPARSED_RATE`] of the arm `prompt`.
pub static UNPARSED_RATE_PROMPT: Metric =
    unparsed("unparsed_rate_prompt", "unparsed, prompt", Arm::Control);

/// [`UNPARSED_RATE`] of the arm `constraint`.
pub static UNPARSED_RATE_CONSTRAINT: Metric = unparsed(
    "unparsed_rate_constraint",
    "unparsed, constraint",
    Arm::ConstraintOnly,
);

/// [`UNPARSED_RATE`] of the arm `think+constraint`.
pub static UNPARSED_RATE_THINK: Metric = unparsed(
    "unparsed_rate_think",
    "unparsed, think+constraint",
    Arm::ThinkConstraint,
);

/// [`ACCURACY`] of the arm `compact`.
pub static ACCURACY_COMPACT: Metric =
    accuracy("accuracy_compact", "accuracy, compact", Arm::Compact);

/// [`ACCURACY`] of the arm `flexible`.
pub static ACCURACY_FLEXIBLE: Metric =
    accuracy("accuracy_flexible", "accuracy, flexible", Arm::Flexible);

/// [`UNPARSED_RATE`] of the arm `compact`.
pub static UNPARSED_RATE_COMPACT: Metric =
    unparsed("unparsed_rate_compact", "unparsed, compact", Arm::Compact);

/// [`UNPARSED_RATE`] of the arm `flexible`.
pub static UNPARSED_RATE_FLEXIBLE: Metric = unparsed(
    "unparsed_rate_flexible",
    "unparsed, flexible",
    Arm::Flexible,
);

/// The accuracy of each arm, and the rate of its unparsed answers, in the order of tables.
pub static ACCURACY_OF_ARMS: [(Arm, &Metric, &Metric); 7] = [
    (Arm::Free, &ACCURACY_FREE, &UNPARSED_RATE_FREE),
    (Arm::Control, &ACCURACY_PROMPT, &UNPARSED_RATE_PROMPT),
    (Arm::Constrained, &ACCURACY, &UNPARSED_RATE),
    (
        Arm::ConstraintOnly,
        &ACCURACY_CONSTRAINT,
        &UNPARSED_RATE_CONSTRAINT,
    ),
    (Arm::ThinkConstraint, &ACCURACY_THINK, &UNPARSED_RATE_THINK),
    (Arm::Compact, &ACCURACY_COMPACT, &UNPARSED_RATE_COMPACT),
    (Arm::Flexible, &ACCURACY_FLEXIBLE, &UNPARSED_RATE_FLEXIBLE),
];

fn is_canary_class(sample: &Sample<'_>, class: CanaryClass) -> Option<bool> {
    sample.canary().map(|answer| answer.class == class)
}

/// The accuracy of an arm.
const fn accuracy(name: &'static str, label: &'static str, arm: Arm) -> Metric {
    rate(name, label, Better::Up, Population::Arm(arm), is_right)
}

/// The rate of unparsed answers of an arm.
const fn unparsed(name: &'static str, label: &'static str, arm: Arm) -> Metric {
    rate(name, label, Better::Down, Population::Arm(arm), is_unparsed)
}

fn is_right(sample: &Sample<'_>) -> Option<bool> {
    sample.grade().map(|grade| grade == Grade::Right)
}

fn is_unparsed(sample: &Sample<'_>) -> Option<bool> {
    sample.grade().map(|grade| grade == Grade::Unparsed)
}

const fn rate(
    name: &'static str,
    label: &'static str,
    better: Better,
    among: Population,
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
