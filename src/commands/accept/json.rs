//! The JSON of `sobench accept`, specified by `schemas/contracts/accept.schema.json`.

use std::path::Path;
use std::time::UNIX_EPOCH;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::plan::{AcceptPlan, Work};
use super::server::AcceptedServer;
use crate::commands::bench::run::Finished;
use sobench_client::clock;
use sobench_core::constraint::sha256_of_file;
use sobench_core::dates::timestamp;
use sobench_results::accept::{Decision, RuleResult};

/// What was required of a server, and what it does.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub(crate) struct AcceptFile {
    #[schemars(extend("const" = "sobench-accept"))]
    pub(crate) format: &'static str,
    /// Raised when a key is removed or changes its meaning.
    pub(crate) format_version: u32,
    pub(crate) sobench_version: &'static str,
    /// When it was decided, in UTC.
    pub(crate) date: String,
    /// Of the requirements.
    pub(crate) name: String,
    /// Of the file of requirements, in hex.
    pub(crate) requirements_sha256: String,
    /// `not_met` with one rule that is not met, `met` if all are.
    pub(crate) verdict: Decision,
    /// The server; `null` if no run has ended.
    pub(crate) server: Option<AcceptedServer>,
    pub(crate) parts: Vec<PartResult>,
}

/// A run log that was kept.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub(crate) struct KeptLog {
    pub(crate) path: String,
    /// Of its bytes, in hex; `null` if it cannot be read any more.
    pub(crate) sha256: Option<String>,
}

impl KeptLog {
    fn new(path: &Path) -> Self {
        Self {
            path: path.display().to_string(),
            sha256: sha256_of_file(path).ok(),
        }
    }
}

/// A run or a preflight.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub(crate) struct PartResult {
    pub(crate) name: String,
    /// Its flags.
    pub(crate) arguments: Vec<String>,
    /// Requests that were sent, and those that were planned.
    pub(crate) requests: usize,
    pub(crate) planned: usize,
    /// Looks at the answers, or runs, that were made.
    pub(crate) looks: usize,
    pub(crate) rules: Vec<RuleResult>,
    /// Why the part did not end.
    pub(crate) error: Option<String>,
    pub(crate) run_logs: Vec<KeptLog>,
    #[serde(skip)]
    pub(crate) server: Option<AcceptedServer>,
}

impl AcceptFile {
    pub(super) fn new(plan: &AcceptPlan, mut parts: Vec<PartResult>) -> Self {
        let mut server = parts.iter().find_map(|part| part.server.clone());
        for (part, result) in plan.parts.iter().zip(&mut parts) {
            let Work::Limits { limits, .. } = &part.work else {
                continue;
            };
            let server = server.get_or_insert_with(|| limits.server.clone());
            if !limits.are_of(server) {
                for rule in &mut result.rules {
                    let reason = limits.of_another_server();
                    *rule = RuleResult::not_decided(rule.rule.clone(), Some(reason));
                }
            }
        }
        let decisions = || {
            parts
                .iter()
                .flat_map(|part| &part.rules)
                .map(|rule| rule.decision)
        };
        let verdict = match () {
            () if decisions().any(|decision| decision == Decision::NotMet) => Decision::NotMet,
            () if decisions().all(|decision| decision == Decision::Met) => Decision::Met,
            () => Decision::NotDecided,
        };
        Self {
            format: "sobench-accept",
            format_version: 1,
            sobench_version: env!("CARGO_PKG_VERSION"),
            date: timestamp(UNIX_EPOCH + clock::since(UNIX_EPOCH)),
            name: plan.name.clone(),
            requirements_sha256: plan.sha256.clone(),
            verdict,
            server,
            parts,
        }
    }

    /// The number of rules with a decision.
    pub(crate) fn count(&self, decision: Decision) -> usize {
        let rules = self.parts.iter().flat_map(|part| &part.rules);
        rules.filter(|rule| rule.decision == decision).count()
    }

    /// The badge, as an endpoint of shields.io (<https://shields.io/badges/endpoint-badge>).
    pub(super) fn badge(&self) -> Value {
        let (message, color) = match self.verdict {
            Decision::Met => (format!("{} met", self.count(Decision::Met)), "brightgreen"),
            Decision::NotMet => (format!("{} not met", self.count(Decision::NotMet)), "red"),
            Decision::NotDecided => (
                format!("{} not decided", self.count(Decision::NotDecided)),
                "yellow",
            ),
        };
        json!({"schemaVersion": 1, "label": format!("sobench {}", self.name), "message": message, "color": color})
    }
}

impl PartResult {
    /// Adds what is known of a finished run.
    pub(super) fn add_run(&mut self, finished: &Finished, requests: usize) {
        self.looks += 1;
        self.requests += requests;
        let log = finished.complete_log();
        self.run_logs.extend(log.map(KeptLog::new));
        let server = &finished.report.record.server;
        self.server.get_or_insert_with(|| AcceptedServer {
            base_url: server.base_url.clone(),
            model: server.model_id.clone(),
            version: server.version.clone(),
        });
    }
}
