//! The settings of a run.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::dataset::{DatasetPlan, RecordedSource};
use crate::metrics::MetricsSettings;
use sobench_backend::{ConstraintDialect, Sampling, ServerKind};
use sobench_core::constraint::GrammarDialect;
use sobench_core::load::Load;
use sobench_judge::JudgeSettings;
use sobench_notices::enforcement::UnenforcedPolicy;

/// The settings of a run, without secrets, addresses and file paths. `S` is the dataset with its
/// own options.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Settings<S = RecordedSource> {
    pub backend: ServerKind,
    pub dataset: DatasetPlan<S>,
    pub constraint: ConstraintSettings,
    pub load: Load,
    pub request: RequestSettings,
    /// Left out at its default, which older logs have.
    #[serde(default, skip_serializing_if = "ServerMetricsSettings::is_default")]
    pub server_metrics: ServerMetricsSettings,
    pub evaluate: JudgeSettings,
    pub metrics: MetricsSettings,
    pub report: ReportSettings,
    /// The tokenizer as named by the user; `None` for the embedded one.
    pub tokenizer: Option<String>,
}

/// Settings of constraints. `None` values are detected from the server.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ConstraintSettings {
    pub dialect: Option<ConstraintDialect>,
    pub grammar_dialect: Option<GrammarDialect>,
    /// The decoding engine as named by the user.
    pub guided_decoding_backend: Option<String>,
    /// Whether to print the engine that `auto` selects for each distinct constraint.
    pub explain: bool,
    /// The policy for a server that drops constraints; `None` disables the preflight.
    pub preflight: Option<UnenforcedPolicy>,
}

/// Fields of a request that replace or multiply its token limit.
const LIMIT_FIELDS: [&str; 11] = [
    "best_of",
    "max_completion_tokens",
    "max_new_tokens",
    "max_output_tokens",
    "max_tokens",
    "n",
    "n_predict",
    "options",
    "parameters",
    "sampling_params",
    "use_beam_search",
];

/// Settings of requests, except for prompt, output length and constraint.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct RequestSettings {
    pub stream: bool,
    pub sampling: Sampling,
    /// The share of requests whose answers are also requested whole; `None` without that check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_parity: Option<f64>,
    /// Whether the frames of answers are checked; not in logs of older versions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wire: bool,
    pub ignore_eos: bool,
    /// User-defined fields, merged into every body.
    pub extra_body: Option<Map<String, Value>>,
    /// Variables for the tokenizer's chat template. Those for the server are in `extra_body`.
    pub template_variables: Option<Map<String, Value>>,
    pub request_id_prefix: Option<String>,
    /// The header with the id of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_header: Option<String>,
    /// LoRA modules; `None` if all requests use the model of the run.
    pub lora: Option<Lora>,
    /// Whether to profile the server during the measurement.
    pub profile: bool,
}

impl RequestSettings {
    /// Whether fields of the user may set another token limit than that of the requests.
    pub fn has_own_token_limit(&self) -> bool {
        self.extra_body
            .as_ref()
            .is_some_and(|body| LIMIT_FIELDS.iter().any(|field| body.contains_key(*field)))
    }
}

/// LoRA modules and their assignment to requests.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Lora {
    /// At least one.
    pub modules: Vec<String>,
    pub assignment: LoraAssignment,
}

/// The assignment of LoRA modules to requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoraAssignment {
    /// Random for each request.
    Random,
    RoundRobin,
}

/// Settings of the server's metrics page.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ServerMetricsSettings {
    pub page: ServerMetricsPage,
    /// Further series by name (`--server-metric`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<String>,
}

impl ServerMetricsSettings {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Which page is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerMetricsPage {
    /// The page of the kind of server, if there is one.
    #[default]
    Auto,
    /// A page at a user-defined address.
    Url,
    Off,
}

/// Settings of the report.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ReportSettings {
    /// vLLM's keys of the latencies in the text report; the saved result has all.
    pub percentile_metrics: Vec<String>,
    /// Latencies of the wait before sending, if requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queue_metrics: Vec<String>,
    /// Whether the saved result has every request.
    pub detailed: bool,
    pub label: Option<String>,
    /// User-defined `key=value` pairs in the given order.
    #[serde(serialize_with = "as_object", deserialize_with = "from_object")]
    #[schemars(with = "Map<String, Value>")]
    pub metadata: Vec<(String, String)>,
}

impl<S> Settings<S> {
    /// The same settings with another form of the dataset's own options.
    pub fn with_source<T>(self, of: impl FnOnce(&S) -> T) -> Settings<T> {
        let source = of(&self.dataset.source);
        Settings {
            backend: self.backend,
            dataset: self.dataset.with_source(source),
            constraint: self.constraint,
            load: self.load,
            request: self.request,
            server_metrics: self.server_metrics,
            evaluate: self.evaluate,
            metrics: self.metrics,
            report: self.report,
            tokenizer: self.tokenizer,
        }
    }
}

impl Settings {
    /// Maximum output tokens (`max_tokens`), if equal for all requests.
    pub fn output_len(&self) -> Option<u32> {
        let of_all = self.dataset.output_len;
        let mut parts = self.dataset.source.parts();
        let is_one = parts.all(|part| part["output_len"] == of_all);
        (self.backend.generates() && is_one).then_some(of_all)
    }
}

/// Serializes pairs as an object in their order.
pub(super) fn as_object<S: Serializer>(
    pairs: &[(String, String)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(key, value)| (key, value)))
}

/// Deserializes the format of [`as_object`].
pub(super) fn from_object<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<(String, String)>, D::Error> {
    let pairs = Map::<String, Value>::deserialize(deserializer)?;
    let text = |(key, value)| match value {
        Value::String(value) => Ok((key, value)),
        other => Err(serde::de::Error::custom(format!(
            "{key} is not a string: {other}"
        ))),
    };
    pairs.into_iter().map(text).collect()
}
