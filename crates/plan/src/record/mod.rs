//! The run record: everything known about a run before its first request. It is the first line of
//! the run log and part of the saved result, and is read by report, compare, merge and gate.

mod client_cost;
pub mod condition;
mod engine;
mod settings;
mod shards;
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used)]
pub mod testing;

use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::client_cost::ClientCost;
pub use self::engine::{Engine, EngineChoice, EngineWork};
pub use self::settings::{
    ConstraintSettings, Lora, LoraAssignment, ReportSettings, RequestSettings, ServerMetricsPage,
    ServerMetricsSettings, Settings,
};
pub use self::shards::{MergedShard, ShardEnd, ShardRecord};
use sobench_backend::ConstraintDialect;
use sobench_core::answer::Channel;
use sobench_core::constraint::GrammarDialect;
use sobench_core::dates::date;
use sobench_core::scorer::Scorer;
use sobench_core::shard::{Shard, Units};
use sobench_core::speed::Speed;
use sobench_notices::enforcement::Enforcement;
use sobench_notices::notice::Notice;

/// Everything known about a run before its first request.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct RunRecord {
    /// The version of sobench.
    pub sobench_version: String,
    /// The start time, to which due times are relative, in ISO 8601, UTC.
    pub started: String,
    /// The start time in nanoseconds since 1970.
    pub started_unix_ns: u64,
    pub settings: Settings,
    pub server: ServerRecord,
    pub dataset: DatasetRecord,
    /// The tokenizer for answers that the server does not count.
    pub tokenizer_id: String,
    pub host: Host,
    /// Whether a preflight showed that constraints are enforced.
    pub enforcement: Enforcement,
    /// Requests before the run. They are not in any figure.
    pub trial_requests: usize,
    pub warmup_requests: usize,
    /// SHA-256 of the constraints that were sent to the server before the run, in order.
    pub known_constraints: Vec<String>,
    /// The shard that this run executed; `None` for a whole run. The rest of the record describes
    /// the whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<ShardRecord>,
    /// The shards from which the run log was merged, in order; empty in the log of a run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged: Vec<MergedShard>,
    /// Notices for the reader of the figures.
    pub notices: Vec<Notice>,
}

/// The server of a run.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ServerRecord {
    pub base_url: String,
    /// The path of requests, such as `/v1/completions`.
    pub endpoint: String,
    /// Names of user-defined headers. Their values are secret.
    pub header_names: Vec<String>,
    /// The requested model.
    pub model: String,
    /// The model name in results.
    pub model_id: String,
    pub version: Option<String>,
    /// Whether it is the embedded server with its synthetic model.
    pub embedded: bool,
    /// The speed of the synthetic model; `None` for other servers, and in logs without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<Speed>,
    /// The request field for constraints; `None` if no request can have one.
    pub constraint_dialect: Option<ConstraintDialect>,
    /// Whether the token limit of chat completions was sent as `max_tokens`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub max_tokens_only: bool,
    /// The decoding engine that the user named, and the use of the name.
    pub engine_choice: EngineChoice,
    /// The engine of the embedded server.
    pub engine: Option<Engine>,
}

impl ServerRecord {
    /// Whether its address is one of this machine.
    pub fn is_on_this_machine(&self) -> bool {
        let address = self
            .base_url
            .split_once("://")
            .map_or(self.base_url.as_str(), |(_, address)| address);
        let authority = address.split('/').next().unwrap_or_default();
        let host = match authority.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => authority.split(':').next().unwrap_or_default(),
        };
        let is_loopback = |address: IpAddr| address.is_loopback();
        self.embedded || host == "localhost" || host.parse().is_ok_and(is_loopback)
    }

    /// The part of an answer that has the constrained text; `None` without constraints.
    pub fn expected_channel(&self) -> Option<Channel> {
        self.constraint_dialect
            .map(ConstraintDialect::expected_channel)
    }
}

/// The loaded requests of a run.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct DatasetRecord {
    /// The source of the rows: `shipped`, `command line`, a path, or a Hub repository with its
    /// commit.
    pub source: String,
    /// Distinct rows; fewer than requests if rows are repeated.
    pub rows: usize,
    /// SHA-256 of the dataset, in hex.
    pub sha256: String,
    /// The original notation of grammars, if they were converted.
    pub grammar_converted_from: Option<GrammarDialect>,
    /// Prepared requests over all shards.
    pub requests: usize,
    /// The number of turns of each session, in the order of the requests; empty without sessions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub session_turns: Vec<u32>,
    /// The kinds of constraints (`json`, `regex`, ...), in order.
    pub constraint_kinds: Vec<String>,
    /// The scorers of the references, in the order of [`Scorer::ALL`]; empty without references.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scorers: Vec<Scorer>,
    pub constraints: ConstraintSet,
    /// The least and the largest limit of an answer in tokens, if rows have limits of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_output_len: Option<[u32; 2]>,
}

/// Summary of the constraints of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ConstraintSet {
    /// Distinct constraints, without those generated for this run (`--cold-schema-every`).
    pub distinct: usize,
    /// SHA-256 of their fingerprints in order, each followed by a line end; `None` without
    /// constraints.
    pub sha256: Option<String>,
}

/// The machine of the client.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Host {
    pub os: Option<String>,
    pub arch: Option<String>,
    pub cpus: Option<usize>,
}

impl RunRecord {
    /// The limit of answers in tokens: of all, or of the rows (`16 to 256`); `None` if parts of the
    /// dataset differ.
    pub fn output_len(&self) -> Option<String> {
        let of_all = self.settings.output_len().map(|tokens| tokens.to_string());
        match self.dataset.own_output_len {
            Some([least, most]) if least == most => Some(least.to_string()),
            Some([least, most]) => Some(format!("{least} to {most}")),
            None => of_all,
        }
    }

    /// The start time.
    pub fn started(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(self.started_unix_ns)
    }

    /// The start time as vLLM writes it: `%Y%m%d-%H%M%S`, UTC.
    pub fn date(&self) -> String {
        date(self.started())
    }

    /// The shard of this client; the whole run without shards.
    pub fn part(&self) -> Shard {
        self.shard.as_ref().map_or(Shard::WHOLE, ShardRecord::part)
    }

    /// Number of requests prepared for this client.
    pub fn own_requests(&self) -> usize {
        self.units().share(self.part(), self.dataset.requests)
    }

    /// What shards divide.
    pub fn units(&self) -> Units {
        Units::new(&self.dataset.session_turns)
    }

    /// The concurrency cap of this client; `None` without a cap.
    pub fn own_cap(&self) -> Option<usize> {
        self.settings
            .load
            .max_concurrency
            .map(|cap| self.part().share(cap))
    }

    /// Whether requests of the run can have a constraint.
    pub fn takes_constraints(&self) -> bool {
        self.server.constraint_dialect.is_some()
    }

    /// The share of constrained requests, 0 to 1; `None` if no request can have a constraint, or if
    /// each item is sent in several arms.
    pub fn constrained_ratio(&self) -> Option<f64> {
        let dataset = &self.settings.dataset;
        (self.takes_constraints() && dataset.arms.is_empty()).then_some(dataset.constrained_ratio)
    }

    /// Requests per second of this client, as vLLM writes them; infinite with a ramp-up.
    pub fn own_request_rate(&self) -> f64 {
        self.settings.load.pace.steady_rate().per_second() / self.part().of as f64
    }
}

#[cfg(test)]
mod tests {
    use super::ServerRecord;
    use super::testing::record;

    #[test]
    fn servers_on_this_machine_are_known_by_their_address() {
        for (base_url, expected) in [
            ("http://127.0.0.1:8000", true),
            ("https://localhost/v1", true),
            ("http://[::1]:80/x", true),
            ("localhost:8000", true),
            ("http://10.0.0.1:8000", false),
            ("http://localhost.example:1", false),
            ("", false),
        ] {
            let server = ServerRecord {
                base_url: base_url.to_owned(),
                embedded: false,
                ..record().server
            };
            assert_eq!(server.is_on_this_machine(), expected, "{base_url}");
        }
    }
}
