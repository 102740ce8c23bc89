//! The JSON report of proofs. Its JSON Schema is `schemas/contracts/proof.schema.json`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{EngineSummary, Share, Summary};
use sobench_core::dates::date;
use sobench_engine::{DeclaredDeparture, EngineName};
use sobench_mask::prove::cluster::Cluster;
use sobench_mask::prove::finding::Proof;
use sobench_mask::record::MaskRecord;
use sobench_notices::notice::sentences;

/// Version of the report format.
pub const VERSION: u32 = 1;

/// The errors in masks that a search proved. Durations are in ns.
#[derive(Serialize)]
pub struct ProofFile<'a> {
    format: &'static str,
    format_version: u32,
    sobench_version: &'static str,
    /// When it began: `%Y%m%d-%H%M%S`.
    date: String,
    /// Whether it was stopped early.
    interrupted: bool,
    wall_ns: u64,
    /// Time of shrinking, part of the wall time.
    shrink_ns: u64,
    /// Entries that an earlier run of the same search decided.
    resumed_entries: usize,
    /// Decisions of all engines per second of wall time without shrinking; `null` for a resumed
    /// search.
    decisions_per_s: Option<f64>,
    record: &'a MaskRecord,
    engines: Vec<EngineEntry<'a>>,
    /// Schemas with an error among all with this keyword, by keyword and engine.
    tags: BTreeMap<&'a str, BTreeMap<EngineName, Share>>,
    /// Those with the most schemas first.
    clusters: &'a [Cluster],
    /// The declared departures of all engines.
    declared: Vec<EngineDeparture>,
    notices: Vec<String>,
}

#[derive(Serialize)]
struct EngineEntry<'a> {
    #[serde(flatten)]
    summary: &'a EngineSummary,
    /// Errors per million decisions; `null` without decisions.
    errors_per_million: Option<f64>,
    errors_per_million_by_proof: BTreeMap<Proof, f64>,
}

#[derive(Serialize)]
struct EngineDeparture {
    engine: EngineName,
    #[serde(flatten)]
    declared: DeclaredDeparture,
}

impl<'a> ProofFile<'a> {
    /// The whole report.
    pub fn new(summary: &'a Summary) -> Self {
        let proved = &summary.proved;
        let names = summary.engines.iter().map(|engine| engine.engine);
        let tags = summary.tags.iter().map(|(tag, shares)| {
            let shares = names.clone().zip(shares.iter().copied());
            (tag.as_str(), shares.collect())
        });
        let declared = EngineName::ALL.into_iter().flat_map(|engine| {
            let declared = engine.departures().iter().copied();
            declared.map(move |declared| EngineDeparture { engine, declared })
        });
        Self {
            format: "sobench-proof",
            format_version: VERSION,
            sobench_version: env!("CARGO_PKG_VERSION"),
            date: date(proved.started_at),
            interrupted: proved.interrupted,
            wall_ns: proved.wall_ns,
            shrink_ns: proved.shrink_ns,
            resumed_entries: proved.resumed,
            decisions_per_s: summary.decisions_per_second(),
            record: &proved.record,
            engines: summary.engines.iter().map(EngineEntry::new).collect(),
            tags: tags.collect(),
            clusters: &proved.clusters,
            declared: declared.collect(),
            notices: sentences(&proved.notices),
        }
    }
}

impl<'a> EngineEntry<'a> {
    fn new(summary: &'a EngineSummary) -> Self {
        let rate = |proof| Some((proof, summary.per_million(Some(proof))?));
        Self {
            summary,
            errors_per_million: summary.per_million(None),
            errors_per_million_by_proof: Proof::ALL.into_iter().filter_map(rate).collect(),
        }
    }
}
