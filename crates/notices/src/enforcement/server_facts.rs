//! What a server says of itself, as data.

use serde::{Deserialize, Deserializer, Serialize};

use sobench_backend::{Product, ServerKind};

/// What a server says of itself. `None` where it says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerFacts {
    pub product: Option<Product>,
    pub version: Option<String>,
    /// The library that enforces constraints, in the server's words.
    pub engine: Option<String>,
    /// The model's name as the server knows it.
    pub model: Option<String>,
    /// The longest prompt and answer together, in tokens.
    pub max_model_len: Option<u64>,
    /// `owned_by` of the first model.
    pub owned_by: Option<String>,
    /// The `server` header.
    pub server_header: Option<String>,
    /// Pages that answered 200 with JSON.
    #[serde(deserialize_with = "known_paths")]
    pub sources: Vec<&'static str>,
}

impl ServerFacts {
    /// Whether the server says that it is vLLM, which in `auto` fixes its engine by its first
    /// constrained request.
    pub fn is_vllm(&self) -> bool {
        self.product.is_some() && self.product == ServerKind::Vllm.product()
    }
}

fn known_paths<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<&'static str>, D::Error> {
    let read = Vec::<String>::deserialize(deserializer)?;
    let known = |path: &String| Product::page_paths().find(|known| known == path);
    read.iter()
        .map(|path| {
            known(path).ok_or_else(|| serde::de::Error::custom(format!("no such page: {path}")))
        })
        .collect()
}
