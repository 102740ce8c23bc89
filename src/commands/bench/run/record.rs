//! The run record and the footer of the run log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Before;
use crate::commands::bench::options::RunPlan;
use crate::commands::bench::options::dataset::takes_constraints;
use crate::commands::bench::session::Session;
use sobench_client::ResourceUsage;
use sobench_core::case::Case;
use sobench_core::constraint::{Constraint, sha256_hex};
use sobench_core::schedule::Schedule;
use sobench_core::scorer::Scorer;
use sobench_data::dataset::{Dataset, Source};
use sobench_data::tokenizer::Tokenizer;
use sobench_plan::record::ClientCost;
use sobench_plan::record::{
    ConstraintSet, DatasetRecord, Host, RunRecord, ServerRecord, ShardRecord,
};
use sobench_results::metrics::cold_load::COLD_TAG;

/// The record of a run that starts now. The writer of the log adds the start time.
pub(super) fn record(
    plan: &RunPlan,
    session: &Session,
    dataset: &Dataset,
    schedule: &Schedule,
    tokenizer: &Tokenizer,
    before: Before,
) -> RunRecord {
    let mut known_constraints: Vec<String> = before.known.into_iter().collect();
    known_constraints.sort_unstable();
    let shard = plan.shard.map(|part| ShardRecord {
        start: plan.start.kind(),
        ..ShardRecord::new(part, &dataset.cases, &schedule.due)
    });
    let mut record = RunRecord {
        sobench_version: env!("CARGO_PKG_VERSION").to_owned(),
        started: String::new(),
        started_unix_ns: 0,
        settings: plan.settings.clone().with_source(Source::recorded),
        server: server(plan, session),
        dataset: dataset_record(dataset),
        tokenizer_id: tokenizer.id().to_owned(),
        host: host(),
        enforcement: before.enforcement,
        trial_requests: before.trials,
        warmup_requests: before.warmups,
        known_constraints,
        shard,
        merged: Vec::new(),
        notices: [
            plan.warnings(),
            session.notices.clone(),
            dataset.notices.clone(),
            before.notices,
        ]
        .concat(),
    };
    let plan_sha256 = record.plan_sha256();
    if let Some(shard) = &mut record.shard {
        shard.plan_sha256 = plan_sha256;
    }
    record
}

fn server(plan: &RunPlan, session: &Session) -> ServerRecord {
    let headers = plan
        .endpoint()
        .into_iter()
        .flat_map(|endpoint| &endpoint.headers);
    let (backend, dataset) = (plan.settings.backend, plan.settings.dataset.source.name());
    ServerRecord {
        base_url: session.base_url.clone(),
        endpoint: session.path.clone(),
        header_names: headers.map(|(name, _)| name.clone()).collect(),
        model: session.model.clone(),
        model_id: session.model_id.clone(),
        version: session.server_version.clone(),
        embedded: session.is_synthetic(),
        speed: session.speed,
        constraint_dialect: takes_constraints(backend, dataset).then_some(session.dialect),
        max_tokens_only: session.max_tokens_only,
        engine_choice: session.engine_choice.clone(),
        engine: session.engine(),
    }
}

fn dataset_record(dataset: &Dataset) -> DatasetRecord {
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
        constraint_kinds: kinds.into_iter().map(str::to_owned).collect(),
        scorers: scorers(&dataset.cases),
        constraints: constraints(&dataset.cases),
    }
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

/// Client cost, for the end of the log.
pub(super) fn cost(cost: &ResourceUsage, includes_server: bool) -> ClientCost {
    ClientCost {
        wall_s: cost.wall.as_secs_f64(),
        cpu_s: cost.cpu.map(|time| time.as_secs_f64()),
        cores: cost.cores,
        threads: cost.threads,
        other_runs: cost.other_runs,
        machine_busy_percent: cost.machine_busy.map(|share| 100.0 * share),
        peak_memory_mib: cost
            .peak_memory_bytes
            .map(|bytes| bytes as f64 / f64::from(1 << 20)),
        connections_opened: Some(cost.connections_opened),
        connections_waited_for: Some(cost.connections_waited_for),
        includes_server,
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
