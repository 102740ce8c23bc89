//! Rates: shares of requests.

use super::{Better, Metric, MetricKind, Shown, Unit};
use crate::metrics::judgement::{
    breaks_before_cut, complied, is_correct, is_failure, is_taken_up, is_unjudged,
};
use sobench_core::case::Arm;
use sobench_core::departure::Departures;
use sobench_core::observation::{Outcome, TOO_MANY_REQUESTS};
use sobench_core::verdict::{Reason, ToolCallFault, Verdict};
use sobench_facts::Sample;
use sobench_facts::parity::Parity;
use sobench_judge::accuracy::Grade;
use sobench_judge::canary::CanaryClass;

/// Share of valid answers among constrained requests that can be judged: answers with a verdict,
/// and rejected or failed requests.
pub static CORRECT_RATE: Metric = rate("correct_rate", "correct rate", Better::Up, |sample| {
    is_correct(sample.verdict())
})
.shown(Shown::Always)
.also_of(&[Arm::Control])
.of_what("valid, of constrained");

/// Share of valid answers among answers that ended normally and have a verdict. An invalid one is
/// an error of the engine, except in an arm that sends no constraint.
pub static COMPLIANCE: Metric = rate("compliance", "compliance", Better::Up, complied)
    .shown(Shown::Always)
    .also_of(&[Arm::Control])
    .of_what("valid, of answers that ended");

/// Share of requests that the server accepted (an answer, or the start of one), among those that
/// reached it and were not cancelled before.
pub static COVERAGE: Metric = rate("coverage", "coverage", Better::Up, |sample| {
    is_taken_up(
        sample.outcome(),
        sample.request_times().first_content_ns.is_some(),
    )
})
.shown(Shown::Always)
.of_what("accepted by the server");

/// Share of answers that vLLM's script counts as correct, among requests that it scores.
pub static VLLM_CORRECT_RATE: Metric = rate(
    "vllm_correct_rate",
    "vLLM's formula",
    Better::Up,
    |sample| sample.vllm_correct(),
)
.of_arm(None)
.shown(Shown::Always)
.of_what("its script, all arms");

/// Share of answers that are the expected call, among requests with an expected call.
pub static RIGHT_CALLS: Metric = rate("right_calls", "right calls", Better::Up, |sample| {
    sample.right_call()
})
.of_what("as the reference, of constrained");

/// Share of valid answers among answers with tool calls that have a verdict.
pub static CALL_VALIDITY: Metric = rate("call_validity", "valid calls", Better::Up, |sample| {
    sample.made_call().filter(|made| *made)?;
    is_correct(sample.verdict())
})
.of_what("of answers with tool calls");

/// Share of complete answers without a tool call among those to requests that make one due.
pub static MISSED_CALLS: Metric = rate("missed_calls", "missed calls", Better::Down, |sample| {
    sample.call_due().filter(|due| *due)?;
    let is_complete = *sample.outcome() == Outcome::Completed;
    sample.made_call().filter(|_| is_complete).map(|made| !made)
})
.of_what("without a call, of those due");

/// Share of answers with a tool call among those to requests that make none due.
pub static FORBIDDEN_CALLS: Metric = rate(
    "forbidden_calls",
    "forbidden calls",
    Better::Down,
    |sample| {
        sample.call_due().filter(|due| !due)?;
        sample.made_call()
    },
)
.of_what("with a call, of those not due");

/// Share of answers with markup of tool calls in a text among answers to requests with tools.
pub static LEAKED_MARKUP_RATE: Metric = rate(
    "leaked_markup_rate",
    "leaked markup",
    Better::Down,
    |sample| {
        sample.made_call()?;
        let is_leak = |reason: &Reason| {
            matches!(reason, Reason::ToolCall(ToolCallFault::LeakedMarkup { .. }))
        };
        Some(matches!(sample.verdict(), Verdict::Invalid { reason } if is_leak(reason)))
    },
)
.of_what("of answers with tools");

/// Share of calls that were due and made, among complete answers to which a call was due or which have
/// one: the Jaccard index of [`super::totals::TRIGGER_F1`].
pub static TRIGGER_AGREEMENT: Metric = rate(
    "trigger_agreement",
    "agreeing calls",
    Better::Up,
    |sample| {
        let due = sample.call_due()?;
        let is_complete = *sample.outcome() == Outcome::Completed;
        let made = sample.made_call().filter(|made| *made || is_complete)?;
        (due || made).then_some(due && made)
    },
)
.shown(Shown::InFiles)
.of_what("due and made, of those due or made");

/// Share of answers with an error of tool calls as OpenRouter counts them, among answers with a tool
/// call: arguments that are not JSON, the name of no tool, arguments that violate the schema
/// (<https://openrouter.ai/docs/guides/features/tool-calling>). One such call makes the answer count.
pub static TOOL_CALL_ERROR_RATE: Metric = rate(
    "tool_call_error_rate",
    "tool-call errors",
    Better::Down,
    |sample| {
        sample.made_call().filter(|made| *made)?;
        let is_error = |reason: &Reason| {
            matches!(
                reason,
                Reason::ToolCall(
                    ToolCallFault::UnknownTool { .. }
                        | ToolCallFault::InvalidArguments { .. }
                        | ToolCallFault::ArgumentsNotText { .. }
                )
            )
        };
        match sample.verdict() {
            Verdict::Valid => Some(false),
            Verdict::Invalid { reason } => Some(is_error(reason)),
            Verdict::NotScored { .. } => None,
        }
    },
)
.shown(Shown::InFiles)
.of_what("of answers with tool calls");

/// Share of answers with a departure that the API forbids.
pub static DEPARTURE_RATE: Metric = rate(
    "departure_rate",
    "departures from the API",
    Better::Down,
    |sample| {
        sample.outcome().is_answer().then(|| {
            let found = sample.departures();
            found.is_some_and(Departures::has_forbidden)
        })
    },
)
.shown(Shown::InFiles);

/// Share of answers truncated at the token limit.
pub static TRUNCATED_RATE: Metric = rate("truncated_rate", "truncated", Better::Down, |sample| {
    Some(*sample.outcome() == Outcome::Truncated && !breaks_before_cut(sample))
})
.shown(Shown::Always)
.of_what("constrained, cut at the token limit");

/// Share of answers truncated at the token limit that follow their constraint all the same.
pub static WHOLE_TRUNCATED_RATE: Metric = rate(
    "whole_truncated_rate",
    "whole though cut",
    Better::Neither,
    |sample| Some(sample.whole()),
)
.shown(Shown::AboveZero)
.of_what("constrained, not in the correct rate");

/// Share of complete answers to which the server gave no finish reason.
pub static NO_FINISH_REASON_RATE: Metric = rate(
    "no_finish_reason_rate",
    "no finish reason",
    Better::Down,
    |sample| Some(*sample.outcome() == Outcome::Completed && sample.finish_reason().is_none()),
)
.shown(Shown::AboveZero)
.of_what("constrained, in the compliance");

/// Share of answers truncated at the token limit that end in white space.
pub static WHITE_SPACE_RATE: Metric = rate(
    "white_space_rate",
    "white-space runs",
    Better::Down,
    |sample| Some(sample.white_space_run()),
)
.shown(Shown::AboveZero);

/// Share of requests that the server or the model refused.
pub static REFUSED_RATE: Metric = rate("refused_rate", "refused", Better::Down, |sample| {
    Some(matches!(
        sample.outcome(),
        Outcome::Rejected { .. } | Outcome::Refused { .. } | Outcome::Unsupported { .. }
    ))
})
.shown(Shown::Always)
.of_what("constrained, by server or model");

/// Share of requests refused with status 429.
pub static OVERLOADED_RATE: Metric = rate(
    "overloaded_rate",
    "refused for load",
    Better::Down,
    |sample| {
        Some(matches!(
            sample.outcome(),
            Outcome::Rejected {
                status: TOO_MANY_REQUESTS,
                ..
            }
        ))
    },
)
.shown(Shown::AboveZero)
.of_what("constrained, by status 429");

/// Share of requests that timed out, or failed in the server, the stream or the network.
pub static FAILED_RATE: Metric = rate("failed_rate", "failed", Better::Down, |sample| {
    Some(is_failure(sample.outcome()))
})
.shown(Shown::Always)
.of_what("constrained, no complete answer");

/// Share of requests cancelled at the end of the run.
pub static CANCELLED_RATE: Metric =
    rate("cancelled_rate", "cancelled", Better::Neither, |sample| {
        Some(*sample.outcome() == Outcome::Cancelled)
    })
    .shown(Shown::AboveZero)
    .of_what("constrained, the run stopped");

/// Share of requests without a connection on this machine.
pub static NOT_SENT_RATE: Metric = rate("not_sent_rate", "not sent", Better::Down, |sample| {
    Some(sample.outcome().is_local())
})
.shown(Shown::AboveZero)
.of_what("constrained, no local connection");

/// Share of answers without a verdict. They do not count in rates of verdicts.
pub static NOT_JUDGED_RATE: Metric =
    rate("not_judged_rate", "not judged", Better::Down, |sample| {
        Some(is_unjudged(sample.verdict()))
    })
    .shown(Shown::Always)
    .of_what("constrained, in no rate");

/// Share of answers that are valid apart from the text around their JSON. They are not correct.
pub static VALID_IF_STRIPPED_RATE: Metric = rate(
    "valid_if_stripped_rate",
    "valid if stripped",
    Better::Neither,
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
)
.shown(Shown::AboveZero)
.of_what("constrained, not in the correct rate");

/// Share of answers with reasoning among answers.
pub static REASONED: Metric = rate(
    "reasoned_rate",
    "with reasoning",
    Better::Neither,
    |sample| {
        let is_answer = sample.outcome().is_answer();
        is_answer.then(|| sample.has_reasoning())
    },
)
.shown(Shown::InFiles);

/// Share of answers without reasoning among constrained answers whose request has a control with
/// reasoning.
pub static THINKING_SUPPRESSED: Metric = rate(
    "thinking_suppressed_rate",
    "thinking suppressed",
    Better::Down,
    |sample| {
        let is_counted = sample.outcome().is_answer() && sample.control_has_reasoning()?;
        is_counted.then(|| !sample.has_reasoning())
    },
)
.of_what("of answers whose control has reasoning");

/// Share of answers with JSON in the reasoning and nothing else among answers with reasoning.
pub static JSON_IN_REASONING: Metric = rate(
    "json_in_reasoning_rate",
    "JSON in the reasoning",
    Better::Down,
    |sample| {
        let is_counted = sample.outcome().is_answer() && sample.has_reasoning();
        is_counted.then(|| {
            sample
                .reasoning_facts()
                .is_some_and(|facts| facts.json_only)
        })
    },
)
.of_what("of answers with reasoning");

/// Share of answers with a mark in the content that ends reasoning, among answers with reasoning or
/// such a mark.
pub static END_MARKER: Metric = rate(
    "end_marker_rate",
    "end marker in the content",
    Better::Down,
    |sample| {
        let facts = sample.reasoning_facts();
        let is_counted =
            sample.outcome().is_answer() && (sample.has_reasoning() || facts.is_some());
        is_counted.then(|| facts.is_some_and(|facts| facts.end_marker))
    },
)
.of_what("of answers with reasoning");

/// Share of answers that were cut at the token limit before the end of their reasoning, among
/// answers with reasoning.
pub static THINKING_BUDGET: Metric = rate(
    "thinking_budget_rate",
    "budget used by thinking",
    Better::Down,
    |sample| {
        let is_counted = sample.outcome().is_answer() && sample.has_reasoning();
        let is_cut = *sample.outcome() == Outcome::Truncated;
        is_counted.then(|| is_cut && sample.request_times().first_answer_ns.is_none())
    },
)
.of_what("of answers with reasoning");

/// Share of requests with the same answer streamed and whole, among those of which that is known.
pub static STREAM_PARITY: Metric = rate(
    "stream_parity_rate",
    "stream parity",
    Better::Up,
    |sample| match sample.parity()? {
        Parity::Equal => Some(true),
        Parity::Different { .. } => Some(false),
        Parity::NotDeterministic { .. } | Parity::Unconfirmed { .. } | Parity::NotCompared => None,
    },
)
.of_arm(None)
.of_what("equal streamed and whole, all arms");

/// Share of answers with another request's nonce among answers to canary requests.
pub static SWAPPED_RATE: Metric = rate("swapped_rate", "swapped", Better::Down, |sample| {
    is_canary_class(sample, CanaryClass::Swapped)
});

/// Share of answers that leave the language of their constraint before its nonce, among answers to
/// canary requests.
pub static MASK_OFF_RATE: Metric = rate("mask_off_rate", "mask off", Better::Down, |sample| {
    is_canary_class(sample, CanaryClass::MaskOff)
});

/// Share of answers that start again among answers to canary requests.
pub static RESTARTED_RATE: Metric = rate("restarted_rate", "restarted", Better::Down, |sample| {
    is_canary_class(sample, CanaryClass::Restarted)
});

/// Share of answers that go on with other text after a start with their nonce, among answers to
/// canary requests.
pub static FAILED_OPEN_RATE: Metric =
    rate("failed_open_rate", "failed open", Better::Down, |sample| {
        is_canary_class(sample, CanaryClass::FailedOpen)
    });

/// Share of right answers among requests with a reference. Truncated, refused and failed requests
/// have no right answer. Requests that the client could not send, or that the end of the run cut
/// off, do not count.
pub static ACCURACY: Metric = rate("accuracy", "accuracy", Better::Up, |sample| {
    sample.grade().map(|grade| grade == Grade::Right)
})
.also_of(&OTHER_ARMS)
.of_what("right, of requests with a reference");

/// Share of complete answers in which the scorer found nothing to compare, among requests with a
/// reference, as in [`ACCURACY`].
pub static UNPARSED_RATE: Metric = rate("unparsed_rate", "unparsed", Better::Down, |sample| {
    sample.grade().map(|grade| grade == Grade::Unparsed)
})
.also_of(&OTHER_ARMS)
.of_what("nothing to compare");

/// The arms beside `prompt+constraint`.
const OTHER_ARMS: [Arm; 6] = [
    Arm::Free,
    Arm::Control,
    Arm::ConstraintOnly,
    Arm::ThinkConstraint,
    Arm::Compact,
    Arm::Flexible,
];

/// The arms in the order of tables of accuracy.
pub const ARMS_BY_ACCURACY: [Arm; 7] = [
    Arm::Free,
    Arm::Control,
    Arm::Constrained,
    Arm::ConstraintOnly,
    Arm::ThinkConstraint,
    Arm::Compact,
    Arm::Flexible,
];

fn is_canary_class(sample: &Sample<'_>, class: CanaryClass) -> Option<bool> {
    sample.canary().map(|answer| answer.class == class)
}

/// A rate of constrained requests.
const fn rate(
    name: &'static str,
    label: &'static str,
    better: Better,
    hit: fn(&Sample<'_>) -> Option<bool>,
) -> Metric {
    Metric::new(name, label, Unit::Percent, better, MetricKind::Rate(hit))
        .of_arm(Some(Arm::Constrained))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::metrics::registry::{Figure, Group, GroupValues, Values};
    use crate::metrics::summarise;
    use sobench_core::answer::Channel;
    use sobench_core::constraint::Constraint;
    use sobench_core::observation::TransportCause;
    use sobench_core::verdict::NotScored;
    use sobench_facts::testing::{TestRequest, test_request, with_cases, with_samples};
    use sobench_plan::metrics::MetricsSettings;

    fn values(run: &[TestRequest<'_>]) -> Values {
        with_samples(run, |samples| {
            summarise(samples, 1, &MetricsSettings::default()).values
        })
    }

    fn invalid(reason: Reason) -> Verdict {
        Verdict::Invalid { reason }
    }

    fn not_scored_as(why: NotScored) -> Verdict {
        Verdict::NotScored { why }
    }

    fn counts(values: &Values, metric: &Metric) -> Option<(usize, usize)> {
        values.rate(metric).map(|rate| (rate.hits, rate.of))
    }

    #[test]
    fn requests_with_tools_have_rates_by_choice() {
        let tools = |choice: &str| {
            let set = json!({
                "tools": [{"type": "function", "function": {"name": "f"}}],
                "tool_choice": choice,
            });
            let constraint: Constraint = serde_json::from_value(json!({ "tools": set })).unwrap();
            Some(Arc::new(constraint))
        };
        let answer = |made: bool, due: Option<bool>| TestRequest {
            made_call: Some(made),
            call_due: due,
            right_call: due.map(|due| due == made),
            ..test_request()
        };
        let leak = ToolCallFault::LeakedMarkup {
            channel: Channel::Content,
            markup: "<tool_call".to_owned(),
            byte: 0,
        };
        let forbidden = ToolCallFault::CallUnderNone {
            name: "f".to_owned(),
        };
        let run = [
            answer(true, Some(true)),
            answer(false, Some(true)),
            answer(true, Some(false)),
            TestRequest {
                verdict: invalid(Reason::ToolCall(leak)),
                ..answer(false, None)
            },
            TestRequest {
                verdict: invalid(Reason::ToolCall(forbidden)),
                ..answer(true, Some(false))
            },
            TestRequest {
                outcome: Outcome::Truncated,
                verdict: invalid(Reason::Truncated),
                ..answer(false, Some(true))
            },
            test_request(),
        ];
        let rates = [
            &CORRECT_RATE,
            &CALL_VALIDITY,
            &RIGHT_CALLS,
            &MISSED_CALLS,
            &FORBIDDEN_CALLS,
            &LEAKED_MARKUP_RATE,
        ];
        let change = |index: usize, case: &mut sobench_core::case::Case| match index {
            0..=3 | 5 => case.constraint = tools("auto"),
            4 => case.constraint = tools("none"),
            _ => {}
        };
        let found = with_cases(&run, change, |samples| {
            ["auto", "none"].map(|choice| {
                let group = Group {
                    tool_choice: Some(choice),
                    ..Group::of_arm(Arm::Constrained)
                };
                let options = MetricsSettings::default();
                let found = GroupValues::new(group, samples, 1, &options).unwrap();
                rates.map(|metric| counts(&found.values, metric))
            })
        });
        // Correct, valid calls, right calls, missed, forbidden, leaked.
        let auto = [
            Some((3, 5)),
            Some((2, 2)),
            Some((1, 4)),
            Some((1, 2)),
            Some((1, 1)),
            Some((1, 5)),
        ];
        let none = [
            Some((0, 1)),
            Some((0, 1)),
            Some((0, 1)),
            None,
            Some((1, 1)),
            Some((0, 1)),
        ];
        assert_eq!(found, [auto, none]);
    }

    /// Constrained requests with every possible outcome.
    fn every_end() -> Vec<TestRequest<'static>> {
        let refused = Outcome::Rejected {
            status: 400,
            body: "no".into(),
            advice: None,
        };
        let error = Outcome::ServerError {
            status: 500,
            body: "oops".into(),
            advice: None,
        };
        let none = |outcome: Outcome, why: NotScored| TestRequest {
            outcome,
            verdict: not_scored_as(why),
            chunks: vec![],
            text: "",
            finish_reason: None,
            vllm_correct: Some(false),
            ..test_request()
        };
        vec![
            test_request(),
            TestRequest {
                verdict: invalid(Reason::Choice),
                ..test_request()
            },
            TestRequest {
                verdict: invalid(Reason::Truncated),
                outcome: Outcome::Truncated,
                finish_reason: Some("length"),
                ..test_request()
            },
            TestRequest {
                verdict: invalid(Reason::Choice),
                finish_reason: Some("content_filter"),
                vllm_correct: Some(false),
                ..test_request()
            },
            TestRequest {
                verdict: not_scored_as(NotScored::Unsupported {
                    what: "structural_tag".into(),
                }),
                ..test_request()
            },
            none(refused, NotScored::Refused),
            none(error, NotScored::Failed),
            TestRequest {
                chunks: vec![4],
                ..none(
                    Outcome::TimedOut {
                        limit_ms: 5,
                        limit: Default::default(),
                        stage: None,
                    },
                    NotScored::Failed,
                )
            },
            none(Outcome::Cancelled, NotScored::Cancelled),
            none(
                Outcome::Transport {
                    cause: TransportCause::Local,
                    message: "no files".into(),
                },
                NotScored::NotSent,
            ),
        ]
    }

    #[test]
    fn every_outcome_is_counted_once() {
        let values = values(&every_end());
        assert_eq!(
            counts(&values, &CORRECT_RATE),
            Some((1, 7)),
            "rejected and failed requests are not correct, unjudged and unsent ones do not count"
        );
        assert_eq!(
            counts(&values, &COMPLIANCE),
            Some((1, 2)),
            "only answers that ended normally"
        );
        assert_eq!(
            counts(&values, &COVERAGE),
            Some((6, 8)),
            "an answer or the start of one; not cancelled before or without a connection"
        );
        let hits = [
            &TRUNCATED_RATE,
            &REFUSED_RATE,
            &FAILED_RATE,
            &CANCELLED_RATE,
            &NOT_SENT_RATE,
            &NOT_JUDGED_RATE,
        ]
        .map(|metric| values.count(metric));
        assert_eq!(hits, [1, 1, 2, 1, 1, 1]);
    }

    #[test]
    fn rejections_for_load_are_counted_separately() {
        let refused = |status| TestRequest {
            outcome: Outcome::Rejected {
                status,
                body: "no".into(),
                advice: None,
            },
            verdict: not_scored_as(NotScored::Refused),
            ..test_request()
        };
        let values = values(&[refused(400), refused(429), test_request(), refused(429)]);
        assert_eq!(
            (values.count(&REFUSED_RATE), values.count(&OVERLOADED_RATE)),
            (3, 2)
        );
    }

    #[test]
    fn script_scores_every_request() {
        let mut run = every_end();
        run.push(TestRequest {
            arm: Arm::Control,
            verdict: Verdict::Valid,
            vllm_correct: Some(false),
            ..test_request()
        });
        run.push(TestRequest {
            arm: Arm::Free,
            verdict: not_scored_as(NotScored::NoConstraint),
            vllm_correct: Some(true),
            ..test_request()
        });
        assert_eq!(counts(&values(&run), &VLLM_CORRECT_RATE), Some((5, 12)));
    }

    #[test]
    fn control_arm_has_its_own_rate() {
        let control = |verdict| TestRequest {
            arm: Arm::Control,
            verdict,
            ..test_request()
        };
        let run = [
            test_request(),
            control(Verdict::Valid),
            control(invalid(Reason::Empty)),
            control(not_scored_as(NotScored::Cancelled)),
        ];
        let metrics = with_samples(&run, |samples| {
            summarise(samples, 1, &MetricsSettings::default())
        });
        let rates = [None, Some(Arm::Control)].map(|arm| {
            let rate = metrics.rate(Figure::of(&CORRECT_RATE, arm))?;
            Some((rate.hits, rate.of))
        });
        assert_eq!(rates, [Some((1, 1)), Some((1, 2))]);
    }

    #[test]
    fn no_data_is_not_zero_percent() {
        let grammar = TestRequest {
            vllm_correct: None,
            finish_reason: None,
            ..test_request()
        };
        let found = values(&[grammar]);
        assert_eq!(
            [&VLLM_CORRECT_RATE, &COMPLIANCE].map(|metric| counts(&found, metric)),
            [None, Some((1, 1))],
            "an answer without a finish reason ended by itself"
        );
        let truncated = TestRequest {
            outcome: Outcome::Truncated,
            verdict: invalid(Reason::Truncated),
            ..test_request()
        };
        let found = values(&[truncated]);
        assert_eq!(
            [&CORRECT_RATE, &COMPLIANCE].map(|metric| counts(&found, metric)),
            [Some((0, 1)), None]
        );
        let found = values(&[]);
        for metric in [&CORRECT_RATE, &COVERAGE, &VLLM_CORRECT_RATE] {
            assert_eq!(found.rate(metric), None, "{metric:?}");
        }
    }
}
