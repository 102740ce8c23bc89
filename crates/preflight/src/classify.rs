//! What proves what: from a question and what came of it to a class. Pure.
//!
//! - A whole answer that the constraint allows proves it enforced: the question's words come by chance once in 20^12 tries. So one
//!   question a cell is enough, and no second one is asked for certainty.
//! - An answer that was cut at the token limit proves the same if it is the beginning of an allowed text and holds at least
//!   [`MIN_LETTERS`] of the drawn letters; with fewer it proves nothing, and is asked once more with room.
//! - "Any JSON object" has no words to draw. It is proved against the control, the same prompt without a constraint: an object
//!   here, none there.
//! - An answer outside the constraint is ignored only if nothing of the constraint shows in it. A drawn word beside other text, or
//!   with the rest of the schema broken, is [`Class::Partial`]: the constraint arrived, and does not hold.
//! - An empty answer, or reasoning without an answer, is neither: servers apply a constraint only after the reasoning, and some
//!   swallow what they cannot parse.
//! - White space until the token limit is a failure of its own: the constraint holds and the answer never ends.
//! - What a class does not say: whether the server masks tokens, or writes the constraint into the prompt and hopes. Against a
//!   prompt that asks for something else, hoping shows sooner or later; the run's correct rate tells how often.

use serde::Serialize;

use super::MAX_KEPT_CHARS;
use super::envelope::{Envelope, taken_for_schema, wrapped_in};
use super::question::Question;
use sobench_core::observation::{Observation, Outcome};
use sobench_core::verdict::{Reason, Verdict};
use sobench_judge::Evaluator;
use sobench_notices::enforcement::{Cause, Class, Finding};

/// Drawn letters that the beginning of an answer must show: 20^4 texts of that length are as
/// likely.
pub const MIN_LETTERS: usize = 4;

/// White space at the end of a cut JSON answer from which on it counts as running away. The widest
/// indentation that engines allow is far below.
const RUN_AWAY_CHARS: usize = 24;

/// Statuses that refuse the moment and not the request: Request Timeout and Too Many Requests.
pub(super) const BUSY: [u16; 2] = [408, 429];

/// What the same prompt brought without a constraint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Control {
    /// The answer; `None` where the request failed.
    pub answer: Option<String>,
    /// Why there is none.
    pub failure: Option<Finding>,
}

/// Everything that is known when a question is judged.
pub struct Evidence<'a> {
    pub question: &'a Question,
    pub observation: &'a Observation,
    pub control: &'a Control,
    pub envelopes: &'a [Envelope],
}

impl Control {
    /// Reads the outcome of the request without a constraint.
    pub fn of(observation: &Observation) -> Self {
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

    fn looks_like_an_object(&self) -> bool {
        self.answer
            .as_deref()
            .is_some_and(|answer| answer.trim_start().starts_with('{'))
    }
}

/// Judges one question.
pub fn classify(evidence: &Evidence<'_>, evaluator: &mut Evaluator) -> Finding {
    let Evidence {
        question,
        observation,
        ..
    } = evidence;
    let came = match question.letters_of_beginning(&observation.answer.text()) {
        Some(MIN_LETTERS..) => "; what came before is as the constraint says",
        _ => "",
    };
    let mut finding = failure(observation, came).unwrap_or_else(|| answered(evidence, evaluator));
    finding.answer =
        (!observation.answer.text().is_empty()).then(|| kept(&observation.answer.text()));
    finding
}

/// The finding of a request that got no answer; `None` where it got one.
fn failure(observation: &Observation, came: &str) -> Option<Finding> {
    Some(match &observation.outcome {
        Outcome::Completed | Outcome::Truncated => return None,
        Outcome::Rejected { status, body, .. } if BUSY.contains(status) => {
            Finding::broken(Cause::Overloaded, said(body)).status(*status)
        }
        Outcome::Rejected { status, body, .. } => {
            Finding::new(Class::Rejected, said(body)).status(*status)
        }
        Outcome::Unsupported { what } => Finding::new(Class::NotCarried, what.clone()),
        Outcome::ServerError { status, body, .. } => {
            Finding::broken(Cause::ServerError, said(body)).status(*status)
        }
        Outcome::StreamError { message } => {
            Finding::broken(Cause::StreamError, format!("{}{came}", said(message)))
        }
        Outcome::Transport { message, .. } => {
            Finding::broken(Cause::Transport, format!("{}{came}", said(message)))
        }
        Outcome::TimedOut { limit_ms, .. } => Finding::broken(
            Cause::TimedOut,
            format!("no end of the answer within {limit_ms} ms{came}"),
        ),
        Outcome::Cancelled => Finding::new(Class::NotAsked, "stopped"),
    })
}

fn said(body: &str) -> String {
    match body.trim() {
        "" => "(no words)".to_owned(),
        words => kept(words),
    }
}

fn answered(evidence: &Evidence<'_>, evaluator: &mut Evaluator) -> Finding {
    let Evidence {
        question,
        observation,
        ..
    } = evidence;
    let text = &*observation.answer.text();
    let truncated = observation.outcome == Outcome::Truncated;
    // The text alone is judged: one that is complete at the very token where it was cut proves as
    // much as any.
    match evaluator.judge_text(&question.judged_by, None, text) {
        Verdict::Valid if question.secrets.is_empty() => object(evidence.control, truncated),
        Verdict::Valid => Finding::new(Class::Enforced, ""),
        Verdict::NotScored { why } => Finding::new(
            Class::Unproven,
            format!("sobench cannot judge the answer: {why}"),
        ),
        Verdict::Invalid { .. } if text.trim().is_empty() => empty(evidence, truncated),
        Verdict::Invalid { .. } if truncated && runs_away(question, text) => Finding::broken(
            Cause::WhiteSpaceRunAway,
            "white space to the token limit: the constraint allows it without end, and so the answer has none",
        ),
        Verdict::Invalid { .. }
            if truncated && question.secrets.is_empty() && begins_object(text) =>
        {
            object(evidence.control, truncated)
        }
        Verdict::Invalid { reason } => outside(evidence, &reason, truncated, evaluator),
    }
}

/// "Any JSON object" was answered with one.
fn object(control: &Control, truncated: bool) -> Finding {
    if control.answer.is_none() {
        return Finding::new(
            Class::Unproven,
            "a JSON object, but there is no unconstrained answer to hold it against",
        );
    }
    if control.looks_like_an_object() {
        return Finding::new(
            Class::Unproven,
            "a JSON object, but the unconstrained answer to the same prompt looks like one, too",
        );
    }
    Finding::new(
        Class::Enforced,
        if truncated {
            "cut at the token limit, as a JSON object begins"
        } else {
            ""
        },
    )
}

fn empty(evidence: &Evidence<'_>, truncated: bool) -> Finding {
    let Evidence {
        question,
        observation,
        ..
    } = evidence;
    if truncated && runs_away(question, &observation.answer.text()) {
        return Finding::broken(
            Cause::WhiteSpaceRunAway,
            "nothing but white space to the token limit",
        );
    }
    if observation.answer.reasoning.is_empty() {
        return Finding::new(Class::Unproven, "an empty answer");
    }
    let cut = if truncated {
        ", cut at the token limit"
    } else {
        ""
    };
    Finding::new(Class::Unproven, format!("reasoning and no answer{cut}"))
}

/// The answer is outside the constraint, unless it was cut.
fn outside(
    evidence: &Evidence<'_>,
    reason: &Reason,
    truncated: bool,
    evaluator: &mut Evaluator,
) -> Finding {
    let Evidence {
        question,
        observation,
        envelopes,
        ..
    } = evidence;
    let text = &*observation.answer.text();
    match question.letters_of_beginning(text) {
        Some(MIN_LETTERS..) if truncated => {
            return Finding::new(
                Class::Enforced,
                "cut at the token limit, as an allowed text begins",
            );
        }
        Some(_) if truncated => {
            return Finding::new(
                Class::Unproven,
                "cut at the token limit before it could show anything",
            );
        }
        Some(MIN_LETTERS..) => {
            return Finding::new(Class::Partial, "ended in the middle of an allowed text");
        }
        _ => {}
    }
    if question.wants_json() {
        if let Some(names) = taken_for_schema(text, envelopes) {
            let words = format!(
                "the answer has the members of the schema's envelope ({names}), not those of the schema"
            );
            return Finding::new(Class::WrongWrapper, words);
        }
        if !question.secrets.is_empty()
            && let Some(name) = wrapped_in(text, |inner| {
                evaluator.judge_text(&question.judged_by, None, inner) == Verdict::Valid
            })
        {
            return Finding::new(
                Class::WrongWrapper,
                format!("the right document came inside a member {name:?}"),
            );
        }
    }
    if question.shows_in(text) {
        return Finding::new(
            Class::Partial,
            format!("the constraint shows in the answer, which breaks it: {reason}"),
        );
    }
    if truncated && text.trim_start().starts_with("<think>") {
        return Finding::new(
            Class::Unproven,
            "cut at the token limit inside <think>: constraints begin after it",
        );
    }
    if question.wants_json() && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() {
        return Finding::new(
            Class::Ignored,
            format!("JSON, but not by the schema: {reason}"),
        );
    }
    Finding::new(Class::Ignored, format!("{reason}"))
}

/// Whether a cut answer is JSON so far and ends in a run of white space.
fn runs_away(question: &Question, text: &str) -> bool {
    let dense = text.trim_end();
    let begins = dense.is_empty() || dense.trim_start().starts_with(['{', '[']);
    question.wants_json() && begins && text[dense.len()..].chars().count() >= RUN_AWAY_CHARS
}

/// Whether text begins as a JSON object and as nothing else does.
fn begins_object(text: &str) -> bool {
    text.trim_start()
        .strip_prefix('{')
        .is_some_and(|rest| rest.trim_start().starts_with(['"', '}']))
}

/// As much of a stranger's text as is kept; what is cut is said.
pub(super) fn kept(text: &str) -> String {
    match text.char_indices().nth(MAX_KEPT_CHARS) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}... (cut, {} bytes in all)", &text[..at], text.len()),
    }
}

#[cfg(test)]
mod tests;
