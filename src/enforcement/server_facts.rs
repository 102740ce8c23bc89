//! What a server says of itself, as data.

use serde::{Deserialize, Deserializer, Serialize};

/// The pages that are asked for, by the order in which they are believed.
pub const PATHS: [&str; 8] =
    ["/version", "/v1/models", "/get_server_info", "/server_info", "/props", "/info", "/api/version", "/v2"];

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

fn known_paths<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<&'static str>, D::Error> {
    let read = Vec::<String>::deserialize(deserializer)?;
    let known = |path: &String| PATHS.into_iter().find(|known| known == path);
    read.iter().map(|path| known(path).ok_or_else(|| serde::de::Error::custom(format!("no such page: {path}")))).collect()
}

/// Servers that can be told from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Product {
    Vllm,
    Sglang,
    LlamaCpp,
    Tgi,
    Ollama,
    Lmdeploy,
    TensorrtLlm,
    Triton,
    Embedded,
}

impl Product {
    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vLLM",
            Self::Sglang => "SGLang",
            Self::LlamaCpp => "llama.cpp",
            Self::Tgi => "Text Generation Inference",
            Self::Ollama => "Ollama",
            Self::Lmdeploy => "LMDeploy",
            Self::TensorrtLlm => "TensorRT-LLM",
            Self::Triton => "Triton Inference Server",
            Self::Embedded => "sobench's embedded server",
        }
    }
}
