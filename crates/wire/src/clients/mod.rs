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

use crate::client::{Client, Reading};

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
pub fn readings(chunks: &[Value], tools: Option<&[&str]>) -> Vec<(&'static str, Reading)> {
    let clients = CLIENTS.iter();
    clients
        .map(|client| (client.name, client.read(chunks, tools)))
        .collect()
}
