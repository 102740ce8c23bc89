//! What the answers of a run show beside their figures: reasons of invalid ones with examples, what
//! they have in common, and where vLLM's script finds otherwise.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Serialize;

use super::constraint_loss::{self, ConstraintLoss};
use super::dependence::Dependence;
use super::examples::Group;
use super::judgement::{complied, is_unjudged};
use sobench_core::case::Arm;
use sobench_core::constraint::Constraint;
use sobench_core::observation::failure_message;
use sobench_core::tools::ToolForm;
use sobench_core::verdict::{ExtraText, Reason, Verdict};
use sobench_facts::Sample;
use sobench_facts::TokenSource;
use sobench_notices::breach::BreachCause;

/// Findings on the answers of the constrained arm, unless the name says otherwise.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
#[schemars(rename = "Quality")]
pub struct Findings {
    /// The request from which on constraints were no longer enforced, if any.
    pub lost_from: Option<ConstraintLoss>,
    /// The size of requests, or the tag, that the validity of answers depends on, if any.
    pub depends_on: Option<Dependence>,
    /// Reasons of invalid answers, the most frequent first.
    pub reasons: Vec<Group>,
    /// Reasons of invalid answers of the control arm.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub control_reasons: Vec<Group>,
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
    /// Where vLLM's script finds otherwise.
    pub vllm: VllmDisagreements,
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
    pub kind: ExtraText,
    pub count: usize,
    /// Answers whose JSON is valid without that text.
    pub valid_if_stripped: usize,
}

/// Answers of which `benchmark_serving_structured_output.py` says otherwise. It scores every request,
/// including unconstrained and failed ones, with a formula that does not check the schema; see
/// `evaluate`.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
#[schemars(rename = "VllmScore")]
pub struct VllmDisagreements {
    /// Answers that the script counts as correct although they are invalid, over all arms with a
    /// constraint.
    pub only_script: Group,
    /// Valid answers that the script counts as incorrect.
    pub only_ours: Group,
}

impl Findings {
    /// Collects the findings of a run; `samples` are in plan order.
    pub fn new(samples: &[Sample<'_>]) -> Self {
        let of_arm = |arm: Arm| samples.iter().filter(move |sample| sample.arm() == arm);
        let constrained: Vec<&Sample<'_>> = of_arm(Arm::Constrained).collect();
        let ended = constrained.iter().copied();
        let ended: Vec<&Sample<'_>> = ended.filter(|sample| complied(sample).is_some()).collect();
        Self {
            lost_from: constraint_loss::find_loss(&ended),
            depends_on: Dependence::new(&constrained),
            reasons: Group::by(constrained.iter().copied(), reason),
            control_reasons: Group::by(of_arm(Arm::Control), reason),
            causes: causes(&constrained),
            without_tools: without_tools(&constrained),
            extra_text: extra_text(&constrained),
            not_scored: Group::by(constrained.iter().copied(), why_not_scored),
            vllm: VllmDisagreements::new(samples),
        }
    }
}

impl VllmDisagreements {
    fn new(samples: &[Sample<'_>]) -> Self {
        let mut found = Self {
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
                    found.only_script.add(sample, &reason.to_string());
                }
                Verdict::Valid if !script => found.only_ours.add(sample, "valid by its constraint"),
                Verdict::Valid | Verdict::Invalid { .. } | Verdict::NotScored { .. } => {}
            }
        }
        found
    }
}

/// The reason of an invalid answer: its name, and the message.
fn reason(sample: &Sample<'_>) -> Option<(&'static str, String)> {
    let Verdict::Invalid { reason } = sample.verdict() else {
        return None;
    };
    Some((reason.name(), reason.to_string()))
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
                kind: *kind,
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

    use sobench_core::observation::Outcome;
    use sobench_core::verdict::NotScored;
    use sobench_facts::RequestTable;
    use sobench_facts::testing::{TestRequest, test_request, with_samples};

    fn found(run: &[TestRequest<'_>]) -> Findings {
        with_samples(run, Findings::new)
    }

    fn invalid(reason: Reason) -> Verdict {
        Verdict::Invalid { reason }
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
            Findings::new(&table.samples()).without_tools
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
    fn reasons_have_counts_and_examples() {
        let unscored = |outcome: Outcome, why: NotScored| TestRequest {
            outcome,
            verdict: Verdict::NotScored { why },
            ..test_request()
        };
        let error = Outcome::ServerError {
            status: 500,
            body: "oops".into(),
            advice: None,
        };
        let unsupported = NotScored::Unsupported {
            what: "structural_tag".into(),
        };
        let found = found(&[
            test_request(),
            TestRequest {
                verdict: invalid(Reason::Choice),
                ..test_request()
            },
            TestRequest {
                verdict: invalid(Reason::Truncated),
                outcome: Outcome::Truncated,
                ..test_request()
            },
            TestRequest {
                verdict: invalid(Reason::Choice),
                ..test_request()
            },
            TestRequest {
                arm: Arm::Control,
                verdict: invalid(Reason::Empty),
                ..test_request()
            },
            unscored(error, NotScored::Failed),
            unscored(Outcome::Completed, unsupported),
        ]);
        let counts = |groups: &[Group]| -> Vec<(&str, usize, String)> {
            let first = |group: &Group| group.examples[0].message.clone();
            let groups = groups.iter();
            groups
                .map(|group| (group.name, group.count, first(group)))
                .collect()
        };
        assert_eq!(
            counts(&found.reasons),
            [
                ("choice", 2, "none of the choices".to_owned()),
                ("truncated", 1, "cut at the token limit".to_owned()),
            ]
        );
        assert_eq!(counts(&found.control_reasons).len(), 1);
        assert_eq!(
            counts(&found.not_scored),
            [
                ("failed", 1, "HTTP 500: oops".to_owned()),
                ("unsupported", 1, "structural_tag".to_owned()),
            ]
        );
    }

    #[test]
    fn kinds_of_extra_text_are_counted() {
        let extra = |kind, valid_if_stripped| TestRequest {
            verdict: invalid(Reason::ExtraText {
                byte: 0,
                kind,
                valid_if_stripped,
            }),
            ..test_request()
        };
        let found = found(&[
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
            found.extra_text,
            [
                entry(ExtraText::Fence, 2, 1),
                entry(ExtraText::ProseAfter, 1, 0)
            ]
        );
    }

    #[test]
    fn answers_of_which_the_script_says_otherwise_are_counted() {
        let scored = |verdict: Verdict, vllm_correct| TestRequest {
            verdict,
            vllm_correct,
            ..test_request()
        };
        let cut = TestRequest {
            outcome: Outcome::Truncated,
            ..scored(invalid(Reason::Truncated), Some(true))
        };
        let vllm = found(&[
            test_request(),
            scored(invalid(Reason::Choice), Some(true)),
            cut,
            scored(invalid(Reason::Choice), None),
            scored(Verdict::Valid, Some(false)),
        ])
        .vllm;
        assert_eq!((vllm.only_script.count, vllm.only_ours.count), (2, 1));
        assert_eq!(
            vllm.only_script.examples[1].message,
            "cut at the token limit"
        );
        assert_eq!(vllm.only_ours.examples[0].case_id, "case-4");
    }
}
