//! Serialises answers of the responses endpoint: typed events, or one object.
//!
//! Source: OpenAI's API reference, "Responses: streaming events". Text is an item of type
//! `message`, reasoning one of type `reasoning`, and each call one of type `function_call` or
//! `custom_tool_call`. Calls end with the answer.

use serde_json::{Value, json};

use super::deltas::Delta;
use super::event_writer::EventWriter;
use super::generation::FinishReason;
use super::wire::{self, AnswerEnd, Head, TokenCounts};

/// The writer of one answer.
#[derive(Debug, Default)]
pub(super) struct ResponseWriter {
    items: Vec<Item>,
    /// The item that takes further text.
    open_text: Option<usize>,
    events: u64,
}

/// An item of the output.
#[derive(Debug)]
struct Item {
    kind: ItemKind,
    /// The text, the arguments or the input so far.
    text: String,
}

#[derive(Debug)]
enum ItemKind {
    Reasoning,
    Message,
    Call {
        id: String,
        name: String,
        is_custom: bool,
    },
}

impl EventWriter for ResponseWriter {
    /// The usage is in the last event only.
    fn open(&mut self, head: &Head, _: bool, out: &mut Vec<u8>) {
        for kind in ["response.created", "response.in_progress"] {
            let response = self.response(head, "in_progress", None);
            self.event(kind, json!({ "response": response }), out);
        }
    }

    fn write(&mut self, head: &Head, delta: &Delta, out: &mut Vec<u8>) {
        match delta {
            Delta::Reasoning(text) => self.add_text(head, ItemKind::Reasoning, text, out),
            Delta::Content(text) => self.add_text(head, ItemKind::Message, text, out),
            Delta::CallStart {
                id,
                name,
                is_custom,
                ..
            } => {
                self.close_text(head, out);
                let kind = ItemKind::Call {
                    id: id.clone(),
                    name: name.clone(),
                    is_custom: *is_custom,
                };
                self.add_item(head, kind, out);
            }
            Delta::Arguments { index, text, .. } => self.add_arguments(head, *index, text, out),
        }
    }

    fn finish(
        &mut self,
        head: &Head,
        end: AnswerEnd<'_>,
        counts: Option<TokenCounts>,
        out: &mut Vec<u8>,
    ) {
        self.close_text(head, out);
        for index in 0..self.items.len() {
            if matches!(self.items[index].kind, ItemKind::Call { .. }) {
                self.close_item(head, index, out);
            }
        }
        let status = status(end);
        let response = self.response(head, status, counts);
        let kind = format!("response.{status}");
        self.event(&kind, json!({ "response": response }), out);
    }

    fn body(&self, head: &Head, end: AnswerEnd<'_>, counts: Option<TokenCounts>) -> Vec<u8> {
        wire::json(&self.response(head, status(end), counts))
    }
}

impl ResponseWriter {
    fn add_text(&mut self, head: &Head, kind: ItemKind, text: &str, out: &mut Vec<u8>) {
        let is_same = |index: &usize| {
            std::mem::discriminant(&self.items[*index].kind) == std::mem::discriminant(&kind)
        };
        let index = match self.open_text.filter(is_same) {
            Some(index) => index,
            None => {
                self.close_text(head, out);
                let index = self.add_item(head, kind, out);
                self.open_text = Some(index);
                index
            }
        };
        self.items[index].text.push_str(text);
        let kind = match self.items[index].kind {
            ItemKind::Reasoning => "response.reasoning_text.delta",
            _ => "response.output_text.delta",
        };
        let mut delta = json!({"item_id": item_id(head, index), "output_index": index, "content_index": 0,
            "delta": text});
        if kind == "response.output_text.delta" {
            delta["logprobs"] = json!([]);
        }
        self.event(kind, delta, out);
    }

    fn add_arguments(&mut self, head: &Head, call: usize, text: &str, out: &mut Vec<u8>) {
        let mut calls = (0..self.items.len())
            .filter(|index| matches!(self.items[*index].kind, ItemKind::Call { .. }));
        let Some(index) = calls.nth(call) else {
            return;
        };
        self.items[index].text.push_str(text);
        let kind = match self.items[index].kind {
            ItemKind::Call {
                is_custom: true, ..
            } => "response.custom_tool_call_input.delta",
            _ => "response.function_call_arguments.delta",
        };
        let delta = json!({"item_id": item_id(head, index), "output_index": index, "delta": text});
        self.event(kind, delta, out);
    }

    fn add_item(&mut self, head: &Head, kind: ItemKind, out: &mut Vec<u8>) -> usize {
        let index = self.items.len();
        let is_message = matches!(kind, ItemKind::Message);
        self.items.push(Item {
            kind,
            text: String::new(),
        });
        let mut item = self.item(head, index, "in_progress");
        if is_message {
            item["content"] = json!([]);
        }
        self.event(
            "response.output_item.added",
            json!({"output_index": index, "item": item}),
            out,
        );
        if is_message {
            let part = part_event(head, index, "");
            self.event("response.content_part.added", part, out);
        }
        index
    }

    fn close_text(&mut self, head: &Head, out: &mut Vec<u8>) {
        if let Some(index) = self.open_text.take() {
            self.close_item(head, index, out);
        }
    }

    fn close_item(&mut self, head: &Head, index: usize, out: &mut Vec<u8>) {
        let Item { kind, text } = &self.items[index];
        let text = text.clone();
        let id = item_id(head, index);
        let of_text = |text: &str| json!({"item_id": id, "output_index": index, "content_index": 0, "text": text});
        match kind {
            ItemKind::Reasoning => {
                self.event("response.reasoning_text.done", of_text(&text), out);
            }
            ItemKind::Message => {
                let mut done = of_text(&text);
                done["logprobs"] = json!([]);
                self.event("response.output_text.done", done, out);
                let part = part_event(head, index, &text);
                self.event("response.content_part.done", part, out);
            }
            ItemKind::Call {
                is_custom: true, ..
            } => {
                let done = json!({"item_id": id, "output_index": index, "input": text});
                self.event("response.custom_tool_call_input.done", done, out);
            }
            ItemKind::Call { name, .. } => {
                let done =
                    json!({"item_id": id, "output_index": index, "name": name, "arguments": text});
                self.event("response.function_call_arguments.done", done, out);
            }
        }
        let item = self.item(head, index, "completed");
        let done = json!({"output_index": index, "item": item});
        self.event("response.output_item.done", done, out);
    }

    fn item(&self, head: &Head, index: usize, status: &str) -> Value {
        let Item { kind, text } = &self.items[index];
        let id = item_id(head, index);
        match kind {
            ItemKind::Reasoning => {
                let content = if text.is_empty() {
                    json!([])
                } else {
                    json!([{"type": "reasoning_text", "text": text}])
                };
                json!({"type": "reasoning", "id": id, "summary": [], "content": content, "status": status})
            }
            ItemKind::Message => json!({"type": "message", "id": id, "role": "assistant",
                "content": [part(text)], "status": status}),
            ItemKind::Call {
                id: call_id,
                name,
                is_custom,
            } => {
                let (kind, input) = if *is_custom {
                    ("custom_tool_call", "input")
                } else {
                    ("function_call", "arguments")
                };
                json!({"type": kind, "id": id, "call_id": call_id, "name": name, input: text, "status": status})
            }
        }
    }

    fn response(&self, head: &Head, status: &str, counts: Option<TokenCounts>) -> Value {
        let details = if status == "incomplete" {
            json!({"reason": "max_output_tokens"})
        } else {
            Value::Null
        };
        let output: Vec<Value> = (0..self.items.len())
            .map(|index| {
                self.item(
                    head,
                    index,
                    if status == "completed" {
                        status
                    } else {
                        "incomplete"
                    },
                )
            })
            .collect();
        let usage = counts.map(|TokenCounts { tokens, reasoning }| {
            json!({
                "input_tokens": head.prompt_tokens,
                "input_tokens_details": {
                    "cached_tokens": head.cached_tokens.unwrap_or(0),
                    "cache_write_tokens": 0,
                },
                "output_tokens": tokens,
                "output_tokens_details": {"reasoning_tokens": reasoning.unwrap_or(0)},
                "total_tokens": head.prompt_tokens.saturating_add(tokens),
            })
        });
        json!({
            "id": head.id,
            "object": "response",
            "created_at": head.created,
            "status": status,
            "error": null,
            "incomplete_details": details,
            "model": head.model,
            "output": output,
            "metadata": {"system_fingerprint": head.fingerprint},
            "usage": usage,
            // Members that repeat the request have their defaults.
            "instructions": null,
            "parallel_tool_calls": true,
            "temperature": 1.0,
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
        })
    }

    fn event(&mut self, kind: &str, mut members: Value, out: &mut Vec<u8>) {
        members["type"] = kind.into();
        members["sequence_number"] = self.events.into();
        self.events += 1;
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(kind.as_bytes());
        out.extend_from_slice(b"\n");
        out.extend(wire::event(&members));
    }
}

fn status(end: AnswerEnd<'_>) -> &'static str {
    match end.finish {
        Some(FinishReason::Length) => "incomplete",
        _ => "completed",
    }
}

fn item_id(head: &Head, index: usize) -> String {
    format!("item_{}_{index}", head.id)
}

fn part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

fn part_event(head: &Head, index: usize, text: &str) -> Value {
    json!({"item_id": item_id(head, index), "output_index": index, "content_index": 0, "part": part(text)})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Endpoint;

    fn head() -> Head {
        Head {
            endpoint: Endpoint::Responses,
            id: "resp_1".into(),
            created: 7,
            model: "m".into(),
            fingerprint: "f".into(),
            prompt_tokens: 3,
            cached_tokens: None,
        }
    }

    fn deltas() -> Vec<Delta> {
        vec![
            Delta::Reasoning("Hm".into()),
            Delta::Content("So ".into()),
            Delta::Content("be it".into()),
            Delta::CallStart {
                index: 0,
                id: "c0".into(),
                name: "f".into(),
                is_custom: false,
            },
            Delta::Arguments {
                index: 0,
                is_custom: false,
                text: "{}".into(),
            },
            Delta::CallStart {
                index: 1,
                id: "c1".into(),
                name: "g".into(),
                is_custom: true,
            },
            Delta::Arguments {
                index: 1,
                is_custom: true,
                text: "x".into(),
            },
        ]
    }

    fn end(finish: FinishReason) -> AnswerEnd<'static> {
        AnswerEnd {
            finish: Some(finish),
            stop: None,
        }
    }

    const COUNTS: TokenCounts = TokenCounts {
        tokens: 9,
        reasoning: Some(2),
    };

    #[test]
    fn streams_have_typed_events_in_order() {
        let (mut writer, mut out) = (ResponseWriter::default(), Vec::new());
        writer.open(&head(), true, &mut out);
        for delta in deltas() {
            writer.write(&head(), &delta, &mut out);
        }
        writer.finish(
            &head(),
            end(FinishReason::ToolCalls),
            Some(COUNTS),
            &mut out,
        );
        let text = String::from_utf8(out).unwrap();
        let events: Vec<Value> = text
            .split_terminator("\n\n")
            .map(|event| {
                let (kind, data) = event.split_once('\n').unwrap();
                let data: Value =
                    serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
                assert_eq!(kind.strip_prefix("event: "), data["type"].as_str());
                data
            })
            .collect();
        for (number, event) in events.iter().enumerate() {
            assert_eq!(event["sequence_number"], number);
        }
        let kinds: Vec<&str> = events
            .iter()
            .map(|event| {
                event["type"]
                    .as_str()
                    .unwrap()
                    .strip_prefix("response.")
                    .unwrap()
            })
            .collect();
        assert_eq!(
            kinds,
            [
                "created",
                "in_progress",
                "output_item.added",
                "reasoning_text.delta",
                "reasoning_text.done",
                "output_item.done",
                "output_item.added",
                "content_part.added",
                "output_text.delta",
                "output_text.delta",
                "output_text.done",
                "content_part.done",
                "output_item.done",
                "output_item.added",
                "function_call_arguments.delta",
                "output_item.added",
                "custom_tool_call_input.delta",
                "function_call_arguments.done",
                "output_item.done",
                "custom_tool_call_input.done",
                "output_item.done",
                "completed",
            ]
        );
        let whole = ResponseWriter::default().complete(
            &deltas(),
            &head(),
            end(FinishReason::ToolCalls),
            Some(COUNTS),
        );
        let whole: Value = serde_json::from_slice(&whole).unwrap();
        assert_eq!(events.last().unwrap()["response"], whole);
        assert_eq!(whole["output"][1]["content"][0]["text"], "So be it");
        assert_eq!(whole["output"][3]["input"], "x");
        assert_eq!(
            whole["usage"]["output_tokens_details"]["reasoning_tokens"],
            2
        );
    }

    #[test]
    fn cut_answers_are_incomplete() {
        let cut = ResponseWriter::default().complete(
            &[Delta::Content("a".into())],
            &head(),
            end(FinishReason::Length),
            None,
        );
        let cut: Value = serde_json::from_slice(&cut).unwrap();
        assert_eq!(
            (&cut["status"], &cut["incomplete_details"]["reason"]),
            (&json!("incomplete"), &json!("max_output_tokens"))
        );
    }
}
