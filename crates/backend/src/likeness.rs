//! The short way through a stream: the events of one answer are mostly alike but for their text.
//! Knows no server's JSON.
//!
//! Where an event was read that brought text and nothing else, what stands before and after that
//! text is kept. The next event that has the same before and after, and one JSON string between
//! them, is the same JSON with another text: nothing of it needs to be read again but the string.
//! Everything else goes the long way.

use memchr::memmem;

use super::wire::{Delta, Text, TextIs};
use sobench_core::answer::ToolCall;

/// Stands in for a text, to find out by the reader itself where its text comes from.
const PROBE: &str = "sobench asks where the text goes";

/// How often an answer's events are tried before its stream counts as one that is not alike.
const MAX_TRIES: u8 = 4;

/// What the events of one answer have in common, once that is known.
#[derive(Debug, Default)]
pub(super) struct Likeness {
    /// Up to the string's first quotation mark, with it.
    before: Vec<u8>,
    /// From the string's last quotation mark, with it.
    after: Vec<u8>,
    channel: Channel,
    tries: u8,
}

/// Where the text of alike events goes.
#[derive(Clone, Debug, Default)]
pub(super) enum Channel {
    #[default]
    Content,
    /// The arguments of this call, which are empty here.
    Call(ToolCall),
}

impl Likeness {
    /// The text of an event that is like the one that was learnt from, and where it goes; `None`
    /// for every other one.
    pub(super) fn text<'a>(&self, data: &'a [u8]) -> Option<(&Channel, Text<'a>)> {
        if self.before.is_empty() || data.len() < self.before.len() + self.after.len() {
            return None;
        }
        if !data.starts_with(&self.before) || !data.ends_with(&self.after) {
            return None;
        }
        let string = &data[self.before.len() - 1..=data.len() - self.after.len()];
        // An empty text is no content, and rare: the long way knows what it is.
        let text = serde_json::from_slice(string)
            .ok()
            .filter(|text: &Text<'_>| !text.0.is_empty())?;
        Some((&self.channel, text))
    }

    /// Learns from an event that `reader` has read as `delta`.
    pub(super) fn learn(
        &mut self,
        data: &str,
        delta: &Delta,
        reader: fn(&str) -> serde_json::Result<Delta>,
    ) {
        // Looked at first, since it holds for nearly every event that comes here.
        if self.tries == MAX_TRIES || (delta.text.is_empty() && delta.tool_calls.is_empty()) {
            return;
        }
        self.tries += 1;
        let Some((channel, text)) = Channel::of_only_text(delta) else {
            return;
        };
        let probe = channel.delta(PROBE, delta.is_answer);
        let string = serde_json::to_string(text).expect("a text is JSON");
        let places = memmem::find_iter(data.as_bytes(), &string).take(usize::from(MAX_TRIES));
        for (before, after) in places.map(|at| (&data[..=at], &data[at + string.len() - 1..])) {
            let probed = reader(&format!("{before}{PROBE}{after}"));
            if probed.is_ok_and(|probed| probed == probe) {
                (self.before, self.after, self.channel) = (before.into(), after.into(), channel);
                return;
            }
        }
    }
}

impl Channel {
    /// The text of an event that brought nothing else, and where it goes.
    fn of_only_text(delta: &Delta) -> Option<(Self, &str)> {
        let (channel, text) = match &delta.tool_calls[..] {
            [] => (Self::Content, delta.text.as_str()),
            [call] => (
                Self::Call(ToolCall {
                    arguments: String::new(),
                    ..call.clone()
                }),
                call.arguments.as_str(),
            ),
            _ => return None,
        };
        let is_alone = !text.is_empty()
            && delta.text_is == TextIs::Added
            && *delta == channel.delta(text, delta.is_answer);
        is_alone.then_some((channel, text))
    }

    fn delta(&self, text: &str, is_answer: bool) -> Delta {
        let delta = Delta {
            is_content: true,
            is_answer,
            ..Delta::default()
        };
        match self {
            Self::Content => Delta {
                text: text.to_owned(),
                ..delta
            },
            Self::Call(call) => Delta {
                tool_calls: vec![ToolCall {
                    arguments: text.to_owned(),
                    ..call.clone()
                }],
                ..delta
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::read;

    /// The texts that the short way gives for the events after the first, which is learnt from.
    fn texts(first: &str, others: &[&str]) -> Vec<Option<String>> {
        let mut likeness = Likeness::default();
        likeness.learn(first, &read(first).unwrap(), read);
        others
            .iter()
            .map(|data| {
                likeness
                    .text(data.as_bytes())
                    .map(|(_, text)| text.0.into_owned())
            })
            .collect()
    }

    #[test]
    fn events_that_differ_in_their_text_alone() {
        let event = |text: &str| {
            format!(
                r#"{{"id":"x","choices":[{{"index":0,"delta":{{"content":"{text}"}},"logprobs":null}}]}}"#
            )
        };
        let found = texts(
            &event("x"),
            &[
                &event("a"),
                &event(r#"{\"b\":\n"#),
                &event("\\u00e9\u{e9}"),
                &event(""),
                &event("a\",\"content\":\"b"),
                &event("\\ud83d"),
            ],
        );
        assert_eq!(
            found,
            [
                Some("a"),
                Some("{\"b\":\n"),
                Some("\u{e9}\u{e9}"),
                None,
                None,
                None
            ]
            .map(|it| it.map(str::to_owned))
        );
        // Other members, an end, another choice, a shorter event.
        let others = [
            event("a").replace("null", "[]"),
            event("a").replace("\"logprobs\":null", "\"finish_reason\":\"stop\""),
            event("a").replace("\"index\":0", "\"index\":1"),
            "{\"id\":\"".to_owned(),
        ];
        assert_eq!(
            texts(&event("b"), &others.each_ref().map(String::as_str)),
            [None, None, None, None]
        );
    }

    #[test]
    fn arguments_of_a_call_are_text() {
        let event = |index: u8, text: &str| {
            format!(
                r#"{{"choices":[{{"delta":{{"tool_calls":[{{"index":{index},"function":{{"arguments":"{text}"}}}}]}}}}]}}"#
            )
        };
        let mut likeness = Likeness::default();
        likeness.learn(&event(1, "x"), &read(&event(1, "x")).unwrap(), read);
        let (alike, other) = (event(1, "a"), event(2, "a"));
        let (channel, text) = likeness.text(alike.as_bytes()).unwrap();
        assert!(
            matches!(channel, Channel::Call(call) if call.index == 1) && text.0 == "a",
            "{channel:?}"
        );
        assert!(likeness.text(other.as_bytes()).is_none());
    }

    #[test]
    fn nothing_is_learnt_from_events_that_bring_more_than_text() {
        let text = r#"{"choices":[{"text":"a"}]}"#;
        for first in [
            r#"{"choices":[{"text":""}]}"#,
            r#"{"choices":[{"text":"a","finish_reason":"stop"}]}"#,
            r#"{"choices":[{"text":"a"}],"usage":{"completion_tokens":1}}"#,
            r#"{"choices":[{"delta":{"reasoning":"a"}}]}"#,
            r#"{"choices":[{"delta":{"content":"a","refusal":"a"}}]}"#,
            r#"{"choices":[{"index":1,"text":"a"}]}"#,
        ] {
            assert_eq!(texts(first, &[text, first]), [None, None], "{first}");
        }
        assert_eq!(texts(text, &[text]), [Some("a".to_owned())]);
    }
}
