//! Parity of streamed and whole answers: whether a server sends the same answer in both forms.
//!
//! A measured request is streamed. After the run it is sent again and its answer is requested whole.
//! If the two differ, it is sent a third time, streamed. A server that then answers otherwise than
//! the first time is not deterministic, and the difference says nothing about its streams. Ids of
//! tool calls may differ.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::hashes::hash;
use sobench_core::answer::Answer;
use sobench_core::observation::{Observation, Outcome, Usage};

/// Bytes of an excerpt before and after the first difference.
const EXCERPT_BEFORE: usize = 12;
const EXCERPT_AFTER: usize = 28;

/// A response to a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    pub outcome: Outcome,
    pub answer: Answer,
    pub finish_reason: Option<String>,
    pub usage: Option<Usage>,
}

/// The comparison of a request's streamed answer with the whole one.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Parity {
    Equal,
    Different {
        differences: Vec<Difference>,
    },
    /// The answer streamed again differs from the first one.
    NotDeterministic {
        differences: Vec<Difference>,
        /// Whether the answer streamed again equals the whole one.
        repeat_equals_whole: bool,
    },
    /// The answers differ, and there is no answer streamed again.
    Unconfirmed {
        differences: Vec<Difference>,
    },
    /// There are no two answers to compare.
    NotCompared,
}

/// The first difference in one part of two answers.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Difference {
    pub part: AnswerPart,
    /// Index of the tool call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<usize>,
    /// The first byte that differs, for texts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub byte: Option<usize>,
    /// Excerpts around that byte, or the values.
    pub streamed: String,
    pub whole: String,
}

/// A part of an answer that is compared.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum AnswerPart {
    /// Only one of the requests has an answer.
    Outcome,
    Reasoning,
    Content,
    Refusal,
    NumberOfCalls,
    CallName,
    Arguments,
    /// Arguments that are the same JSON in another spelling, such as other white space.
    ArgumentsSpelling,
    FinishReason,
    Usage,
}

impl AnswerPart {
    /// The name in tables.
    pub fn label(self) -> &'static str {
        match self {
            Self::Outcome => "outcome",
            Self::Reasoning => "reasoning",
            Self::Content => "content",
            Self::Refusal => "refusal",
            Self::NumberOfCalls => "number of calls",
            Self::CallName => "name",
            Self::Arguments => "arguments",
            Self::ArgumentsSpelling => "arguments (spelling)",
            Self::FinishReason => "finish reason",
            Self::Usage => "usage",
        }
    }
}

impl Parity {
    /// Compares the answers to one request. `again` is the answer streamed again, if the other two
    /// differ.
    pub fn new(streamed: &Response, whole: &Response, again: Option<&Response>) -> Self {
        let is_comparable = [streamed, whole]
            .iter()
            .all(|response| is_from_server(&response.outcome));
        let has_answer = has_answer(&streamed.outcome) || has_answer(&whole.outcome);
        if !is_comparable || !has_answer {
            return Self::NotCompared;
        }
        let differences = differences(streamed, whole);
        if differences.is_empty() {
            return Self::Equal;
        }
        let Some(again) = again.filter(|again| is_from_server(&again.outcome)) else {
            return Self::Unconfirmed { differences };
        };
        if self::differences(streamed, again).is_empty() {
            return Self::Different { differences };
        }
        Self::NotDeterministic {
            differences,
            repeat_equals_whole: self::differences(again, whole).is_empty(),
        }
    }

    /// What differs; empty for equal answers.
    pub fn differences(&self) -> &[Difference] {
        match self {
            Self::Equal | Self::NotCompared => &[],
            Self::Different { differences }
            | Self::NotDeterministic { differences, .. }
            | Self::Unconfirmed { differences } => differences,
        }
    }
}

/// A hash of a response; responses with different hashes can differ.
pub fn digest(observation: &Observation) -> u64 {
    let answer = &observation.answer;
    let calls: Vec<_> = answer
        .tool_calls
        .iter()
        .map(|call| (&call.name, &call.arguments))
        .collect();
    let usage = observation
        .usage
        .map(|usage| (usage.prompt_tokens, usage.completion_tokens));
    hash(&(
        has_answer(&observation.outcome),
        (&answer.reasoning, &answer.content, &answer.refusal, calls),
        (&observation.finish_reason, usage),
    ))
}

/// Whether a request has an answer, which may be a refusal of the model.
fn has_answer(outcome: &Outcome) -> bool {
    outcome.is_answer() || matches!(outcome, Outcome::Refused { .. })
}

/// Whether the outcome is the server's own, and not that of the network or the client.
fn is_from_server(outcome: &Outcome) -> bool {
    has_answer(outcome)
        || matches!(
            outcome,
            Outcome::Rejected { .. } | Outcome::ServerError { .. } | Outcome::StreamError { .. }
        )
}

/// Every part in which two responses differ.
fn differences(streamed: &Response, whole: &Response) -> Vec<Difference> {
    let mut found = Vec::new();
    if has_answer(&streamed.outcome) != has_answer(&whole.outcome) {
        let name = |response: &Response| response.outcome.name().to_owned();
        found.push(Difference::from_values(
            AnswerPart::Outcome,
            name(streamed),
            name(whole),
        ));
        return found;
    }
    let (one, other) = (&streamed.answer, &whole.answer);
    for (part, one, other) in [
        (AnswerPart::Reasoning, &one.reasoning, &other.reasoning),
        (AnswerPart::Content, &one.content, &other.content),
        (AnswerPart::Refusal, &one.refusal, &other.refusal),
    ] {
        found.extend(Difference::from_texts(part, None, one, other));
    }
    add_calls(&mut found, one, other);
    let reason = |response: &Response| response.finish_reason.clone();
    if reason(streamed) != reason(whole) {
        let text = |response: &Response| reason(response).unwrap_or_else(|| "none".to_owned());
        found.push(Difference::from_values(
            AnswerPart::FinishReason,
            text(streamed),
            text(whole),
        ));
    }
    found.extend(usage(streamed.usage, whole.usage));
    found
}

fn add_calls(found: &mut Vec<Difference>, one: &Answer, other: &Answer) {
    let (count, other_count) = (one.tool_calls.len(), other.tool_calls.len());
    if count != other_count {
        // Later calls of the shorter list may be other calls of the longer one.
        return found.push(Difference::from_values(
            AnswerPart::NumberOfCalls,
            count.to_string(),
            other_count.to_string(),
        ));
    }
    for (index, (one, other)) in one.tool_calls.iter().zip(&other.tool_calls).enumerate() {
        let name =
            Difference::from_texts(AnswerPart::CallName, Some(index), &one.name, &other.name);
        found.extend(name);
        let part = if is_same_json(&one.arguments, &other.arguments) {
            AnswerPart::ArgumentsSpelling
        } else {
            AnswerPart::Arguments
        };
        let arguments = Difference::from_texts(part, Some(index), &one.arguments, &other.arguments);
        found.extend(arguments);
    }
}

fn is_same_json(one: &str, other: &str) -> bool {
    let read = |text: &str| serde_json::from_str::<Value>(text).ok();
    one != other && read(one).is_some_and(|value| Some(value) == read(other))
}

/// The difference of two token counts; a count that is missing on one side is not compared.
fn usage(streamed: Option<Usage>, whole: Option<Usage>) -> Option<Difference> {
    let (one, other) = (streamed?, whole?);
    let differs = |one: Option<u64>, other: Option<u64>| {
        one.zip(other).is_some_and(|(one, other)| one != other)
    };
    let is_different = differs(one.prompt_tokens, other.prompt_tokens)
        || differs(one.completion_tokens, other.completion_tokens);
    let text = |usage: Usage| {
        let count = |count: Option<u64>| count.map_or_else(|| "?".to_owned(), |n| n.to_string());
        let (prompt, completion) = (count(usage.prompt_tokens), count(usage.completion_tokens));
        format!("prompt {prompt}, completion {completion}")
    };
    is_different.then(|| Difference::from_values(AnswerPart::Usage, text(one), text(other)))
}

impl Difference {
    fn from_values(part: AnswerPart, streamed: String, whole: String) -> Self {
        Self {
            part,
            call: None,
            byte: None,
            streamed,
            whole,
        }
    }

    /// `None` for equal texts.
    fn from_texts(part: AnswerPart, call: Option<usize>, one: &str, other: &str) -> Option<Self> {
        if one == other {
            return None;
        }
        let byte = one
            .bytes()
            .zip(other.bytes())
            .position(|(one, other)| one != other)
            .unwrap_or_else(|| one.len().min(other.len()));
        Some(Self {
            part,
            call,
            byte: Some(byte),
            streamed: excerpt(one, byte),
            whole: excerpt(other, byte),
        })
    }
}

/// The text around a byte, with ellipses where it is cut.
fn excerpt(text: &str, byte: usize) -> String {
    let boundary = |at: usize| (0..=at.min(text.len())).rfind(|at| text.is_char_boundary(*at));
    let from = boundary(byte.saturating_sub(EXCERPT_BEFORE)).unwrap_or(0);
    let to = boundary(byte + EXCERPT_AFTER).unwrap_or(text.len());
    let mark = |is_cut: bool| if is_cut { "…" } else { "" };
    let (before, after) = (mark(from > 0), mark(to < text.len()));
    format!("{before}{}{after}", &text[from..to])
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::answer::ToolCall;

    fn text(content: &str) -> Response {
        Response {
            outcome: Outcome::Completed,
            answer: Answer::from_text(content.to_owned()),
            finish_reason: Some("stop".to_owned()),
            usage: None,
        }
    }

    fn calls(calls: &[(&str, &str, &str)]) -> Response {
        let call = |(index, (id, name, arguments)): (usize, &(&str, &str, &str))| ToolCall {
            index: index as u64,
            id: (*id).to_owned(),
            name: (*name).to_owned(),
            arguments: (*arguments).to_owned(),
            ..ToolCall::default()
        };
        Response {
            answer: Answer {
                tool_calls: calls.iter().enumerate().map(call).collect(),
                ..Answer::default()
            },
            ..text("")
        }
    }

    /// The parts that differ, with their bytes.
    fn parts(streamed: &Response, whole: &Response) -> Vec<(AnswerPart, Option<usize>)> {
        match Parity::new(streamed, whole, Some(streamed)) {
            Parity::Equal => Vec::new(),
            Parity::Different { differences } => differences
                .iter()
                .map(|found| (found.part, found.byte))
                .collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn answers_are_equal_with_other_call_ids() {
        let one = calls(&[("a", "f", "{}"), ("b", "g", "[]")]);
        let other = calls(&[("c", "f", "{}"), ("", "g", "[]")]);
        assert_eq!(Parity::new(&one, &other, None), Parity::Equal);
    }

    #[test]
    fn each_part_is_named_with_its_first_byte() {
        use AnswerPart::{
            Arguments, ArgumentsSpelling, CallName, Content, FinishReason, NumberOfCalls, Outcome,
            Reasoning,
        };
        let one = calls(&[("a", "f", r#"{"x":1,"y":2}"#)]);
        for (other, expected) in [
            (
                calls(&[("a", "f", r#"{"x":1,"y":3}"#)]),
                vec![(Arguments, Some(11))],
            ),
            (
                calls(&[("a", "f", r#"{"x": 1, "y": 2}"#)]),
                vec![(ArgumentsSpelling, Some(5))],
            ),
            (
                calls(&[("a", "g", r#"{"x":1,"y":2"#)]),
                vec![(CallName, Some(0)), (Arguments, Some(12))],
            ),
            (calls(&[]), vec![(NumberOfCalls, None)]),
            (
                Response {
                    finish_reason: None,
                    ..one.clone()
                },
                vec![(FinishReason, None)],
            ),
            (
                Response {
                    outcome: super::Outcome::ServerError {
                        status: 500,
                        body: String::new(),
                        advice: None,
                    },
                    ..text("")
                },
                vec![(Outcome, None)],
            ),
        ] {
            assert_eq!(parts(&one, &other), expected);
        }
        let thought = Response {
            answer: Answer {
                reasoning: "hm".to_owned(),
                ..Answer::from_text("ab".to_owned())
            },
            ..text("")
        };
        assert_eq!(
            parts(&thought, &text("ac")),
            [(Reasoning, Some(0)), (Content, Some(1))]
        );
    }

    #[test]
    fn usage_is_compared_where_both_have_it() {
        let with = |completion_tokens: Option<u64>| Response {
            usage: Some(Usage {
                prompt_tokens: Some(5),
                completion_tokens,
                ..Usage::default()
            }),
            ..text("a")
        };
        assert_eq!(parts(&with(Some(1)), &text("a")), []);
        assert_eq!(parts(&with(Some(1)), &with(None)), []);
        let found = Parity::new(&with(Some(1)), &with(Some(2)), Some(&with(Some(1))));
        let [difference] = found.differences() else {
            panic!("{found:?}")
        };
        assert_eq!(
            (difference.part, &*difference.streamed, &*difference.whole),
            (
                AnswerPart::Usage,
                "prompt 5, completion 1",
                "prompt 5, completion 2"
            )
        );
    }

    #[test]
    fn servers_that_are_not_deterministic_are_not_accused() {
        let (one, other, third) = (text("a"), text("b"), text("c"));
        let name = |again: Option<&Response>| match Parity::new(&one, &other, again) {
            Parity::Different { .. } => "different",
            Parity::NotDeterministic {
                repeat_equals_whole: true,
                ..
            } => "repeat equals whole",
            Parity::NotDeterministic { .. } => "not deterministic",
            Parity::Unconfirmed { .. } => "unconfirmed",
            Parity::Equal | Parity::NotCompared => "other",
        };
        assert_eq!(name(Some(&one)), "different");
        assert_eq!(name(Some(&other)), "repeat equals whole");
        assert_eq!(name(Some(&third)), "not deterministic");
        assert_eq!(name(None), "unconfirmed");
        let cancelled = Response {
            outcome: Outcome::Cancelled,
            ..text("")
        };
        assert_eq!(name(Some(&cancelled)), "unconfirmed");
        assert_eq!(Parity::new(&one, &cancelled, None), Parity::NotCompared);
    }

    #[test]
    fn excerpts_are_cut_between_characters() {
        let long = format!("{}é!{}", "é".repeat(40), "ü".repeat(40));
        let found = Difference::from_texts(AnswerPart::Content, None, &long, "é").unwrap();
        assert_eq!(found.byte, Some(2));
        assert!(found.streamed.starts_with("éé") && found.streamed.ends_with('…'));
        assert_eq!(found.whole, "é");
        let inside = excerpt(&long, 81);
        assert!(inside.starts_with('…') && inside.contains('!'), "{inside}");
        assert_eq!(excerpt("", 0), "");
    }

    #[test]
    fn parities_round_trip() {
        for parity in [
            Parity::Equal,
            Parity::new(&text("a"), &text("b"), Some(&text("c"))),
            Parity::NotCompared,
        ] {
            let json = serde_json::to_string(&parity).unwrap();
            assert_eq!(serde_json::from_str::<Parity>(&json).unwrap(), parity);
        }
    }
}
