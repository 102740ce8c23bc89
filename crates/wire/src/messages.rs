//! The order of the events of Anthropic's messages.
//!
//! Source: Anthropic's guide "Streaming messages": `message_start`; blocks, each with a start, deltas
//! and a stop, one after the other; `message_delta`; `message_stop`.

use serde_json::Value;

/// What an event of a stream may follow.
#[derive(Default)]
pub(crate) struct Order {
    has_start: bool,
    blocks: u64,
    /// The type of the block that has no stop.
    open: Option<String>,
    has_delta: bool,
}

impl Order {
    /// Adds an event. Returns why it is out of order.
    pub(crate) fn add(&mut self, kind: &str, frame: &Value) -> Option<String> {
        if matches!(kind, "ping" | "error") {
            return None;
        }
        let is_start = kind == "message_start";
        let problem = match (is_start, std::mem::replace(&mut self.has_start, true)) {
            (true, true) => Some(format!("{kind} twice")),
            (false, false) => Some(format!("{kind} before message_start")),
            _ => None,
        };
        let other = match kind {
            "content_block_start" => self.start(frame),
            "content_block_delta" | "content_block_stop" => self.inside(kind, frame),
            "message_delta" => {
                let is_cut = frame["delta"]["stop_reason"] == "max_tokens";
                let is_second = std::mem::replace(&mut self.has_delta, true);
                // Anthropic's own streams leave out the stop of a block that was cut.
                let open = self.open.take().filter(|_| !is_cut);
                let last = self.blocks.saturating_sub(1);
                match open {
                    Some(_) => Some(format!("{kind} before content_block_stop {last}")),
                    None => is_second.then(|| format!("{kind} twice")),
                }
            }
            "message_stop" if !self.has_delta => Some(format!("{kind} before message_delta")),
            _ => None,
        };
        problem.or(other)
    }

    fn start(&mut self, frame: &Value) -> Option<String> {
        let (index, expected) = (&frame["index"], self.blocks);
        let kind = frame["content_block"]["type"].as_str().unwrap_or_default();
        self.blocks += 1;
        if self.open.replace(kind.to_owned()).is_some() {
            let last = expected.saturating_sub(1);
            return Some(format!(
                "content_block_start {index} before content_block_stop {last}"
            ));
        }
        let is_next = index.as_u64().is_none_or(|index| index == expected);
        (!is_next).then(|| format!("content_block_start {index} after {expected} blocks"))
    }

    fn inside(&mut self, kind: &str, frame: &Value) -> Option<String> {
        let index = &frame["index"];
        let last = self.blocks.checked_sub(1);
        let is_open = self.open.is_some() && index.as_u64().is_none_or(|index| Some(index) == last);
        if !is_open {
            return Some(format!("{kind} {index} before content_block_start {index}"));
        }
        if kind == "content_block_stop" {
            self.open = None;
            return None;
        }
        let delta = frame["delta"]["type"].as_str().unwrap_or_default();
        let block = self.open.as_deref().unwrap_or_default();
        let fits = match delta {
            "text_delta" | "citations_delta" => block == "text",
            "input_json_delta" => block == "tool_use",
            "thinking_delta" | "signature_delta" => block == "thinking",
            _ => true,
        };
        (!fits).then(|| format!("{delta} in a block of {block}"))
    }
}
