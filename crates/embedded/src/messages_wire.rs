//! Serialises answers of the messages endpoint: typed events, or one object.
//!
//! Source: Anthropic's reference, "Create a Message" and "Streaming Messages", and its client
//! anthropic-sdk-python 0.105.2 (`types`, `tests/lib/streaming/fixtures`). Reasoning, text and each
//! call are blocks of the content. A block stops before the next one starts. Only a call whose
//! arguments are withheld by a fault stays open.

use serde_json::{Map, Value, json};

use super::deltas::Delta;
use super::event_writer::EventWriter;
use super::generation::FinishReason;
use super::wire::{self, AnswerEnd, Head, TokenCounts};

/// The counts of the first event, as in Anthropic's API.
const FIRST_COUNTS: TokenCounts = TokenCounts {
    tokens: 1,
    reasoning: None,
};

/// The writer of one answer.
#[derive(Debug, Default)]
pub(super) struct MessageWriter {
    blocks: Vec<Block>,
}

/// A block of the content.
#[derive(Debug)]
struct Block {
    kind: BlockKind,
    /// The text or the arguments so far.
    text: String,
    is_open: bool,
}

#[derive(Debug)]
enum BlockKind {
    Thinking,
    Text,
    ToolUse { id: String, name: String },
}

impl EventWriter for MessageWriter {
    fn open(&mut self, head: &Head, has_usage: bool, out: &mut Vec<u8>) {
        let usage = has_usage.then_some(FIRST_COUNTS);
        let message = message(head, &[], None, usage);
        event(&json!({"type": "message_start", "message": message}), out);
    }

    fn write(&mut self, head: &Head, delta: &Delta, out: &mut Vec<u8>) {
        match delta {
            Delta::Reasoning(text) => self.add_text(head, BlockKind::Thinking, text, out),
            Delta::Content(text) => self.add_text(head, BlockKind::Text, text, out),
            Delta::CallStart { id, name, .. } => {
                let (id, name) = (id.clone(), name.clone());
                self.start(head, BlockKind::ToolUse { id, name }, out);
            }
            Delta::Arguments { index, text, .. } => {
                let is_call = |block: &Block| matches!(block.kind, BlockKind::ToolUse { .. });
                let mut calls = (0..self.blocks.len()).filter(|at| is_call(&self.blocks[*at]));
                if let Some(block) = calls.nth(*index) {
                    self.extend(block, text, out);
                }
            }
        }
    }

    fn finish(
        &mut self,
        head: &Head,
        end: AnswerEnd<'_>,
        counts: Option<TokenCounts>,
        out: &mut Vec<u8>,
    ) {
        if self.blocks.is_empty() {
            self.start(head, BlockKind::Text, out);
        }
        self.stop(head, |_| true, out);
        let delta = json!({"stop_reason": stop_reason(end), "stop_sequence": end.stop});
        let mut last = json!({"type": "message_delta", "delta": delta});
        if let Some(counts) = counts {
            last["usage"] = usage(head, counts);
        }
        event(&last, out);
    }

    fn body(&self, head: &Head, end: AnswerEnd<'_>, counts: Option<TokenCounts>) -> Vec<u8> {
        let whole = |block: &Block| block.value(&block.text, &head.fingerprint);
        let mut content: Vec<Value> = self.blocks.iter().map(whole).collect();
        if content.is_empty() {
            content.push(json!({"type": "text", "text": ""}));
        }
        wire::json(&message(head, &content, Some(end), counts))
    }
}

impl MessageWriter {
    fn add_text(&mut self, head: &Head, kind: BlockKind, text: &str, out: &mut Vec<u8>) {
        if text.is_empty() {
            return;
        }
        let is_same = |block: &Block| {
            block.is_open && std::mem::discriminant(&block.kind) == std::mem::discriminant(&kind)
        };
        if !self.blocks.last().is_some_and(is_same) {
            self.start(head, kind, out);
        }
        self.extend(self.blocks.len() - 1, text, out);
    }

    fn extend(&mut self, index: usize, text: &str, out: &mut Vec<u8>) {
        let block = &mut self.blocks[index];
        block.text.push_str(text);
        let delta = match block.kind {
            BlockKind::Thinking => json!({"type": "thinking_delta", "thinking": text}),
            BlockKind::Text => json!({"type": "text_delta", "text": text}),
            BlockKind::ToolUse { .. } => json!({"type": "input_json_delta", "partial_json": text}),
        };
        event(&block_delta(index, &delta), out);
    }

    fn start(&mut self, head: &Head, kind: BlockKind, out: &mut Vec<u8>) {
        self.stop(head, |block| !block.is_withheld(), out);
        let (index, text) = (self.blocks.len(), String::new());
        let block = Block {
            kind,
            text,
            is_open: true,
        };
        let content = block.value("", "");
        event(
            &json!({"type": "content_block_start", "index": index, "content_block": content}),
            out,
        );
        if index == 0 {
            event(&json!({"type": "ping"}), out);
        }
        self.blocks.push(block);
    }

    /// Stops the open blocks of this kind.
    fn stop(&mut self, head: &Head, is_complete: fn(&Block) -> bool, out: &mut Vec<u8>) {
        for (index, block) in self.blocks.iter_mut().enumerate() {
            if !block.is_open || !is_complete(block) {
                continue;
            }
            block.is_open = false;
            if matches!(block.kind, BlockKind::Thinking) {
                let signature = json!({"type": "signature_delta", "signature": head.fingerprint});
                event(&block_delta(index, &signature), out);
            }
            event(&json!({"type": "content_block_stop", "index": index}), out);
        }
    }
}

impl Block {
    /// Whether it is a call whose arguments are still to come.
    fn is_withheld(&self) -> bool {
        matches!(self.kind, BlockKind::ToolUse { .. }) && self.text.is_empty()
    }

    fn value(&self, text: &str, signature: &str) -> Value {
        match &self.kind {
            BlockKind::Thinking => {
                json!({"type": "thinking", "thinking": text, "signature": signature})
            }
            BlockKind::Text => json!({"type": "text", "text": text}),
            BlockKind::ToolUse { id, name } => {
                // A call that is cut at the token limit, or changed by a fault, has no object as
                // arguments. As in Anthropic's API, `input` is an object nevertheless, here without
                // members, and the reason of the end is `max_tokens`.
                let input: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
                json!({"type": "tool_use", "id": id, "name": name, "input": input})
            }
        }
    }
}

/// The message with the end, which is not known at the start of a stream.
fn message(
    head: &Head,
    content: &[Value],
    end: Option<AnswerEnd<'_>>,
    counts: Option<TokenCounts>,
) -> Value {
    let mut message = json!({
        "id": head.id,
        "type": "message",
        "role": "assistant",
        "model": head.model,
        "content": content,
        "stop_reason": end.map(stop_reason),
        "stop_sequence": end.and_then(|end| end.stop),
    });
    if let Some(counts) = counts {
        message["usage"] = usage(head, counts);
    }
    message
}

fn usage(head: &Head, counts: TokenCounts) -> Value {
    let cached_tokens = head.cached_tokens.unwrap_or(0);
    let mut usage = json!({
        "input_tokens": head.prompt_tokens - cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached_tokens,
        "output_tokens": counts.tokens,
    });
    if let Some(reasoning) = counts.reasoning {
        usage["output_tokens_details"] = json!({ "thinking_tokens": reasoning });
    }
    usage
}

fn stop_reason(end: AnswerEnd<'_>) -> &'static str {
    match end.finish {
        _ if end.stop.is_some() => "stop_sequence",
        Some(FinishReason::Length) => "max_tokens",
        Some(FinishReason::ToolCalls) => "tool_use",
        Some(FinishReason::Stop) | None => "end_turn",
    }
}

fn block_delta(index: usize, delta: &Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

/// The last event of a stream.
pub(super) fn end(out: &mut Vec<u8>) {
    event(&json!({"type": "message_stop"}), out);
}

/// An event with the name of its type.
pub(super) fn event(data: &Value, out: &mut Vec<u8>) {
    let name = data["type"].as_str().unwrap_or_default();
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\n");
    out.extend(wire::event(data));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Endpoint;

    fn head() -> Head {
        Head {
            endpoint: Endpoint::Messages,
            id: "msg_1".into(),
            created: 7,
            model: "m".into(),
            fingerprint: "f".into(),
            prompt_tokens: 3,
            cached_tokens: None,
        }
    }

    fn start(index: usize) -> Delta {
        Delta::CallStart {
            index,
            id: format!("toolu_{index}"),
            name: "f".into(),
            is_custom: false,
        }
    }

    fn arguments(index: usize, text: &str) -> Delta {
        Delta::Arguments {
            index,
            is_custom: false,
            text: text.into(),
        }
    }

    const COUNTS: TokenCounts = TokenCounts {
        tokens: 9,
        reasoning: Some(2),
    };

    const END: AnswerEnd<'_> = AnswerEnd {
        finish: Some(FinishReason::ToolCalls),
        stop: None,
    };

    fn stream(deltas: &[Delta], end: AnswerEnd<'_>, counts: Option<TokenCounts>) -> String {
        let (mut writer, mut out) = (MessageWriter::default(), Vec::new());
        writer.open(&head(), counts.is_some(), &mut out);
        for delta in deltas {
            writer.write(&head(), delta, &mut out);
        }
        writer.finish(&head(), end, counts, &mut out);
        super::end(&mut out);
        String::from_utf8(out).unwrap()
    }

    fn whole(deltas: &[Delta], end: AnswerEnd<'_>) -> String {
        let body = MessageWriter::default().complete(deltas, &head(), end, Some(COUNTS));
        String::from_utf8(body).unwrap()
    }

    fn answer() -> [Delta; 7] {
        [
            Delta::Reasoning("Hm".into()),
            Delta::Content("So ".into()),
            Delta::Content("be it".into()),
            start(0),
            arguments(0, "{\"a\":"),
            arguments(0, "1}"),
            start(1),
        ]
    }

    #[test]
    fn events_of_a_stream() {
        let expected = r#"
event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":3,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: ping
data: {"type":"ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"f"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"So "}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"be it"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_0","name":"f","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"1}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: content_block_start
data: {"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_1","name":"f","input":{}}}

event: content_block_stop
data: {"type":"content_block_stop","index":3}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":3,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":9,"output_tokens_details":{"thinking_tokens":2}}}

event: message_stop
data: {"type":"message_stop"}

"#;
        assert_eq!(stream(&answer(), END, Some(COUNTS)), expected[1..]);
    }

    #[test]
    fn one_body() {
        assert_eq!(
            whole(&answer(), END),
            concat!(
                r#"{"id":"msg_1","type":"message","role":"assistant","model":"m","content":["#,
                r#"{"type":"thinking","thinking":"Hm","signature":"f"},{"type":"text","text":"So be it"},"#,
                r#"{"type":"tool_use","id":"toolu_0","name":"f","input":{"a":1}},"#,
                r#"{"type":"tool_use","id":"toolu_1","name":"f","input":{}}],"#,
                r#""stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":3,"#,
                r#""cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":9,"#,
                r#""output_tokens_details":{"thinking_tokens":2}}}"#
            )
        );
    }

    #[test]
    fn ends_have_a_reason() {
        let end = |finish, stop| AnswerEnd {
            finish: Some(finish),
            stop,
        };
        let cut = whole(
            &[start(0), arguments(0, "{\"a\":")],
            end(FinishReason::Length, None),
        );
        assert!(
            cut.contains(r#""input":{}}],"stop_reason":"max_tokens""#),
            "{cut}"
        );
        let stopped = whole(&[], end(FinishReason::Stop, Some("x")));
        let empty = r#""content":[{"type":"text","text":""}]"#;
        let reason = r#""stop_reason":"stop_sequence","stop_sequence":"x""#;
        assert!(stopped.contains(&format!("{empty},{reason}")), "{stopped}");
        let streamed = stream(&[], end(FinishReason::Stop, None), None);
        assert!(
            streamed.contains(r#""content_block":{"type":"text","text":""}}"#),
            "{streamed}"
        );
        assert!(streamed.contains(r#""delta":{"stop_reason":"end_turn","stop_sequence":null}}"#));
        assert!(!streamed.contains("usage"), "{streamed}");
    }

    #[test]
    fn withheld_arguments_get_to_their_calls() {
        let late = [start(0), start(1), arguments(0, "{}"), arguments(1, "{}")];
        let text = stream(&late, END, None);
        let mut shown = Vec::new();
        for line in text.lines().filter(|line| line.contains("\"index\"")) {
            let event: Value = serde_json::from_str(&line["data: ".len()..]).unwrap();
            let kind = event["type"].as_str().unwrap();
            shown.push(format!(
                "{} {}",
                kind.replace("content_block_", ""),
                event["index"]
            ));
        }
        assert_eq!(
            shown.join(", "),
            "start 0, start 1, delta 0, delta 1, stop 0, stop 1"
        );
    }
}
