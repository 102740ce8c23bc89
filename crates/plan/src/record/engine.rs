//! The decoding engine of a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::settings::{as_object, from_object};

/// The value of `--guided-decoding-backend` and its use in the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(tag = "how", content = "value", rename_all = "snake_case")]
pub enum EngineChoice {
    /// Not given.
    #[default]
    None,
    /// Declared by the user; the server selects its engine.
    Declared(String),
    /// Sent with every request, or selected in the embedded server.
    Selected(String),
}

/// A decoding engine.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Engine {
    pub name: String,
    pub version: Option<String>,
    /// Settings that change what the engine accepts or costs.
    #[serde(serialize_with = "as_object", deserialize_with = "from_object")]
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub settings: Vec<(String, String)>,
    /// Counters, including the trial and the warm-ups.
    pub work: Option<EngineWork>,
}

/// Counters of the embedded server's engine.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct EngineWork {
    /// Requests with a cached constraint.
    pub cache_hits: u64,
    /// Requests that compiled their constraint.
    pub cache_misses: u64,
    /// Maximum number of concurrent sequences.
    pub max_batch: usize,
    /// Largest number of concurrent sequences that occurred.
    pub largest_batch: usize,
    pub steps: u64,
    pub masks: u64,
    pub mask_p50_us: Option<f64>,
    pub mask_p99_us: Option<f64>,
}

impl EngineChoice {
    /// The engine's name, if one was given.
    pub fn value(&self) -> Option<&str> {
        match self {
            Self::None => None,
            Self::Declared(value) | Self::Selected(value) => Some(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choice_is_saved_with_its_use() {
        let json = |choice: EngineChoice| serde_json::to_string(&choice).unwrap();
        assert_eq!(
            json(EngineChoice::Declared("xgrammar".into())),
            r#"{"how":"declared","value":"xgrammar"}"#
        );
        assert_eq!(json(EngineChoice::None), r#"{"how":"none"}"#);
    }
}
