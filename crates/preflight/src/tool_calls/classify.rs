//! Classifies the answer to a request with tools.
//!
//! - An answer is judged by the rules of a run. A valid one proves that the demand is enforced only
//!   if the model would have answered otherwise: the controls show that.
//! - The right name with arguments that are not valid is [`Class::Partial`]. So is a call that is
//!   cut, in a second request with more tokens.
//! - A call that the server left as text is [`Class::Leaked`]: clients find no call.
//! - Two calls whose arguments are joined are [`Class::Merged`].
//! - No call where one is required, another tool than the named one, a call under `none` and two
//!   calls where one is allowed are [`Class::Ignored`].
//! - A model that does not call, or not twice, proves nothing about demands on calls that it may
//!   make.

use serde_json::Value;

use super::probe::ToolProbe;
use super::{CallControl, Part, ToolRow};
use crate::classify::{RUNAWAY_CHARS, failure, truncate_text};
use sobench_core::answer::{Answer, ToolCall};
use sobench_core::constraint::Constraint;
use sobench_core::observation::{Observation, Outcome};
use sobench_core::tools::Tool;
use sobench_core::verdict::{Reason, ToolCallFault, Verdict};
use sobench_judge::Evaluator;
use sobench_notices::enforcement::{Cause, Class, Finding};

/// The input of [`classify`].
pub struct ToolEvidence<'a> {
    pub probe: &'a ToolProbe,
    pub observation: &'a Observation,
    pub control: &'a CallControl,
    /// Whether the model calls where it is asked for plain words; `None` if unknown.
    pub calls_unasked: Option<bool>,
    /// Whether the model writes the requested value where nothing forbids it.
    pub is_tempted: bool,
    /// Calls of the answer to the same prompt where several are allowed; `None` if unknown.
    pub parallel_calls: Option<usize>,
}

/// A finding, with the wrong part of a [`Class::Partial`] call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolFinding {
    pub part: Option<Part>,
    pub finding: Finding,
}

impl From<Finding> for ToolFinding {
    fn from(finding: Finding) -> Self {
        Self {
            part: None,
            finding,
        }
    }
}

impl ToolFinding {
    fn new(class: Class, reason: impl Into<String>) -> Self {
        Finding::new(class, reason).into()
    }

    fn partial(part: Part, reason: impl Into<String>) -> Self {
        Self {
            part: Some(part),
            finding: Finding::new(Class::Partial, reason),
        }
    }
}

impl CallControl {
    /// Reads the answer of a control.
    pub fn new(probe: &ToolProbe, observation: &Observation, evaluator: &mut Evaluator) -> Self {
        if let Some(failure) = failure(observation, "") {
            return Self {
                failure: Some(failure),
                ..Self::default()
            };
        }
        let answer = &observation.answer;
        let verdict = judge(probe, observation, evaluator);
        let leaked = matches!(fault(&verdict), Some(ToolCallFault::LeakedMarkup { .. }));
        let requested = &probe.functions[0].requested;
        let has_value = |call: &ToolCall| call.arguments.contains(requested.as_str());
        Self {
            calls: leaked || !answer.tool_calls.is_empty(),
            leaked,
            obeys: answer.tool_calls.iter().any(has_value)
                || (leaked && answer.content.contains(requested.as_str())),
            answer: Some(shown(answer)),
            failure: None,
        }
    }
}

/// Classifies one answer.
pub fn classify(evidence: &ToolEvidence<'_>, evaluator: &mut Evaluator) -> ToolFinding {
    let observation = evidence.observation;
    let mut result = match failure(observation, "") {
        Some(finding) => finding.into(),
        None => classify_answer(evidence, evaluator),
    };
    let answer = shown(&observation.answer);
    result.finding.answer = (!answer.is_empty()).then_some(answer);
    result
}

fn judge(probe: &ToolProbe, observation: &Observation, evaluator: &mut Evaluator) -> Verdict {
    let constraint = evaluator.compile(&probe.constraint);
    sobench_judge::judge(&constraint, &observation.answer, observation.into())
}

fn fault(verdict: &Verdict) -> Option<&ToolCallFault> {
    match verdict {
        Verdict::Invalid {
            reason: Reason::ToolCall(fault),
        } => Some(fault),
        _ => None,
    }
}

/// An answer for readers: its content, and its calls as `name(arguments)`.
fn shown(answer: &Answer) -> String {
    let calls = answer
        .tool_calls
        .iter()
        .map(|call| format!("{}({})", call.name, call.arguments));
    let content = Some(answer.content.trim().to_owned()).filter(|text| !text.is_empty());
    let parts: Vec<String> = content.into_iter().chain(calls).collect();
    truncate_text(&parts.join("; "))
}

fn classify_answer(evidence: &ToolEvidence<'_>, evaluator: &mut Evaluator) -> ToolFinding {
    let ToolEvidence {
        probe, observation, ..
    } = evidence;
    if let Some(reason) = merged(probe, &observation.answer.tool_calls) {
        return ToolFinding::new(Class::Merged, reason);
    }
    let verdict = judge(probe, observation, evaluator);
    let is_leaked = matches!(fault(&verdict), Some(ToolCallFault::LeakedMarkup { .. }));
    // The number of calls is what is demanded; their arguments have a row of their own.
    if probe.row() == ToolRow::OneCall && !is_leaked {
        match observation.answer.tool_calls.len() {
            0 => {}
            1 => return valid_answer(evidence),
            calls => {
                return ToolFinding::new(
                    Class::Ignored,
                    format!("{calls} calls, although at most one is allowed"),
                );
            }
        }
    }
    match verdict {
        Verdict::Valid => valid_answer(evidence),
        Verdict::NotScored { why } => ToolFinding::new(
            Class::Unproven,
            format!("sobench cannot judge the answer: {why}"),
        ),
        Verdict::Invalid { reason } => invalid_answer(evidence, &reason, evaluator),
    }
}

/// How two calls arrived as one, if they did.
fn merged(probe: &ToolProbe, calls: &[ToolCall]) -> Option<String> {
    let [first, second] = &probe.functions;
    for call in calls {
        if call.name.contains(&first.name) && call.name.contains(&second.name) {
            return Some("one call has the names of two functions".to_owned());
        }
        let documents = serde_json::Deserializer::from_str(&call.arguments).into_iter::<Value>();
        let documents: Vec<Value> = documents.map_while(std::result::Result::ok).collect();
        if documents.len() > 1 {
            let count = documents.len();
            return Some(format!("the arguments of one call are {count} documents"));
        }
        let has = |member: &str| documents.iter().any(|value| value.get(member).is_some());
        let may_call_twice = probe.row() == ToolRow::Parallel;
        if may_call_twice && has(&first.member) && has(&second.member) {
            return Some("the arguments of one call have the members of two functions".to_owned());
        }
    }
    None
}

/// The finding for an answer that does what the request demands.
fn valid_answer(evidence: &ToolEvidence<'_>) -> ToolFinding {
    let enforced = || ToolFinding::new(Class::Enforced, "");
    let unproven = |reason: &str| ToolFinding::new(Class::Unproven, reason);
    let ToolEvidence {
        observation,
        control,
        ..
    } = evidence;
    let calls = observation.answer.tool_calls.len();
    match evidence.probe.row() {
        ToolRow::Required if evidence.calls_unasked == Some(true) => {
            unproven("a call, but the model also calls where it may answer in plain words")
        }
        ToolRow::Required | ToolRow::Named | ToolRow::AllowedTools if !evidence.is_tempted => {
            ToolFinding::new(
                Class::Enforced,
                "for the schema of the arguments: no violation seen (weak temptation)",
            )
        }
        ToolRow::Required | ToolRow::Named | ToolRow::AllowedTools => enforced(),
        ToolRow::None if control.calls => enforced(),
        ToolRow::None if control.failure.is_some() => {
            unproven("no call, but there is no answer under auto to compare it with")
        }
        ToolRow::None => unproven("no call, but the model does not call under auto either"),
        _ if calls == 0 && control.leaked => unproven(
            "no call; under auto without a schema, the server left the call of the model as text",
        ),
        _ if calls == 0 && control.calls => unproven(
            "no call, although the model calls where no schema forbids the requested value",
        ),
        _ if calls == 0 => unproven("the model does not call, also where nothing is enforced"),
        ToolRow::Parallel if calls == 1 => unproven("one call: the model may not call twice"),
        ToolRow::OneCall if evidence.parallel_calls.is_none_or(|calls| calls < 2) => {
            unproven("one call, but the model does not make two where it may either")
        }
        ToolRow::OneCall => enforced(),
        ToolRow::Auto | ToolRow::Parallel if !evidence.is_tempted => unproven(
            "no violation seen (weak temptation): the model does not write the requested value where nothing forbids it either",
        ),
        ToolRow::Auto | ToolRow::Parallel => enforced(),
    }
}

/// The finding for an answer that does not do what the request demands, or that is cut.
fn invalid_answer(
    evidence: &ToolEvidence<'_>,
    reason: &Reason,
    evaluator: &mut Evaluator,
) -> ToolFinding {
    let answer = &evidence.observation.answer;
    let Reason::ToolCall(fault) = reason else {
        return match reason {
            Reason::Truncated => cut_answer(evidence),
            Reason::Empty => empty_answer(answer),
            other => ToolFinding::new(Class::Unproven, other.to_string()),
        };
    };
    match fault {
        ToolCallFault::LeakedMarkup { .. } if evidence.control.leaked => ToolFinding::new(
            Class::Leaked,
            format!(
                "{reason}; the server does not read the calls of this model: start it with the tool parser of the model"
            ),
        ),
        ToolCallFault::LeakedMarkup { .. } => ToolFinding::new(Class::Leaked, reason.to_string()),
        ToolCallFault::CallUnderNone { .. }
        | ToolCallFault::UnknownTool { .. }
        | ToolCallFault::WrongTool { .. }
        | ToolCallFault::TooManyCalls { .. } => {
            ToolFinding::new(Class::Ignored, reason.to_string())
        }
        ToolCallFault::MissingCall => missing_call(evidence, evaluator),
        ToolCallFault::InvalidArguments { .. } if ends_in_white_space(evidence) => {
            white_space_runaway()
        }
        ToolCallFault::InvalidArguments { .. } | ToolCallFault::ArgumentsNotText { .. } => {
            ToolFinding::partial(Part::Arguments, reason.to_string())
        }
        ToolCallFault::MissingCallId { .. } | ToolCallFault::DuplicateCallId { .. } => {
            ToolFinding::partial(Part::Id, reason.to_string())
        }
        ToolCallFault::WrongFinishReason { .. } => {
            ToolFinding::partial(Part::FinishReason, reason.to_string())
        }
    }
}

fn white_space_runaway() -> ToolFinding {
    Finding::broken(
        Cause::WhiteSpaceRunAway,
        "white space in the arguments up to the token limit: the schema allows unlimited white space, so the call does not end",
    )
    .into()
}

fn ends_in_white_space(evidence: &ToolEvidence<'_>) -> bool {
    let ToolEvidence { observation, .. } = evidence;
    let white_space = |call: &ToolCall| {
        let dense = call.arguments.trim_end();
        call.arguments[dense.len()..].chars().count()
    };
    observation.outcome == Outcome::Truncated
        && observation
            .answer
            .tool_calls
            .last()
            .is_some_and(|call| white_space(call) >= RUNAWAY_CHARS)
}

fn cut_answer(evidence: &ToolEvidence<'_>) -> ToolFinding {
    let Some(call) = evidence.observation.answer.tool_calls.last() else {
        return ToolFinding::new(Class::Unproven, "cut at the token limit before a call");
    };
    if ends_in_white_space(evidence) {
        return white_space_runaway();
    }
    ToolFinding::partial(
        Part::Cut,
        format!("the call of {:?} is cut at the token limit", call.name),
    )
}

fn empty_answer(answer: &Answer) -> ToolFinding {
    let reason = if answer.reasoning.trim().is_empty() {
        "an empty answer"
    } else {
        "reasoning without an answer"
    };
    ToolFinding::new(Class::Unproven, reason)
}

/// No call where one is required: the server may have put its arguments elsewhere.
fn missing_call(evidence: &ToolEvidence<'_>, evaluator: &mut Evaluator) -> ToolFinding {
    let ToolEvidence {
        probe, observation, ..
    } = evidence;
    let answer = &observation.answer;
    if answer.content.trim().is_empty() {
        return empty_answer(answer);
    }
    let tools = probe.constraint.tools().into_iter();
    let mut schemas = tools.flat_map(|set| set.tools.iter().filter_map(Tool::parameters));
    let content = answer.content.trim();
    if schemas.any(|schema| {
        let constraint = Constraint::JsonSchema(schema.clone().into());
        evaluator.compile(&constraint).accepts(content)
    }) {
        return ToolFinding::new(
            Class::WrongChannel,
            "the arguments are in the content; clients that read the calls find none",
        );
    }
    ToolFinding::new(Class::Ignored, "no call, although one is required")
}

#[cfg(test)]
mod tests;
