//! Classifies answers to canary requests: what happened to the mask, and from which byte on.
//!
//! The constraint of a canary has a nonce that no other request of the run has, at the start and at
//! the end of its language, and the prompt does not have it. So an answer with another request's
//! nonce was masked by the constraint of that request, and an answer without any nonce was not
//! masked.

use std::iter;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::request_marks::RequestMarks;
use super::{Compiled, INCOMPLETE_CHARACTER};
use sobench_core::constraint::Constraint;
use sobench_core::nonce::{NONCE_PREFIX, Nonce};
use sobench_core::verdict::{Reason, Verdict};

/// Bytes of an excerpt before and after the byte of the finding.
const EXCERPT_BYTES: usize = 40;

/// Digits of a nonce that show whose it is: 32 bits.
const MIN_DIGITS: usize = 8;

/// Sequences of digits in an answer that are compared with the nonces of the run.
const MAX_SEQUENCES: usize = 16;

/// What an answer to a canary shows.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct CanaryAnswer {
    pub class: CanaryClass,
    /// The byte at which the answer leaves the language of its constraint, or at which it starts
    /// again; `None` for [`CanaryClass::Fine`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub byte: Option<usize>,
    /// The nonce of another request; only for [`CanaryClass::Swapped`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<Nonce>,
    /// The answer around the byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excerpt: Option<Excerpt>,
}

/// The text before and from a byte of an answer.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Excerpt {
    pub before: String,
    pub from: String,
}

/// What happened to the mask of a canary.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum CanaryClass {
    /// The answer follows its constraint, or was cut while it did.
    Fine,
    /// The answer has the nonce of another request.
    Swapped,
    /// The answer leaves the language before its nonce.
    MaskOff,
    /// The start of the answer is repeated.
    Restarted,
    /// A start of an answer with its nonce, or a part of it, and then other text.
    FailedOpen,
    /// Nothing but the start of an answer, although the server reports its end.
    EndedEarly,
    /// Invalid for another reason: the answer leaves the language and has its nonce after that, it
    /// is over a limit, or it is in another channel.
    OtherInvalid,
}

impl CanaryClass {
    /// Every class, in the order of tables.
    pub const ALL: [Self; 7] = [
        Self::Fine,
        Self::Swapped,
        Self::MaskOff,
        Self::Restarted,
        Self::FailedOpen,
        Self::EndedEarly,
        Self::OtherInvalid,
    ];

    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Swapped => "swapped",
            Self::MaskOff => "mask_off",
            Self::Restarted => "restarted",
            Self::FailedOpen => "failed_open",
            Self::EndedEarly => "ended_early",
            Self::OtherInvalid => "other_invalid",
        }
    }

    /// The name in tables and sentences.
    pub fn label(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Swapped => "swapped",
            Self::MaskOff => "mask off",
            Self::Restarted => "restarted",
            Self::FailedOpen => "failed open",
            Self::EndedEarly => "ended early",
            Self::OtherInvalid => "otherwise invalid",
        }
    }
}

impl CanaryAnswer {
    fn fine() -> Self {
        Self {
            class: CanaryClass::Fine,
            byte: None,
            nonce: None,
            excerpt: None,
        }
    }

    fn new(class: CanaryClass, text: &str, byte: usize) -> Self {
        Self {
            class,
            byte: Some(byte),
            nonce: None,
            excerpt: Some(Excerpt::new(text, byte)),
        }
    }
}

impl Excerpt {
    fn new(text: &str, byte: usize) -> Self {
        let boundary = |at: usize| {
            let mut places = (0..=at.min(text.len())).rev();
            places.find(|at| text.is_char_boundary(*at)).unwrap_or(0)
        };
        let start = boundary(byte.saturating_sub(EXCERPT_BYTES));
        let end = boundary(byte.saturating_add(EXCERPT_BYTES));
        Self {
            before: text[start..byte].to_owned(),
            from: text[byte..end].to_owned(),
        }
    }
}

impl Compiled {
    /// Classifies the answer to a canary by its text and its verdict ([`crate::judge`]). `None` for
    /// answers without a verdict, and for other constraints.
    pub fn classify_canary(&self, text: &str, verdict: &Verdict) -> Option<CanaryAnswer> {
        let constraint = self.inner.constraint.as_ref()?;
        let own = Nonce::from_constraint(constraint)?;
        let reason = match verdict {
            Verdict::NotScored { .. } => return None,
            Verdict::Valid
            | Verdict::Invalid {
                reason: Reason::Truncated,
            } => return Some(CanaryAnswer::fine()),
            Verdict::Invalid { reason } => reason,
        };
        let end = self.longest_start(constraint, text);
        let found = |class| Some(CanaryAnswer::new(class, text, end));
        let marks = self.marks.as_deref();
        if let Some(other) = marks.and_then(|marks| marks.other_nonce(constraint, text)) {
            return Some(CanaryAnswer {
                nonce: Some(other),
                ..CanaryAnswer::new(CanaryClass::Swapped, text, end)
            });
        }
        if matches!(
            reason,
            Reason::WrongChannel { .. }
                | Reason::TooLong { .. }
                | Reason::TooDeep { .. }
                | Reason::RunawayWhitespace { .. }
        ) {
            return found(CanaryClass::OtherInvalid);
        }
        if end == text.len() {
            return found(CanaryClass::EndedEarly);
        }
        if let Some(byte) = self.restart(constraint, own, text, end) {
            return Some(CanaryAnswer::new(CanaryClass::Restarted, text, byte));
        }
        if let Some(other) = marks.and_then(|marks| partial_nonce(marks, own, &text[end..])) {
            return Some(CanaryAnswer {
                nonce: Some(other),
                ..CanaryAnswer::new(CanaryClass::Swapped, text, end)
            });
        }
        let own = own.to_string();
        if !text[..end].contains(&own[..=NONCE_PREFIX.len()]) {
            return found(CanaryClass::MaskOff);
        }
        if text[end..].contains(&own) {
            return found(CanaryClass::OtherInvalid);
        }
        found(CanaryClass::FailedOpen)
    }

    /// The length of the longest start of `text` that may become a valid answer.
    fn longest_start(&self, constraint: &Constraint, text: &str) -> usize {
        let ends = text.char_indices().map(|(at, _)| at);
        let ends: Vec<usize> = ends.chain(iter::once(text.len())).collect();
        let starts = ends.partition_point(|end| self.may_become_valid(&text[..*end]));
        let start = &text[..ends[starts.saturating_sub(1)]];
        let start = match constraint.schema() {
            Some(schema) if start.len() < text.len() => {
                &start[..unknown_name_byte(schema, start).unwrap_or(start.len())]
            }
            _ => start,
        };
        // Incomplete characters at the end may become any others.
        start.trim_end_matches(INCOMPLETE_CHARACTER).len()
    }

    /// The byte from which on `text` is another start of an answer, up to `end`, where it leaves the
    /// language.
    fn restart(
        &self,
        constraint: &Constraint,
        own: Nonce,
        text: &str,
        end: usize,
    ) -> Option<usize> {
        let nonce = own.to_string();
        for (at, _) in text.match_indices(NONCE_PREFIX) {
            let rest = &text[at..];
            let is_cut = rest.len() > NONCE_PREFIX.len() && nonce.starts_with(rest);
            if !is_cut && !rest.starts_with(&nonce) {
                continue;
            }
            let start = match constraint.schema() {
                Some(_) => text[..at].rfind('{')?,
                None => at,
            };
            if (1..=end).contains(&start) && self.may_become_valid(&text[start..]) {
                return Some(start);
            }
        }
        None
    }
}

/// The nonce of another request of which `rest` has a part.
fn partial_nonce(marks: &RequestMarks, own: Nonce, rest: &str) -> Option<Nonce> {
    let is_digit = |character: char| matches!(character, '0'..='9' | 'a'..='f');
    rest.split(|character| !is_digit(character))
        .filter_map(|digits| digits.get(..MIN_DIGITS))
        .take(MAX_SEQUENCES)
        .find_map(|digits| marks.nonce_with_digits(own, digits))
}

/// The byte at which a name of a member leaves the names of the schema, if the start of an answer
/// ends after such a name. `None` if it does not: a name is only judged when it is complete.
fn unknown_name_byte(schema: &Value, start: &str) -> Option<usize> {
    let is_after_name = |character: char| character == ':' || character.is_ascii_whitespace();
    let open = start.trim_end_matches(is_after_name).strip_suffix('"')?;
    let name_at = open.rfind('"')? + 1;
    let is_name = open[..name_at - 1].trim_end().ends_with(['{', ',']);
    let name = &open[name_at..];
    let members = schema.get("properties")?.as_object()?;
    if !is_name || members.contains_key(name) {
        return None;
    }
    let common = |known: &String| {
        let pairs = known.bytes().zip(name.bytes());
        pairs.take_while(|(known, found)| known == found).count()
    };
    let byte = name_at + members.keys().map(common).max()?;
    start.is_char_boundary(byte).then_some(byte)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::{Ending, Evaluator, JudgeSettings, judge};
    use sobench_core::answer::Answer;
    use sobench_core::constraint::GrammarDialect;
    use sobench_core::observation::Outcome;

    const OWN: Nonce = Nonce::new(0x0123_4567_89ab_cdef);
    const OTHER: Nonce = Nonce::new(0x0123_feed_beef_5678);

    /// A canary of each kind, and a valid answer to it.
    fn canaries(nonce: Nonce) -> Vec<(Constraint, String)> {
        let schema = json!({
            "type": "object",
            "properties": {
                "start": {"const": nonce.to_string()},
                "words": {"type": "array", "items": {"enum": ["river", "stone"]}, "maxItems": 3},
                "end": {"enum": [nonce.to_string()]},
            },
            "required": ["start", "words", "end"],
            "additionalProperties": false,
        });
        let text = format!("{nonce} river stone {nonce}");
        let grammar = |dialect, text: String| Constraint::Grammar {
            dialect,
            text: text.into(),
        };
        let json = format!(r#"{{"start": "{nonce}", "words": ["river"], "end": "{nonce}"}}"#);
        vec![
            (Constraint::JsonSchema(Arc::new(schema)), json),
            (
                Constraint::Regex(format!("{nonce}(?: [d-z]{{3,8}}){{1,4}} {nonce}").into()),
                text.clone(),
            ),
            (
                Constraint::Choice(
                    vec![
                        format!("{nonce} river stone {nonce}"),
                        format!("{nonce} sea {nonce}"),
                    ]
                    .into(),
                ),
                text.clone(),
            ),
            (
                grammar(
                    GrammarDialect::Lark,
                    format!(
                        "start: \"{nonce}\" word+ \" {nonce}\"\nword: \" river\" | \" stone\"\n"
                    ),
                ),
                text.clone(),
            ),
            (
                grammar(
                    GrammarDialect::Ebnf,
                    format!(
                        "root ::= \"{nonce}\" word+ \" {nonce}\"\nword ::= \" river\" | \" stone\"\n"
                    ),
                ),
                text,
            ),
        ]
    }

    fn classify(constraint: &Constraint, text: &str, outcome: &Outcome) -> CanaryAnswer {
        let mut evaluator = Evaluator::new(JudgeSettings::default());
        for nonce in [OWN, OTHER] {
            for (constraint, _) in canaries(nonce) {
                evaluator.add_request(&constraint);
            }
        }
        let answer = Answer::from_text(text.to_owned());
        let compiled = evaluator.compile_request(Some(constraint), None, None);
        let ending = Ending {
            outcome,
            finish_reason: None,
        };
        let verdict = judge(&compiled, &answer, ending);
        compiled.classify_canary(text, &verdict).unwrap()
    }

    #[track_caller]
    fn check(constraint: &Constraint, text: &str, class: CanaryClass, byte: usize) {
        for outcome in [Outcome::Completed, Outcome::Truncated] {
            let found = classify(constraint, text, &outcome);
            if class == CanaryClass::EndedEarly && outcome == Outcome::Truncated {
                assert_eq!(found, CanaryAnswer::fine(), "{text}");
                continue;
            }
            assert_eq!(
                (found.class, found.byte),
                (class, Some(byte)),
                "{outcome:?}: {text}"
            );
            let excerpt = found.excerpt.unwrap();
            assert!(text[..byte].ends_with(&excerpt.before), "{text}");
            assert!(text[byte..].starts_with(&excerpt.from), "{text}");
            let is_swap = class == CanaryClass::Swapped;
            assert_eq!(found.nonce, is_swap.then_some(OTHER), "{text}");
        }
    }

    #[test]
    fn every_class_is_found_in_every_kind() {
        for (at, (constraint, valid)) in canaries(OWN).into_iter().enumerate() {
            let others = canaries(OTHER);
            let other = &others[at].1;
            for outcome in [Outcome::Completed, Outcome::Truncated] {
                assert_eq!(
                    classify(&constraint, &valid, &outcome),
                    CanaryAnswer::fine()
                );
            }
            for end in 1..valid.len() {
                let found = classify(&constraint, &valid[..end], &Outcome::Truncated);
                assert_eq!(found, CanaryAnswer::fine(), "{}", &valid[..end]);
                check(&constraint, &valid[..end], CanaryClass::EndedEarly, end);
            }
            // The nonces have their first four digits in common.
            let shared = valid.bytes().zip(other.bytes());
            let shared = shared.take_while(|(own, other)| own == other).count();
            check(&constraint, other, CanaryClass::Swapped, shared);
            let kind = if at == 0 { 1 } else { 0 };
            check(&constraint, &others[kind].1, CanaryClass::Swapped, 0);
            // A part of the other nonce, after a start of the answer.
            let middle = valid.find("river").unwrap() + 5;
            let text = format!("{}-feedbeef", &valid[..middle]);
            check(&constraint, &text, CanaryClass::Swapped, middle);
            let prose = "Bread is baked of flour and water.";
            check(&constraint, prose, CanaryClass::MaskOff, 0);
            let text = format!("{}{prose}", &valid[..middle]);
            check(&constraint, &text, CanaryClass::FailedOpen, middle);
            let text = format!("{valid} {prose}");
            let byte = valid.len() + usize::from(at == 0);
            check(&constraint, &text, CanaryClass::FailedOpen, byte);
            for cut in [
                middle,
                middle - 3,
                valid.find("0123").unwrap() + 6,
                valid.len(),
            ] {
                let text = format!("{}{valid}", &valid[..cut]);
                check(&constraint, &text, CanaryClass::Restarted, cut);
                let nonce_end = valid.find("0123").unwrap() + 2;
                let text = format!("{}{}", &valid[..cut], &valid[..nonce_end]);
                check(&constraint, &text, CanaryClass::Restarted, cut);
            }
            let text = format!("{}?{}", &valid[..middle], &valid[middle..]);
            check(&constraint, &text, CanaryClass::OtherInvalid, middle);
            check(&constraint, "", CanaryClass::EndedEarly, 0);
        }
    }

    #[test]
    fn json_without_a_mask_leaves_the_language_in_the_first_unknown_name() {
        let (schema, _) = canaries(OWN).swap_remove(0);
        for (text, byte) in [
            (r#"{"topic": "bread"}"#, 2),
            (r#"{ "state" : 1}"#, 6),
            (r#"{"start": "bread"}"#, 11),
            (r#"{"start": "cn-x"}"#, 14),
            (r#"{"end": 4}"#, 8),
            ("[1, 2]", 0),
            (r#""bread""#, 0),
        ] {
            check(&schema, text, CanaryClass::MaskOff, byte);
        }
    }

    #[test]
    fn other_constraints_and_answers_without_a_verdict_have_no_class() {
        let mut evaluator = Evaluator::new(JudgeSettings::default());
        let plain = evaluator.compile(&Constraint::Regex("a+".into()));
        assert_eq!(plain.classify_canary("a", &Verdict::Valid), None);
        let (constraint, valid) = canaries(OWN).swap_remove(1);
        let unscored = Verdict::NotScored {
            why: sobench_core::verdict::NotScored::Failed,
        };
        let compiled = evaluator.compile(&constraint);
        assert_eq!(compiled.classify_canary(&valid, &unscored), None);
    }

    #[test]
    fn names_are_those_of_files() {
        for class in CanaryClass::ALL {
            assert_eq!(serde_json::to_value(class).unwrap(), class.name());
        }
    }
}
