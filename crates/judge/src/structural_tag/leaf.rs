//! Formats that are judged by another judge: JSON Schema, regular expressions and grammars.

use regex_automata::hybrid::dfa::Cache;
use serde_json::Value;
use sobench_core::constraint::GrammarDialect;
use sobench_core::verdict::{NotScored, Reason, Verdict};
use sobench_grammar::Recogniser;

use super::super::json_reader::{self, Document};
use super::super::json_scan::{Dialect, skip_white_space};
use super::super::pattern::{self, EndsMatcher};
use super::super::schema::SchemaJudge;
use super::super::{JudgeSettings, grammar, json_answer};
use super::tree::Style;
use super::xml::XmlJudge;

/// Bytes that are read in the time of a step.
const BYTES_PER_STEP: usize = 4;

/// Steps of judging one value by a schema.
pub(super) const STEPS_PER_JUDGEMENT: u64 = 2_000;

/// Steps of starting a recogniser or automaton.
const STEPS_PER_START: u64 = 4;

/// A compiled format.
pub(super) enum Leaf {
    Json(SchemaJudge),
    Xml(Box<XmlJudge>),
    Regex(Box<EndsMatcher>),
    Grammar(Box<Recogniser>),
}

/// What a format matches from one byte on.
#[derive(Debug, Default)]
pub(super) struct LeafMatch {
    /// The ends of all matches, ascending.
    pub ends: Vec<usize>,
    /// The byte up to which the text may be the start of a match.
    pub furthest: usize,
    /// The byte that explains why there is no longer match, if it is not `furthest`.
    pub shown: Option<usize>,
    /// Whether more text may complete a match.
    pub may_continue: bool,
    /// Why there is no longer match.
    pub message: String,
}

/// Steps that are left for one answer.
#[derive(Debug)]
pub(super) struct Steps(pub u64);

impl Steps {
    pub(super) fn take(&mut self, steps: u64) -> Result<(), NotScored> {
        self.0 = self.0.checked_sub(steps).ok_or_else(out_of_steps)?;
        Ok(())
    }

    pub(super) fn take_bytes(&mut self, bytes: usize) -> Result<(), NotScored> {
        self.take(1 + (bytes / BYTES_PER_STEP) as u64)
    }
}

fn out_of_steps() -> NotScored {
    NotScored::Limit {
        what: format!(
            "structural tag: over {} steps of matching",
            super::MAX_STEPS
        ),
    }
}

impl Leaf {
    pub(super) fn json_schema(
        schema: &Value,
        style: Style,
        options: JudgeSettings,
    ) -> Result<Self, NotScored> {
        let judge = SchemaJudge::compile(schema, options)?;
        Ok(match style {
            Style::Json => Self::Json(judge),
            style => Self::Xml(Box::new(XmlJudge::new(schema, style, judge)?)),
        })
    }

    /// As xgrammar reads patterns: the notation of ECMAScript, and `.` also matches line ends.
    pub(super) fn regex(source: &str) -> Result<Self, NotScored> {
        let parsed = pattern::parse(&format!("(?s:{source})"), pattern::Dialect::Ecma)?;
        Ok(Self::Regex(Box::new(EndsMatcher::new(&parsed)?)))
    }

    pub(super) fn grammar(text: &str) -> Result<Self, NotScored> {
        sobench_grammar::compile(GrammarDialect::Ebnf, text)
            .map(|recogniser| Self::Grammar(Box::new(recogniser)))
            .map_err(|error| grammar::not_scorable("grammar", &error))
    }

    /// The cache of an automaton.
    pub(super) fn cache(&self) -> Option<Cache> {
        match self {
            Self::Regex(matcher) => Some(matcher.cache()),
            _ => None,
        }
    }

    /// Matches from byte `start` of `text` on. The error is the reason why this cannot be decided.
    pub(super) fn matches(
        &self,
        text: &str,
        start: usize,
        cache: Option<&mut Cache>,
        steps: &mut Steps,
    ) -> Result<LeafMatch, NotScored> {
        steps.take(STEPS_PER_START)?;
        let rest = &text[start..];
        match (self, cache) {
            (Self::Json(judge), _) => json_value(judge, text, start, steps),
            (Self::Xml(judge), _) => judge.matches(text, start, steps),
            (Self::Regex(matcher), Some(cache)) => {
                let found = matcher.ends(cache, rest).ok_or_else(|| NotScored::Limit {
                    what: "structural tag: states of a regex".to_owned(),
                })?;
                steps.take_bytes(found.read)?;
                Ok(automaton_match(
                    found.ends,
                    found.read,
                    text,
                    start,
                    "does not match the regex",
                ))
            }
            (Self::Regex(matcher), None) => {
                self.matches(text, start, Some(&mut matcher.cache()), steps)
            }
            (Self::Grammar(recogniser), _) => {
                let found =
                    recogniser
                        .prefixes(rest, steps.0)
                        .map_err(|what| NotScored::Limit {
                            what: format!("structural tag: {what}"),
                        })?;
                steps.take(found.steps)?;
                Ok(automaton_match(
                    found.ends,
                    found.read,
                    text,
                    start,
                    "not in the language of the grammar",
                ))
            }
        }
    }
}

fn automaton_match(
    mut ends: Vec<usize>,
    read: usize,
    text: &str,
    start: usize,
    message: &str,
) -> LeafMatch {
    for end in &mut ends {
        *end += start;
    }
    LeafMatch {
        ends,
        // An automaton over bytes may stop inside a character.
        furthest: floor_char_boundary(text, start + read),
        shown: None,
        may_continue: start + read == text.len(),
        message: message.to_owned(),
    }
}

fn floor_char_boundary(text: &str, mut byte: usize) -> usize {
    while !text.is_char_boundary(byte) {
        byte -= 1;
    }
    byte
}

/// Matches a JSON text: a value that the schema accepts, with white space around it.
fn json_value(
    judge: &SchemaJudge,
    text: &str,
    start: usize,
    steps: &mut Steps,
) -> Result<LeafMatch, NotScored> {
    let value_start = skip_white_space(text, start);
    steps.take_bytes(value_start - start)?;
    if matches!(text.as_bytes().get(value_start), Some(b'-' | b'0'..=b'9')) {
        return number(judge, text, value_start, steps);
    }
    let document = match json_reader::read(text, value_start, Dialect::Rfc8259) {
        Ok(document) => document,
        Err(error) => {
            steps.take_bytes(error.byte - value_start)?;
            let mut found = LeafMatch {
                furthest: error.byte,
                may_continue: error.at_end,
                message: error.message.to_owned(),
                ..LeafMatch::default()
            };
            if error.at_end
                && let Some(reason) = start_violation(judge, &text[value_start..])
            {
                found.may_continue = false;
                found.shown = Some(value_start);
                found.message = reason.to_string();
            }
            return Ok(found);
        }
    };
    steps.take_bytes(document.end - value_start)?;
    let end = document.end;
    Ok(match value_violation(judge, &document, steps)? {
        None => LeafMatch {
            ends: white_space_ends(text, end),
            furthest: end,
            ..LeafMatch::default()
        },
        Some(message) => LeafMatch {
            furthest: end,
            shown: Some(value_start),
            message,
            ..LeafMatch::default()
        },
    })
}

/// The positions from `end` on to the end of the white space there.
pub(super) fn white_space_ends(text: &str, end: usize) -> Vec<usize> {
    (end..=skip_white_space(text, end)).collect()
}

/// Why a JSON value is not valid, if it is not.
pub(super) fn value_violation(
    judge: &SchemaJudge,
    document: &Document<'_>,
    steps: &mut Steps,
) -> Result<Option<String>, NotScored> {
    if let Some(reason) = document.irregularity() {
        return Ok(Some(reason.to_string()));
    }
    steps.take(STEPS_PER_JUDGEMENT)?;
    match judge.judge_document(document) {
        Verdict::Valid => Ok(None),
        Verdict::Invalid { reason } => Ok(Some(reason.to_string())),
        Verdict::NotScored { why } => Err(why),
    }
}

/// Why no continuation of the start of a JSON text can be valid, if that is certain.
fn start_violation(judge: &SchemaJudge, text: &str) -> Option<Reason> {
    match json_answer::parse_start(text) {
        Ok(json_answer::Start::Partial(start)) => judge.final_violation(&start),
        Ok(_) => None,
        Err(refused) => Some(refused.reason),
    }
}

/// Matches a number. The start of a number may be a number too.
fn number(
    judge: &SchemaJudge,
    text: &str,
    start: usize,
    steps: &mut Steps,
) -> Result<LeafMatch, NotScored> {
    let mut found = LeafMatch::default();
    let (number_ends, read) = number_ends(&text[start..]);
    for length in number_ends {
        let end = start + length;
        let Ok(document) = json_reader::read(&text[..end], start, Dialect::Rfc8259) else {
            continue;
        };
        steps.take_bytes(length)?;
        match value_violation(judge, &document, steps)? {
            None => found.ends.extend(white_space_ends(text, end)),
            Some(message) => {
                found.message = message;
                found.shown = Some(start);
            }
        }
    }
    found.ends.sort_unstable();
    found.ends.dedup();
    found.furthest = start + read;
    found.may_continue = start + read == text.len();
    if found.message.is_empty() {
        found.message = "expected a number".to_owned();
    }
    Ok(found)
}

/// The lengths of the numbers at the start of `text`, and the length up to which it is the start of
/// a number.
fn number_ends(text: &str) -> (Vec<usize>, usize) {
    #[derive(Clone, Copy, PartialEq)]
    enum At {
        Start,
        Sign,
        Zero,
        Integer,
        Point,
        Fraction,
        Exponent,
        ExponentSign,
        Power,
    }
    let (mut at, mut ends, mut read) = (At::Start, Vec::new(), 0);
    for byte in text.bytes() {
        at = match (at, byte) {
            (At::Start, b'-') => At::Sign,
            (At::Start | At::Sign, b'0') => At::Zero,
            (At::Start | At::Sign, b'1'..=b'9') | (At::Integer, b'0'..=b'9') => At::Integer,
            (At::Zero | At::Integer, b'.') => At::Point,
            (At::Point | At::Fraction, b'0'..=b'9') => At::Fraction,
            (At::Zero | At::Integer | At::Fraction, b'e' | b'E') => At::Exponent,
            (At::Exponent, b'+' | b'-') => At::ExponentSign,
            (At::Exponent | At::ExponentSign | At::Power, b'0'..=b'9') => At::Power,
            _ => break,
        };
        read += 1;
        if matches!(at, At::Zero | At::Integer | At::Fraction | At::Power) {
            ends.push(read);
        }
    }
    (ends, read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_may_end_at_several_places() {
        for (text, ends, read) in [
            ("12.5e-3x", &[1, 2, 4, 7][..], 7),
            ("-", &[], 1),
            ("01", &[1], 1),
            ("1.x", &[1], 2),
            ("x", &[], 0),
        ] {
            assert_eq!(number_ends(text), (ends.to_vec(), read), "{text}");
        }
    }
}
