//! Classifies the answer to a probe: what proves that a constraint is enforced.
//!
//! - A complete answer that the constraint allows proves it enforced: the random words occur by
//!   chance once in 20^12 answers. So one request per cell is enough.
//! - A truncated answer proves the same if it is a prefix of an allowed text with at least
//!   [`MIN_LETTERS`] of the random letters; with fewer it proves nothing, and a second request with
//!   a higher token limit is sent.
//! - "Any JSON object" has no random words. It is compared with the control, the same prompt
//!   without a constraint: an object here, none there.
//! - An answer outside the constraint is classified as ignored only if it has no random word. A
//!   random word beside other text, or in an answer that breaks the schema otherwise, is
//!   [`Class::Partial`]: the server read the constraint but does not enforce it.
//! - An empty answer, or reasoning without an answer, proves nothing: servers apply a constraint
//!   only after the reasoning, and some drop text that they cannot parse.
//! - A whole answer in a channel that clients do not read (a tool call that was not requested,
//!   content in place of the requested call, or the reasoning) is a separate failure.
//! - The text of a tool call that was cut inside its envelope proves nothing.
//! - White space until the token limit is a separate failure, also after a complete answer: the
//!   constraint is enforced, but the answer does not end.
//! - A class does not show whether the server masks tokens or writes the constraint into the
//!   prompt. The prompt requests another text, so the latter fails sometimes; the correct rate of a
//!   run shows how often.

use schemars::JsonSchema;
use serde::Serialize;

use super::MAX_KEPT_CHARS;
use super::constraint_probe::ConstraintProbe;
use super::envelope::{Envelope, envelope_members_in, outer_names, wrapped_in};
use sobench_backend::ConstraintDialect;
use sobench_core::observation::{Observation, Outcome};
use sobench_core::verdict::{Reason, Verdict};
use sobench_judge::{Compiled, Ending, Evaluator, judge};
use sobench_notices::enforcement::{Cause, Class, Finding};

/// Random letters that the prefix of an answer must contain, of 20^4 equally likely texts.
pub const MIN_LETTERS: usize = 4;

/// Minimum white space at the end of a truncated JSON answer that counts as a runaway, far above
/// the widest indentation that engines allow.
pub(super) const RUNAWAY_CHARS: usize = 24;

/// Statuses of a temporary refusal: Request Timeout and Too Many Requests.
pub(super) const BUSY: [u16; 2] = [408, 429];

/// The result of the same prompt without a constraint.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Control {
    /// The answer; `None` if the request failed.
    pub answer: Option<String>,
    /// Why there is no answer.
    pub failure: Option<Finding>,
}

/// The input of [`classify`].
pub struct Evidence<'a> {
    pub probe: &'a ConstraintProbe,
    pub observation: &'a Observation,
    pub control: &'a Control,
    pub envelopes: &'a [Envelope],
    /// The dialect, which determines the channel of the answer.
    pub dialect: ConstraintDialect,
}

impl Control {
    /// Converts the observation of the request without a constraint.
    pub fn from_observation(observation: &Observation) -> Self {
        match failure(observation, "") {
            Some(failure) => Self {
                answer: None,
                failure: Some(failure),
            },
            None => Self {
                answer: Some(observation.answer.text().into_owned()),
                failure: None,
            },
        }
    }

    /// Whether the model writes prose, from which constrained answers differ.
    pub fn is_prose(&self) -> bool {
        let has_words = |answer: &str| answer.chars().any(char::is_alphanumeric);
        self.answer.as_deref().is_some_and(has_words) && !self.looks_like_an_object()
    }

    fn looks_like_an_object(&self) -> bool {
        self.answer
            .as_deref()
            .is_some_and(|answer| answer.trim_start().starts_with('{'))
    }
}

/// Classifies one answer.
pub fn classify(evidence: &Evidence<'_>, evaluator: &mut Evaluator) -> Finding {
    let Evidence {
        probe, observation, ..
    } = evidence;
    let prefix_note = match probe.matched_prefix_letters(&observation.answer.text()) {
        Some(MIN_LETTERS..) => "; the answer until then follows the constraint",
        _ => "",
    };
    let constraint = evaluator.compile(&probe.judged_by);
    let mut finding =
        failure(observation, prefix_note).unwrap_or_else(|| classify_answer(evidence, &constraint));
    finding.answer =
        (!observation.answer.text().is_empty()).then(|| truncate_text(&observation.answer.text()));
    finding
}

/// The finding of a request without an answer; `None` if there is one.
pub(super) fn failure(observation: &Observation, prefix_note: &str) -> Option<Finding> {
    Some(match &observation.outcome {
        Outcome::Completed | Outcome::Truncated => return None,
        Outcome::Rejected { status, body, .. } if BUSY.contains(status) => {
            Finding::broken(Cause::Overloaded, message_or_placeholder(body)).status(*status)
        }
        Outcome::Rejected { status, body, .. } => {
            Finding::new(Class::Rejected, message_or_placeholder(body)).status(*status)
        }
        Outcome::Refused { message } => {
            Finding::new(Class::Unproven, format!("the model refused: {message}"))
        }
        Outcome::Unsupported { what } => Finding::new(Class::NotCarried, what.clone()),
        Outcome::ServerError { status, body, .. } => {
            Finding::broken(Cause::ServerError, message_or_placeholder(body)).status(*status)
        }
        Outcome::StreamError { message } => Finding::broken(
            Cause::StreamError,
            format!("{}{prefix_note}", message_or_placeholder(message)),
        ),
        Outcome::Transport { message, .. } => Finding::broken(
            Cause::Transport,
            format!("{}{prefix_note}", message_or_placeholder(message)),
        ),
        Outcome::TimedOut { limit_ms, .. } => Finding::broken(
            Cause::TimedOut,
            format!("no complete answer within {limit_ms} ms{prefix_note}"),
        ),
        Outcome::Cancelled | Outcome::Abandoned => Finding::new(Class::NotSent, "stopped"),
    })
}

fn message_or_placeholder(body: &str) -> String {
    match body.trim() {
        "" => "(no message)".to_owned(),
        message => truncate_text(message),
    }
}

fn classify_answer(evidence: &Evidence<'_>, constraint: &Compiled) -> Finding {
    let Evidence {
        probe, observation, ..
    } = evidence;
    let text = &*observation.answer.text();
    let truncated = observation.outcome == Outcome::Truncated;
    if let Some(reason) = wrong_channel(evidence, constraint) {
        return Finding::new(Class::WrongChannel, reason);
    }
    if !text.trim().is_empty() && is_white_space_runaway(probe, text, truncated, constraint) {
        return Finding::broken(
            Cause::WhiteSpaceRunAway,
            "white space up to the token limit: the constraint allows unlimited white space, so the answer does not end",
        );
    }
    if truncated && is_cut_call(evidence.dialect, text) {
        return Finding::new(
            Class::Unproven,
            "a tool call as content, cut at the token limit inside its envelope",
        );
    }
    // An answer that ends at the token limit may be complete.
    match judge(constraint, &observation.answer, Ending::COMPLETED) {
        Verdict::Valid if probe.random_words.is_empty() => {
            object_answer(evidence.control, truncated)
        }
        Verdict::Valid => Finding::new(Class::Enforced, ""),
        Verdict::NotScored { why } => Finding::new(
            Class::Unproven,
            format!("sobench cannot judge the answer: {why}"),
        ),
        Verdict::Invalid { .. } if text.trim().is_empty() => {
            empty_answer(evidence, truncated, constraint)
        }
        Verdict::Invalid { .. }
            if truncated && probe.random_words.is_empty() && starts_object(text) =>
        {
            object_answer(evidence.control, truncated)
        }
        Verdict::Invalid { reason } => invalid_answer(evidence, &reason, truncated, constraint),
    }
}

/// Why clients of this dialect do not find the answer, if it is in another channel.
fn wrong_channel(evidence: &Evidence<'_>, constraint: &Compiled) -> Option<&'static str> {
    let answer = &evidence.observation.answer;
    let has_call = answer
        .tool_calls
        .iter()
        .any(|call| !call.arguments.trim().is_empty());
    if evidence.dialect.answers_in_tool_calls() {
        return (!has_call && constraint.accepts(&answer.content)).then_some(
            "the document is in the content; clients that read the tool call find none",
        );
    }
    (has_call && answer.content.trim().is_empty()).then_some(
        "the answer is in the arguments of a tool call that was not requested; clients that read the content find nothing",
    )
}

/// Whether a truncated text is the beginning of a tool call that the server did not parse: the
/// arguments are inside an object with the name of the function.
fn is_cut_call(dialect: ConstraintDialect, text: &str) -> bool {
    let call = text.trim_start().trim_start_matches("<tool_call>");
    let call = call.trim_start().trim_start_matches('[').trim_start();
    let names = outer_names(call);
    let is_call_member =
        |name: &String| matches!(name.as_str(), "name" | "arguments" | "parameters");
    dialect.answers_in_tool_calls() && !names.is_empty() && names.iter().all(is_call_member)
}

/// The finding for a JSON object as the answer to "any JSON object".
fn object_answer(control: &Control, truncated: bool) -> Finding {
    if control.answer.is_none() {
        return Finding::new(
            Class::Unproven,
            "a JSON object, but there is no unconstrained answer to compare it with",
        );
    }
    if control.looks_like_an_object() {
        return Finding::new(
            Class::Unproven,
            "a JSON object, but the unconstrained answer to the same prompt looks like one too",
        );
    }
    Finding::new(
        Class::Enforced,
        if truncated {
            "the start of a JSON object, cut at the token limit"
        } else {
            ""
        },
    )
}

fn empty_answer(evidence: &Evidence<'_>, truncated: bool, constraint: &Compiled) -> Finding {
    let Evidence {
        probe, observation, ..
    } = evidence;
    if observation.answer.text().chars().count() >= RUNAWAY_CHARS {
        return Finding::broken(
            Cause::WhiteSpaceRunAway,
            "only white space up to the token limit",
        );
    }
    let reasoning = observation.answer.reasoning.trim();
    if reasoning.is_empty() {
        return Finding::new(Class::Unproven, "an empty answer");
    }
    if !probe.random_words.is_empty() && constraint.accepts(reasoning) {
        return Finding::new(
            Class::WrongChannel,
            "the answer is in the reasoning, and the content is empty; clients that read the content find nothing",
        );
    }
    let cut = if truncated {
        ", cut at the token limit"
    } else {
        ""
    };
    Finding::new(Class::Unproven, format!("reasoning without an answer{cut}"))
}

/// The finding for an answer that is not valid, or truncated.
fn invalid_answer(
    evidence: &Evidence<'_>,
    reason: &Reason,
    truncated: bool,
    constraint: &Compiled,
) -> Finding {
    let Evidence {
        probe,
        observation,
        envelopes,
        ..
    } = evidence;
    let text = &*observation.answer.text();
    match probe.matched_prefix_letters(text) {
        Some(MIN_LETTERS..) if truncated => {
            return Finding::new(
                Class::Enforced,
                "the start of an allowed text, cut at the token limit",
            );
        }
        Some(_) if truncated => {
            return Finding::new(
                Class::Unproven,
                "cut at the token limit before the result was clear",
            );
        }
        Some(MIN_LETTERS..) => {
            return Finding::new(Class::Partial, "ended in the middle of an allowed text");
        }
        _ => {}
    }
    if probe.expects_json() {
        if let Some(names) = envelope_members_in(text, envelopes) {
            let message = format!(
                "the answer has the members of the schema's envelope ({names}), not those of the schema"
            );
            return Finding::new(Class::WrongWrapper, message);
        }
        if !probe.random_words.is_empty()
            && let Some(name) = wrapped_in(text, |inner| constraint.accepts(inner))
        {
            return Finding::new(
                Class::WrongWrapper,
                format!("the correct document is inside a member {name:?}"),
            );
        }
    }
    if probe.appears_in(text) {
        return Finding::new(
            Class::Partial,
            format!("the answer contains parts of the constraint but breaks it: {reason}"),
        );
    }
    if truncated && text.trim_start().starts_with("<think>") {
        return Finding::new(
            Class::Unproven,
            "cut at the token limit inside <think>, before constraints apply",
        );
    }
    if probe.expects_json() && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() {
        return Finding::new(
            Class::Ignored,
            format!("JSON, but not valid under the schema: {reason}"),
        );
    }
    Finding::new(Class::Ignored, format!("{reason}"))
}

/// Whether an answer is JSON so far and ends in a long run of white space. A complete answer that
/// the server ended has an end.
fn is_white_space_runaway(
    probe: &ConstraintProbe,
    text: &str,
    truncated: bool,
    constraint: &Compiled,
) -> bool {
    let dense = text.trim_end();
    probe.expects_json()
        && dense.trim_start().starts_with(['{', '['])
        && text[dense.len()..].chars().count() >= RUNAWAY_CHARS
        && (truncated || !constraint.accepts(text))
}

/// Whether the text starts like a JSON object.
fn starts_object(text: &str) -> bool {
    text.trim_start()
        .strip_prefix('{')
        .is_some_and(|rest| rest.trim_start().starts_with(['"', '}']))
}

/// The text cut at [`MAX_KEPT_CHARS`], with a note of the cut.
pub(super) fn truncate_text(text: &str) -> String {
    match text.char_indices().nth(MAX_KEPT_CHARS) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}... (cut, {} bytes in all)", &text[..at], text.len()),
    }
}

#[cfg(test)]
mod tests;
