//! The decoding engine of a run.

use serde::{Deserialize, Serialize};

use super::settings::{as_object, from_object};

/// The value of `--guided-decoding-backend`, and what it means in this run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", content = "value", rename_all = "snake_case")]
pub enum EngineChoice {
    /// Not given.
    #[default]
    None,
    /// The server decides; the user says that it is this one.
    Declared(String),
    /// It was sent with every request, or chosen in sobench's own server.
    Selected(String),
}

/// A decoding engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Engine {
    pub name: String,
    pub version: Option<String>,
    /// The choices that change what it accepts or costs.
    #[serde(serialize_with = "as_object", deserialize_with = "from_object")]
    pub settings: Vec<(String, String)>,
    /// What it did, the trial and the warm-ups included.
    pub work: Option<EngineWork>,
}

/// What the embedded server's engine did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EngineWork {
    /// Requests whose constraint was compiled already.
    pub cache_hits: u64,
    /// Requests whose constraint had to be compiled.
    pub cache_misses: u64,
    /// Sequences that could run at once.
    pub max_batch: usize,
    /// Most sequences that did.
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
    fn what_was_chosen_keeps_how() {
        let json = |choice: EngineChoice| serde_json::to_string(&choice).unwrap();
        assert_eq!(
            json(EngineChoice::Declared("xgrammar".into())),
            r#"{"how":"declared","value":"xgrammar"}"#
        );
        assert_eq!(json(EngineChoice::None), r#"{"how":"none"}"#);
    }
}
