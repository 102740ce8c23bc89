//! When a run begins that others begin with: where shards find each other before it, and part after
//! it. Knows no request.

use tokio::runtime::Runtime;

use super::setting::Setting;
use crate::commands::bench::options::StartPlan;
use crate::terminal;
use sobench_client::{Beginning, Coordination};
use sobench_core::dates::timestamp;
use sobench_core::error::Result;
use sobench_core::shard::ClockOffset;
use sobench_notices::notice::{BenchNotice, Notice};
use sobench_results::record::RunRecord;
use sobench_shutdown::Shutdown;

/// Finds the other shards, where a coordinator was named: they have to have the plan of this
/// record.
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
        StartPlan::Own => return Ok(None),
        StartPlan::At(instant) => {
            terminal::say(&format!("ready: the run begins at {}", timestamp(*instant)));
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

/// The begin of the plan.
pub(super) fn beginning<'a>(
    start: &StartPlan,
    gathered: Option<&'a mut Coordination>,
) -> Beginning<'a> {
    match (start, gathered) {
        (_, Some(coordination)) => Beginning::Agreed(coordination),
        (StartPlan::At(instant), None) => Beginning::At(*instant),
        (StartPlan::Own | StartPlan::Coordinator(_), None) => Beginning::AtOnce,
    }
}

/// What the clock is off after the run; and what the reader has to know where that could not be
/// found out.
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

/// Shard 1 stays until the others have ended: they measure their clocks against it then.
pub(super) fn part(gathered: Option<Coordination>, setting: &Setting, runtime: &Runtime) {
    // Signals are listened for since the run was sent.
    let (Some(coordination), Ok((shutdown, _listener))) = (gathered, setting.listen()) else {
        return;
    };
    if !runtime.block_on(coordination.leave(&shutdown)) {
        terminal::warn(
            "not all of the other shards were waited for; those that end later know nothing of their clocks' drift",
        );
    }
}
