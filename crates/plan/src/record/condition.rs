//! Conditions of a run that are compared: name, effect of a difference, and value in the record.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::RunRecord;
use sobench_core::case::Arm;

/// The conditions of a run as texts. A missing condition is unknown.
pub type Conditions = BTreeMap<Field, String>;

/// The value of a limit that is not set.
pub const NONE: &str = "none";

/// The value of an unlimited rate.
pub const INFINITE: &str = "inf";

/// The effect of a difference in a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// The runs have different requests, load or rules, and are not comparable.
    Stops,
    /// May affect the figures.
    Notice,
    /// Probably the purpose of the comparison.
    Listed,
}

/// Declares every condition: variant, name in flags, files and tables, effect of a difference, and
/// value.
macro_rules! conditions {
    ($($field:ident $name:literal $weight:ident $value:expr,)*) => {
        /// A condition of a run, in the order of reports.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize, Deserialize)]
        pub enum Field {
            $(#[serde(rename = $name)] $field,)*
        }

        impl Field {
            /// All conditions in report order.
            pub const ALL: [Self; [$(Self::$field,)*].len()] = [$(Self::$field,)*];

            /// The name in flags, files and tables.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$field => $name,)*
                }
            }

            /// The effect of a difference.
            pub fn weight(self) -> Weight {
                match self {
                    $(Self::$field => Weight::$weight,)*
                }
            }

            /// The value in a record; `None` if it is unknown or not applicable.
            pub fn value_in(self, record: &RunRecord) -> Option<String> {
                let value: fn(&RunRecord) -> Option<String> = match self {
                    $(Self::$field => $value,)*
                };
                value(record)
            }
        }
    };
}

conditions! {
    Model "model" Stops |record| Some(record.server.model_id.clone()),
    Dataset "dataset" Stops |record| Some(record.dataset.sha256.clone()),
    DatasetName "dataset_name" Notice |record| Some(record.settings.dataset.source.name.clone()),
    Ratio "ratio" Stops |record| record.constrained_ratio().map(|ratio| ratio.to_string()),
    Arms "arms" Stops |record| limit(arms(record)),
    Scorers "scorers" Stops |record| scorers(record),
    OutputLen "output_len" Stops |record| record.output_len(),
    NumPrompts "num_prompts" Notice |record| Some(record.own_requests().to_string()),
    RequestRate "request_rate" Stops |record| Some(record.own_request_rate().to_string()),
    Ramp "ramp" Stops |record| ramp(record),
    Burstiness "burstiness" Stops |record| Some(record.settings.load.burstiness.to_string()),
    MaxConcurrency "max_concurrency" Stops |record| limit(record.own_cap()),
    ColdSchemaEvery "cold_schema_every" Stops |record| limit(record.settings.load.cold_schema_every),
    Cancellation "cancellation" Stops |record| limit(record.settings.load.cancellation),
    Dialect "dialect" Stops |record| record.server.constraint_dialect.map(|dialect| dialect.to_string()),
    Prompts "prompts" Stops |record| Some(prompts(&record.server.endpoint).to_owned()),
    Sampling "sampling" Stops |record| Some(sampling(record)),
    Stream "stream" Stops |record| Some(record.settings.request.stream.to_string()),
    FormatAssertion "format_assertion" Stops |record| Some(record.settings.evaluate.assert_formats.to_string()),
    Goodput "goodput" Notice |record| limit(record.settings.metrics.goodput.as_ref().map(json)),
    Seed "seed" Notice |record| Some(record.settings.dataset.seed.to_string()),
    DurationLimit "duration_limit" Notice |record| limit(record.settings.load.until.time().map(|time| time.as_secs_f64())),
    MaxErrorRate "max_error_rate" Notice |record| limit(record.settings.load.error_limits.max_error_rate),
    MaxConsecutiveErrors "max_consecutive_errors" Notice |record| limit(record.settings.load.error_limits.max_consecutive_errors),
    Tokenizer "tokenizer" Notice |record| Some(record.tokenizer_id.clone()),
    Backend "backend" Listed |record| Some(record.settings.backend.to_string()),
    ServerVersion "server_version" Listed |record| record.server.version.clone(),
    Engine "engine" Listed engine,
    Label "label" Listed |record| record.settings.report.label.clone(),
    Host "host" Listed |record| Some(host(record)),
    Embedded "embedded" Listed |record| Some(record.server.embedded.to_string()),
    Speed "speed" Stops |record| record.server.speed.map(|speed| speed.profile.to_string()),
    BaseUrl "base_url" Listed |record| Some(record.server.base_url.clone()),
    SobenchVersion "sobench_version" Notice |record| Some(record.sobench_version.clone()),
    Date "date" Listed |record| Some(record.date()),
}

impl RunRecord {
    /// Every condition of the run, with the number of its requests.
    pub fn conditions(&self, requests: usize) -> Conditions {
        let mut conditions: Conditions = Field::ALL
            .into_iter()
            .filter_map(|field| Some((field, field.value_in(self)?)))
            .collect();
        conditions.insert(Field::NumPrompts, requests.to_string());
        conditions
    }
}

fn limit(value: Option<impl ToString>) -> Option<String> {
    Some(value.map_or_else(|| NONE.to_owned(), |value| value.to_string()))
}

fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("settings hold only strings, numbers and structs of them")
}

/// The arms in which each item was sent, by their flags; `None` with one request for each row. Their
/// order has no effect.
fn arms(record: &RunRecord) -> Option<String> {
    let arms = &record.settings.dataset.arms;
    let all = Arm::ALL.into_iter().filter(|arm| arms.contains(arm));
    (!arms.is_empty()).then(|| all.map(Arm::flag).collect::<Vec<_>>().join(","))
}

/// The scorers of the references; `None` without references.
fn scorers(record: &RunRecord) -> Option<String> {
    let names = record.dataset.scorers.iter().map(|scorer| scorer.name());
    (!record.dataset.scorers.is_empty()).then(|| names.collect::<Vec<_>>().join(","))
}

/// How the rate changes during the run.
fn ramp(record: &RunRecord) -> Option<String> {
    let load = &record.settings.load;
    if let Some(speed) = load.replay_speed {
        return Some(format!("recorded times at speed {speed}"));
    }
    let ramp = load.pace.ramp()?;
    Some(format!(
        "{} from {} to {}",
        ramp.strategy.name(),
        ramp.start_rps,
        ramp.end_rps
    ))
}

/// Whether the endpoint receives prompts as text or through the server's chat template.
fn prompts(endpoint: &str) -> &'static str {
    let chats = ["chat/completions", "/responses", "/api/chat"];
    if chats.iter().any(|end| endpoint.ends_with(end)) {
        "chat messages"
    } else {
        "text"
    }
}

/// Sampling parameters that affect answers, except for the seed.
const SAMPLING: [&str; 7] = [
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
];

fn sampling(record: &RunRecord) -> String {
    let request = &record.settings.request;
    let sampling = json(&request.sampling);
    let given = SAMPLING.iter().filter_map(|key| {
        Some((
            *key,
            sampling
                .get(key)
                .filter(|value| !value.is_null())?
                .to_string(),
        ))
    });
    let extra = request
        .extra_body
        .as_ref()
        .map(|fields| ("extra_body", json(fields).to_string()));
    let all = given
        .chain([("ignore_eos", request.ignore_eos.to_string())])
        .chain(extra);
    all.map(|(key, value)| format!("{key}={value}"))
        .collect::<Vec<_>>()
        .join(" ")
}

/// The engine with its version, or the one that the user named, or the one that the server reports.
fn engine(record: &RunRecord) -> Option<String> {
    let ours = record
        .server
        .engine
        .as_ref()
        .map(|engine| match &engine.version {
            Some(version) => format!("{} ({version})", engine.name),
            None => engine.name.clone(),
        });
    ours.or_else(|| record.server.engine_choice.value().map(str::to_owned))
        .or_else(|| record.enforcement.server.as_ref()?.engine.clone())
}

fn host(record: &RunRecord) -> String {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let host = &record.host;
    let cpus = host.cpus.map(|cpus| cpus.to_string()).unwrap_or_default();
    format!("{} {}, {cpus} cores", text(&host.os), text(&host.arch))
}
