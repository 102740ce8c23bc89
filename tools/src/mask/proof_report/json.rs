//! The JSON report of proofs. Its JSON Schema is `schemas/contracts/proof.schema.json`.

use std::collections::BTreeMap;

use super::{EngineSummary, Share, Summary};
use crate::mask::prove::cluster::Cluster;
use crate::mask::prove::finding::Proof;
use crate::mask::record::MaskRecord;
use sobench_core::contract::names;
use sobench_core::dates::date;
use sobench_core::json_struct;
use sobench_engine::{DeclaredDeparture, EngineName};
use sobench_notices::notice::sentences;

json_struct! {
    /// The errors in masks that a search proved. Durations are in ns.
    pub struct ProofFile<'a> = |summary: &'a Summary| [
        let proved = &summary.proved;
        let names = summary.engines.iter().map(|engine| engine.engine);
        let shares = |shares: &[Share]| names.clone().zip(shares.iter().copied()).collect();
        let declared = EngineName::ALL.into_iter().flat_map(|engine| {
            engine.departures().iter().map(move |declared| EngineDeparture::new(engine, *declared))
        });
    ] {
        #[schemars(extend("const" = "sobench-proof"))]
        format: &'static str = "sobench-proof",
        /// Raised when a key is removed or changes its meaning.
        format_version: u32 = 1,
        sobench_version: &'static str = env!("CARGO_PKG_VERSION"),
        /// When it began: `%Y%m%d-%H%M%S`.
        date: String = date(proved.started_at),
        /// Whether it was stopped early.
        interrupted: bool = proved.interrupted,
        wall_ns: u64 = proved.wall_ns,
        /// Time of shrinking, part of the wall time.
        shrink_ns: u64 = proved.shrink_ns,
        /// Entries that an earlier run of the same search decided.
        resumed_entries: usize = proved.resumed,
        /// Decisions of all engines per second of wall time without shrinking; `null` for a resumed search.
        decisions_per_s: Option<f64> = summary.decisions_per_second(),
        record: &'a MaskRecord = &proved.record,
        engines: Vec<EngineEntry<'a>> = summary.engines.iter().map(EngineEntry::new).collect(),
        /// Schemas with an error among all with this keyword, by keyword and engine.
        tags: BTreeMap<&'a str, BTreeMap<EngineName, Share>> = summary.tags.iter().map(|(tag, all)| (tag.as_str(), shares(all))).collect(),
        /// Those with the most schemas first.
        clusters: &'a [Cluster] = &proved.clusters,
        /// The declared departures of all engines.
        declared: Vec<EngineDeparture> = declared.collect(),
        notices: Vec<String> = sentences(&proved.notices),
    }
}

json_struct! {
    struct EngineEntry<'a> = |summary: &'a EngineSummary| [
        let rate = |proof| Some((proof, summary.per_million(Some(proof))?));
    ] {
        #[serde(flatten)]
        summary: &'a EngineSummary = summary,
        /// Errors per million decisions; `null` without decisions.
        errors_per_million: Option<f64> = summary.per_million(None),
        #[schemars(extend("propertyNames" = names(Proof::ALL.map(Proof::name))))]
        errors_per_million_by_proof: BTreeMap<Proof, f64> = Proof::ALL.into_iter().filter_map(rate).collect(),
    }
}

json_struct! {
    struct EngineDeparture = |engine: EngineName, declared: DeclaredDeparture| {
        engine: EngineName = engine,
        #[serde(flatten)]
        declared: DeclaredDeparture = declared,
    }
}
