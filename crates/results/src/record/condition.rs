//! The conditions of a run that a comparison looks at: a name, what a difference means, and where
//! the record has it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::RunRecord;

/// The conditions of a run, each as a text that is equal where the condition is. One that is
/// missing is unknown.
pub type Conditions = BTreeMap<Field, String>;

/// A limit that a run does not have.
pub const NONE: &str = "none";

/// A rate without a limit, as files spell it.
pub const INFINITE: &str = "inf";

/// What a difference in a condition means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// Other requests, another load or other rules: figures cannot be compared.
    Stops,
    /// Worth knowing when reading the figures.
    Notice,
    /// Very likely what is being compared.
    Listed,
}

/// Declares every condition once: its variant, its name in flags, files and tables, what a
/// difference means, and its value.
macro_rules! conditions {
    ($($field:ident $name:literal $weight:ident $value:expr,)*) => {
        /// A condition of a run, in the order of reports.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Field {
            $(#[serde(rename = $name)] $field,)*
        }

        impl Field {
            /// In the order of reports.
            pub const ALL: [Self; [$(Self::$field,)*].len()] = [$(Self::$field,)*];

            /// The name in flags, files and tables.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$field => $name,)*
                }
            }

            /// What a difference means.
            pub fn weight(self) -> Weight {
                match self {
                    $(Self::$field => Weight::$weight,)*
                }
            }

            /// The value in a record; `None` where it is unknown or does not apply.
            pub fn of(self, record: &RunRecord) -> Option<String> {
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
    DatasetName "dataset_name" Notice |record| Some(record.settings.dataset.name().to_string()),
    Ratio "ratio" Stops |record| record.settings.constrained_ratio().map(|ratio| ratio.to_string()),
    OutputLen "output_len" Stops |record| record.settings.output_len().map(|tokens| tokens.to_string()),
    NumPrompts "num_prompts" Notice |record| Some(record.own_requests().to_string()),
    RequestRate "request_rate" Stops |record| Some(record.own_request_rate().to_string()),
    Ramp "ramp" Stops |record| ramp(record),
    Burstiness "burstiness" Stops |record| Some(record.settings.load.burstiness.to_string()),
    MaxConcurrency "max_concurrency" Stops |record| limit(record.own_cap()),
    ColdSchemaEvery "cold_schema_every" Stops |record| limit(record.settings.load.cold_schema_every),
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
    BaseUrl "base_url" Listed |record| Some(record.server.base_url.clone()),
    SobenchVersion "sobench_version" Notice |record| Some(record.sobench_version.clone()),
    Date "date" Listed |record| Some(record.date()),
}

impl RunRecord {
    /// Every condition of the run. `requests` are those that the run came to.
    pub fn conditions(&self, requests: usize) -> Conditions {
        let mut conditions: Conditions = Field::ALL
            .into_iter()
            .filter_map(|field| Some((field, field.of(self)?)))
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

fn ramp(record: &RunRecord) -> Option<String> {
    let ramp = record.settings.load.pace.ramp()?;
    Some(format!(
        "{} from {} to {}",
        ramp.strategy.name(),
        ramp.start_rps,
        ramp.end_rps
    ))
}

/// Whether prompts go out as they are or through the server's chat template, by the endpoint's
/// path.
fn prompts(endpoint: &str) -> &'static str {
    let chats = ["chat/completions", "/responses", "/api/chat"];
    if chats.iter().any(|end| endpoint.ends_with(end)) {
        "chat messages"
    } else {
        "text"
    }
}

/// The members of the sampling that say how answers are sampled; the seed is not among them.
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

/// The engine with its version, else the one that the user named, else the server's own word on it.
fn engine(record: &RunRecord) -> Option<String> {
    let ours = record
        .server
        .engine
        .as_ref()
        .map(|engine| match &engine.version {
            Some(version) => format!("{} ({version})", engine.name),
            None => engine.name.clone(),
        });
    let named = || record.server.engine_choice.value().map(str::to_owned);
    ours.or_else(named)
        .or_else(|| record.enforcement.server.as_ref()?.engine.clone())
}

fn host(record: &RunRecord) -> String {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let host = &record.host;
    let cpus = host.cpus.map(|cpus| cpus.to_string()).unwrap_or_default();
    format!("{} {}, {cpus} cores", text(&host.os), text(&host.arch))
}
