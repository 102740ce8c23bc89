//! Quality of answers: rates with intervals, failure reasons with examples, and the verdict of
//! vLLM's script. The rates are defined in [`super::registry::rates`].

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Serialize;

use super::constraint_loss::{self, ConstraintLoss};
use super::examples::Group;
use super::registry::{Metric, rates};
use sobench_core::case::Arm;
use sobench_core::constraint::Constraint;
use sobench_core::observation::{Outcome, failure_message};
use sobench_core::tools::{ToolChoice, ToolForm};
use sobench_core::verdict::{ExtraText, NotScored, Reason, Verdict};
use sobench_facts::Sample;
use sobench_facts::TokenSource;
use sobench_notices::breach::BreachCause;
use sobench_statistics::Rate;

/// Finish reasons of answers that the model ended normally: OpenAI's, and two of TGI.
const ENDED_BY_ITSELF: [&str; 4] = ["stop", "eos_token", "stop_sequence", "tool_calls"];

/// Quality of the answers of a run. Counts cover the constrained arm unless the name says
/// otherwise.
///
/// A request that cannot be judged (unsupported constraint, evaluation limit, cancelled, no
/// connection on this machine) is neither correct nor incorrect: it is in [`Quality::not_scored`]
/// and outside every rate.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Quality {
    /// Requests sent with their constraint.
    pub constrained: usize,
    /// Requests that can be judged: answers with a verdict, and rejected or failed requests, which
    /// are not correct.
    pub judged: usize,
    pub valid: usize,
    /// Valid answers / judged requests.
    pub correct_rate: Option<Rate>,
    /// Valid answers / answers that ended normally and have a verdict. An invalid one is an error
    /// of the engine.
    pub compliance: Option<Rate>,
    /// Accepted requests (an answer, or the start of one) / requests that reached the server and
    /// were not cancelled before.
    pub coverage: Option<Rate>,
    /// Valid answers / judged requests of the control arm.
    pub control_rate: Option<Rate>,
    /// Requests of the control arm.
    pub control: usize,
    /// Answers that are the expected call / constrained requests with an expected call, including
    /// rejected and failed ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub right_calls: Option<Rate>,
    /// Rates of requests with tools, by `tool_choice`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCallRates>,
    /// Answers truncated at the token limit.
    pub truncated: usize,
    /// Truncated answers that end in white space.
    pub white_space_runs: usize,
    /// The request from which on constraints were no longer enforced, if any.
    pub lost_from: Option<ConstraintLoss>,
    /// Requests that the server rejected.
    pub refused: usize,
    /// Requests rejected with status 429, which is unrelated to the constraint.
    pub overloaded: usize,
    /// Requests that timed out, or failed in the server, the stream or the network.
    pub failed: usize,
    /// Requests cancelled at the end of the run.
    pub cancelled: usize,
    /// Requests without a connection on this machine.
    #[serde(skip_serializing_if = "is_zero")]
    pub not_sent: usize,
    /// Reasons of invalid answers, the most frequent first.
    pub reasons: Vec<Group>,
    /// What the invalid answers show, the most frequent first.
    #[serde(skip)]
    pub causes: Vec<(BreachCause, usize)>,
    /// Prompts that are too short for their tools, by the server's count of tokens.
    #[serde(skip)]
    pub without_tools: Option<PromptsWithoutTools>,
    /// Kinds of text around JSON, the most frequent first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extra_text: Vec<ExtraTextCount>,
    /// Reasons of missing verdicts, the most frequent first.
    pub not_scored: Vec<Group>,
    /// The score of vLLM's script for the same answers.
    pub vllm: VllmScore,
}

/// Rates of the constrained requests with one `tool_choice`. Each is in [`super::registry::rates`].
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct ToolCallRates {
    pub tool_choice: &'static str,
    pub requests: usize,
    pub correct_rate: Option<Rate>,
    pub call_validity: Option<Rate>,
    pub right_calls: Option<Rate>,
    pub missed_calls: Option<Rate>,
    pub forbidden_calls: Option<Rate>,
    pub leaked_markup_rate: Option<Rate>,
}

impl ToolCallRates {
    /// The rates with their metrics, in table order.
    pub fn rates(&self) -> [(&'static Metric, Option<Rate>); 6] {
        [
            (&rates::CORRECT_RATE, self.correct_rate),
            (&rates::CALL_VALIDITY, self.call_validity),
            (&rates::RIGHT_CALLS, self.right_calls),
            (&rates::MISSED_CALLS, self.missed_calls),
            (&rates::FORBIDDEN_CALLS, self.forbidden_calls),
            (&rates::LEAKED_MARKUP_RATE, self.leaked_markup_rate),
        ]
    }
}

/// Prompts whose server counts fewer tokens than the tools of the request have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptsWithoutTools {
    pub requests: usize,
    /// Means.
    pub input_tokens: u64,
    pub tool_bytes: u64,
}

/// Bytes of JSON per token that no tokenizer reaches: about 4 are usual, and templates that rewrite
/// tools save up to half.
const MAX_TOOL_BYTES_PER_TOKEN: u64 = 12;

/// Answers with one kind of text around their JSON.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct ExtraTextCount {
    pub kind: &'static str,
    pub count: usize,
    /// Answers whose JSON is valid without that text.
    pub valid_if_stripped: usize,
}

/// The score of `benchmark_serving_structured_output.py`. It scores every request, including
/// unconstrained and failed ones, with a formula that does not check the schema; see `evaluate`.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct VllmScore {
    /// Requests that the script counts as correct / requests that it scores; `None` if it scores
    /// none (grammars).
    pub correct_rate: Option<Rate>,
    /// Answers that the script counts as correct although they are invalid, over all arms with a
    /// constraint.
    pub only_script: Group,
    /// Valid answers that the script counts as incorrect.
    pub only_ours: Group,
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

impl Quality {
    /// Computes the quality of a run; `samples` are in plan order.
    pub fn new(samples: &[Sample<'_>]) -> Self {
        let constrained: Vec<&Sample<'_>> = samples
            .iter()
            .filter(|sample| sample.arm() == Arm::Constrained)
            .collect();
        let rate = |metric: &Metric| metric.rate(samples);
        let hits = |metric: &Metric| rate(metric).map_or(0, |rate| rate.hits);
        let correct = rate(&rates::CORRECT_RATE);
        let ended: Vec<&Sample<'_>> = constrained
            .iter()
            .filter(|sample| complied(sample).is_some())
            .copied()
            .collect();
        Self {
            constrained: constrained.len(),
            judged: correct.map_or(0, |rate| rate.of),
            valid: correct.map_or(0, |rate| rate.hits),
            correct_rate: correct,
            compliance: rate(&rates::COMPLIANCE),
            coverage: rate(&rates::COVERAGE),
            control_rate: rate(&rates::CONTROL_RATE),
            control: samples
                .iter()
                .filter(|sample| sample.arm() == Arm::Control)
                .count(),
            right_calls: rate(&rates::RIGHT_CALLS),
            tool_calls: tool_calls(&constrained),
            truncated: hits(&rates::TRUNCATED_RATE),
            white_space_runs: hits(&rates::WHITE_SPACE_RATE),
            lost_from: constraint_loss::find_loss(&ended),
            refused: hits(&rates::REFUSED_RATE),
            overloaded: hits(&rates::OVERLOADED_RATE),
            failed: hits(&rates::FAILED_RATE),
            cancelled: hits(&rates::CANCELLED_RATE),
            not_sent: hits(&rates::NOT_SENT_RATE),
            reasons: Group::by(constrained.iter().copied(), reason),
            causes: causes(&constrained),
            without_tools: without_tools(&constrained),
            extra_text: extra_text(&constrained),
            not_scored: Group::by(constrained.iter().copied(), why_not_scored),
            vllm: VllmScore::new(samples),
        }
    }

    /// Number of answers that are valid without the text around their JSON.
    pub fn valid_if_stripped(&self) -> usize {
        let counts = self.extra_text.iter().map(|kind| kind.valid_if_stripped);
        counts.sum()
    }

    /// Number of constrained requests with an answer but without a verdict.
    pub fn unjudged(&self) -> usize {
        let unjudged = ["no_constraint", "unsupported", "limit"];
        self.not_scored
            .iter()
            .filter(|group| unjudged.contains(&group.name))
            .map(|group| group.count)
            .sum()
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

pub(super) fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl VllmScore {
    fn new(samples: &[Sample<'_>]) -> Self {
        let mut score = Self {
            correct_rate: rates::VLLM_CORRECT_RATE.rate(samples),
            only_script: Group::empty("only_script"),
            only_ours: Group::empty("only_ours"),
        };
        for sample in samples {
            let Some(script) = sample.vllm_correct() else {
                continue;
            };
            if !sample.outcome().is_answer() {
                continue;
            }
            match sample.verdict() {
                Verdict::Invalid { reason } if script => {
                    score.only_script.add(sample, &reason.to_string());
                }
                Verdict::Valid if !script => score.only_ours.add(sample, "valid by its constraint"),
                Verdict::Valid | Verdict::Invalid { .. } | Verdict::NotScored { .. } => {}
            }
        }
        score
    }
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
        sample.verdict(),
        sample.outcome().name(),
        sample.finish_reason(),
    )
}

/// As [`complied`], for an answer in a file; `outcome` is the name of its outcome. A complete answer
/// without a finish reason counts: the server ended it, and named no other reason. An answer that
/// was cut after it had broken its constraint does not comply.
pub fn compliance(verdict: &Verdict, outcome: &str, finish_reason: Option<&str>) -> Option<bool> {
    match outcome {
        "truncated" => is_final_violation(verdict).then_some(false),
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

/// The reason of an invalid answer: its name, and the message.
pub(super) fn reason(sample: &Sample<'_>) -> Option<(&'static str, String)> {
    let Verdict::Invalid { reason } = sample.verdict() else {
        return None;
    };
    Some((reason.name(), reason.to_string()))
}

/// The rates of requests with tools, by their choice.
fn tool_calls(samples: &[&Sample<'_>]) -> Vec<ToolCallRates> {
    let choice_of = |sample: &&Sample<'_>| {
        let tools = sample
            .constraint()
            .and_then(|constraint| constraint.tools());
        tools.map(|tools| tools.choice.name())
    };
    let of_choice = |tool_choice: &'static str| {
        let samples: Vec<&Sample<'_>> = samples
            .iter()
            .filter(|sample| choice_of(sample) == Some(tool_choice))
            .copied()
            .collect();
        let rate = |metric: &Metric| metric.rate(samples.iter().copied());
        (!samples.is_empty()).then(|| ToolCallRates {
            tool_choice,
            requests: samples.len(),
            correct_rate: rate(&rates::CORRECT_RATE),
            call_validity: rate(&rates::CALL_VALIDITY),
            right_calls: rate(&rates::RIGHT_CALLS),
            missed_calls: rate(&rates::MISSED_CALLS),
            forbidden_calls: rate(&rates::FORBIDDEN_CALLS),
            leaked_markup_rate: rate(&rates::LEAKED_MARKUP_RATE),
        })
    };
    if samples.iter().all(|sample| choice_of(sample).is_none()) {
        return Vec::new();
    }
    ToolChoice::NAMES
        .into_iter()
        .filter_map(of_choice)
        .collect()
}

/// The causes of invalid answers; of equal counts, the one with the earlier request is first.
fn causes(samples: &[&Sample<'_>]) -> Vec<(BreachCause, usize)> {
    let mut counts: IndexMap<BreachCause, usize> = IndexMap::new();
    for sample in samples {
        if let Verdict::Invalid { reason } = sample.verdict() {
            let constraint = sample.constraint().map(|constraint| &**constraint);
            let departed = sample
                .departures()
                .and_then(|departures| BreachCause::of_departures(departures, reason));
            let cause = departed.unwrap_or_else(|| BreachCause::new(reason, constraint));
            *counts.entry(cause).or_default() += 1;
        }
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    counts
}

fn without_tools(samples: &[&Sample<'_>]) -> Option<PromptsWithoutTools> {
    let mut sizes: HashMap<*const Constraint, u64> = HashMap::new();
    let (mut requests, mut input_tokens, mut tool_bytes) = (0, 0, 0);
    for sample in samples.iter().filter(|sample| sample.outcome().is_answer()) {
        let (Some(constraint), tokens) = (sample.constraint(), sample.tokens()) else {
            continue;
        };
        let (Some(tools), Some(tokens), TokenSource::Server) =
            (constraint.tools(), tokens.input, tokens.input_source)
        else {
            continue;
        };
        let bytes = *sizes.entry(Arc::as_ptr(constraint)).or_insert_with(|| {
            let members = tools.to_members(ToolForm::Responses);
            members
                .get("tools")
                .map_or(0, |tools| tools.to_string().len() as u64)
        });
        if tokens > 0 && tokens * MAX_TOOL_BYTES_PER_TOKEN < bytes {
            requests += 1;
            input_tokens += tokens;
            tool_bytes += bytes;
        }
    }
    (requests > 0).then(|| PromptsWithoutTools {
        requests,
        input_tokens: input_tokens / requests as u64,
        tool_bytes: tool_bytes / requests as u64,
    })
}

fn extra_text(samples: &[&Sample<'_>]) -> Vec<ExtraTextCount> {
    let mut counts: BTreeMap<ExtraText, ExtraTextCount> = BTreeMap::new();
    for sample in samples {
        if let Verdict::Invalid {
            reason:
                Reason::ExtraText {
                    kind,
                    valid_if_stripped,
                    ..
                },
        } = sample.verdict()
        {
            let entry = counts.entry(*kind).or_insert(ExtraTextCount {
                kind: kind.name(),
                count: 0,
                valid_if_stripped: 0,
            });
            entry.count += 1;
            entry.valid_if_stripped += usize::from(*valid_if_stripped);
        }
    }
    let mut counts: Vec<ExtraTextCount> = counts.into_values().collect();
    counts.sort_by_key(|entry| Reverse(entry.count));
    counts
}

fn why_not_scored(sample: &Sample<'_>) -> Option<(&'static str, String)> {
    let Verdict::NotScored { why } = sample.verdict() else {
        return None;
    };
    let message = if is_unjudged(sample.verdict()) {
        why.to_string()
    } else {
        failure_message(sample.outcome())
    };
    Some((why.name(), message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    use sobench_core::answer::Channel;
    use sobench_core::observation::TransportCause;
    use sobench_core::verdict::ToolCallFault;
    use sobench_facts::RequestTable;
    use sobench_facts::testing::{TestRequest, test_request, with_cases, with_samples};

    fn judged(run: &[TestRequest<'_>]) -> Quality {
        with_samples(run, Quality::new)
    }

    fn invalid(reason: Reason) -> Verdict {
        Verdict::Invalid { reason }
    }

    fn not_scored_as(why: NotScored) -> Verdict {
        Verdict::NotScored { why }
    }

    fn counts(rate: Option<Rate>) -> Option<(usize, usize)> {
        rate.map(|rate| (rate.hits, rate.of))
    }

    #[test]
    fn prompts_too_short_for_their_tools_are_counted() {
        let described = json!({"tools": [{"type": "function", "function": {"name": "f", "description": "d".repeat(600)}}]});
        let with_tokens = |tokens: u64, source: TokenSource, tools: &serde_json::Value| {
            let constraint: Constraint = serde_json::from_value(json!({ "tools": tools })).unwrap();
            let request = test_request();
            let (mut case, observation, verdict) = request.parts(0);
            case.constraint = Some(Arc::new(constraint));
            let mut judged = request.judged(verdict, &observation);
            judged.tokens.input = Some(tokens);
            judged.tokens.input_source = source;
            let mut table = RequestTable::default();
            assert!(table.push(&case, &observation, 0));
            table.judge(0, judged);
            Quality::new(&table.samples()).without_tools
        };
        let found = with_tokens(21, TokenSource::Server, &described).unwrap();
        assert_eq!((found.requests, found.input_tokens), (1, 21));
        assert!((600..700).contains(&found.tool_bytes), "{found:?}");
        let short = json!({"tools": [{"type": "function", "function": {"name": "f"}}]});
        for (tokens, source, tools) in [
            (21, TokenSource::Server, &short),
            (21, TokenSource::Tokenizer, &described),
            (160, TokenSource::Server, &described),
            (0, TokenSource::Server, &described),
        ] {
            assert_eq!(with_tokens(tokens, source, tools), None, "{tokens}");
        }
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
        let quality = with_cases(
            &run,
            |index, case| match index {
                0..=3 | 5 => case.constraint = tools("auto"),
                4 => case.constraint = tools("none"),
                _ => {}
            },
            Quality::new,
        );
        let found: Vec<_> = quality
            .tool_calls
            .iter()
            .map(|choice| {
                let rates = choice.rates().map(|(_, rate)| counts(rate));
                (choice.tool_choice, choice.requests, rates)
            })
            .collect();
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
        assert_eq!(found, [("auto", 5, auto), ("none", 1, none)]);
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
        let quality = judged(&every_end());
        assert_eq!(
            (quality.constrained, quality.judged, quality.valid),
            (10, 7, 1)
        );
        assert_eq!(
            counts(quality.correct_rate),
            Some((1, 7)),
            "rejected and failed requests are not correct, unjudged and unsent ones do not count"
        );
        assert_eq!(
            counts(quality.compliance),
            Some((1, 2)),
            "only answers that ended normally"
        );
        assert_eq!(
            counts(quality.coverage),
            Some((6, 8)),
            "an answer or the start of one; not cancelled before or without a connection"
        );
        assert_eq!(
            (
                quality.truncated,
                quality.refused,
                quality.failed,
                quality.cancelled
            ),
            (1, 1, 2, 1)
        );
        assert_eq!((quality.not_sent, quality.unjudged()), (1, 1));
        assert_eq!(quality.control_rate, None);
        let reasons: Vec<_> = quality
            .reasons
            .iter()
            .map(|group| (group.name, group.count))
            .collect();
        assert_eq!(reasons, [("choice", 2), ("truncated", 1)]);
        assert_eq!(
            quality.reasons[0].examples[0].message,
            "none of the choices"
        );
        let not_scored: Vec<_> = quality
            .not_scored
            .iter()
            .map(|group| (group.name, group.count, group.examples[0].message.as_str()))
            .collect();
        assert_eq!(
            not_scored,
            [
                ("failed", 2, "HTTP 500: oops"),
                (
                    "cancelled",
                    1,
                    "the run was stopped before the request ended"
                ),
                (
                    "not_sent",
                    1,
                    "no local resources for a connection: no files"
                ),
                ("refused", 1, "HTTP 400: no"),
                ("unsupported", 1, "structural_tag"),
            ]
        );
    }

    #[test]
    fn kinds_of_extra_text_are_counted_and_not_correct() {
        let extra = |kind, valid_if_stripped| TestRequest {
            verdict: invalid(Reason::ExtraText {
                byte: 0,
                kind,
                valid_if_stripped,
            }),
            ..test_request()
        };
        let quality = judged(&[
            extra(ExtraText::ProseAfter, false),
            extra(ExtraText::Fence, true),
            extra(ExtraText::Fence, false),
            test_request(),
        ]);
        let entry = |kind, count, valid_if_stripped| ExtraTextCount {
            kind,
            count,
            valid_if_stripped,
        };
        assert_eq!(
            quality.extra_text,
            [entry("fence", 2, 1), entry("prose_after", 1, 0)]
        );
        assert_eq!(counts(quality.correct_rate), Some((1, 4)));
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
        let quality = judged(&[refused(400), refused(429), test_request(), refused(429)]);
        assert_eq!((quality.refused, quality.overloaded), (3, 2));
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
        let vllm = judged(&run).vllm;
        assert_eq!(counts(vllm.correct_rate), Some((5, 12)));
        assert_eq!((vllm.only_script.count, vllm.only_ours.count), (2, 1));
        assert_eq!(
            vllm.only_script.examples[1].message,
            "cut at the token limit"
        );
        assert_eq!(vllm.only_ours.examples[0].case_id, "case-10");
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
        let quality = judged(&run);
        assert_eq!(
            (counts(quality.correct_rate), counts(quality.control_rate)),
            (Some((1, 1)), Some((1, 2)))
        );
        assert_eq!((quality.constrained, quality.control), (1, 3));
        assert!(
            quality.reasons.is_empty(),
            "reasons cover only the constrained arm"
        );
    }

    #[test]
    fn no_data_is_not_zero_percent() {
        let grammar = TestRequest {
            vllm_correct: None,
            finish_reason: None,
            ..test_request()
        };
        let quality = judged(&[grammar]);
        assert_eq!(
            (quality.vllm.correct_rate, counts(quality.compliance)),
            (None, Some((1, 1))),
            "an answer without a finish reason ended by itself"
        );
        let truncated = TestRequest {
            outcome: Outcome::Truncated,
            verdict: invalid(Reason::Truncated),
            ..test_request()
        };
        let quality = judged(&[truncated]);
        assert_eq!(
            (counts(quality.correct_rate), quality.compliance),
            (Some((0, 1)), None)
        );
        let quality = judged(&[]);
        assert_eq!(
            (
                quality.correct_rate,
                quality.coverage,
                quality.vllm.correct_rate
            ),
            (None, None, None)
        );
    }
}
