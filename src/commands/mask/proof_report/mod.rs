//! The report of a proof: adds its rows up to one [`Summary`], and shows that as a page ([`page`]),
//! as JSON ([`json`]) and as texts of issues ([`issue`]). Pure.

pub mod issue;
pub mod json;
pub mod page;
pub mod replay;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use sobench_core::error::Result;
use sobench_engine::EngineName;
use sobench_mask::proof_run::{ProofRow, ProofRun};
use sobench_mask::prove::Duplicates;
use sobench_mask::prove::count::Counts;
use sobench_mask::prove::finding::Proof;
use sobench_mask::record::MeasuredEngine;

/// Reasons for which an engine stopped that are told apart; the rest is counted together.
const MAX_REASONS: usize = 200;

/// Characters of a reason.
const MAX_REASON_CHARS: usize = 120;

/// Everything that is said of a proof.
#[derive(Clone, Debug)]
pub struct Summary {
    pub proved: ProofRun,
    /// As in the record of the run.
    pub engines: Vec<EngineSummary>,
    /// Schemas with an error, by keyword tag and engine: so many of so many that carry it.
    pub tags: BTreeMap<String, Vec<Share>>,
}

/// A part of a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    pub part: u64,
    pub of: u64,
}

/// One engine's part.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct EngineSummary {
    pub engine: EngineName,
    pub version: String,
    /// Entries that were worked on.
    pub schemas: u64,
    /// Of which the engine did not compile so many, in its own words.
    pub declined: u64,
    /// Of which the engine gave out over so many later on: it crashed, took too long, or said that
    /// it cannot go on.
    pub stopped: u64,
    /// Entries of which something was decided.
    pub decided_schemas: u64,
    /// Entries with at least one error, and those by proof.
    pub wrong_schemas: u64,
    pub wrong_schemas_by_proof: BTreeMap<Proof, u64>,
    /// Entries with a finding that a declared departure explains, by its name.
    pub declared_schemas: BTreeMap<String, u64>,
    pub counts: Counts,
    pub masks: u64,
    pub texts: u64,
    /// Ends on which the oracles do not agree.
    pub open: u64,
    /// Differences between engines that led to no whole text.
    pub unresolved: u64,
    pub duplicates: Duplicates,
    /// Why it was stopped, by what is the same in the words.
    pub stops: BTreeMap<String, u64>,
}

impl EngineSummary {
    /// Errors in a million decisions; `None` where nothing was decided.
    pub fn per_million(&self, proof: Option<Proof>) -> Option<f64> {
        let (decided, wrong) = match proof {
            Some(proof) => {
                let count = self.counts.of(proof);
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
        self.open += proved.open;
        self.unresolved += proved.unresolved;
        self.duplicates.tried += proved.duplicates.tried;
        self.duplicates.let_through += proved.duplicates.let_through;
        if let Some(words) = proved.stopped.as_deref().filter(|_| !proved.declined) {
            let words = general(words);
            let is_room = self.stops.len() < MAX_REASONS || self.stops.contains_key(&words);
            *self
                .stops
                .entry(if is_room { words } else { "other".to_owned() })
                .or_default() += 1;
        }
    }
}

/// Words without their numbers, so that the same reason is the same text.
fn general(words: &str) -> String {
    let line = words.lines().next().unwrap_or_default();
    let mut out: String = line
        .chars()
        .map(|it| if it.is_ascii_digit() { '#' } else { it })
        .take(MAX_REASON_CHARS)
        .collect();
    while out.contains("##") {
        out = out.replace("##", "#");
    }
    out
}

impl Summary {
    /// Adds rows up.
    ///
    /// # Errors
    /// Those of the rows.
    pub fn build(proved: ProofRun) -> Result<Self> {
        let empty = |it: &MeasuredEngine| EngineSummary {
            engine: it.engine,
            version: it.version.clone(),
            ..EngineSummary::default()
        };
        let mut engines: Vec<EngineSummary> = proved.about.engines.iter().map(empty).collect();
        let mut tags: BTreeMap<String, Vec<Share>> = BTreeMap::new();
        for row in proved.rows() {
            let row = row?;
            let Some(place) = engines.iter().position(|it| it.engine == row.engine) else {
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

    /// Decisions in a second by the clock, all engines together; making findings small is not in
    /// it. `None` where an earlier run made some.
    pub fn decisions_per_second(&self) -> Option<f64> {
        let decided: u64 = self.engines.iter().map(|it| it.counts.totals().0).sum();
        let seconds = self.proved.wall_ns.saturating_sub(self.proved.shrink_ns) as f64 / 1e9;
        (seconds > 0.0 && self.proved.resumed == 0).then(|| decided as f64 / seconds)
    }
}
