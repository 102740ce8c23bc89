//! Splits the text of an answer into the channels of the API: reasoning, content and tool calls.

use super::reasoning::{ReasoningParser, Split};
use super::tools::CallParser;

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ChannelEvent {
    Reasoning(String),
    Content(String),
    /// A call starts. Its arguments follow.
    CallStart {
        name: String,
        is_custom: bool,
    },
    Arguments(String),
}

/// The parser of one answer. Without parsers of reasoning and calls, all text is content.
#[derive(Default)]
pub(super) struct ChannelParser {
    pub(super) reasoning: Option<ReasoningParser>,
    pub(super) calls: Option<CallParser>,
}

impl ChannelParser {
    /// Reads a piece of text. The last one releases all text that is held back.
    pub(super) fn read(&mut self, text: &str, is_last: bool) -> Vec<ChannelEvent> {
        let mut events = Vec::new();
        let Some(reasoning) = &mut self.reasoning else {
            self.read_content(text, is_last, &mut events);
            return events;
        };
        let mut split = reasoning.push(text);
        if is_last {
            let Split { reasoning, content } = reasoning.finish();
            split.reasoning.push_str(&reasoning);
            split.content.push_str(&content);
        }
        if !split.reasoning.is_empty() {
            events.push(ChannelEvent::Reasoning(split.reasoning));
        }
        self.read_content(&split.content, is_last, &mut events);
        events
    }

    fn read_content(&mut self, text: &str, is_last: bool, events: &mut Vec<ChannelEvent>) {
        let Some(calls) = &mut self.calls else {
            if !text.is_empty() {
                events.push(ChannelEvent::Content(text.to_owned()));
            }
            return;
        };
        events.extend(calls.push(text));
        if is_last {
            events.extend(calls.finish());
        }
    }
}

/// Number of bytes that cannot be the start of one of the marks.
pub(super) fn safe_bytes(text: &str, marks: &[&str]) -> usize {
    let longest = marks.iter().map(|mark| mark.len()).max().unwrap_or(0);
    let from = text.len().saturating_sub(longest);
    text.char_indices()
        .map(|(start, _)| start)
        .filter(|start| *start >= from)
        .find(|start| marks.iter().any(|mark| mark.starts_with(&text[*start..])))
        .unwrap_or(text.len())
}

/// Removes the text before a mark, and the mark if it is there. Keeps what may be its start.
pub(super) fn take_before(buffer: &mut String, mark: &str) -> (String, bool) {
    if let Some(start) = buffer.find(mark) {
        let rest = buffer.split_off(start + mark.len());
        let mut text = std::mem::replace(buffer, rest);
        text.truncate(start);
        return (text, true);
    }
    let safe = safe_bytes(buffer, &[mark]);
    let rest = buffer.split_off(safe);
    (std::mem::replace(buffer, rest), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn possible_starts_of_marks_are_held_back() {
        for (text, safe) in [("ab<", 2), ("ab<en", 2), ("ab<x", 4), ("é<", 2), ("", 0)] {
            assert_eq!(safe_bytes(text, &["<end>", "<b>"]), safe, "{text}");
        }
        let mut buffer = "a<end>b<e".to_owned();
        assert_eq!(take_before(&mut buffer, "<end>"), ("a".to_owned(), true));
        assert_eq!(take_before(&mut buffer, "<end>"), ("b".to_owned(), false));
        assert_eq!(buffer, "<e");
    }

    #[test]
    fn text_without_parsers_is_content() {
        let mut parser = ChannelParser::default();
        assert_eq!(
            parser.read("a", false),
            [ChannelEvent::Content("a".to_owned())]
        );
        assert_eq!(parser.read("", true), []);
    }
}
