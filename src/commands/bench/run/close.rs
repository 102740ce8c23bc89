//! Closes a run: the footer of its log.

use tokio::runtime::Runtime;

use super::measure::{Measured, Measurement};
use super::{duration, start};
use sobench_client::{Coordination, ResourceUsage};
use sobench_core::case::Case;
use sobench_core::error::Result;
use sobench_core::run_event::ErrorLimitReached;
use sobench_core::schedule::Schedule;
use sobench_data::dataset::DatasetName;
use sobench_notices::notice::BenchNotice;
use sobench_plan::record::ClientCost;
use sobench_runlog::Footer;
use sobench_runlog::write::Sink;

/// The footer of a log, with the results of the side checks; and the log.
///
/// # Errors
/// A request of a side check cannot be sent.
pub(super) fn close(
    measurement: &mut Measurement<'_>,
    measured: Measured,
    gathered: &mut Option<Coordination>,
    dataset: DatasetName,
    runtime: &Runtime,
) -> Result<(Footer, Sink)> {
    let Measurement {
        run, cases, early, ..
    } = measurement;
    let totals = measured.totals;
    let (clock, unmeasured) = start::measured_again(gathered.as_mut(), runtime);
    run.found.notices.extend(unmeasured);
    // An error limit is not an interruption, and neither is a constraint that is not enforced.
    let has_stopped = early.as_ref().is_some_and(|early| early.has_stopped());
    let has_given_up = totals.tripped.is_some() || has_stopped;
    let interrupted = run.sending.shutdown.is_requested() && !has_given_up;
    if has_given_up {
        run.sending.shutdown = run.sending.shutdown.from_now();
    }
    runtime.block_on(async {
        for check in measurement.checks.iter_mut().rev() {
            check.close(run).await?;
        }
        Result::Ok(())
    })?;
    let mut found = std::mem::take(&mut run.found);
    let stamps = totals.usage.implausible_stamps;
    let notices = &mut found.notices;
    notices.extend(stamps.map(|count| BenchNotice::ReceiveStampsRefused { count }.into()));
    let Schedule {
        until, part, units, ..
    } = measurement.schedule;
    let prepared = units.share(*part, cases.len());
    notices.extend(duration::notice(dataset, *until, prepared, totals.cases));
    let tripped = totals.tripped.as_ref();
    let broken_off = tripped.map(|tripped| broken_off(tripped, cases));
    let footer = Footer {
        requests: totals.cases,
        duration_ns: totals.duration_ns,
        cost: cost(&totals.usage, run.sending.session.is_embedded()),
        probe: found.probe,
        recovery: found.recovery,
        spec_decode: found.spec_decode,
        engine: measured.engine,
        interrupted,
        broken_off: broken_off.or_else(|| early.as_ref()?.refusal()),
        early_breach: early.as_ref().and_then(|early| early.breach()),
        notices: found.notices,
        clock,
    };
    Ok((footer, measured.sink))
}

/// Why the run stopped on errors.
fn broken_off(tripped: &ErrorLimitReached, cases: &[Case]) -> String {
    let id = duration::asked(cases, tripped.index).map_or_else(String::new, |(_, id)| id);
    tripped.message(&id)
}

/// What the client used.
fn cost(cost: &ResourceUsage, includes_server: bool) -> ClientCost {
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
