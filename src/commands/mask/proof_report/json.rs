//! The report of proofs as JSON. Its contract is `schemas/contracts/proof.schema.json`.

use serde_json::{Map, Value, json};

use super::{EngineSummary, Summary};
use crate::engine::{Declared, EngineName};
use crate::mask::prove::finding::Proof;
use crate::notice::sentences;

/// The version of the report's format.
pub const VERSION: u32 = 1;

/// The whole report.
pub fn render(summary: &Summary) -> Value {
    let proving = &summary.proving;
    let tags: Map<String, Value> = summary
        .tags
        .iter()
        .map(|(tag, shares)| {
            let by_engine = summary.engines.iter().zip(shares).map(|(engine, share)| (name(engine), json!(share)));
            (tag.clone(), Value::Object(by_engine.collect()))
        })
        .collect();
    json!({
        "format": "sobench-proof",
        "format_version": VERSION,
        "sobench_version": proving.sobench_version,
        "date": proving.date,
        "interrupted": proving.interrupted,
        "wall_ns": proving.wall_ns,
        "shrink_ns": proving.shrink_ns,
        "resumed_entries": proving.resumed,
        "decisions_per_s": summary.decisions_per_second(),
        "about": proving.about,
        "engines": summary.engines.iter().map(engine).collect::<Vec<_>>(),
        "tags": tags,
        "clusters": proving.clusters,
        "declared": declared(),
        "notices": sentences(&proving.notices),
    })
}

/// The departures that engines declare, by engine.
fn declared() -> Vec<Value> {
    let of_engine = |engine: EngineName| {
        let line = move |declared: &Declared| {
            json!({
                "engine": engine,
                "departure": declared.departure,
                "what": declared.what,
                "source": declared.source,
            })
        };
        engine.departures().iter().map(line)
    };
    EngineName::ALL.into_iter().flat_map(of_engine).collect()
}

fn name(engine: &EngineSummary) -> String {
    engine.engine.map(|it| it.name().to_owned()).unwrap_or_default()
}

fn engine(engine: &EngineSummary) -> Value {
    let mut value = json!(engine);
    let rates: Map<String, Value> = Proof::ALL
        .into_iter()
        .filter_map(|proof| Some((proof.name().to_owned(), json!(engine.per_million(Some(proof))?))))
        .collect();
    value["errors_per_million"] = json!(engine.per_million(None));
    value["errors_per_million_by_proof"] = Value::Object(rates);
    value
}
