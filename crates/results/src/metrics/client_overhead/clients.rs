//! The overhead of the clients of a run, from its log.

use super::{ClientOverhead, ClientRun};
use crate::metrics::registry::Values;
use sobench_core::shard::Shard;
use sobench_facts::Sample;
use sobench_plan::record::{MergedShard, RunRecord};
use sobench_runlog::RunLog;

/// The overhead of the client of a run; `None` for a run that was killed, and for a merged one, whose
/// shards have a client each ([`shard_overhead`]).
pub fn run_overhead(
    log: &RunLog,
    samples: &[Sample<'_>],
    values: &Values,
) -> Option<ClientOverhead> {
    let footer = log.footer.as_ref()?;
    let record = &log.record;
    record.merged.is_empty().then(|| {
        let run = ClientRun {
            cost: footer.cost,
            max_concurrency: record.own_cap(),
            start_ns: 0,
        };
        ClientOverhead::new(samples, &record.settings.metrics, run, values)
    })
}

/// The overhead of the client of a shard; `None` for a shard that was killed. `samples` and `values`
/// are those of the merged run.
pub fn shard_overhead(
    record: &RunRecord,
    shard: &MergedShard,
    samples: &[Sample<'_>],
    values: &Values,
) -> Option<ClientOverhead> {
    let part = Shard {
        number: shard.number,
        of: record.merged.len(),
    };
    let max_concurrency = record.settings.load.max_concurrency;
    let run = ClientRun {
        cost: shard.end.as_ref()?.cost,
        max_concurrency: max_concurrency.map(|cap| part.share(cap)),
        start_ns: shard.begin_ns,
    };
    let units = record.units();
    let own: Vec<Sample<'_>> = samples
        .iter()
        .filter(|sample| units.takes(part, sample.case_index()))
        .copied()
        .collect();
    Some(ClientOverhead::new(
        &own,
        &record.settings.metrics,
        run,
        values,
    ))
}
