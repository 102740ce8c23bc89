//! The clients.

mod ai_sdk;
mod instructor;
mod langchain;
mod litellm;
mod llama_index;
mod openai_node;
mod openai_python;
mod pydantic_ai;
mod rig;
mod smolagents;

use serde_json::Value;

use crate::client::{Client, Reading, is_same};
use sobench_core::tools::ToolSet;

/// All clients, in the order of tables.
pub static CLIENTS: [Client; 11] = [
    openai_python::CLIENT,
    openai_python::LOOP,
    openai_node::CLIENT,
    litellm::CLIENT,
    langchain::CLIENT,
    smolagents::CLIENT,
    pydantic_ai::CLIENT,
    llama_index::CLIENT,
    ai_sdk::CLIENT,
    instructor::CLIENT,
    rig::CLIENT,
];

/// What each client reads from the chunks of a stream, by its name.
pub fn readings(chunks: &[Value], tools: Option<&ToolSet>) -> Vec<(&'static str, Reading)> {
    let names: Option<Vec<&str>> =
        tools.map(|tools| tools.tools.iter().map(|tool| &*tool.name).collect());
    let clients = CLIENTS.iter();
    clients
        .map(|client| (client.name, client.read(chunks, names.as_deref())))
        .collect()
}

/// Whether no client raises an error, and all read the same. Of several calls, instructor reads one
/// by design, which is no difference.
pub fn are_same(readings: &[(&str, Reading)]) -> bool {
    let first = readings
        .first()
        .and_then(|(_, reading)| reading.as_ref().ok());
    let is_single = first.is_none_or(|read| read.calls.len() < 2);
    let compared = readings.iter();
    let mut compared = compared.filter(|(name, _)| is_single || *name != instructor::CLIENT.name);
    let Some((_, first)) = compared.next() else {
        return true;
    };
    first.is_ok() && compared.all(|(_, reading)| is_same(first, reading))
}
