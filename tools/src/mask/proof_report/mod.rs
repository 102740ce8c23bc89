//! The report of a proof search: summarises rows as [`Summary`], shown as a page ([`page`]), as
//! JSON ([`json`]) and as issue texts ([`issue`]).

pub mod issue;
pub mod json;
pub mod page;
pub mod replay_report;

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use crate::mask::proof_run::{ProofRow, ProofRun};
use crate::mask::prove::Duplicates;
use crate::mask::prove::decision_count::DecisionCounts;
use crate::mask::prove::finding::Proof;
use crate::mask::record::MeasuredEngine;
use sobench_core::contract::names;
use sobench_core::error::Result;
use sobench_engine::EngineName;

/// Maximum distinct stop reasons; further ones are counted together.
const MAX_REASONS: usize = 200;

/// Maximum length of a reason.
const MAX_REASON_CHARS: usize = 120;

/// The summary of a proof search.
#[derive(Clone, Debug)]
pub struct Summary {
    pub proved: ProofRun,
    /// In the order of the run record.
    pub engines: Vec<EngineSummary>,
    /// Schemas with an error among all that carry the tag, by keyword tag and engine.
    pub tags: BTreeMap<String, Vec<Share>>,
}

/// A part of a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Share {
    pub part: u64,
    pub of: u64,
}

/// The summary of one engine.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct EngineSummary {
    pub engine: EngineName,
    pub version: String,
    /// Searched entries.
    pub schemas: u64,
    /// Entries that the engine declined to compile.
    pub declined: u64,
    /// Entries on which the engine stopped later: crash, timeout or limit.
    pub stopped: u64,
    /// Entries with at least one decision.
    pub decided_schemas: u64,
    /// Entries with at least one error, and those by proof.
    pub wrong_schemas: u64,
    #[schemars(extend("propertyNames" = names(Proof::ALL.map(Proof::name))))]
    pub wrong_schemas_by_proof: BTreeMap<Proof, u64>,
    /// Entries with a finding that a declared departure explains, by name.
    pub declared_schemas: BTreeMap<String, u64>,
    pub counts: DecisionCounts,
    pub masks: u64,
    pub texts: u64,
    /// Ends on which the oracles disagree.
    #[serde(rename = "open")]
    pub undecided_ends: u64,
    /// Differences between engines without a complete text.
    pub unresolved: u64,
    pub duplicates: Duplicates,
    /// Why it stopped, by generalised message.
    pub stops: BTreeMap<String, u64>,
}

impl EngineSummary {
    /// Errors per million decisions; `None` without decisions.
    pub fn per_million(&self, proof: Option<Proof>) -> Option<f64> {
        let (decided, wrong) = match proof {
            Some(proof) => {
                let count = self.counts.for_proof(proof);
                (count.decided, count.wrong)
            }
            None => self.counts.totals(),
        };
        (decided > 0).then(|| wrong as f64 * 1e6 / decided as f64)
    }

    fn add(&mut self, row: &ProofRow) {
        let proved = &row.proved;
        self.schemas += 1;
        self.declined += u64::from(proved.declined);
        self.stopped += u64::from(proved.stopped.is_some() && !proved.declined);
        let (decided, wrong) = proved.counts.totals();
        self.decided_schemas += u64::from(decided > 0);
        self.wrong_schemas += u64::from(wrong > 0);
        let mut departures = BTreeSet::new();
        for (proof, count) in proved.counts.iter() {
            *self.wrong_schemas_by_proof.entry(proof).or_default() += u64::from(count.wrong > 0);
            departures.extend(count.declared.keys().cloned());
        }
        departures
            .into_iter()
            .for_each(|name| *self.declared_schemas.entry(name).or_default() += 1);
        self.counts.add(&proved.counts);
        self.masks += proved.masks;
        self.texts += proved.texts;
        self.undecided_ends += proved.undecided_ends;
        self.unresolved += proved.unresolved;
        self.duplicates.tried += proved.duplicates.tried;
        self.duplicates.accepted += proved.duplicates.accepted;
        if let Some(message) = proved.stopped.as_deref().filter(|_| !proved.declined) {
            let message = generalized(message);
            let is_room = self.stops.len() < MAX_REASONS || self.stops.contains_key(&message);
            *self
                .stops
                .entry(if is_room { message } else { "other".to_owned() })
                .or_default() += 1;
        }
    }
}

/// A message without its numbers, so that equal reasons have equal texts.
fn generalized(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let mut out: String = line
        .chars()
        .map(|character| {
            if character.is_ascii_digit() {
                '#'
            } else {
                character
            }
        })
        .take(MAX_REASON_CHARS)
        .collect();
    while out.contains("##") {
        out = out.replace("##", "#");
    }
    out
}

impl Summary {
    /// Summarises the rows.
    ///
    /// # Errors
    /// Rows cannot be read.
    pub fn build(proved: ProofRun) -> Result<Self> {
        let empty = |measured: &MeasuredEngine| EngineSummary {
            engine: measured.engine,
            version: measured.version.clone(),
            ..EngineSummary::default()
        };
        let mut engines: Vec<EngineSummary> = proved.record.engines.iter().map(empty).collect();
        let mut tags: BTreeMap<String, Vec<Share>> = BTreeMap::new();
        for row in proved.rows() {
            let row = row?;
            let Some(place) = engines
                .iter()
                .position(|engine| engine.engine == row.engine)
            else {
                continue;
            };
            engines[place].add(&row);
            let (decided, wrong) = row.proved.counts.totals();
            for tag in row.tags.iter().collect::<BTreeSet<_>>() {
                let shares = tags
                    .entry(tag.clone())
                    .or_insert_with(|| vec![Share::default(); engines.len()]);
                shares[place].of += u64::from(decided > 0);
                shares[place].part += u64::from(wrong > 0);
            }
        }
        Ok(Self {
            proved,
            engines,
            tags,
        })
    }

    /// Decisions per second of wall time, for all engines together, without shrinking. `None` for a
    /// resumed run.
    pub fn decisions_per_second(&self) -> Option<f64> {
        let decided: u64 = self
            .engines
            .iter()
            .map(|engine| engine.counts.totals().0)
            .sum();
        let seconds = self.proved.wall_ns.saturating_sub(self.proved.shrink_ns) as f64 / 1e9;
        (seconds > 0.0 && self.proved.resumed == 0).then(|| decided as f64 / seconds)
    }
}
