//! The record of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::choose::Chosen;
use super::prepare::Prepared;
use crate::commands::bench::options::RunPlan;
use crate::commands::bench::options::dataset::takes_constraints;
use crate::commands::bench::session::Session;
use sobench_client::Endpoint;
use sobench_core::case::Case;
use sobench_core::constraint::{Constraint, sha256_hex};
use sobench_core::scorer::Scorer;
use sobench_data::dataset::{Dataset, Source};
use sobench_notices::notice::Notice;
use sobench_plan::record::{
    ConstraintSet, DatasetRecord, Host, RunRecord, ServerRecord, Settings, ShardRecord,
};
use sobench_results::metrics::cold_load::COLD_TAG;

/// The record of a run that starts now. The writer of the log adds the start time.
pub(super) fn record(
    plan: &RunPlan,
    prepared: &Prepared,
    chosen: &Chosen<'_>,
    warmup_requests: usize,
    notices: Vec<Notice>,
) -> RunRecord {
    let (session, dataset) = (&prepared.session, &prepared.dataset);
    let mut known_constraints: Vec<String> = chosen.trial.constraints.iter().cloned().collect();
    known_constraints.sort_unstable();
    let shard = plan.shard.map(|part| ShardRecord {
        start: plan.start.kind(),
        ..ShardRecord::new(part, &dataset.cases, &prepared.schedule.due)
    });
    let settings = &plan.settings;
    let takes_constraints = takes_constraints(settings.backend, settings.dataset.source.name());
    let recorded = settings.clone().with_source(Source::recorded);
    let loaded = dataset_record(dataset, &recorded);
    let mut record = RunRecord {
        sobench_version: env!("CARGO_PKG_VERSION").to_owned(),
        started: String::new(),
        started_unix_ns: 0,
        settings: recorded,
        server: server(plan.endpoint(), takes_constraints, session),
        dataset: loaded,
        tokenizer_id: prepared.tokenizer.id().to_owned(),
        host: host(),
        enforcement: chosen.enforcement.clone(),
        trial_requests: chosen.trial.requests,
        warmup_requests,
        known_constraints,
        shard,
        merged: Vec::new(),
        notices: [
            plan.warnings(),
            session.notices.clone(),
            dataset.notices.clone(),
            chosen.notices.clone(),
            notices,
        ]
        .concat(),
    };
    let plan_sha256 = record.plan_sha256();
    if let Some(shard) = &mut record.shard {
        shard.plan_sha256 = plan_sha256;
    }
    record
}

fn server(endpoint: Option<&Endpoint>, takes_constraints: bool, session: &Session) -> ServerRecord {
    let headers = endpoint.into_iter().flat_map(|endpoint| &endpoint.headers);
    ServerRecord {
        base_url: session.base_url.clone(),
        endpoint: session.path.clone(),
        header_names: headers.map(|(name, _)| name.clone()).collect(),
        model: session.model.clone(),
        model_id: session.model_id.clone(),
        version: session.server_version.clone(),
        embedded: session.is_synthetic(),
        speed: session.speed,
        constraint_dialect: takes_constraints.then_some(session.dialect),
        max_tokens_only: session.max_tokens_only,
        engine_choice: session.engine_choice.clone(),
        engine: session.engine(),
    }
}

fn dataset_record(dataset: &Dataset, settings: &Settings) -> DatasetRecord {
    let kinds: BTreeSet<&str> = dataset
        .cases
        .iter()
        .filter_map(|case| Some(case.constraint.as_ref()?.kind()))
        .collect();
    DatasetRecord {
        source: dataset.source.clone(),
        rows: dataset.rows,
        sha256: dataset.sha256.clone(),
        grammar_converted_from: dataset.converted_from,
        requests: dataset.cases.len(),
        session_turns: dataset.session_turns(),
        constraint_kinds: kinds.into_iter().map(str::to_owned).collect(),
        scorers: scorers(&dataset.cases),
        constraints: constraints(&dataset.cases),
        own_output_len: own_output_len(&dataset.cases, settings.output_len()),
    }
}

/// The least and the largest limit of an answer, if one differs from that of all.
fn own_output_len(cases: &[Case], of_all: Option<u32>) -> Option<[u32; 2]> {
    let limits = || cases.iter().map(|case| case.output_len);
    let range = [limits().min()?, limits().max()?];
    (range != [of_all?; 2]).then_some(range)
}

/// The scorers of the cases, each once.
fn scorers(cases: &[Case]) -> Vec<Scorer> {
    let is_used = |scorer: &Scorer| cases.iter().any(|case| case.score == Some(*scorer));
    Scorer::ALL.into_iter().filter(is_used).collect()
}

/// The constraints of the run. Settings that only other runs have are left out.
fn constraints(cases: &[Case]) -> ConstraintSet {
    let lasting = cases
        .iter()
        .filter(|case| !case.tags.iter().any(|tag| tag == COLD_TAG));
    let by_address: BTreeMap<usize, &Arc<Constraint>> = lasting
        .filter_map(|case| case.constraint.as_ref())
        .map(|constraint| (Arc::as_ptr(constraint) as usize, constraint))
        .collect();
    let fingerprints: BTreeSet<String> = by_address
        .into_values()
        .map(|constraint| constraint.fingerprint())
        .collect();
    let lines: String = fingerprints
        .iter()
        .map(|fingerprint| format!("{fingerprint}\n"))
        .collect();
    ConstraintSet {
        distinct: fingerprints.len(),
        sha256: (!lines.is_empty()).then(|| sha256_hex(lines.as_bytes())),
    }
}

fn host() -> Host {
    Host {
        os: Some(std::env::consts::OS.to_owned()),
        arch: Some(std::env::consts::ARCH.to_owned()),
        cpus: std::thread::available_parallelism()
            .ok()
            .map(std::num::NonZero::get),
    }
}
