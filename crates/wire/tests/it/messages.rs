//! Anthropic's messages: streams of its client's tests, and changes to them.

use crate::{departures_of, shown, streams};

#[test]
fn anthropic_does_not_depart() {
    for path in streams("wire/anthropic", 5) {
        assert_eq!(departures_of(&path), "", "{}", path.display());
    }
}

/// Changes to a stream with a text and a call, and the departures that they make.
const SHAPES: [(&str, &str, &str, &str); 15] = [
    ("an unknown event", "ping", "pong", "unknown_event: pong"),
    (
        "another name",
        "event: message_delta",
        "event: delta",
        "wrong_event_name: \"delta\" for message_delta",
    ),
    (
        "no name",
        "event: message_stop\n",
        "",
        "wrong_event_name: \"\" for message_stop",
    ),
    (
        "no end",
        "event: message_stop\ndata: {\"type\":\"message_stop\"}",
        "",
        "missing_done",
    ),
    (
        "a block that never ends",
        "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":1}\n\n",
        "",
        "unordered_events: message_delta before content_block_stop 1",
    ),
    (
        "a block in a block",
        "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
        "",
        "unordered_events: content_block_start 1 before content_block_stop 0",
    ),
    (
        "an index twice",
        "\"content_block_start\",\"index\":1",
        "\"content_block_start\",\"index\":0",
        "unordered_events: content_block_start 0 after 1 blocks",
    ),
    (
        "a delta of another block",
        "\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"I\"}",
        "\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":\"I\"}",
        "unordered_events: content_block_delta 1 before content_block_start 1",
    ),
    (
        "a delta of another type",
        "\"type\":\"text_delta\",\"text\":\"I\"",
        "\"type\":\"input_json_delta\",\"partial_json\":\"I\"",
        "unordered_events: input_json_delta in a block of text",
    ),
    (
        "no start",
        "event: message_start\ndata: {\"type\":\"message_start\"",
        "event: ping\ndata: {\"type\":\"ping\"",
        "unordered_events: content_block_start before message_start",
    ),
    (
        "no usage",
        ",\"usage\":{\"output_tokens\":65}",
        "",
        "missing_member: message_delta.usage",
    ),
    (
        "null usage",
        "\"usage\":{\"output_tokens\":65}",
        "\"usage\":null",
        "null_member: message_delta.usage",
    ),
    (
        "tokens are a text",
        "\"output_tokens\":65",
        "\"output_tokens\":\"65\"",
        "wrong_type: message_delta.usage.output_tokens: \"65\"",
    ),
    (
        "another reason",
        "\"stop_reason\":\"tool_use\"",
        "\"stop_reason\":\"stop\"",
        "unknown_value: message_delta.delta.stop_reason: \"stop\"",
    ),
    (
        "no id of a call",
        "\"id\":\"toolu_01NRLabsLyVHZPKxbKvkfSMn\",",
        "",
        "missing_member: content_block_start.content_block.id",
    ),
];

#[test]
fn each_change_to_a_stream_is_named() {
    let stream = include_str!("../../../../fixtures/wire/anthropic/tool-use.sse");
    for (name, old, new, expected) in SHAPES {
        let changed = stream.replace(old, new);
        assert_ne!(changed, stream, "{name}");
        assert_eq!(shown(&changed), expected, "{name}");
    }
}

#[test]
fn errors_of_other_streams_are_no_messages() {
    let error = "data: {\"type\":\"error\",\"message\":\"no\"}\n\n";
    assert_eq!(shown(error), "of no known API");
    let chat = include_str!("../../../../fixtures/wire/openai/short.sse");
    assert_eq!(shown(&format!("{error}{chat}")), shown(chat));
}

#[test]
fn whole_messages_are_checked() {
    let whole = |message: &str| shown(&format!("data: {message}\n\n"));
    let message = r#"{"id":"m","type":"message","role":"assistant","model":"a","content":[{"type":"text","text":"x"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}"#;
    assert_eq!(whole(message), "");
    let without = message.replace(r#""role":"assistant","#, "");
    assert_eq!(whole(&without), "missing_member: role");
    let other = message.replace(r#""text":"x""#, r#""text":null"#);
    assert_eq!(whole(&other), "null_member: content[].text");
}
