//! The clients.

mod ai_sdk;
mod langchain;
mod litellm;
mod llama_index;
mod openai_node;
mod openai_python;
mod pydantic_ai;
mod smolagents;

use serde_json::Value;

use crate::client::{Client, Reading, is_same};
use sobench_core::tools::ToolSet;

/// All clients, in the order of tables.
pub static CLIENTS: [Client; 9] = [
    openai_python::CLIENT,
    openai_python::LOOP,
    openai_node::CLIENT,
    litellm::CLIENT,
    langchain::CLIENT,
    smolagents::CLIENT,
    pydantic_ai::CLIENT,
    llama_index::CLIENT,
    ai_sdk::CLIENT,
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

/// Whether no client raises an error, and all read the same.
pub fn are_same(readings: &[(&str, Reading)]) -> bool {
    let mut pairs = readings.windows(2);
    pairs.all(|pair| is_same(&pair[0].1, &pair[1].1))
        && readings.iter().all(|(_, reading)| reading.is_ok())
}
