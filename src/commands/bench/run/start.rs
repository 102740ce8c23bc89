//! The start of a run, with shards: joining before the run, parting after it.

use tokio::runtime::Runtime;

use super::context::RunContext;
use crate::commands::bench::options::StartPlan;
use crate::terminal;
use sobench_client::{Coordination, RunStart};
use sobench_core::dates::timestamp;
use sobench_core::error::Result;
use sobench_core::shard::ClockOffset;
use sobench_notices::notice::{BenchNotice, Notice};
use sobench_plan::record::RunRecord;
use sobench_shutdown::Shutdown;

/// Joins the other shards at the coordinator. All must have the plan of this record.
///
/// # Errors
/// As for [`Coordination::join`].
pub(super) fn gather(
    start: &StartPlan,
    record: &RunRecord,
    shutdown: &Shutdown,
    runtime: &Runtime,
) -> Result<Option<Coordination>> {
    let options = match start {
        StartPlan::WhenReady => return Ok(None),
        StartPlan::At(instant) => {
            terminal::say(&format!("ready: the run starts at {}", timestamp(*instant)));
            return Ok(None);
        }
        StartPlan::Coordinator(options) => options,
    };
    let part = record.part();
    let role = if part.number == 1 {
        "the others join"
    } else {
        "shard 1 answers"
    };
    terminal::say(&format!(
        "shard {part}: waiting until {role} at {} ...",
        options.address
    ));
    let plan_sha256 = record.plan_sha256();
    let joined = Coordination::join(options, part, &plan_sha256, shutdown);
    runtime.block_on(joined).map(Some)
}

/// The start of the plan.
pub(super) fn start<'a>(start: &StartPlan, gathered: Option<&'a mut Coordination>) -> RunStart<'a> {
    match (start, gathered) {
        (_, Some(coordination)) => RunStart::Coordinated(coordination),
        (StartPlan::At(instant), None) => RunStart::At(*instant),
        (StartPlan::WhenReady | StartPlan::Coordinator(_), None) => RunStart::Immediately,
    }
}

/// The clock offset after the run, or a notice where it is unknown.
pub(super) fn measured_again(
    gathered: Option<&mut Coordination>,
    runtime: &Runtime,
) -> (Option<ClockOffset>, Option<Notice>) {
    let Some(coordination) = gathered else {
        return (None, None);
    };
    let clock = runtime.block_on(coordination.measure_again());
    let notice = clock
        .is_none()
        .then(|| BenchNotice::ClockDriftUnknown.into());
    (clock, notice)
}

/// Shard 1 stays until the others have ended, since they measure their clocks against it.
pub(super) fn part(gathered: Option<Coordination>, context: &RunContext, runtime: &Runtime) {
    // The run listens for signals already.
    let (Some(coordination), Ok((shutdown, _listener))) = (gathered, context.listen()) else {
        return;
    };
    if !runtime.block_on(coordination.leave(&shutdown)) {
        terminal::warn(
            "stopped waiting for the other shards; the clock drift of shards that end later is unknown",
        );
    }
}
