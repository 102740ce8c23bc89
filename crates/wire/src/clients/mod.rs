//! The clients.

mod ai_sdk;
mod langchain;
mod litellm;
mod openai_node;
mod openai_python;
mod pydantic_ai;
mod smolagents;

use crate::client::Client;

/// All clients, in the order of tables.
pub static CLIENTS: [Client; 8] = [
    openai_python::CLIENT,
    openai_python::LOOP,
    openai_node::CLIENT,
    litellm::CLIENT,
    langchain::CLIENT,
    smolagents::CLIENT,
    pydantic_ai::CLIENT,
    ai_sdk::CLIENT,
];
