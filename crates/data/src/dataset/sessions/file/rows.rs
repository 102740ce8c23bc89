//! Rows of messages, as of mlcommons/endpoints (`examples/10_Agentic_Inference`): the rows of a
//! conversation are contiguous and ordered by `turn`. A user or tool row may have `delay_seconds`, a
//! tool row has `tool_results`, and `tools` hold until they change.

use serde_json::{Value, json};

use super::{Draft, DraftTurn, Message, wrong};
use sobench_core::error::Result;

/// The rows of a conversation so far.
pub(super) struct Conversation {
    draft: Draft,
    next: DraftTurn,
    tools: Option<Value>,
    last_turn: f64,
}

impl Conversation {
    pub(super) fn new(place: &str, id: String) -> Self {
        Self {
            draft: Draft {
                place: place.to_owned(),
                id,
                ..Draft::default()
            },
            next: DraftTurn::default(),
            tools: None,
            last_turn: f64::NEG_INFINITY,
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.draft.id
    }

    /// Adds a row.
    ///
    /// # Errors
    /// The row has no role or no turn, or it is out of order.
    pub(super) fn add(&mut self, place: &str, row: &Value) -> Result<()> {
        let turn = row["turn"]
            .as_f64()
            .ok_or_else(|| wrong(place, "a row without a turn"))?;
        if turn <= self.last_turn {
            return Err(wrong(
                place,
                format!("turn {turn} is not after turn {}", self.last_turn),
            ));
        }
        self.last_turn = turn;
        if row["tools"].is_array() {
            self.tools = Some(row["tools"].clone());
        }
        match row["role"].as_str() {
            Some("assistant") => {
                let mut answer = Message::new("assistant", row["content"].clone());
                for name in ["tool_calls", "reasoning_content"] {
                    if let Some(value) = row.get(name).filter(|value| !value.is_null()) {
                        answer.other.insert(name.to_owned(), value.clone());
                    }
                }
                self.end_turn(place, Some(answer));
            }
            Some("tool") => {
                let results = match &row["tool_results"] {
                    Value::Array(results) => results.clone(),
                    _ => vec![
                        json!({"tool_call_id": row["tool_call_id"], "content": row["content"]}),
                    ],
                };
                self.next.delay_ms += delay_ms(row);
                for result in results {
                    let id = result["tool_call_id"].clone();
                    let message = Message::tool_result(id, result["content"].clone());
                    self.next.new.push(message);
                }
            }
            Some(role @ ("user" | "system" | "developer")) => {
                self.next.delay_ms += delay_ms(row);
                if let Some(system) = row["system"].as_str() {
                    self.next.new.push(Message::new("system", system));
                }
                self.next
                    .new
                    .push(Message::new(role, row["content"].clone()));
            }
            _ => return Err(wrong(place, "a row without a role")),
        }
        Ok(())
    }

    fn end_turn(&mut self, place: &str, answer: Option<Message>) {
        let turn = std::mem::take(&mut self.next);
        self.draft.turns.push(DraftTurn {
            place: place.to_owned(),
            tools: self.tools.clone(),
            answer,
            ..turn
        });
    }

    /// The conversation. Messages after the last answer are a turn of their own.
    pub(super) fn into_draft(mut self) -> Draft {
        if !self.next.new.is_empty() {
            let place = self.draft.place.clone();
            self.end_turn(&place, None);
        }
        self.draft
    }
}

fn delay_ms(row: &Value) -> f64 {
    1000.0 * row["delay_seconds"].as_f64().unwrap_or_default()
}
