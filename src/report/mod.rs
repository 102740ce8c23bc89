//! A report as a value, and its renderings. Pure: it asks neither clock nor environment, and printing never computes.
//!
//! The caller fills [`About`] with what was planned and found out; [`crate::metrics`] has the numbers. [`text::render`] is what a
//! person reads, [`json::render`] what is saved, under the name that [`filename`] gives it.

pub mod axis;
mod breakdown;
mod by_arm;
mod certainty;
pub mod client;
mod cold;
pub mod conditions;
pub mod csv;
pub mod curl;
mod details;
pub mod enforcement;
pub mod escape;
pub mod failures;
mod filename;
pub mod format;
pub mod from_log;
pub mod html;
pub mod json;
pub mod junit;
pub mod lengths_page;
mod load;
pub mod markdown;
pub mod page;
pub mod place;
pub mod plot;
pub mod pytorch;
pub mod requests_page;
pub mod rfc4180;
pub mod saved;
pub mod shards;
pub mod svg;
pub mod tables;
pub mod text;
pub mod timeline;
pub mod view;
pub mod vllm;
pub mod wrap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use self::client::sentence as client_sentence;
pub use self::details::{Details, Output};
pub use self::enforcement::Enforcement;
pub use self::filename::filename;
pub use self::load::{LoadReport, RampAbout, RpsChange};
use self::shards::ShardReport;
use crate::backend::Sampling;
use crate::metrics::client::ClientPart;
use crate::metrics::parts::Part;
use crate::metrics::probe::Probed;
use crate::metrics::spec_decode::SpecDecode;
use crate::metrics::{LatencyMetric, Metrics, QueueMetric};

/// The version of the saved file's own part (`sobench`), raised whenever a key changes its meaning or goes away.
pub const FORMAT_VERSION: u32 = 1;

/// Everything that is said about a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub about: About,
    pub metrics: Metrics,
    /// The latencies that the console shows; the saved file has all of them.
    pub percentile_metrics: Vec<LatencyMetric>,
    /// The wait before sending as latencies of its own, where it was asked for.
    pub queue_metrics: Vec<QueueMetric>,
    /// The load that the figures were measured under.
    pub load: Option<LoadReport>,
    /// The client's own part in them, and whether it stood in the way.
    pub client: Option<ClientPart>,
    /// The shards that carried the load, where several did.
    pub shards: Vec<ShardReport>,
    /// The datasets of a mix, each by itself.
    pub parts: Vec<Part>,
    /// The small requests beside the run, where they were asked for.
    pub probe: Option<Probed>,
    /// What speculative decoding did, where the server tells.
    pub spec_decode: Option<SpecDecode>,
    /// What the saved file holds of every request, where the user asked for it.
    pub details: Option<Details>,
}

/// Under which conditions the numbers came about. What is not known is `None` and is saved as `null`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// When the run began, as vLLM writes it: `%Y%m%d-%H%M%S`.
    pub date: Option<String>,
    pub sobench_version: Option<String>,
    /// The kind of server (`vllm`, `openai-chat`, ...).
    pub backend: Option<String>,
    /// vLLM's older name for the backend; the backend where it is not given.
    pub endpoint_type: Option<String>,
    pub base_url: Option<String>,
    /// The path that requests were sent to, e.g. `/v1/completions`.
    pub endpoint: Option<String>,
    pub model_id: Option<String>,
    pub tokenizer_id: Option<String>,
    pub dataset: DatasetAbout,
    pub num_prompts: Option<usize>,
    /// The most tokens that an answer may have (`max_tokens`).
    pub output_len: Option<u32>,
    pub seed: Option<u64>,
    /// What every request carried beside prompt, length and constraint.
    pub request: RequestAbout,
    /// Which share of the requests was sent with a constraint, 0 to 1.
    pub constrained_ratio: Option<f64>,
    /// Requests per second; infinite where all are due at once. Saved as a number or as `"inf"`.
    #[serde(serialize_with = "rate_or_inf", deserialize_with = "rate_or_inf_back")]
    pub request_rate: Option<f64>,
    pub burstiness: Option<f64>,
    /// `None` where there is no cap.
    pub max_concurrency: Option<usize>,
    /// How constraints were put into requests (`structured-outputs`, `guided`, `response-format`).
    pub constraint_dialect: Option<String>,
    /// The kinds of constraint in the run (`json`, `regex`, ...).
    pub constraint_kinds: Vec<String>,
    /// The decoding engine that the user named, and what became of the name.
    pub guided_decoding_backend: EngineChoice,
    /// The engine that did the work, where it is ours and so known.
    pub engine: Option<EngineAbout>,
    pub server_version: Option<String>,
    pub label: Option<String>,
    /// The user's own `key=value` pairs, in the order given.
    #[serde(serialize_with = "as_object", deserialize_with = "from_object")]
    pub metadata: Vec<(String, String)>,
    /// Whether the server was sobench's own, with its synthetic model.
    pub embedded: bool,
    pub host: Host,
    /// Whether `format` was asserted when judging by a JSON Schema.
    pub assert_formats: Option<bool>,
    /// Requests before the run that are in no figure.
    pub trial_requests: usize,
    pub warmup_requests: usize,
    /// Whether the run was stopped before its end.
    pub partial: bool,
    /// Whether the constraints were seen to hold before the run.
    pub enforcement: Enforcement,
    /// What the reader has to know besides the numbers, a sentence each.
    pub notices: Vec<String>,
}

/// What every request carried beside prompt, length and constraint. What was not given was not sent, and is `null`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestAbout {
    /// Whether answers were asked for as streams.
    pub stream: Option<bool>,
    #[serde(flatten)]
    pub sampling: Sampling,
    pub ignore_eos: Option<bool>,
    /// The user's own fields, merged into every body.
    pub extra_body: Option<serde_json::Map<String, serde_json::Value>>,
    /// The most that one request might take, in seconds.
    pub request_timeout_s: Option<f64>,
    /// The most time without any byte of an answer, in seconds; `None` where there was no such limit.
    pub idle_timeout_s: Option<f64>,
}

/// Where the requests came from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DatasetAbout {
    pub name: Option<String>,
    pub path: Option<String>,
    /// What the rows were read from: `shipped`, `command line`, a path, or a Hub repository with its commit.
    pub source: Option<String>,
    /// Distinct rows; fewer than requests means that they were used in turn.
    pub rows: Option<usize>,
    /// SHA-256 of the dataset, in hex.
    pub sha256: Option<String>,
    /// The notation that grammars were written in (`lark`, `ebnf`), where they were sent in the other one.
    pub grammar_converted_from: Option<String>,
}

/// The value of `--guided-decoding-backend`, and what it means in this run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", content = "value", rename_all = "snake_case")]
pub enum EngineChoice {
    /// Not given.
    #[default]
    None,
    /// The server decides; the user says that it is this one.
    Declared(String),
    /// It was sent with every request, or chosen in our own server.
    Selected(String),
}

/// A decoding engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineAbout {
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

/// The machine that sobench itself ran on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    pub os: Option<String>,
    pub arch: Option<String>,
    pub cpus: Option<usize>,
}

impl Report {
    /// A report of what vLLM prints by default: TTFT, TPOT and ITL, without the details of each request.
    pub fn new(about: About, metrics: Metrics) -> Self {
        let percentile_metrics = vec![LatencyMetric::Ttft, LatencyMetric::Tpot, LatencyMetric::Itl];
        Self {
            about,
            metrics,
            percentile_metrics,
            queue_metrics: Vec::new(),
            load: None,
            client: None,
            shards: Vec::new(),
            parts: Vec::new(),
            probe: None,
            spec_decode: None,
            details: None,
        }
    }
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

/// vLLM's spelling of a rate: infinity has no number in JSON.
pub(crate) fn rate_or_inf<S: Serializer>(rate: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match rate {
        Some(rate) if rate.is_infinite() => serializer.serialize_str("inf"),
        Some(rate) => serializer.serialize_f64(*rate),
        None => serializer.serialize_none(),
    }
}

fn as_object<S: Serializer>(pairs: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(key, value)| (key, value)))
}

/// Reads what [`rate_or_inf`] writes.
pub(crate) fn rate_or_inf_back<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    match serde_json::Value::deserialize(deserializer)? {
        serde_json::Value::Null => Ok(None),
        serde_json::Value::String(word) if word == "inf" => Ok(Some(f64::INFINITY)),
        serde_json::Value::Number(number) => Ok(number.as_f64()),
        other => Err(serde::de::Error::custom(format!("neither a number nor \"inf\": {other}"))),
    }
}

fn from_object<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, String)>, D::Error> {
    let pairs = serde_json::Map::<String, serde_json::Value>::deserialize(deserializer)?;
    let text = |(key, value)| match value {
        serde_json::Value::String(value) => Ok((key, value)),
        other => Err(serde::de::Error::custom(format!("{key} is no text: {other}"))),
    };
    pairs.into_iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_chosen_keeps_how() {
        let json = |choice: EngineChoice| serde_json::to_string(&choice).unwrap();
        assert_eq!(json(EngineChoice::Declared("xgrammar".into())), r#"{"how":"declared","value":"xgrammar"}"#);
        assert_eq!(json(EngineChoice::None), r#"{"how":"none"}"#);
    }
}
