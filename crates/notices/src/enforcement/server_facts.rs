//! Identification of a server.

use serde::{Deserialize, Deserializer, Serialize};

use sobench_backend::{Product, ServerKind};

/// Facts that a server reports about itself. A fact is `None` if the server does not report it.
#[derive(Clone, Debug, Default, PartialEq, Eq, schemars::JsonSchema, Serialize, Deserialize)]
pub struct ServerFacts {
    pub product: Option<Product>,
    pub version: Option<String>,
    /// The engine that enforces constraints, as the server names it.
    pub engine: Option<String>,
    /// The model name.
    pub model: Option<String>,
    /// Maximum length of prompt and answer together, in tokens.
    pub max_model_len: Option<u64>,
    /// `owned_by` of the first model.
    pub owned_by: Option<String>,
    /// The `server` header.
    pub server_header: Option<String>,
    /// Pages that returned 200 and JSON.
    #[serde(deserialize_with = "known_paths")]
    pub sources: Vec<&'static str>,
}

impl ServerFacts {
    /// Whether the server is vLLM, which in `auto` fixes its engine by the first constrained
    /// request.
    pub fn is_vllm(&self) -> bool {
        self.product.is_some() && self.product == ServerKind::Vllm.product()
    }
}

fn known_paths<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<&'static str>, D::Error> {
    let read = Vec::<String>::deserialize(deserializer)?;
    let known = |path: &String| Product::page_paths().find(|known| known == path);
    read.iter()
        .map(|path| {
            known(path).ok_or_else(|| serde::de::Error::custom(format!("unknown page: {path}")))
        })
        .collect()
}
