//! The answer of a model, by channel.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// What a model answered. A judge sees this and nothing of the clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub reasoning: String,
    pub content: String,
    /// The server's words in place of content.
    pub refusal: String,
    /// In the order in which they began.
    pub tool_calls: Vec<ToolCall>,
}

/// A call of a tool; texts that the server did not send are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolCall {
    /// The number that the server gives it.
    pub index: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// JSON, as it came.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub arguments: String,
}

impl Answer {
    /// An answer of which only the text is known.
    pub fn from_text(text: String) -> Self {
        Self {
            content: text,
            ..Self::default()
        }
    }

    /// The text that a constraint is judged by: content, refusal, and the arguments of the calls.
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

    /// Bytes of all channels.
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

    /// Adds a piece of a call: to the call that it continues, or as a new one.
    pub fn add_call(&mut self, piece: &ToolCall) {
        self.add_arguments(piece, &piece.arguments);
    }

    /// The same with other arguments than the piece's own.
    pub fn add_arguments(&mut self, piece: &ToolCall, arguments: &str) {
        let is_same = |call: &&mut ToolCall| {
            call.index == piece.index
                && (piece.id.is_empty() || call.id.is_empty() || call.id == piece.id)
        };
        let Some(call) = self.tool_calls.iter_mut().rfind(is_same) else {
            return self.tool_calls.push(ToolCall {
                arguments: arguments.to_owned(),
                ..piece.clone()
            });
        };
        for (known, text) in [(&mut call.id, &piece.id), (&mut call.name, &piece.name)] {
            if known.is_empty() {
                known.clone_from(text);
            }
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
        }
    }

    #[test]
    fn pieces_of_calls_are_joined_by_index_and_id() {
        let mut answer = Answer::default();
        for piece in [
            piece(0, "a", "f", ""),
            piece(0, "", "", "{\"x\":"),
            piece(1, "b", "g", "{"),
            piece(0, "a", "f", "1}"),
            piece(1, "", "", "}"),
            piece(1, "c", "g", "[]"),
        ] {
            answer.add_call(&piece);
        }
        assert_eq!(
            answer.tool_calls,
            [
                piece(0, "a", "f", "{\"x\":1}"),
                piece(1, "b", "g", "{}"),
                piece(1, "c", "g", "[]")
            ]
        );
        assert_eq!(answer.text(), "{\"x\":1}{}[]");
    }

    #[test]
    fn the_text_is_every_channel_but_the_reasoning() {
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
