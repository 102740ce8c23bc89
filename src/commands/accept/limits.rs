//! Limits of constraints as a part of an acceptance: the file of `sobench-tools limits --save`. Finding
//! them can stall or end a server, so it is a command of its own, before the acceptance.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::counts::Count;
use super::server::AcceptedServer;
use sobench_core::error::{Error, Result};
use sobench_core::input;

/// The largest file.
const MAX_BYTES: u64 = 1 << 26;

/// The verdicts on ladders whose number can have a rule.
const FAULTS: [&str; 6] = [
    "dies",
    "hangs",
    "keeps_compiling",
    "stalls_others",
    "stays_slow",
    "server_error",
];

/// The limits of one server.
pub(super) struct Limits {
    pub(super) path: PathBuf,
    pub(super) server: AcceptedServer,
    pub(super) requests: usize,
    /// Of each ladder, the largest size with an answer; of each verdict, the number of ladders.
    pub(super) counts: Vec<Count>,
}

/// What is read of `schemas/contracts/limits.schema.json`.
#[derive(Deserialize)]
struct LimitsFile {
    servers: Vec<ServerLimits>,
}

#[derive(Deserialize)]
struct ServerLimits {
    base_url: String,
    model: String,
    version: Option<String>,
    requests: usize,
    ladders: Vec<Ladder>,
}

#[derive(Deserialize)]
struct Ladder {
    ladder: String,
    steps: Vec<Step>,
    end: String,
    verdicts: Vec<String>,
}

#[derive(Deserialize)]
struct Step {
    size: usize,
    outcome: String,
}

impl Limits {
    /// # Errors
    /// The file has not the limits of one server.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let wrong = |what: String| {
            Error::usage(format!("{}: {what}", path.display()))
                .hint("write it with sobench-tools limits --base-url URL --save limits.json")
        };
        let text = input::read_text(path, MAX_BYTES)?;
        let file: LimitsFile =
            serde_json::from_str(&text).map_err(|error| wrong(format!("no limits: {error}")))?;
        let [server] = <[ServerLimits; 1]>::try_from(file.servers)
            .map_err(|servers| wrong(format!("limits of {} servers, not of one", servers.len())))?;
        let ladders = server.ladders.iter().map(Ladder::largest);
        let untested = server.ladders.iter().filter(|ladder| !ladder.is_tested());
        let untested = untested.count();
        let faults = FAULTS.into_iter().map(|name| {
            let found = server.ladders.iter().filter(|ladder| ladder.has(name));
            Count::new(name, found.count(), untested)
        });
        Ok(Self {
            path: path.to_owned(),
            requests: server.requests,
            counts: ladders.chain(faults).collect(),
            server: AcceptedServer {
                base_url: server.base_url,
                model: server.model,
                version: server.version,
            },
        })
    }

    /// Whether they are those of a server: of its model and version.
    pub(super) fn are_of(&self, server: &AcceptedServer) -> bool {
        let versions = (self.server.version.as_ref(), server.version.as_ref());
        let is_version = |(here, there): (&String, &String)| there.contains(here.as_str());
        self.server.model == server.model
            && Option::zip(versions.0, versions.1).is_none_or(is_version)
    }

    pub(super) fn of_another_server(&self) -> String {
        let version = self.server.version.as_deref().unwrap_or("version unknown");
        format!(
            "{} has the limits of another server: {}, {version}",
            self.path.display(),
            self.server.model
        )
    }
}

impl Ladder {
    fn is_tested(&self) -> bool {
        self.end != "not_tested"
    }

    fn has(&self, verdict: &str) -> bool {
        self.verdicts.iter().any(|found| found == verdict)
    }

    /// The largest size with an answer. A ladder that the server did not end may have a larger one.
    fn largest(&self) -> Count {
        let doubt = match &*self.end {
            "not_tested" | "not_carried" => "it was not tried",
            "largest_size" | "request_size" | "memory" => "larger ones were not tried",
            _ => "",
        };
        let answered = self.steps.iter().filter(|step| step.outcome == "accepted");
        let least = answered.map(|step| step.size).max().unwrap_or(0);
        Count {
            name: self.ladder.clone(),
            least,
            most: if doubt.is_empty() { least } else { usize::MAX },
            doubt: doubt.to_owned(),
            examples: Vec::new(),
        }
    }
}
