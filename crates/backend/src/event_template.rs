//! Fast path for streams: skips the JSON parser for events that differ only in their text.
//!
//! After parsing an event that has only text, the bytes before and after the text are kept. The
//! next event with the same prefix and suffix, and one JSON string between them, is the same JSON
//! with another text, so only the string is parsed. Other events take the slow path.

use std::borrow::Cow;

use memchr::memmem;

use super::wire::{Delta, Text, TextIs};
use sobench_core::answer::ToolCall;

/// Placeholder text, used to find the position of the text with the parser itself.
const PLACEHOLDER: &str = "sobench placeholder text";

/// Maximum attempts per answer to learn a template.
const MAX_TRIES: u8 = 4;

/// The common prefix and suffix of the events of one answer, once known.
#[derive(Debug, Default)]
pub(super) struct EventTemplate {
    /// The name of the events; empty without one.
    name: Vec<u8>,
    /// Up to and including the opening quotation mark of the string.
    prefix: Vec<u8>,
    /// From the closing quotation mark of the string.
    suffix: Vec<u8>,
    channel: Channel,
    tries: u8,
}

/// The part of the answer that the text belongs to.
#[derive(Clone, Debug, Default)]
pub(super) enum Channel {
    #[default]
    Content,
    /// The arguments of this call, which has empty arguments here.
    Call(ToolCall),
}

impl EventTemplate {
    /// The text of an event that matches the template, and its channel; `None` for other events.
    pub(super) fn text<'a>(&self, name: &[u8], data: &'a [u8]) -> Option<(&Channel, Text<'a>)> {
        if self.prefix.is_empty() || data.len() < self.prefix.len() + self.suffix.len() {
            return None;
        }
        if !data.starts_with(&self.prefix) || !data.ends_with(&self.suffix) || name != self.name {
            return None;
        }
        let string = &data[self.prefix.len() - 1..=data.len() - self.suffix.len()];
        // An empty text is not content, and rare: the slow path handles it.
        let text = serde_json::from_slice(string)
            .ok()
            .filter(|text: &Text<'_>| !text.0.is_empty())?;
        Some((&self.channel, text))
    }

    /// The text of an event that matches the template, as it was sent.
    pub(super) fn sent<'a>(&self, data: &'a [u8], text: &'a Text<'_>) -> &'a str {
        match &text.0 {
            Cow::Borrowed(sent) => sent,
            Cow::Owned(_) => {
                str::from_utf8(&data[self.prefix.len()..data.len() - self.suffix.len()])
                    .expect("what was read as JSON is UTF-8")
            }
        }
    }

    /// Bytes after the text of an event that matches the template.
    pub(super) fn suffix_len(&self) -> usize {
        self.suffix.len()
    }

    /// Learns the template from an event that `reader` has parsed as `delta`.
    pub(super) fn learn(
        &mut self,
        name: &[u8],
        data: &str,
        delta: &Delta,
        reader: fn(&str) -> serde_json::Result<Delta>,
    ) {
        // Checked first, because it is true for nearly every event of such a stream.
        if self.tries == MAX_TRIES || (delta.text.is_empty() && delta.tool_calls.is_empty()) {
            return;
        }
        self.tries += 1;
        let Some((channel, text)) = Channel::from_text_only_delta(delta) else {
            return;
        };
        let probe = channel.delta(PLACEHOLDER, delta.is_answer);
        let string = serde_json::to_string(text).expect("a text is JSON");
        let positions = memmem::find_iter(data.as_bytes(), &string).take(usize::from(MAX_TRIES));
        for (prefix, suffix) in positions.map(|at| (&data[..=at], &data[at + string.len() - 1..])) {
            let probed = reader(&format!("{prefix}{PLACEHOLDER}{suffix}"));
            if probed.is_ok_and(|probed| probed == probe) {
                (self.prefix, self.suffix, self.channel) = (prefix.into(), suffix.into(), channel);
                name.clone_into(&mut self.name);
                return;
            }
        }
    }
}

impl Channel {
    /// The text of an event that has nothing else, and its channel.
    fn from_text_only_delta(delta: &Delta) -> Option<(Self, &str)> {
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

    /// The texts that the fast path returns for the events after the first one.
    fn texts(first: &str, others: &[&str]) -> Vec<Option<String>> {
        let mut template = EventTemplate::default();
        template.learn(b"", first, &read(first).unwrap(), read);
        others
            .iter()
            .map(|data| {
                template
                    .text(b"", data.as_bytes())
                    .map(|(_, text)| text.0.into_owned())
            })
            .collect()
    }

    #[test]
    fn events_that_differ_only_in_their_text() {
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
            .map(|text| text.map(str::to_owned))
        );
        // Other members, an end, another choice, and a shorter event.
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
        let mut template = EventTemplate::default();
        template.learn(b"", &event(1, "x"), &read(&event(1, "x")).unwrap(), read);
        let (matching, other) = (event(1, "a"), event(2, "a"));
        let (channel, text) = template.text(b"", matching.as_bytes()).unwrap();
        assert!(
            matches!(channel, Channel::Call(call) if call.index == 1) && text.0 == "a",
            "{channel:?}"
        );
        assert!(template.text(b"", other.as_bytes()).is_none());
    }

    #[test]
    fn no_template_is_learnt_from_events_with_more_than_text() {
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
