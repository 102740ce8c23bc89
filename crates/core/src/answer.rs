//! The answer of a model, by channel: reasoning, content, refusal, tool calls.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::departure::{Departure, Departures};
use crate::frames::Frames;

/// The text that a model produced, without timing.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Answer {
    pub reasoning: String,
    pub content: String,
    /// The refusal that replaces content.
    pub refusal: String,
    /// In order of their first chunk.
    pub tool_calls: Vec<ToolCall>,
    /// How its stream or body departs from the API.
    #[serde(default, skip_serializing_if = "Departures::is_empty")]
    pub departures: Departures,
    #[serde(default, skip_serializing_if = "AnsweredBy::is_empty")]
    pub answered_by: AnsweredBy,
    /// What the server sent; after the check of its shape only where the check found something.
    #[serde(default, skip_serializing_if = "Frames::is_empty")]
    pub frames: Frames,
}

/// The model and the server that an answer names; empty if it names none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(default)]
pub struct AnsweredBy {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub model: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub system_fingerprint: String,
}

impl AnsweredBy {
    pub fn is_empty(&self) -> bool {
        self.model.is_empty() && self.system_fingerprint.is_empty()
    }
}

/// A part of an answer that a client reads separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    Content,
    ToolCalls,
    Reasoning,
}

impl Channel {
    /// Every channel, in the order of an answer.
    pub const ALL: [Self; 3] = [Self::Reasoning, Self::Content, Self::ToolCalls];

    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Content => "content",
            Self::ToolCalls => "tool_calls",
            Self::Reasoning => "reasoning",
        }
    }
}

/// A tool call; fields that the server did not send are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolCall {
    /// The index that the server assigned.
    pub index: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// JSON text as received.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub arguments: String,
    #[serde(skip_serializing_if = "CallForm::is_function")]
    pub form: CallForm,
}

/// How a call is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallForm {
    /// A call of a function, with a text as arguments.
    #[default]
    Function,
    /// A call of a custom tool.
    Custom,
    /// A call of a function, with another JSON value in place of the text.
    Object,
}

impl CallForm {
    fn is_function(&self) -> bool {
        *self == Self::Function
    }
}

impl Answer {
    /// An answer with content only.
    pub fn from_text(text: String) -> Self {
        Self {
            content: text,
            ..Self::default()
        }
    }

    /// The text that is judged: content, refusal and arguments of tool calls.
    pub fn text(&self) -> Cow<'_, str> {
        if self.refusal.is_empty() && self.tool_calls.is_empty() {
            return Cow::Borrowed(&self.content);
        }
        let calls = self.tool_calls.iter().map(|call| call.arguments.as_str());
        [self.content.as_str(), &self.refusal]
            .into_iter()
            .chain(calls)
            .collect::<String>()
            .into()
    }

    /// Total size of all channels in bytes.
    pub fn len(&self) -> usize {
        let calls = self
            .tool_calls
            .iter()
            .map(|call| call.id.len() + call.name.len() + call.arguments.len());
        self.reasoning.len() + self.content.len() + self.refusal.len() + calls.sum::<usize>()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends a delta to the call with its index, or adds a new call.
    pub fn add_call(&mut self, piece: &ToolCall) {
        self.add_arguments(piece, &piece.arguments);
    }

    /// As [`Answer::add_call`], with `arguments` in place of the delta's own. Texts are concatenated,
    /// as the API has it; an id or a name that is said again as a whole is the same one.
    pub fn add_arguments(&mut self, piece: &ToolCall, arguments: &str) {
        let is_same = |call: &&mut ToolCall| call.index == piece.index;
        let Some(call) = self.tool_calls.iter_mut().rfind(is_same) else {
            return self.tool_calls.push(ToolCall {
                arguments: arguments.to_owned(),
                ..piece.clone()
            });
        };
        let other_name = if call.arguments.is_empty() {
            Departure::SplitName
        } else {
            Departure::SharedIndex
        };
        for (known, text, again, other) in [
            (
                &mut call.id,
                &piece.id,
                Departure::RepeatedId,
                Departure::ChangingId,
            ),
            (
                &mut call.name,
                &piece.name,
                Departure::RepeatedName,
                other_name,
            ),
        ] {
            if !known.is_empty() && !text.is_empty() {
                let departure = if known == text { again } else { other };
                self.departures.add_repetition(departure, known, text);
            }
            if known != text {
                known.push_str(text);
            }
        }
        if piece.form != CallForm::Function {
            call.form = piece.form;
        }
        call.arguments.push_str(arguments);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(index: u64, id: &str, name: &str, arguments: &str) -> ToolCall {
        ToolCall {
            index,
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
            ..ToolCall::default()
        }
    }

    #[test]
    fn deltas_of_tool_calls_are_joined_by_index() {
        let mut answer = Answer::default();
        for piece in [
            piece(0, "a", "f", ""),
            piece(0, "", "", "{\"x\":"),
            piece(1, "b", "g", "{"),
            piece(0, "a", "f", "1}"),
            piece(1, "", "", "}"),
            piece(1, "c", "g", "{}"),
            piece(2, "", "get_", ""),
            piece(2, "d", "time", "{}"),
        ] {
            answer.add_call(&piece);
        }
        assert_eq!(
            answer.tool_calls,
            [
                piece(0, "a", "f", "{\"x\":1}"),
                piece(1, "bc", "g", "{}{}"),
                piece(2, "d", "get_time", "{}"),
            ]
        );
        assert_eq!(answer.text(), "{\"x\":1}{}{}{}");
    }

    #[test]
    fn text_excludes_reasoning() {
        let mut answer = Answer {
            reasoning: "hm".into(),
            ..Answer::from_text("a".into())
        };
        assert!(matches!(answer.text(), Cow::Borrowed("a")));
        answer.refusal = "no".into();
        answer.add_call(&piece(0, "", "f", "{}"));
        assert_eq!(
            (&*answer.text(), answer.len(), answer.is_empty()),
            ("ano{}", 8, false)
        );
    }
}
