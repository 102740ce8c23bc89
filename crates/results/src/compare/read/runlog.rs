//! Converts a run log to a run of a comparison.

use std::collections::HashMap;
use std::sync::Arc;

use super::sobench;
use crate::compare::pair_facts::{ConstraintFacts, PairFacts};
use crate::compare::requests::{Gaps, Request, Requests};
use crate::compare::side::{FileKind, Run};
use crate::metrics::client_overhead::{run_overhead, shard_overhead};
use crate::metrics::judgement::judged;
use crate::metrics::registry::{Figure, RequestValues};
use crate::metrics::sessions::Sessions;
use crate::metrics::{Metrics, first_uses, in_flight, summarise_with_server};
use crate::to_explain::ToExplain;
use sobench_core::constraint::Constraint;
use sobench_core::error::Result;
use sobench_core::observation::failure_message;
use sobench_facts::latency::chunk_gaps_ms;
use sobench_facts::{Sample, constraint_hash};
use sobench_plan::metrics::MetricsSettings;
use sobench_plan::record::RunRecord;
use sobench_runlog::RunLog;
use sobench_statistics::contrast::Share;

const NS_PER_S: f64 = 1e9;

/// The run of a judged log.
///
/// # Errors
/// The log cannot be read.
pub fn run_from_log(file: &str, log: &RunLog) -> Result<Run> {
    let samples = log.requests.samples();
    let options = &log.record.settings.metrics;
    let metrics = summarise_with_server(&samples, log.duration_ns(), options, &log.server);
    let mut run = run_from_metrics(file, &log.record, &metrics);
    run.kind = FileKind::SobenchRunLog;
    run.is_partial = log.is_partial();
    let values = &metrics.values;
    let shards = log.record.merged.iter();
    let clients = run_overhead(log, &samples, values)
        .into_iter()
        .chain(shards.filter_map(|shard| shard_overhead(&log.record, shard, &samples, values)));
    for client in clients {
        for bound in client.bounds.distrusted() {
            let added = run.distrusted.entry(bound.figure).or_insert(bound.added);
            *added = added.zip(bound.added).map(|(one, other)| one.max(other));
        }
    }
    run.notices = sobench::notices(&log.record, run.is_partial, !run.distrusted.is_empty());
    run.notices
        .extend(log.notices.iter().map(|notice| notice.to_string()));
    let known = log.record.known_constraints.iter().cloned().collect();
    let mut is_later = vec![false; log.requests.len()];
    let later = first_uses::later_uses(&samples, options, &known);
    for (sample, is_later) in samples.iter().zip(&mut is_later) {
        *is_later = later.contains(&sample.case_index());
    }
    run.reasons = metrics.findings.reasons.clone();
    run.to_explain = ToExplain::new(&samples, &log.record.server);
    let in_flight = in_flight::when_sent(&samples);
    drop((samples, later));
    let streamed = log
        .requests
        .iter()
        .filter(|sample| sample.streamed(options));
    let gaps = streamed.map(|sample| sample.request_times().chunks.saturating_sub(1));
    let mut requests = Requests::with_capacity(log.requests.len(), gaps.sum());
    let mut constraints = Constraints::default();
    for ((sample, later_use), in_flight) in log.requests.iter().zip(is_later).zip(in_flight) {
        requests.push(Request {
            later_use,
            in_flight,
            pair_facts: constraints.pair_facts(&sample),
            ..request(&sample, options)
        });
    }
    run.requests = Some(requests.finish());
    log.check()?;
    Ok(run)
}

/// The run of a record and its metrics, without requests, for the gate of a finished run.
pub fn run_from_metrics(file: &str, record: &RunRecord, metrics: &Metrics) -> Run {
    let mut run = Run {
        file: file.to_owned(),
        kind: FileKind::SobenchResult,
        conditions: record.conditions(metrics.outcomes.total()),
        duration_s: Some(metrics.duration_ns as f64 / NS_PER_S),
        arm_pairs: metrics
            .accuracy
            .as_ref()
            .map_or_else(Vec::new, |accuracy| accuracy.pairs.clone()),
        ..Run::default()
    };
    run.set_values(metrics.iter());
    for (metric, rate) in metrics.sessions.iter().flat_map(Sessions::rates) {
        let share = Share {
            hits: rate.hits,
            of: rate.of,
        };
        run.counts.insert(Figure::new(metric), share);
    }
    run
}

/// What is known of each constraint, by its content.
#[derive(Default)]
struct Constraints {
    /// The cases of a row share their constraint: its hash, by its address.
    hashes: HashMap<usize, u64>,
    facts: HashMap<u64, Arc<ConstraintFacts>>,
}

impl Constraints {
    fn pair_facts(&mut self, sample: &Sample<'_>) -> Option<PairFacts> {
        let facts = |constraint: &Arc<Constraint>| {
            let address = Arc::as_ptr(constraint) as usize;
            let known = self.hashes.entry(address);
            let hash = *known.or_insert_with(|| constraint_hash(constraint));
            let new = || Arc::new(ConstraintFacts::new(constraint, hash, &sample.id()));
            Arc::clone(self.facts.entry(hash).or_insert_with(new))
        };
        Some(PairFacts {
            ended: judged(sample)?,
            streamed: sample.came_as_stream(),
            tool: sample.called_tool().map(str::to_owned),
            constraint: sample.constraint().map(facts),
        })
    }
}

fn request(sample: &Sample<'_>, options: &MetricsSettings) -> Request {
    let (verdict, outcome, tokens) = (sample.verdict(), sample.outcome(), sample.tokens());
    let failure = failure_message(outcome);
    Request {
        case: Some(sample.id()),
        arm: Some(sample.arm()),
        answered: outcome.is_answer(),
        values: RequestValues::new(sample, options),
        gaps: Gaps::Each(if sample.streamed(options) {
            chunk_gaps_ms(&sample.chunks_ns()).collect()
        } else {
            Vec::new()
        }),
        sent_s: sample
            .request_times()
            .sent_ns
            .map(|ns| ns as f64 / NS_PER_S),
        input_tokens: tokens.input,
        output_tokens: tokens.output,
        verdict: Some(if failure.is_empty() {
            verdict.to_string()
        } else {
            failure
        }),
        copy: Some(sample.copy_hash()),
        offset: Some(sample.offset()),
        ..Request::default()
    }
}
