//! The JSON report of proofs. Its JSON Schema is `schemas/contracts/proof.schema.json`.

use serde_json::{Map, Value, json};

use super::{EngineSummary, Share, Summary};
use sobench_core::dates::date;
use sobench_engine::{DeclaredDeparture, EngineName};
use sobench_mask::prove::finding::Proof;
use sobench_notices::notice::sentences;

/// Version of the report format.
pub const VERSION: u32 = 1;

/// The whole report.
pub fn render(summary: &Summary) -> Value {
    let proved = &summary.proved;
    let by_engine = |(tag, shares): (&String, &Vec<Share>)| {
        let by_engine = summary
            .engines
            .iter()
            .zip(shares)
            .map(|(engine, share)| (engine.engine.name().to_owned(), json!(share)));
        (tag.clone(), Value::Object(by_engine.collect()))
    };
    let tags: Map<String, Value> = summary.tags.iter().map(by_engine).collect();
    json!({
        "format": "sobench-proof",
        "format_version": VERSION,
        "sobench_version": env!("CARGO_PKG_VERSION"),
        "date": date(proved.started_at),
        "interrupted": proved.interrupted,
        "wall_ns": proved.wall_ns,
        "shrink_ns": proved.shrink_ns,
        "resumed_entries": proved.resumed,
        "decisions_per_s": summary.decisions_per_second(),
        "about": proved.record,
        "engines": summary.engines.iter().map(engine).collect::<Vec<_>>(),
        "tags": tags,
        "clusters": proved.clusters,
        "declared": declared(),
        "notices": sentences(&proved.notices),
    })
}

/// The declared departures of all engines.
fn declared() -> Vec<Value> {
    let of_engine = |engine: EngineName| {
        let line = move |declared: &DeclaredDeparture| json!({"engine": engine, "departure": declared.departure, "what": declared.what, "source": declared.source});
        engine.departures().iter().map(line)
    };
    EngineName::ALL.into_iter().flat_map(of_engine).collect()
}

fn engine(engine: &EngineSummary) -> Value {
    let mut value = json!(engine);
    let rates: Map<String, Value> = Proof::ALL
        .into_iter()
        .filter_map(|proof| {
            Some((
                proof.name().to_owned(),
                json!(engine.per_million(Some(proof))?),
            ))
        })
        .collect();
    value["errors_per_million"] = json!(engine.per_million(None));
    value["errors_per_million_by_proof"] = Value::Object(rates);
    value
}
