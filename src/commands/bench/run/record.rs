//! What is written down about a run: begin and end of its log, and the file of its result. Knows no rendering and no formula.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Before, Driven};
use crate::case::Case;
use crate::commands::bench::options::{RunPlan, Target};
use crate::commands::bench::session::Session;
use crate::constraint::{Constraint, sha256_hex};
use crate::dataset::Dataset;
use crate::driver::Cost;
use crate::metrics::client::ClientCost;
use crate::metrics::cold_load::COLD_TAG;
use crate::record::{ConstraintSet, DatasetRecord, Host, RunRecord, ServerRecord, ShardRecord};
use crate::runlog::Footer;
use crate::schedule::Schedule;
use crate::tokenizer::Tokenizer;

/// The record of a run that starts now. The instant of the start is not known yet: the log's writer adds it.
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
    let shard =
        plan.shard.map(|part| ShardRecord { start: plan.start.whose(), ..ShardRecord::new(part, &dataset.cases, &schedule.due) });
    let mut record = RunRecord {
        sobench_version: env!("CARGO_PKG_VERSION").to_owned(),
        started: String::new(),
        started_unix_ns: 0,
        settings: plan.settings.clone(),
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
        notices: [plan.warnings(), session.notices.clone(), dataset.notices.clone(), before.notices].concat(),
    };
    let plan_sha256 = record.plan_sha256();
    if let Some(shard) = &mut record.shard {
        shard.plan_sha256 = plan_sha256;
    }
    record
}

fn server(plan: &RunPlan, session: &Session) -> ServerRecord {
    let header_names = match &plan.target {
        Target::Embedded { .. } => Vec::new(),
        Target::Server(target) => target.endpoint.headers.iter().map(|(name, _)| name.clone()).collect(),
    };
    ServerRecord {
        base_url: session.base_url.clone(),
        endpoint: session.path.clone(),
        header_names,
        model: session.model.clone(),
        model_id: session.model_id.clone(),
        version: session.server_version.clone(),
        embedded: session.is_synthetic(),
        constraint_dialect: plan.settings.takes_constraints().then_some(session.dialect),
        engine_choice: session.engine_choice.clone(),
        engine: session.engine(),
    }
}

fn dataset_record(dataset: &Dataset) -> DatasetRecord {
    let kinds: BTreeSet<&str> = dataset.cases.iter().filter_map(|case| Some(case.constraint.as_ref()?.kind())).collect();
    DatasetRecord {
        source: dataset.source.clone(),
        rows: dataset.rows,
        sha256: dataset.sha256.clone(),
        grammar_converted_from: dataset.converted_from,
        requests: dataset.cases.len(),
        constraint_kinds: kinds.into_iter().map(str::to_owned).collect(),
        constraints: constraints(&dataset.cases),
    }
}

/// How the run ended: the end of its log.
pub(super) fn footer(session: &Session, driven: &Driven) -> Footer {
    Footer {
        requests: driven.ran.cases,
        duration_ns: driven.ran.duration_ns,
        cost: cost(&driven.ran.cost, session.is_embedded()),
        probe: driven.probed.clone(),
        spec_decode: driven.spec_decode.clone(),
        engine: session.engine(),
        interrupted: driven.interrupted,
        broken_off: driven.broken_off.clone(),
        notices: driven.notices.clone(),
        clock: driven.clock,
    }
}

/// The constraints of a run as a whole; those that no other run can have are left out.
fn constraints(cases: &[Case]) -> ConstraintSet {
    let lasting = cases.iter().filter(|case| !case.tags.iter().any(|tag| tag == COLD_TAG));
    let by_address: BTreeMap<usize, &Arc<Constraint>> =
        lasting.filter_map(|case| case.constraint.as_ref()).map(|it| (Arc::as_ptr(it) as usize, it)).collect();
    let fingerprints: BTreeSet<String> = by_address.into_values().map(|constraint| constraint.fingerprint()).collect();
    let lines: String = fingerprints.iter().map(|fingerprint| format!("{fingerprint}\n")).collect();
    ConstraintSet { distinct: fingerprints.len(), sha256: (!lines.is_empty()).then(|| sha256_hex(lines.as_bytes())) }
}

fn cost(cost: &Cost, includes_server: bool) -> ClientCost {
    ClientCost {
        wall_s: cost.wall.as_secs_f64(),
        cpu_s: cost.cpu.map(|it| it.as_secs_f64()),
        cores: cost.cores,
        threads: cost.threads,
        other_runs: cost.other_runs,
        machine_busy_percent: cost.machine_busy.map(|it| 100.0 * it),
        peak_memory_mib: cost.peak_memory_bytes.map(|it| it as f64 / f64::from(1 << 20)),
        connections_opened: cost.connections_opened,
        connections_waited_for: cost.connections_waited_for,
        includes_server,
    }
}

fn host() -> Host {
    Host {
        os: Some(std::env::consts::OS.to_owned()),
        arch: Some(std::env::consts::ARCH.to_owned()),
        cpus: std::thread::available_parallelism().ok().map(std::num::NonZero::get),
    }
}
