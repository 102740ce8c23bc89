//! The settings of a run: what its options are built into.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::metrics::{LatencyMetric, MetricsOptions, QueueMetric};
use sobench_backend::{ConstraintDialect, Sampling, ServerKind};
use sobench_core::constraint::GrammarDialect;
use sobench_core::load::Load;
use sobench_data::dataset::DatasetPlan;
use sobench_judge::EvaluateOptions;
use sobench_notices::enforcement::Unenforced;

/// The settings of a run. Secrets, addresses and places of files are not among them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    pub backend: ServerKind,
    pub dataset: DatasetPlan,
    pub constraint: ConstraintSettings,
    pub load: Load,
    pub request: RequestSettings,
    pub evaluate: EvaluateOptions,
    pub metrics: MetricsOptions,
    pub report: ReportSettings,
    /// The tokenizer as the user named it; `None` is the embedded one.
    pub tokenizer: Option<String>,
}

/// How constraints travel. `None` is decided by what the server says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConstraintSettings {
    pub dialect: Option<ConstraintDialect>,
    pub grammar_dialect: Option<GrammarDialect>,
    /// The decoding engine as the user named it.
    pub guided_decoding_backend: Option<String>,
    /// Whether the run prints where `auto` sends each distinct constraint.
    pub explain: bool,
    /// What to do about a server that drops the constraint; `None` does not ask.
    pub preflight: Option<Unenforced>,
}

/// What every request carries beside its prompt, its output length and its constraint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestSettings {
    pub stream: bool,
    pub sampling: Sampling,
    pub ignore_eos: bool,
    /// The user's own fields, merged into every body.
    pub extra_body: Option<Map<String, Value>>,
    /// Variables for the tokenizer's chat template; those for the server's are in `extra_body`.
    pub template_variables: Option<Map<String, Value>>,
    pub request_id_prefix: Option<String>,
    /// The models that requests ask for in place of the run's; `None` where all ask for that.
    pub lora: Option<Lora>,
    /// Whether the server profiles the measured part.
    pub profile: bool,
}

/// LoRA modules, and how they are assigned to requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lora {
    /// At least one.
    pub modules: Vec<String>,
    pub assignment: LoraAssignment,
}

/// How LoRA modules are assigned to requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoraAssignment {
    /// Drawn for each request.
    Random,
    RoundRobin,
}

/// What a report of the run shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReportSettings {
    /// The latencies that the console shows; the saved result has all of them.
    pub percentile_metrics: Vec<LatencyMetric>,
    /// The wait before sending as latencies of its own, where it was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queue_metrics: Vec<QueueMetric>,
    /// Whether the saved result holds every request.
    pub detailed: bool,
    pub label: Option<String>,
    /// The user's own `key=value` pairs, in the order given.
    #[serde(serialize_with = "as_object", deserialize_with = "from_object")]
    pub metadata: Vec<(String, String)>,
}

impl Settings {
    /// Whether a request of the run can have a constraint.
    pub fn takes_constraints(&self) -> bool {
        self.backend.takes_constraints() && !self.dataset.name().is_plain()
    }

    /// The share of requests sent with a constraint, 0 to 1; `None` where no request can have one.
    pub fn constrained_ratio(&self) -> Option<f64> {
        self.takes_constraints()
            .then_some(self.dataset.constrained_ratio)
    }

    /// The most tokens of an answer (`max_tokens`), where all requests have the same.
    pub fn output_len(&self) -> Option<u32> {
        let of_all = self.dataset.output_len;
        let is_one = self
            .dataset
            .parts()
            .iter()
            .all(|part| part.plan.output_len == of_all);
        (self.backend.generates() && is_one).then_some(of_all)
    }
}

/// Pairs as an object, in their order.
pub(super) fn as_object<S: Serializer>(
    pairs: &[(String, String)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(key, value)| (key, value)))
}

/// Reads what [`as_object`] writes.
pub(super) fn from_object<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<(String, String)>, D::Error> {
    let pairs = Map::<String, Value>::deserialize(deserializer)?;
    let text = |(key, value)| match value {
        Value::String(value) => Ok((key, value)),
        other => Err(serde::de::Error::custom(format!(
            "{key} is not a text: {other}"
        ))),
    };
    pairs.into_iter().map(text).collect()
}
