//! Traces of WEKA, as AIPerf reads them (`weka_trace_models.py`): `requests` with the lengths of
//! prompt (`in`) and answer (`out`), names of the blocks of the prompt (`hash_ids`), and the time before
//! the request (`think_time`). The requests of a sub-agent (`type: subagent`) run one after the other
//! beside those of other sub-agents; the next request of the parent waits for them. Prompts are
//! random tokens, with the same prefix where the names of blocks are the same.

use serde_json::Value;

use super::{Draft, DraftTurn, History, Message, wrong};
use crate::dataset::trace_prompts::TracePrompts;
use crate::recorded::{BLOCK_TOKENS, Lengths};
use sobench_core::constraint::sha256_hex;
use sobench_core::error::Result;

/// The turns of a trace. Without `prompts`, they have none.
pub(super) fn draft(
    place: &str,
    trace: &Value,
    number: usize,
    prompts: Option<&mut TracePrompts<'_>>,
) -> Result<Draft> {
    let block_tokens = trace["block_size"].as_u64().unwrap_or(BLOCK_TOKENS as u64) as usize;
    let mut building = Building {
        place,
        number,
        blocks: BLOCK_TOKENS.div_ceil(block_tokens.max(1)),
        prompts,
        turns: Vec::new(),
    };
    let mut before: Vec<usize> = Vec::new();
    let mut agents: Vec<usize> = Vec::new();
    for request in trace["requests"].as_array().into_iter().flatten() {
        if request["type"] == "subagent" {
            let mut last = before.clone();
            for inner in request["requests"].as_array().into_iter().flatten() {
                last = vec![building.add(inner, last)?];
            }
            agents.extend(last);
        } else {
            let mut after = if agents.is_empty() {
                before.clone()
            } else {
                std::mem::take(&mut agents)
            };
            after.sort_unstable();
            after.dedup();
            before = vec![building.add(request, after)?];
        }
    }
    Ok(Draft {
        place: place.to_owned(),
        turns: building.turns,
        ..Draft::default()
    })
}

struct Building<'p, 't> {
    place: &'p str,
    /// The number of the trace: its names of blocks are its own.
    number: usize,
    /// Blocks of the trace in a block of prompts.
    blocks: usize,
    prompts: Option<&'p mut TracePrompts<'t>>,
    turns: Vec<DraftTurn>,
}

impl Building<'_, '_> {
    /// Adds a request; returns its position.
    fn add(&mut self, request: &Value, after: Vec<usize>) -> Result<usize> {
        let position = self.turns.len();
        let place = format!("{}, turn {}", self.place, position + 1);
        let length = |name: &str| {
            request[name]
                .as_u64()
                .and_then(|length| u32::try_from(length).ok())
        };
        let (Some(input), Some(output)) = (length("in"), length("out")) else {
            return Err(wrong(&place, "a request without the lengths in and out"));
        };
        let names: Vec<u64> = request["hash_ids"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_u64)
            .collect();
        let block = |names: &[u64]| {
            let text = sha256_hex(format!("{} {names:?}", self.number).as_bytes());
            u64::from_str_radix(&text[..15], 16).unwrap_or_default()
        };
        let lengths = Lengths {
            input,
            output,
            blocks: names.chunks_exact(self.blocks).map(block).collect(),
        };
        let text = self
            .prompts
            .as_mut()
            .map(|prompts| prompts.text(&lengths))
            .transpose()?;
        self.turns.push(DraftTurn {
            place,
            new: vec![Message::new("user", text.unwrap_or_default())],
            // Its text is not recorded, and no later prompt has it.
            answer: Some(Message::new("assistant", "")),
            output_len: Some(output.max(1)),
            delay_ms: 1000.0 * request["think_time"].as_f64().unwrap_or_default(),
            history: History::None,
            after: Some(after),
            ..DraftTurn::default()
        });
        Ok(position)
    }
}
